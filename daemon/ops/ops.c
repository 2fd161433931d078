/* ops.c - see ops.h. No state. */
#include "ops.h"

#include <string.h>

/* ops.def has a line OP(name) for each op/name.c; daemon/CMakeLists.txt writes it. */
#define OP(name) extern const struct op op_##name;
#include "ops.def"
#undef OP

static const struct op *const ops[] = {
#define OP(name) &op_##name,
#include "ops.def"
#undef OP
};
#define OPS (sizeof ops / sizeof *ops)

const struct op *op_find(const char *word)
{
	for (size_t i = 0; i < OPS; i++)
		if (strcmp(ops[i]->word, word) == 0)
			return ops[i];
	return NULL;
}

void ops_print(FILE *to)
{
	for (size_t i = 0; i < OPS; i++)
		fprintf(to, "%-10s %s\n", ops[i]->word, ops[i]->does);
}
