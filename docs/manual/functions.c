/* functions.c - the verbs' functions, to which their table points. They do nothing here. */
#include "client/verbs/commands.h"

#define VERB(name, ...)                                                                                                \
	int command_##name(struct arguments *arguments)                                                                \
	{                                                                                                              \
		(void)arguments;                                                                                       \
		return 0;                                                                                              \
	}
#include "client/verbs/verbs.def"
