/* options.h - the one table of verbs, options and help topics (verbs.c), and what reads a command line by it. --help,
 * usage errors, `profd help` and whatever else describes the command line come from the same rows. */
#ifndef PROFD_CLIENT_OPTIONS_H
#define PROFD_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
	OPTION_FLAG,
	OPTION_TEXT,
	OPTION_NUMBER,
	OPTION_DURATION, /* ns */
	OPTION_SIZE,	 /* bytes */
	OPTION_PIDS,	 /* a number, or several with commas between; given more than once they add up */
	OPTION_CHOICE,	 /* one of the words of `argument`, with | between */
};

struct option_row {
	const char *name; /* without the dashes; NULL ends a list */
	char letter;	  /* short form, 0 = none */
	enum option_kind kind;
	const char *argument; /* what stands for the value in the help, NULL for a flag */
	const char *help;
	int64_t least; /* of numbers, durations and sizes */
	int64_t most;  /* 0 = no bound */
};

enum verb_flag {
	VERB_COMMAND = 1, /* options end at the first word that is none: the rest is somebody else's command line */
	VERB_RAW = 2,	  /* everything but --help is passed on as it is */
};

struct arguments;

struct verb {
	const char *name;
	const char *summary;  /* a line of `profd help` */
	const char *synopsis; /* behind "profd VERB" */
	const char *description;
	const char *examples;
	const struct option_row *options;
	unsigned least, most; /* words that are no options; most 0 and least 0: none */
	unsigned flags;
	int (*run)(struct arguments *arguments);
};

struct topic {
	const char *name;
	const char *summary;
	const char *text;
};

const struct verb *verb_table(size_t *ret_count);
const struct topic *topic_table(size_t *ret_count);
/* NULL where there is none. */
const struct verb *verb_find(const char *name);
/* The verb or topic whose name is nearest to a word, NULL where none is near. */
const char *verb_nearest(const char *name);

struct given {
	const struct option_row *row;
	const char *text;
	int64_t number;
};

struct arguments {
	const struct verb *verb;
	struct given *given;
	size_t given_count;
	int64_t *pids;
	size_t pid_count;
	char **words; /* what is no option; NULL-terminated */
	size_t word_count;
};

enum {
	ARGUMENTS_OK = 0,
	ARGUMENTS_HELP = 1,  /* --help was given */
	ARGUMENTS_USAGE = 2, /* the sentence has been printed */
};

/* Reads words behind the verb. The texts stay argv's. arguments_deinit in every case. */
int arguments_init(struct arguments *arguments, const struct verb *verb, int argc, char **argv);
void arguments_deinit(struct arguments *arguments);

/* Values by the option's name, which must stand in the verb's table (checked); the last one given wins. */
bool arguments_has(const struct arguments *arguments, const char *name);
const char *arguments_text(const struct arguments *arguments, const char *name, const char *otherwise);
int64_t arguments_number(const struct arguments *arguments, const char *name, int64_t otherwise);

/* What --format says (or the default, table). */
enum output_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };
enum output_format arguments_format(const struct arguments *arguments);

/* The text of `profd VERB --help`, and of `profd help`. */
void help_print_verb(const struct verb *verb, FILE *file);
void help_print_all(FILE *file);

#endif
