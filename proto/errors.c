/* errors.c - the numbers of errors.def as words, sentences and exit codes. No state. */
#include "errors.h"

#include <string.h>

const char *error_word(unsigned error)
{
	switch (error) {
#define ERROR(number, NAME, word, exit_code, sentence)                                                                 \
	case number:                                                                                                   \
		return word;
#include "errors.def"
	default:
		return NULL;
	}
}

const char *error_sentence(unsigned error)
{
	switch (error) {
#define ERROR(number, NAME, word, exit_code, sentence)                                                                 \
	case number:                                                                                                   \
		return sentence;
#include "errors.def"
	default:
		return NULL;
	}
}

int error_exit_code(unsigned error)
{
	switch (error) {
#define ERROR(number, NAME, word, exit_code, sentence)                                                                 \
	case number:                                                                                                   \
		return exit_code;
#include "errors.def"
	default:
		return 1;
	}
}

enum error error_from_word(const char *word)
{
#define ERROR(number, NAME, text, exit_code, sentence)                                                                 \
	if (strcmp(word, text) == 0)                                                                                   \
		return ERROR_##NAME;
#include "errors.def"
	return ERROR_FAILED;
}
