/* completion.c - the verbs' table as parts of the shells' completions (profd.bash.in, profd.zsh.in, profd.fish.in).
 * What a value can be follows from the word that stands for it in the table. */
#include "client/verbs/topics.h"
#include "client/verbs/verbs.h"
#include "daemon/setup/options.h"
#include "parts.h"

#include <string.h>

/* Where the shell finds values: `profd ps` (pids, names, jobs), `profd captures` (captures, triggers, labels), the
 * system. */
enum source {
	SOURCE_NONE,
	SOURCE_CHOICES,
	SOURCE_PIDS,
	SOURCE_NAMES,
	SOURCE_JOBS,
	SOURCE_CAPTURES,
	SOURCE_TRIGGERS,
	SOURCE_LABELS,
	SOURCE_USERS,
	SOURCE_FILES,
	SOURCE_FOLDERS,
	SOURCE_HELP,	/* verbs and topics */
	SOURCE_COMMAND, /* somebody else's command line */
};

static const char *const source_names[] = {
	[SOURCE_NONE] = "none",		[SOURCE_CHOICES] = "choices", [SOURCE_PIDS] = "pids",
	[SOURCE_NAMES] = "names",	[SOURCE_JOBS] = "jobs",	      [SOURCE_CAPTURES] = "captures",
	[SOURCE_TRIGGERS] = "triggers", [SOURCE_LABELS] = "labels",   [SOURCE_USERS] = "users",
	[SOURCE_FILES] = "files",	[SOURCE_FOLDERS] = "folders", [SOURCE_HELP] = "help",
	[SOURCE_COMMAND] = "command",
};

/* What stands for a value, and in which option (NULL: any). The first row that fits counts. */
static const struct meaning {
	const char *option, *word;
	enum source source;
} meanings[] = {
	{"label", NULL, SOURCE_LABELS}, {"trigger", "ID", SOURCE_TRIGGERS}, {"name", "GLOB", SOURCE_NAMES},
	{NULL, "JOB", SOURCE_JOBS},	{NULL, "PID", SOURCE_PIDS},	    {NULL, "CAPTURE", SOURCE_CAPTURES},
	{NULL, "USER", SOURCE_USERS},	{NULL, "FILE", SOURCE_FILES},	    {NULL, "PATH", SOURCE_FILES},
	{NULL, "DIR", SOURCE_FOLDERS},	{NULL, "FOLDER", SOURCE_FOLDERS},
};

static enum source source_of(const char *option, const char *word)
{
	for (size_t i = 0; word && i < sizeof meanings / sizeof *meanings; i++) {
		const struct meaning *row = &meanings[i];

		if (row->option && strcmp(row->option, option) != 0)
			continue;
		if (!row->word || strcmp(row->word, word) == 0)
			return row->source;
	}
	return SOURCE_NONE;
}

static enum source option_source(const struct option_row *row)
{
	if (row->kind == OPTION_CHOICE)
		return SOURCE_CHOICES;
	return row->kind == OPTION_PIDS ? SOURCE_PIDS : source_of(row->name, row->argument);
}

/* Where the values of a verb's words come from (not of its options), by its usage. At most two. */
static unsigned word_sources(const struct verb *verb, enum source sources[2])
{
	const char *last = "";
	unsigned count = 0;

	if (verb->flags & VERB_COMMAND) {
		sources[0] = SOURCE_COMMAND;
		return 1;
	}
	for (const char *at = verb->synopsis; *at; at += strspn(at, " []()|.")) {
		size_t n = strcspn(at, " []()|.");
		char word[64];
		enum source source;

		snprintf(word, sizeof word, "%.*s", (int)n, at);
		source = strcmp(word, "VERB") == 0 ? SOURCE_HELP : source_of("", word);
		if (*word != '-' && *last != '-' && source != SOURCE_NONE && count < 2)
			sources[count++] = source;
		last = at;
		at += n;
	}
	return count;
}

/* What is written differently for each shell. */
struct shell {
	void (*verb)(FILE *file, const struct verb *verb);
	void (*option)(FILE *file, const struct verb *verb, const struct option_row *row, enum source source);
	void (*words)(FILE *file, const struct verb *verb, const enum source *sources, unsigned count);
	void (*end)(FILE *file, const struct verb *verb);
};

