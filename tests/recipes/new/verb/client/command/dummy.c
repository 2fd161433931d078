/* dummy.c - `profd dummy`: prints a line. The test of the recipes. */
#include "client/verbs/commands.h"

#include <stdio.h>

int command_dummy(struct arguments *arguments)
{
	(void)arguments;
	puts("a dummy");
	return 0;
}
