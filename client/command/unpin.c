/* unpin.c - `profd unpin CAPTURE...`: retention may delete them again. */
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "change.h"

int command_unpin(struct arguments *arguments)
{
	return change_captures(arguments, "unpin", "unpinned");
}