static void each(FILE *file, const struct shell *shell)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);

	for (size_t i = 0; i < count; i++) {
		enum source sources[2];
		unsigned words = word_sources(&verbs[i], sources);

		shell->verb(file, &verbs[i]);
		for (const struct option_row *row = verbs[i].options; row->name; row++)
			shell->option(file, &verbs[i], row, option_source(row));
		/* Words that are passed on to the daemon are the daemon's options. */
		for (size_t k = 0; verbs[i].flags & VERB_RAW && k < DAEMON_OPTION_COUNT; k++) {
			const struct option_row row = {
				.name = daemon_options[k].name,
				.kind = daemon_options[k].argument ? OPTION_TEXT : OPTION_FLAG,
				.argument = daemon_options[k].argument,
				.help = daemon_options[k].help,
			};

			if (strcmp(row.name, "help") != 0)
				shell->option(file, &verbs[i], &row, option_source(&row));
		}
		shell->words(file, &verbs[i], sources, words);
		shell->end(file, &verbs[i]);
	}
}

/* Reads CSV with a header; prints each value of the column `first` once, a tab, and what stands in the column `second`. */
static void print_awk(FILE *file)
{
	fputs("{\n"
	      "\tcount = 0; field = \"\"; quoted = 0\n"
	      "\tfor (i = 1; i <= length($0); i++) {\n"
	      "\t\tc = substr($0, i, 1)\n"
	      "\t\tif (quoted && c == \"\\\"\" && substr($0, i + 1, 1) == \"\\\"\") { field = field c; i++ }\n"
	      "\t\telse if (c == \"\\\"\") quoted = !quoted\n"
	      "\t\telse if (c == \",\" && !quoted) { fields[++count] = field; field = \"\" }\n"
	      "\t\telse field = field c\n"
	      "\t}\n"
	      "\tfields[++count] = field\n"
	      "}\n"
	      "NR == 1 { for (i = 1; i <= count; i++) { if (fields[i] == first) a = i; if (fields[i] == second) b = i "
	      "} }\n"
	      "NR > 1 && a && fields[a] != \"\" && !seen[fields[a]]++ { print fields[a] \"\\t\" (b ? fields[b] : \"\") "
	      "}\n",
	      file);
}

/* ---- bash: a case for each verb that sets options and words */

static void bash_verb(FILE *file, const struct verb *verb)
{
	fprintf(file, "\t%s)\n", verb->name);
}

static void bash_option(FILE *file, const struct verb *verb, const struct option_row *row, enum source source)
{
	(void)verb;
	fprintf(file, "\t\t_profd_options+=('--%s", row->name);
	if (row->letter)
		fprintf(file, " -%c", row->letter);
	fprintf(file, "%s", row->kind == OPTION_FLAG ? "" : "=");
	if (row->kind != OPTION_FLAG)
		fputs(source == SOURCE_CHOICES ? row->argument : source_names[source], file);
	fputs("')\n", file);
}

static void bash_words(FILE *file, const struct verb *verb, const enum source *sources, unsigned count)
{
	(void)verb;
	for (unsigned i = 0; i < count; i++)
		fprintf(file, "\t\t_profd_words+=(%s)\n", source_names[sources[i]]);
	if (verb->flags & VERB_COMMAND)
		fputs("\t\t_profd_command=1\n", file);
}

static void bash_end(FILE *file, const struct verb *verb)
{
	(void)verb;
	fputs("\t\t;;\n", file);
}

static void print_bash(FILE *file)
{
	static const struct shell shell = {bash_verb, bash_option, bash_words, bash_end};

	each(file, &shell);
}

/* ---- zsh: a case for each verb that calls _arguments */

static void zsh_text(FILE *file, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", file);
		else if (strchr("[]:\\", *text))
			fprintf(file, "\\%c", *text);
		else
			fputc(*text, file);
	}
}

