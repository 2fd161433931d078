/* version.c - `profd version`. */
#include "../command.h"

#include "proto/version.h"

int command_version(struct arguments *arguments)
{
	(void)arguments;
	puts("profd " PROFD_VERSION);
	return 0;
}
