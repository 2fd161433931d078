/* rm.c - `profd rm CAPTURE...`. */
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "change.h"

int command_rm(struct arguments *arguments)
{
	return change_captures(arguments, "rm", "removed");
}