static void zsh_values(FILE *file, const char *word, enum source source, const char *choices)
{
	fputc(':', file);
	zsh_text(file, word);
	fputc(':', file);
	if (source == SOURCE_CHOICES) {
		fputc('(', file);
		for (; *choices; choices++)
			fputc(*choices == '|' ? ' ' : *choices, file);
		fputc(')', file);
	} else if (source == SOURCE_FILES) {
		fputs("_files", file);
	} else if (source == SOURCE_FOLDERS) {
		fputs("_files -/", file);
	} else if (source == SOURCE_USERS) {
		fputs("_users", file);
	} else if (source != SOURCE_NONE) {
		fprintf(file, "_profd_%s", source_names[source]);
	} else {
		fputc(' ', file);
	}
}

static void zsh_verb(FILE *file, const struct verb *verb)
{
	fprintf(file, "\t%s)\n\t\t_arguments -s -S", verb->name);
	/* -A: after the command has begun, nothing is an option of profd. */
	if (verb->flags & VERB_COMMAND)
		fputs(" -A '-*'", file);
}

static void zsh_option(FILE *file, const struct verb *verb, const struct option_row *row, enum source source)
{
	(void)verb;
	fputs(" \\\n\t\t\t", file);
	if (row->kind == OPTION_PIDS)
		fprintf(file, "'*'");
	else if (row->letter)
		fprintf(file, "'(-%c --%s)'", row->letter, row->name);
	if (row->letter)
		fprintf(file, "{-%c%s,--%s%s}'[", row->letter, row->kind == OPTION_FLAG ? "" : "+", row->name,
			row->kind == OPTION_FLAG ? "" : "=");
	else
		fprintf(file, "'--%s%s[", row->name, row->kind == OPTION_FLAG ? "" : "=");
	zsh_text(file, row->help);
	fputc(']', file);
	if (row->kind != OPTION_FLAG)
		zsh_values(file, row->kind == OPTION_CHOICE ? row->name : row->argument, source, row->argument);
	fputc('\'', file);
}

static void zsh_words(FILE *file, const struct verb *verb, const enum source *sources, unsigned count)
{
	if (verb->flags & VERB_COMMAND) {
		fputs(" \\\n\t\t\t'(-)1:command:_command_names -e' \\\n\t\t\t'*::argument: _normal'", file);
	} else if (count == 1) {
		fprintf(file, " \\\n\t\t\t'%s", verb->most > 1 ? "*" : "1");
		zsh_values(file, source_names[sources[0]], sources[0], NULL);
		fputc('\'', file);
	} else if (count > 1) {
		fprintf(file, " \\\n\t\t\t'%s:word: _profd_either %s %s'", verb->most > 1 ? "*" : "1",
			source_names[sources[0]], source_names[sources[1]]);
	}
}

static void zsh_end(FILE *file, const struct verb *verb)
{
	(void)verb;
	fputs(" \\\n\t\t\t'(- *)'{-h,--help}'[explain this verb]'\n\t\t;;\n", file);
}

static void print_zsh(FILE *file)
{
	static const struct shell shell = {zsh_verb, zsh_option, zsh_words, zsh_end};

	each(file, &shell);
}

/* A word and what it means, of all verbs or topics: zsh's _describe. */
static void zsh_described(FILE *file, const char *name, const char *summary)
{
	fputs("\t\t'", file);
	zsh_text(file, name);
	fputc(':', file);
	for (; *summary; summary++) {
		if (*summary == '\'')
			fputs("'\\''", file);
		else
			fputc(*summary, file);
	}
	fputs("'\n", file);
}

static void print_zsh_verbs(FILE *file)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);

	for (size_t i = 0; i < count; i++)
		zsh_described(file, verbs[i].name, verbs[i].summary);
}

static void print_zsh_topics(FILE *file)
{
	size_t count;
	const struct topic *topics = topic_table(&count);

	for (size_t i = 0; i < count; i++)
		zsh_described(file, topics[i].name, topics[i].summary);
}

/* ---- fish: a line for each option */

static void fish_text(FILE *file, const char *text)
{
	fputc('\'', file);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', file);
		fputc(*text, file);
	}
	fputc('\'', file);
}

/* The options of a verb that take values, behind a blank each. */
static void fish_valued(FILE *file, const struct verb *verb)
{
	for (const struct option_row *row = verb->options; row->name; row++) {
		if (row->kind == OPTION_FLAG)
			continue;
		fprintf(file, " --%s", row->name);
		if (row->letter)
			fprintf(file, " -%c", row->letter);
	}
}

