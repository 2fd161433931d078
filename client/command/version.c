/* version.c - `profd version`. */
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include "proto/version.h"

int command_version(struct arguments *arguments)
{
	(void)arguments;
	puts("profd " PROFD_VERSION);
	return 0;
}
