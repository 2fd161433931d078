/* rooms.h - where each room above core keeps its own state. `struct server` knows none of them: a room's header has a
 * function that returns its state as what it is (catalogue_of(), live_of(), ...). */
#ifndef PROFD_DAEMON_CORE_ROOMS_H
#define PROFD_DAEMON_CORE_ROOMS_H

struct server;

enum room {
	ROOM_CATALOGUE,
	ROOM_USAGE,
	ROOM_RETENTION,
	ROOM_LIVE,
	ROOM_METRICS,
	ROOM_SERVICE,
	ROOM_COUNT,
};

/* For the rooms' own functions. */
void *room_state(const struct server *server, enum room room);

#endif
