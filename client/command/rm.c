/* rm.c - `profd rm CAPTURE...`. */
#include "client/link/change.h"
#include "../command.h"

int command_rm(struct arguments *arguments)
{
	return change_captures(arguments, "rm", "removed");
}
