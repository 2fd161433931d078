/* failure.h - how the program ends, and how it says so. Exit codes other than 0, 2 and those below are those of
 * proto/errors.def. */
#ifndef PROFD_CLIENT_UI_FAILURE_H
#define PROFD_CLIENT_UI_FAILURE_H

#include "proto/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_TARGET = 3,
	EXIT_TIMED_OUT = 4,
	EXIT_INCOMPLETE = 5,
	EXIT_NOT_PERMITTED = 6,
	EXIT_NO_DAEMON = 7,
	EXIT_BUSY = 8,
	EXIT_NO_STEPS = 9,
	EXIT_DIFFERS = 10, /* what `profd diff` was asked to fail for */
	EXIT_CANCELLED = 130,
};

/* A program that did several things ends with one of their codes: the one of these two that goes first. verbs.def tells
 * the user the order. */
int exit_worse(int one, int other);

#define FAILURE_TEXT_BYTES 768

/* An error that is not printed yet: a daemon's, or our own about one. */
struct failure {
	enum error error; /* ERROR_NONE: none */
	char word[32];	  /* as it came; error_word(error) where it is our own */
	char message[FAILURE_TEXT_BYTES];
	int64_t pid; /* 0 = concerns no single process */
};

/* Fills a failure with the sentence of errors.def; `detail` stands wherever the sentence has %s. */
void failure_set(struct failure *failure, enum error error, const char *detail);
/* Prints it and returns its exit code. */
int failure_print(const struct failure *failure);
/* Two daemons may answer one question. This keeps the answer that says most: copies `other` over *best if it is better.
 * "There is no such thing here" yields to whatever another daemon knows. */
void failure_merge(struct failure *best, const struct failure *other);

/* The sentence of a failure that its caller tells; returns `code`. */
int refuse_with(char *sentence, size_t bytes, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "profd: SENTENCE" on standard error; returns `code`. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, for what is no failure. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
