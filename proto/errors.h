/* errors.h - the errors a user can meet, expanded from errors.def. */
#ifndef PROFD_PROTO_ERRORS_H
#define PROFD_PROTO_ERRORS_H

enum error {
	ERROR_NONE = 0,
#define ERROR(number, NAME, word, exit_code, sentence) ERROR_##NAME = (number),
#include "errors.def"
};

/* All return NULL (or 1 for the exit code) for a number that is no error. */
const char *error_word(unsigned error);
const char *error_sentence(unsigned error); /* a format with %s */
int error_exit_code(unsigned error);
/* The number of a word, ERROR_FAILED where it is not known (a newer daemon). */
enum error error_from_word(const char *word);

#endif
