/* probe.c - see probe.h. Thread: the loop's. No locks. */
#include "probe.h"
#include "proto/base/clock.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "live.h"
#include "process_stat.h"
#include "proto/message.h"
#include "registry.h"

/* How long it may take to end what is recorded, until the daemon has all of it, and to leave. */
#define DETACH_NS 8000000000ull

static void ask(struct probe *probe, struct process *process, const void *message, size_t bytes, uint64_t patience)
{
	struct live *live = live_of(process->server);
	probe->process = process;
	probe->longer = false;
	probe->deadline = clock_monotonic() + patience;
	/* Agents answer in the order of the questions. */
	struct probe **end = &live->probes;
	while (*end)
		end = &(*end)->next;
	probe->next = NULL;
	*end = probe;
	conn_send(process->conn, message, bytes, -1);
	server_tick_adjust(process->server);
}

void probe_start(struct probe *probe, struct process *process)
{
	struct message_probe message = MESSAGE_INIT(PROBE, probe);
	probe->to_leave = false;
	ask(probe, process, &message, sizeof message, PROCESS_PATIENCE_NS);
}

void probe_detach(struct probe *probe, struct process *process)
{
	struct message_detach message = MESSAGE_INIT(DETACH, detach);
	probe->to_leave = true;
	ask(probe, process, &message, sizeof message, DETACH_NS);
}

void probe_cancel(struct probe *probe)
{
	struct process *process = probe->process;
	if (!process)
		return;
	struct probe **at = &live_of(process->server)->probes;
	while (*at != probe)
		at = &(*at)->next;
	*at = probe->next;
	probe->process = NULL;
	server_tick_adjust(process->server);
}

static void end(struct probe *probe, enum error error)
{
	const struct process *process = probe->process;
	probe_cancel(probe);
	probe->over(probe, process, error);
}

void probe_answered(struct process *process, const struct message_collector *answer)
{
	struct probe *probe = live_of(process->server)->probes;
	while (probe && (probe->process != process || probe->to_leave))
		probe = probe->next;
	if (!probe)
		return;
	if (answer->available == 2)
		end(probe, ERROR_NONE);
	else
		probe->told(probe, answer);
}

void probe_gone(struct process *process)
{
	for (struct probe *probe = live_of(process->server)->probes, *next; probe; probe = next) {
		next = probe->next;
		if (probe->process == process)
			end(probe, ERROR_GONE);
	}
}

void probes_tick(struct server *server, uint64_t now)
{
	for (struct probe *probe = live_of(server)->probes, *next; probe; probe = next) {
		next = probe->next;
		if (now < probe->deadline)
			continue;
		if (!probe->to_leave && !probe->longer &&
		    process_patience(probe->process->who.pid) > PROCESS_PATIENCE_NS) {
			probe->longer = true;
			probe->deadline += PROCESS_PATIENCE_MOST_NS - PROCESS_PATIENCE_NS;
			continue;
		}
		end(probe, ERROR_TIMEOUT);
	}
}
