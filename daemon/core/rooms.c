/* rooms.c - see rooms.h. Any thread: what it reads is constant once the daemon runs. */
#include "rooms.h"
#include "server.h"

void *room_state(const struct server *server, enum room room)
{
	return server->rooms[room];
}
