/* help.c - see help.h. */
#include "help.h"

#include <stdbool.h>
#include <string.h>

#define HELP_INDENT 28
#define HELP_WIDTH 100

/* Prints a text from column `indent` on (where the cursor stands), broken at blanks. */
static void wrap(FILE *file, const char *text, int indent)
{
	int column = indent;

	while (*text) {
		int n = (int)strcspn(text, " ");

		if (column > indent && column + 1 + n > HELP_WIDTH) {
			fprintf(file, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', file);
			column++;
		}
		fprintf(file, "%.*s", n, text);
		column += n;
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', file);
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
	wrap(file, text, HELP_INDENT);
}

static void print_option(const struct option_row *row, FILE *file)
{
	bool many = row->kind == OPTION_CHOICE && strlen(row->argument) > HELP_WIDTH / 2;
	const char *argument = many ? "WORD" : row->argument;
	char head[96];
	int n;

	if (row->letter)
		n = snprintf(head, sizeof head, "  -%c, --%s%s%s", row->letter, row->name, argument ? " " : "",
			     argument ? argument : "");
	else
		n = snprintf(head, sizeof head, "      --%s%s%s", row->name, argument ? " " : "",
			     argument ? argument : "");
	if (n + 2 > HELP_INDENT)
		fprintf(file, "%s\n%*s", head, HELP_INDENT, "");
	else
		fprintf(file, "%-*s", HELP_INDENT, head);
	wrap(file, row->help, HELP_INDENT);
	if (many)
		print_choices(row->argument, file);
}

void help_print_verb(const struct verb *verb, FILE *file)
{
	fprintf(file, "usage: profd %s%s%s\n\n%s\n", verb->name, *verb->synopsis ? " " : "", verb->synopsis,
		verb->description);
	if (verb->options->name)
		fputs("\nOptions:\n", file);
	for (const struct option_row *row = verb->options; row->name; row++)
		print_option(row, file);
	if (verb->examples)
		fprintf(file, "\nExamples:\n%s", verb->examples);
}

void help_print_all(FILE *file)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);
	const struct topic *topics;

	fputs("usage: profd VERB [OPTIONS]\n\n"
	      "Records what a running job does, for a few steps, without a restart and without changing its "
	      "code.\n\nVerbs:\n",
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
