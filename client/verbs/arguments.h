/* arguments.h - reads a command line by the table of verbs. */
#ifndef PROFD_CLIENT_VERBS_ARGUMENTS_H
#define PROFD_CLIENT_VERBS_ARGUMENTS_H

#include "client/ui/table.h"
#include "proto/collectors.h"
#include "verbs.h"

#include <stdbool.h>

/* NULL where there is none. */
const struct verb *verb_find(const char *name);
/* The row of an option of its; NULL where it has none of this name. */
const struct option_row *verb_option(const struct verb *verb, const char *name);
/* The verb whose name is nearest to a word, NULL where none is near. */
const char *verb_nearest(const char *name);

struct given {
	const struct option_row *row;
	const char *text;
	int64_t number;
	bool off; /* a recipe says that it is not asked for: a preset's is left out */
};

struct arguments {
	const struct verb *verb;
	struct given *given;
	size_t given_count;
	int64_t *pids;
	size_t pid_count;
	char **words; /* what is no option; NULL-terminated */
	size_t word_count;
	char **owned; /* texts that are not argv's */
	size_t owned_count;
	const char *where; /* what sentences about values begin with; NULL: nothing */
};

enum {
	ARGUMENTS_OK = 0,
	ARGUMENTS_HELP = 1,  /* --help was given */
	ARGUMENTS_USAGE = 2, /* the sentence has been printed */
};

/* Reads words behind the verb, and the recipe that they name. Texts of the words stay argv's. arguments_deinit in every case. */
int arguments_init(struct arguments *arguments, const struct verb *verb, int argc, char **argv);
void arguments_deinit(struct arguments *arguments);
/* One option more; `text` stays the caller's, NULL for a flag alone. ARGUMENTS_OK, or ARGUMENTS_USAGE when the sentence has been printed. */
int arguments_add(struct arguments *arguments, const struct option_row *row, const char *text);

/* Says of a flag that it is not asked for. */
void arguments_add_off(struct arguments *arguments, const struct option_row *row);

/* Values by the option's name, which must stand in the verb's table (checked); the last one given wins. */
bool arguments_has(const struct arguments *arguments, const char *name);
const char *arguments_text(const struct arguments *arguments, const char *name, const char *otherwise);
int64_t arguments_number(const struct arguments *arguments, const char *name, int64_t otherwise);

/* What --format says; the default is table. */
enum output_format arguments_format(const struct arguments *arguments);

#endif