/* "complete" where the words are this verb's; where it takes a command, only until that has begun. */
static void fish_where(FILE *file, const struct verb *verb)
{
	fprintf(file, "complete -c profd -n '__profd_in %s", verb->name);
	if (verb->flags & VERB_COMMAND) {
		fputs("; and not __profd_begun", file);
		fish_valued(file, verb);
	}
	fputc('\'', file);
}

static void fish_verb(FILE *file, const struct verb *verb)
{
	fprintf(file, "complete -c profd -n __profd_wants_verb -f -a %s -d ", verb->name);
	fish_text(file, verb->summary);
	fputc('\n', file);
}

static void fish_values(FILE *file, const struct option_row *row, enum source source)
{
	switch (source) {
	case SOURCE_FILES:
		fputs(" -r -F", file);
		break;
	case SOURCE_CHOICES:
		fputs(" -x -a '", file);
		for (const char *at = row->argument; *at; at++)
			fputc(*at == '|' ? ' ' : *at, file);
		fputc('\'', file);
		break;
	case SOURCE_FOLDERS:
		fputs(" -x -a '(__fish_complete_directories)'", file);
		break;
	case SOURCE_USERS:
		fputs(" -x -a '(__fish_complete_users)'", file);
		break;
	case SOURCE_PIDS:
		fprintf(file, " -x -a '(%s__profd_pids)'", row->kind == OPTION_PIDS ? "__fish_complete_list , " : "");
		break;
	case SOURCE_NONE:
		fputs(" -x", file);
		break;
	default:
		fprintf(file, " -x -a '(__profd_%s)'", source_names[source]);
		break;
	}
}

static void fish_option(FILE *file, const struct verb *verb, const struct option_row *row, enum source source)
{
	fish_where(file, verb);
	fprintf(file, " -l %s", row->name);
	if (row->letter)
		fprintf(file, " -s %c", row->letter);
	if (row->kind != OPTION_FLAG)
		fish_values(file, row, source);
	fputs(" -d ", file);
	fish_text(file, row->help);
	fputc('\n', file);
}

static void fish_words(FILE *file, const struct verb *verb, const enum source *sources, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		fprintf(file, "complete -c profd -n '__profd_in %s'", verb->name);
		if (sources[i] == SOURCE_FILES) {
			fputs(" -F\n", file);
		} else if (sources[i] == SOURCE_COMMAND) {
			fputs(" -x -a '(__profd_command", file);
			fish_valued(file, verb);
			fputs(")'\n", file);
		} else {
			fprintf(file, " -k -a '(__profd_%s)'\n", source_names[sources[i]]);
		}
	}
}

static void fish_end(FILE *file, const struct verb *verb)
{
	fish_where(file, verb);
	fputs(" -l help -s h -d 'explain this verb'\n", file);
}

static void print_fish(FILE *file)
{
	static const struct shell shell = {fish_verb, fish_option, fish_words, fish_end};

	each(file, &shell);
}

static void print_fish_topics(FILE *file)
{
	size_t count;
	const struct topic *topics = topic_table(&count);

	for (size_t i = 0; i < count; i++)
		fprintf(file, "\techo '%s\t%s'\n", topics[i].name, topics[i].summary);
}

/* Words alone, for bash. */
static void print_bash_names(FILE *file)
{
	size_t count, topic_count;
	const struct verb *verbs = verb_table(&count);
	const struct topic *topics = topic_table(&topic_count);

	fputs("_profd_verbs=(", file);
	for (size_t i = 0; i < count; i++)
		fprintf(file, "%s%s", i ? " " : "", verbs[i].name);
	fputs(")\n_profd_topics=(", file);
	for (size_t i = 0; i < topic_count; i++)
		fprintf(file, "%s%s", i ? " " : "", topics[i].name);
	fputs(")\n", file);
}

const struct part completion_parts[] = {
	{"bash-names", print_bash_names},   {"bash", print_bash}, {"zsh-verbs", print_zsh_verbs},
	{"zsh-topics", print_zsh_topics},   {"zsh", print_zsh},	  {"fish", print_fish},
	{"fish-topics", print_fish_topics}, {"awk", print_awk},	  {NULL, NULL},
};
