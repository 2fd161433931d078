/* reload.h - settings are read anew while the daemon runs (SIGHUP). Loop's thread. */
#ifndef PROFD_DAEMON_SETUP_RELOAD_H
#define PROFD_DAEMON_SETUP_RELOAD_H

struct server;

/* Wrong settings are refused as a whole, the old ones stay. */
void reload(struct server *server);

#endif
