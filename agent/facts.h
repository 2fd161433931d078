/* facts.h - what the agent says of its process in HELLO. */
#ifndef PROFD_AGENT_FACTS_H
#define PROFD_AGENT_FACTS_H

#include "../proto/message.h"
#include "../proto/socket.h"

/* The agent was brought into a process that ran already, and obeys only the daemon at this socket. From now on
 * facts_read_environment() reads the environment that the process was started with (/proc/self/environ), because other
 * threads may change the present one meanwhile. Call it before facts_read_environment(). */
void facts_attached(const char *socket);

/* Reads the environment (job, rank, name, sockets). Call on a thread where getenv is safe: the constructor, or the
 * thread that enters. May be called again: that replaces no rank that is known. Returns 1 where something changed. */
int facts_read_environment(void);

/* Fills a HELLO: environment as read, and /proc/self. */
void facts_hello(struct message_hello *hello);

/* Candidates for the daemon's socket, as they were when the environment was read. NULL past the last. */
const char *facts_socket(unsigned index);

/* Does the environment allow CUDA graphs to be recorded as a whole (PROFD_GRAPHS_WHOLE=1)? */
int facts_whole_graphs(void);

/* Bit set of enum library that are mapped now. */
uint32_t facts_libraries(void);

#endif
