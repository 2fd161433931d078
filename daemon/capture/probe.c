/* probe.c - see probe.h. Thread: the loop's. No locks. */
#include "probe.h"
#include "proto/base/clock.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "live.h"
#include "patience.h"
#include "proto/message.h"
#include "registry.h"

/* How long an agent may take to end its capture, until the daemon has all of it, and to leave. */
#define DETACH_NS 8000000000ull

static void ask(struct probe *probe, struct process *process, const void *message, size_t bytes)
{
	struct live *live = live_of(process->server);
	probe->process = process;
	probe->asked_at = clock_monotonic();
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
	ask(probe, process, &message, sizeof message);
}

void probe_detach(struct probe *probe, struct process *process)
{
	struct message_detach message = MESSAGE_INIT(DETACH, detach);
	probe->to_leave = true;
	ask(probe, process, &message, sizeof message);
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
		if (probe->to_leave ? patience_over(probe->process, probe->asked_at, DETACH_NS, now)
				    : patience_is_silent(probe->process, probe->asked_at, now))
			end(probe, ERROR_TIMEOUT);
	}
}
