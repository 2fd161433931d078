/* names.h - what two sides have of operators, kernels, calls, copies, ranges, name by name (kinds.def). One thread. */
#ifndef PROFD_CLIENT_COMPARE_NAMES_H
#define PROFD_CLIENT_COMPARE_NAMES_H

#include "gather.h"

enum compare_kind_number {
#define KIND(name, ...) COMPARE_##name,
#include "kinds.def"
	COMPARE_KINDS
};

struct compare_kind {
	const char *name, *key, *heading;
	unsigned fills;
	const char *sql;
};
extern const struct compare_kind compare_kinds[COMPARE_KINDS];

/* Both sides are paired. Damaged files end the program, as they do for `profd show`. compare_free afterwards. */
void compare_names(const struct side *a, const struct side *b, const struct compare_kind *kind,
		   struct compare_table *ret);

/* A kernel's name without the arguments of its templates and its own; to be freed. */
char *compare_plain_name(const char *name);

#endif
