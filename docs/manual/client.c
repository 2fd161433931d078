/* client.c - the client's tables as parts of profd(1): verbs, topics, errors, exit codes. */
#include "client/verbs/topics.h"
#include "client/verbs/verbs.h"
#include "figure.h"
#include "mdoc.h"
#include "parts.h"

#include "proto/errors.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What stands for values in a verb's usage and options, as a list for mdoc_text. */
static void arguments_of(const struct verb *verb, char *list, size_t bytes)
{
	size_t n = 0;
	const char *texts[128] = {verb->synopsis};
	size_t count = 1;

	for (const struct option_row *row = verb->options; row->name && count < 128; row++)
		if (row->argument && row->kind != OPTION_CHOICE && row->kind != OPTION_FLAG)
			texts[count++] = row->argument;
	for (size_t i = 0; i < count; i++) {
		for (const char *at = texts[i]; *at;) {
			size_t length = 0;

			while (isupper((unsigned char)at[length]))
				length++;
			if (length && n + length + 2 < bytes) {
				memcpy(list + n, at, length);
				n += length;
				list[n++] = ' ';
			}
			at += length + (at[length] != 0);
		}
	}
	list[n] = 0;
}

static enum figure_unit unit_of(const struct option_row *row)
{
	return row->kind == OPTION_DURATION ? FIGURE_DURATION : row->kind == OPTION_SIZE ? FIGURE_BYTES : FIGURE_COUNT;
}

static void print_bounds(FILE *file, const struct option_row *row)
{
	char least[32], most[32];

	if (row->kind != OPTION_NUMBER && row->kind != OPTION_DURATION && row->kind != OPTION_SIZE)
		return;
	figure(least, sizeof least, unit_of(row), row->least);
	figure(most, sizeof most, unit_of(row), row->most);
	/* A very large bound is of no use to the reader. */
	if (row->kind == OPTION_NUMBER && row->most > 1000000)
		return;
	if (row->most)
		fprintf(file, "From %s to %s.\n", least, most);
	else if (row->least > 1)
		fprintf(file, "At least %s.\n", least);
}

/* The words that an option takes, with what each means. */
static void print_meanings(FILE *file, const char *meanings, const char *arguments)
{
	char sentence[400];

	fputs(".Pp\n.Bl -tag -width critical-path -compact\n", file);
	for (const char *at = meanings; *at;) {
		size_t word = strcspn(at, "\t");
		size_t length = strcspn(at + word + 1, "\n");

		fputs(".It Cm ", file);
		mdoc_word(file, at, word);
		fputc('\n', file);
		snprintf(sentence, sizeof sentence, "%.*s", (int)length, at + word + 1);
		mdoc_phrase(file, sentence, arguments);
		at += word + 1 + length + 1;
	}
	fputs(".El\n", file);
}

static void print_option(FILE *file, const struct option_row *row, const char *arguments)
{
	bool many = row->meanings || (row->kind == OPTION_CHOICE && strlen(row->argument) > 48);

	fputs(".It", file);
	if (row->letter)
		fprintf(file, " Fl %c ,", row->letter);
	fputs(" Fl ", file);
	mdoc_word(file, "-", 1);
	mdoc_word(file, row->name, strlen(row->name));
	if (row->kind == OPTION_FLAG && row->argument) {
		fputs(" Ns Op = Ns Cm ", file);
		mdoc_word(file, row->argument, strlen(row->argument));
	} else if (many) {
		fputs(" Ar WORD", file);
	} else if (row->kind == OPTION_CHOICE) {
		mdoc_choices(file, row->argument, "|");
	} else if (row->argument) {
		fputs(" Ar ", file);
		mdoc_word(file, row->argument, strlen(row->argument));
	}
	fputc('\n', file);
	mdoc_phrase(file, row->help, arguments);
	if (row->meanings) {
		print_meanings(file, row->meanings, arguments);
	} else if (many) {
		fputs(row->help[strlen(row->help) - 1] == ':' ? "one of\n." : "One of\n.", file);
		for (const char *at = row->argument; *at; at += *at == '|') {
			size_t n = strcspn(at, "|");

			fputs(at == row->argument ? "Cm " : " , ", file);
			mdoc_word(file, at, n);
			at += n;
		}
		fputs(" .\n", file);
	}
	print_bounds(file, row);
}

