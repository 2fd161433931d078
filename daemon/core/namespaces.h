/* namespaces.h - the pids of a process in several pid namespaces. A process has a pid in its own namespace and in each
 * one around it; the daemon sees those of its own namespace and of the namespaces below. No peer is believed: pids come
 * from the kernel (SO_PEERCRED, /proc/PID/status), namespaces from descriptors of /proc/self/ns/pid that peers send
 * along. Loop's thread; no locks. */
#ifndef PROFD_DAEMON_CORE_NAMESPACES_H
#define PROFD_DAEMON_CORE_NAMESPACES_H

#include "proto/base/facts.h"

/* For a caller who did not show a namespace. No namespace has this number. */
#define NAMESPACE_UNKNOWN 0

/* Returns the inode of the daemon's own pid namespace. 0 with a sentence where /proc is not mounted, or is another
 * namespace's: the daemon cannot work then. Before the loop runs. */
uint64_t namespace_own(char *sentence, size_t sentence_bytes);

/* Does `uid`, of SO_PEERCRED, stand for one user? Not where the daemon runs in a user namespace that does not map it: all
 * unmapped users have the same uid there. */
bool namespace_knows_uid(uid_t uid);
#define NAMESPACE_UID_SENTENCE                                                                                         \
	"the daemon runs in a user namespace (a container) that does not know your uid, and cannot tell you from "     \
	"others; run the daemon on the host"

/* The pid namespace of a caller: the one that `fd` shows (-1 = none was sent; a descriptor of anything else shows
 * none), else the daemon's `own` if the kernel says that `pid` lives there. NAMESPACE_UNKNOWN otherwise. */
uint64_t namespace_of_caller(uint64_t own, pid_t pid, int fd);

/* Fills who->pids of the process who->pid, whose agent has sent `fd` (-1 = none) and says that it calls itself
 * `agent_pid`. Returns false where that is not so: another process says hello. */
bool namespace_locate(struct identity *who, uint64_t own, int32_t agent_pid, int fd);

/* The pid by which `viewer`, a pid namespace, knows the process; 0 where it cannot see it. */
pid_t namespace_pid(const struct identity *who, uint64_t own, uint64_t viewer);

#endif
