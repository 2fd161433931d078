/* install.h - finds the agent's library and the daemon, in a build tree and where a distribution put them. */
#ifndef PROFD_CLIENT_START_INSTALL_H
#define PROFD_CLIENT_START_INSTALL_H

#include <limits.h>
#include <stdbool.h>

/* The agent's library: PROFD_AGENT, else beside this executable. False, with an empty path, where there is none. */
bool install_agent(char path[PATH_MAX]);
/* The daemon's executable: beside this one, else in PATH (then a bare name). False where it is in none. */
bool install_daemon(char path[PATH_MAX]);

#endif
