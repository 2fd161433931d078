/* patience.c - see patience.h. Thread: the loop's. No locks. */
#include "patience.h"
#include "daemon/core/connection.h"
#include "process_stat.h"
#include "registry.h"

#include <poll.h>

/* A process that is not stopped may wait long for a processor. */
#define MOST_NS 10000000000ull

bool patience_over(const struct process *process, uint64_t since, uint64_t patience, uint64_t now)
{
	if (now < since + patience)
		return false;
	struct pollfd unread = {process ? process->conn->fd : -1, POLLIN, 0};
	return now > since + 4 * patience || poll(&unread, 1, 0) <= 0;
}

bool patience_is_silent(const struct process *process, uint64_t since, uint64_t now)
{
	if (!patience_over(process, since, PATIENCE_NS, now))
		return false;
	return !process || process_is_stopped(process->who.pid) || patience_over(process, since, MOST_NS, now);
}

const char *patience_sentence(const struct process *process)
{
	if (!process)
		return "it is gone";
	return process_is_stopped(process->who.pid) ? "the process is stopped" : "nothing came for 10 s";
}
