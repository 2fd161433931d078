/* code.h - reads a code object: its names, and the lines of its instructions. Bounds and distrust as in python.h. */
#ifndef PROFD_PROTO_PYTHON_CODE_H
#define PROFD_PROTO_PYTHON_CODE_H

#include "python.h"

#define PYTHON_NAME_BYTES 512
struct python_code {
	char name[PYTHON_NAME_BYTES]; /* with its class, from 3.11 on; UTF-8, cut where it is too long */
	char file[PYTHON_NAME_BYTES];
	int32_t line; /* of the definition */
};
bool python_describe(struct python *python, uint64_t code, struct python_code *ret);
/* Is it defined as `def f(self, *arguments, **keywords)`? Then its frame begins with these three. */
bool python_takes_all(struct python *python, uint64_t code);
/* A hash of a few words of a code object, which tells it from a later one at the same address. 0: it cannot be read. */
uint64_t python_code_print(struct python *python, uint64_t code);
/* The line of an instruction; 0: it has none. */
int32_t python_line(struct python *python, uint64_t code, int64_t instruction);

/* A str object as UTF-8, cut where it does not fit; false where it is no str. */
bool python_text(struct python *python, uint64_t object, char *to, size_t bytes);

#endif
