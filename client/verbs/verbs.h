/* verbs.h - the table of verbs and their options (verbs.def). --help, usage errors, manuals and completions come from
 * it. */
#ifndef PROFD_CLIENT_VERBS_VERBS_H
#define PROFD_CLIENT_VERBS_VERBS_H

#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG, /* with an `argument`: it may have one of its words behind a = */
	OPTION_TEXT,
	OPTION_NUMBER,
	OPTION_DURATION, /* ns */
	OPTION_SIZE,	 /* bytes */
	OPTION_PIDS,	 /* a number, or several with commas between; given more than once they add up */
	OPTION_CHOICE,	 /* one of the words of `argument` */
};

struct option_row {
	const char *name; /* without the dashes; NULL ends a list */
	char letter;	  /* short form, 0 = none */
	enum option_kind kind;
	const char *
		argument; /* what stands for the value in the help, NULL for a plain flag; of a choice its words, with | between */
	const char *
		meanings; /* of a choice: "WORD\tSENTENCE\n" for each of its words; NULL: the words say it themselves */
	const char *help;
	int64_t least; /* of numbers, durations and sizes */
	int64_t most;  /* 0 = no bound */
};

enum verb_flag {
	VERB_COMMAND = 1, /* options end at the first word that is none: the rest is somebody else's command line */
	VERB_RAW = 2,	  /* everything but --help is passed on as it is */
	VERB_SIGNED = 4,  /* -WORD is a word, as +WORD is: there are no short options but -h */
};

struct arguments;

struct verb {
	const char *name;
	const char *summary;	 /* a line of `profd help` */
	const char *synopsis;	 /* behind "profd VERB" */
	const char *description; /* \n ends a paragraph; to be wrapped */
	const char *examples;
	const struct option_row *options;
	unsigned least, most; /* words that are no options; most 0 and least 0: none */
	unsigned flags;
	int (*run)(struct arguments *arguments);
};

const struct verb *verb_table(size_t *ret_count);

#endif
