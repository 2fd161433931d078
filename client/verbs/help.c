/* help.c - see help.h. */
#include "help.h"

#include <stdbool.h>
#include <string.h>

#define HELP_WIDTH 80
/* Where the text of an option begins. */
#define HELP_INDENT 26
/* Where the sentence of a word begins that an option takes. */
#define WORD_INDENT 18

/* Prints a line of text from `column` on (where the cursor stands), broken at blanks; further lines begin at `indent`. */
static void wrap(FILE *file, const char *text, size_t length, int column, int indent)
{
	const char *end = text + length;
	bool first = true;

	while (text < end) {
		int n = 0;

		while (text + n < end && text[n] != ' ')
			n++;
		if (!first && column + 1 + n > HELP_WIDTH) {
			fprintf(file, "\n%*s", indent, "");
			column = indent;
		} else if (!first) {
			fputc(' ', file);
			column++;
		}
		first = false;
		fprintf(file, "%.*s", n, text);
		column += n;
		text += n;
		while (text < end && *text == ' ')
			text++;
	}
	fputc('\n', file);
}

static void wrap_text(FILE *file, const char *text, int indent)
{
	wrap(file, text, strlen(text), indent, indent);
}

/* More choices than a line holds stand below the help, with commas, where they can be broken. */
static void print_choices(const char *choices, FILE *file)
{
	char text[600] = "one of ";
	size_t n = strlen(text);

	for (const char *at = choices; *at && n + 3 < sizeof text; at++) {
		if (*at == '|')
			text[n++] = ',';
		text[n++] = *at == '|' ? ' ' : *at;
	}
	text[n] = 0;
	fprintf(file, "%*s", HELP_INDENT, "");
	wrap_text(file, text, HELP_INDENT);
}

/* What stands for the value of an option. */
static const char *value_of(const struct option_row *row)
{
	return row->meanings || (row->kind == OPTION_CHOICE && strlen(row->argument) > HELP_WIDTH / 2) ? "WORD"
												       : row->argument;
}

static void print_option(const struct option_row *row, FILE *file)
{
	const char *argument = value_of(row);
	const char *before = !argument ? "" : row->kind == OPTION_FLAG ? "[=" : " ";
	const char *after = argument && row->kind == OPTION_FLAG ? "]" : "";
	char head[96];
	int n;

	if (row->letter)
		n = snprintf(head, sizeof head, "  -%c, --%s%s%s%s", row->letter, row->name, before,
			     argument ? argument : "", after);
	else
		n = snprintf(head, sizeof head, "      --%s%s%s%s", row->name, before, argument ? argument : "", after);
	if (n + 2 > HELP_INDENT)
		fprintf(file, "%s\n%*s", head, HELP_INDENT, "");
	else
		fprintf(file, "%-*s", HELP_INDENT, head);
	wrap_text(file, row->help, HELP_INDENT);
	if (argument != row->argument && !row->meanings)
		print_choices(row->argument, file);
}

/* The words that an option takes, with what each means. */
static void print_meanings(const struct option_row *row, FILE *file)
{
	fprintf(file, "\n--%s takes:\n", row->name);
	for (const char *at = row->meanings; *at;) {
		size_t word = strcspn(at, "\t");
		size_t sentence = strcspn(at + word + 1, "\n");

		fprintf(file, "  %-*.*s", WORD_INDENT - 2, (int)word, at);
		wrap(file, at + word + 1, sentence, WORD_INDENT, WORD_INDENT);
		at += word + 1 + sentence + 1;
	}
}

void help_print_verb(const struct verb *verb, FILE *file)
{
	char usage[400];

	snprintf(usage, sizeof usage, "usage: profd %s%s%s", verb->name, *verb->synopsis ? " " : "", verb->synopsis);
	wrap(file, usage, strlen(usage), 0, 7);
	for (const char *at = verb->description; *at; at += *at == '\n') {
		size_t length = strcspn(at, "\n");

		fputc('\n', file);
		wrap(file, at, length, 0, 0);
		at += length;
	}
	if (verb->options->name)
		fputs("\nOptions:\n", file);
	for (const struct option_row *row = verb->options; row->name; row++)
		print_option(row, file);
	for (const struct option_row *row = verb->options; row->name; row++)
		if (row->meanings)
			print_meanings(row, file);
	if (verb->examples)
		fprintf(file, "\nExamples:\n%s", verb->examples);
}

void help_print_topic(const struct topic *topic, FILE *file)
{
	for (size_t i = 0; topic->parts[i]; i++)
		for (const char *at = topic->parts[i]; *at; at += *at == '\n') {
			size_t length = strcspn(at, "\n");

			/* Only what comes from a table has lines that are too long: entries of a list. */
			if (length > HELP_WIDTH)
				wrap(file, at, length, 0, 2);
			else
				fprintf(file, "%.*s\n", (int)length, at);
			at += length;
		}
}

void help_print_all(FILE *file)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);
	const struct topic *topics;

	fputs("usage: profd VERB [OPTIONS]\n\n"
	      "Records what a running job does, for a few steps, without a restart and without\n"
	      "changing its code.\n\nVerbs:\n",
	      file);
	for (size_t i = 0; i < count; i++)
		fprintf(file, "  %-18s %s\n", verbs[i].name, verbs[i].summary);
	topics = topic_table(&count);
	fputs("\nTopics:\n", file);
	for (size_t i = 0; i < count; i++)
		fprintf(file, "  help %-13s %s\n", topics[i].name, topics[i].summary);
	fputs("\n`profd VERB --help` says more about each. A first look at a running job:\n\n"
	      "  profd run -- python3 train.py &\n"
	      "  profd ps\n"
	      "  profd trigger --pid PID --steps 3\n",
	      file);
}
