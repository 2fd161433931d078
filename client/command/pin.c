/* pin.c - `profd pin CAPTURE...`: retention lets them be. */
#include "client/link/change.h"
#include "../command.h"

int command_pin(struct arguments *arguments)
{
	return change_captures(arguments, "pin", "pinned");
}
