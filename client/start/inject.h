/* inject.h - the environment that brings the agent into a program. */
#ifndef PROFD_CLIENT_START_INJECT_H
#define PROFD_CLIENT_START_INJECT_H

#include <limits.h>
#include <stdbool.h>

#define INJECT_MAX 5

struct inject {
	const char *name;
	char *value; /* to be set; NULL: stays as it is */
};

/* What is to be set so that programs load the agent, in view of what is set already: a variable of somebody else's is
 * left alone (or added to, LD_PRELOAD) and its holder named on standard error. `name` and `job`, where not NULL, are set
 * too. Fills at most INJECT_MAX rows and returns their number, or -1 after a sentence. */
int inject_plan(struct inject plan[INJECT_MAX], const char *name, const char *job);
void inject_deinit(struct inject *plan, int count);

#endif
