/* pin.c - `profd pin CAPTURE...`: retention does not delete them. */
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "change.h"

int command_pin(struct arguments *arguments)
{
	return change_captures(arguments, "pin", "pinned");
}