static void print_verbs(FILE *file)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);
	char arguments[2000];

	for (size_t i = 0; i < count; i++) {
		const struct verb *verb = &verbs[i];

		arguments_of(verb, arguments, sizeof arguments);
		fprintf(file, ".Ss profd %s: %s\n.D1 Nm Cm %s", verb->name, verb->summary, verb->name);
		mdoc_usage(file, verb->synopsis);
		fputs(".Pp\n", file);
		for (const char *at = verb->description; *at; at += *at == '\n') {
			char paragraph[2000];
			size_t length = strcspn(at, "\n");

			snprintf(paragraph, sizeof paragraph, "%.*s", (int)length, at);
			if (at != verb->description)
				fputs(".Pp\n", file);
			mdoc_text(file, paragraph, arguments);
			at += length;
		}
		if (verb->options->name) {
			fputs(".Bl -tag -width Ds\n", file);
			for (const struct option_row *row = verb->options; row->name; row++)
				print_option(file, row, arguments);
			fputs(".El\n", file);
		}
		if (verb->examples) {
			fprintf(file, ".Pp\nExample%s:\n",
				strchr(verb->examples, '\n') == strrchr(verb->examples, '\n') ? "" : "s");
			mdoc_literal(file, verb->examples, 2);
		}
	}
}

/* Width of the term with which a line of a topic begins ("NO_COLOR   no colours"), 0 where it begins with none. */
static size_t term_width(const char *line)
{
	const char *gap;
	size_t length = strcspn(line, "\n");

	if (*line == ' ' || *line == '\n')
		return 0;
	gap = strstr(line, "  ");
	return gap && gap < line + length ? (size_t)(gap - line) : 0;
}

/* Of a document in Markdown: headings, paragraphs and lists. One paragraph, or one entry of a list, at `text`; returns
 * what stands behind it. `strip`: what a line of a list begins with. */
static const char *print_block(FILE *file, const char *text, size_t strip)
{
	char block[4000];
	size_t n = 0;

	for (;;) {
		size_t length = strcspn(text, "\n");

		if (n + length - strip + 2 < sizeof block) {
			memcpy(block + n, text + strip, length - strip);
			n += length - strip;
			block[n++] = '\n';
		}
		text += length + (text[length] == '\n');
		if (!*text || *text == '\n' || *text == '-' || *text == '#')
			break;
		/* Further lines of a list's entry may be indented, or not be broken at all. */
		strip = *text == ' ' ? 2 : 0;
	}
	block[n] = 0;
	mdoc_text(file, block, NULL);
	return text;
}

static void print_markdown(FILE *file, const char *text)
{
	bool list = false, apart = false;

	while (*text) {
		bool entry = strncmp(text, "- ", 2) == 0;

		if (list && !entry) {
			fputs(".El\n", file);
			list = false;
		}
		if (*text == '\n') {
			apart = true;
			text++;
		} else if (strncmp(text, "# ", 2) == 0) {
			/* The document's own title is the section's. */
			text += strcspn(text, "\n") + 1;
			text += *text == '\n';
		} else if (strncmp(text, "## ", 3) == 0) {
			fprintf(file, ".Ss %.*s\n", (int)strcspn(text + 3, "\n"), text + 3);
			text += strcspn(text, "\n") + 1;
			text += *text == '\n';
			apart = false;
		} else if (entry) {
			if (!list)
				fputs(".Bl -bullet -compact\n", file);
			list = true;
			fputs(".It\n", file);
			text = print_block(file, text, 2);
		} else {
			if (apart)
				fputs(".Pp\n", file);
			apart = false;
			text = print_block(file, text, 0);
		}
	}
	if (list)
		fputs(".El\n", file);
}

