/* arguments.h - reads a command line by the table of verbs. */
#ifndef PROFD_CLIENT_VERBS_ARGUMENTS_H
#define PROFD_CLIENT_VERBS_ARGUMENTS_H

#include "client/ui/table.h"
#include "proto/collectors.h"
#include "verbs.h"

#include <stdbool.h>

/* NULL where there is none. */
const struct verb *verb_find(const char *name);
/* The verb whose name is nearest to a word, NULL where none is near. */
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

/* Values by the option's name, which must stand in the verb's table (checked); the last one given wins. */
bool arguments_has(const struct arguments *arguments, const char *name);
const char *arguments_text(const struct arguments *arguments, const char *name, const char *otherwise);
int64_t arguments_number(const struct arguments *arguments, const char *name, int64_t otherwise);

/* The collectors that the options ask for, by proto/collectors.def: a bit set. A verb need not have all of these options. */
uint32_t arguments_collectors(const struct arguments *arguments);
/* Was the option given that asks for a collector, or leaves it out? */
bool arguments_has_collector(const struct arguments *arguments, const struct collector_facts *collector);
/* What --format says; the default is table. */
enum output_format arguments_format(const struct arguments *arguments);

#endif
