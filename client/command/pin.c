/* pin.c - `profd pin CAPTURE...`: retention lets them be. */
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "change.h"

int command_pin(struct arguments *arguments)
{
	return change_captures(arguments, "pin", "pinned");
}
