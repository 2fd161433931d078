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

/* Plans which variables to set so that programs load the agent. A variable that another tool has set is left alone, and
 * the tool is named on standard error; LD_PRELOAD is added to. `name` and `job` are set too, unless they are NULL.
 * Fills at most INJECT_MAX rows and returns their number, or -1 after a sentence. */
int inject_plan(struct inject plan[INJECT_MAX], const char *name, const char *job);
void inject_deinit(struct inject *plan, int count);

#endif
