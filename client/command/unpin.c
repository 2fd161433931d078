/* unpin.c - `profd unpin CAPTURE...`: retention may delete them again. */
#include "client/link/change.h"
#include "../command.h"

int command_unpin(struct arguments *arguments)
{
	return change_captures(arguments, "unpin", "unpinned");
}
