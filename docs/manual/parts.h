/* parts.h - the parts of a template: each line that is @word@ is replaced by what the part of that name prints. */
#ifndef PROFD_MANUAL_PARTS_H
#define PROFD_MANUAL_PARTS_H

#include <stdio.h>

struct part {
	const char *name;
	void (*print)(FILE *file);
};

/* Each ends with a row without a name. */
extern const struct part client_parts[];     /* verbs, topics and errors: profd(1) */
extern const struct part daemon_parts[];     /* options and configuration: profd-daemon(8), profd.conf(5) */
extern const struct part completion_parts[]; /* bash, zsh, fish */
/* The public header: profd.h(3). `header` is the whole text of agent/profd.h. */
extern const struct part header_parts[];
void header_set(const char *header);

#endif
