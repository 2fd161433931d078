/* probe.h - asks an agent what it could record in its process (nothing is switched on), or to leave it. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_PROBE_H
#define PROFD_DAEMON_CAPTURE_PROBE_H

#include "proto/errors.h"

#include <stdbool.h>
#include <stdint.h>

struct message_collector;
struct process;
struct server;

/* A question. The caller owns it, and fills the fields that are not marked as ours. */
struct probe {
	struct probe *next;	 /* ours */
	struct process *process; /* who is asked; NULL: the question is not under way. Ours */
	uint64_t asked_at;	 /* CLOCK_MONOTONIC ns; ours */
	bool to_leave;		 /* asked by probe_detach; ours */
	/* The agent's answer on one collector. */
	void (*told)(struct probe *probe, const struct message_collector *answer);
	/* The agent has answered on all collectors (NONE), its process is gone (GONE), or it does not answer (TIMEOUT).
	 * probe->process is NULL already. */
	void (*over)(struct probe *probe, const struct process *process, enum error error);
};

void probe_start(struct probe *probe, struct process *process);
/* Asks the agent to leave its process: GONE, once it has closed its connection, or TIMEOUT; `told` is not called. */
void probe_detach(struct probe *probe, struct process *process);
/* Afterwards neither `told` nor `over` is called. The question need not be under way. */
void probe_cancel(struct probe *probe);

/* A COLLECTOR message that answers a probe. */
void probe_answered(struct process *process, const struct message_collector *answer);
/* The process is gone. */
void probe_gone(struct process *process);
void probes_tick(struct server *server, uint64_t now);

#endif
