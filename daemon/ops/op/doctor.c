/* doctor.c - op "doctor": what could be recorded of a process.
 *
 * op "doctor"   {"pid":N} -> {"row":"process", PROCESS}, {"row":"collector","collector":WORD,"available":bool,
 *                   "sentence":TEXT}*, end. Asks the agent by PROBE; touches nothing.
 */
#include "daemon/capture/probe.h"
#include "daemon/capture/patience.h"
#include "daemon/capture/registry.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/named.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"
#include "proto/filters.h"

#include <stdio.h>

static void collector_row(struct conn *conn, unsigned collector, bool available, const char *sentence)
{
	const char *word = collector_word(collector);
	if (!word)
		return;
	cJSON *row = conn_row_new("collector");
	cJSON_AddStringToObject(row, "collector", word);
	cJSON_AddBoolToObject(row, "available", available);
	cJSON_AddStringToObject(row, "sentence", sentence);
	conn_row(conn, row);
}

static void told(struct probe *probe, const struct message_collector *answer)
{
	struct conn *conn = client_of_probe(probe)->conn;
	const struct collector_facts *facts = collector_facts(answer->collector);
	/* A collector's parts are available if the collector is: their rows follow from its answer. */
	if (!facts || facts->part_of != answer->collector)
		return;
	collector_row(conn, answer->collector, answer->available == 1, answer->sentence);
	uint32_t parts = collector_parts(answer->collector);
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		char sentence[256];
		facts = parts >> bit & 1 ? collector_facts(bit) : NULL;
		if (!facts)
			continue;
		snprintf(sentence, sizeof sentence, "%s, by --%s", facts->records, facts->option);
		collector_row(conn, bit, answer->available == 1, answer->available == 1 ? sentence : answer->sentence);
	}
}

static void over(struct probe *probe, const struct process *process, enum error error)
{
	struct conn *conn = client_of_probe(probe)->conn;
	if (!error) {
		conn_end(conn, NULL);
		return;
	}
	char detail[128];
	int32_t pid = registry_visible_pid(process, conn->pid_namespace);
	if (error == ERROR_GONE)
		snprintf(detail, sizeof detail, "%d", pid);
	else
		snprintf(detail, sizeof detail, "the agent of process %d does not answer: %s", pid,
			 patience_sentence(process));
	conn_error(conn, error, detail, pid);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)request, (void)packet, (void)n;
	struct process *process = named_process(conn, "doctor");
	if (!process)
		return;
	process_row(conn, process);
	bool filtered = registry_has_new_filter(process);
	if (filtered || registry_has_confined_thread(process)) {
		collector_row(conn, COLLECTOR_STEPS, false,
			      filtered ? registry_filter_sentence : filters_thread_sentence);
		conn_end(conn, NULL);
		return;
	}
	struct probe *probe = &client_of(conn)->probe;
	probe->told = told;
	probe->over = over;
	probe_start(probe, process);
}

const struct op op_doctor = {"doctor", "asks what can be recorded of a process", parse_request_one_pid, serve, NULL};