/* A topic's text: paragraphs, and lists of terms with what they mean indented beside them. `macro` is the terms' own. */
static void print_terms(FILE *file, const char *text, const char *term_macro)
{
	bool list = false, apart = false;

	while (*text) {
		char block[16000];
		size_t n = 0;
		size_t term = term_width(text);

		if (*text == '\n') {
			if (list)
				fputs(".El\n", file);
			apart = true;
			list = false;
			text++;
			continue;
		}
		if (term) {
			if (!list)
				fputs(".Bl -tag -width Ds\n", file);
			list = true;
			fputs(".It", file);
			for (const char *at = text; at < text + term; at += strspn(at, ", ")) {
				size_t word = strcspn(at, ", ");

				fprintf(file, "%s %s ", at == text ? "" : " ,", term_macro);
				mdoc_word(file, at, word);
				at += word;
			}
			fputc('\n', file);
			text += term;
		} else if (apart) {
			fputs(".Pp\n", file);
		}
		apart = false;
		/* Up to the next term or empty line. */
		do {
			size_t length = strcspn(text, "\n");

			length += text[length] == '\n';
			if (n + length < sizeof block) {
				memcpy(block + n, text, length);
				n += length;
			}
			text += length;
		} while (*text && *text != '\n' && !term_width(text) && (!term || *text == ' '));
		block[n] = 0;
		mdoc_text(file, block, NULL);
	}
	if (list)
		fputs(".El\n", file);
}

static const struct topic *topic(const char *name)
{
	size_t count;
	const struct topic *topics = topic_table(&count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(topics[i].name, name) == 0)
			return &topics[i];
	fprintf(stderr, "the client's table has no topic %s\n", name);
	exit(1);
}

static void print_exit_codes(FILE *file)
{
	print_terms(file, topic("exit-codes")->parts[0], "Er");
}

static void print_environment(FILE *file)
{
	print_terms(file, topic("environment")->parts[0], "Ev");
}

/* The topics that have no section of their own name in every manual. */
static void print_topics(FILE *file)
{
	size_t count;
	const struct topic *topics = topic_table(&count);

	for (size_t i = 0; i < count; i++) {
		const char *name = topics[i].name;

		if (strcmp(name, "exit-codes") == 0 || strcmp(name, "environment") == 0)
			continue;
		fprintf(file, ".Ss %c%s\n", toupper((unsigned char)topics[i].summary[0]), topics[i].summary + 1);
		char text[64000] = "";
		size_t n = 0;

		for (size_t k = 0; topics[i].parts[k] && n < sizeof text; k++)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s", topics[i].parts[k]);
		if (n >= sizeof text) {
			fprintf(stderr, "the topic %s is too long for the manual\n", name);
			exit(1);
		}
		print_markdown(file, text);
	}
}

static void print_errors(FILE *file)
{
	static const struct row {
		const char *word;
		int code;
		const char *sentence;
	} rows[] = {
#define ERROR(number, NAME, word, exit_code, sentence) {word, exit_code, sentence},
#include "proto/errors.def"
	};

	fputs(".Bl -tag -width Ds\n", file);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[2000];
		size_t n = 0;

		fprintf(file, ".It Er %s\nExit code %d%s\n", rows[i].word, rows[i].code,
			strcmp(rows[i].sentence, "%s") == 0 ? "; the sentence is the case's own." : ":");
		if (strcmp(rows[i].sentence, "%s") == 0)
			continue;
		/* What the case fills in. */
		for (const char *at = rows[i].sentence; *at && n + 4 < sizeof text; at++) {
			if (strncmp(at, "%s", 2) == 0) {
				n += (size_t)snprintf(text + n, sizeof text - n, "...");
				at++;
			} else {
				text[n++] = *at;
			}
		}
		text[n] = 0;
		mdoc_text(file, text, NULL);
	}
	fputs(".El\n", file);
}

static void print_summaries(FILE *file)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);

	fputs(".Bl -tag -width snapshot -compact\n", file);
	for (size_t i = 0; i < count; i++) {
		fprintf(file, ".It Cm %s\n", verbs[i].name);
		mdoc_text(file, verbs[i].summary, NULL);
	}
	fputs(".El\n", file);
}

const struct part client_parts[] = {
	{"summaries", print_summaries},
	{"verbs", print_verbs},
	{"exit-codes", print_exit_codes},
	{"environment", print_environment},
	{"topics", print_topics},
	{"errors", print_errors},
	{NULL, NULL},
};
