/* row.c - CAPTURE of docs/protocol.md: what clients are told of a capture. Thread: the loop's. No locks. */
#include "row.h"
#include "capture.h"
#include "registry.h"
#include "daemon/core/server.h"
#include "base/clock.h"
#include "daemon/core/namespaces.h"

static void add_text(cJSON *row, const char *key, const char *text)
{
	cJSON_AddStringToObject(row, key, text);
}

static void add_rank(cJSON *row, const char *key, int32_t rank)
{
	if (rank >= 0)
		cJSON_AddNumberToObject(row, key, rank);
	else
		cJSON_AddNullToObject(row, key);
}

void capture_describe(const struct server *server, uint64_t viewer, const struct capture_facts *facts, cJSON *row)
{
	char id[ID_BYTES], time[TIME_TEXT_BYTES];
	capture_id_text(facts->number, server->user, id);
	add_text(row, "capture_id", id);
	trigger_id_text(facts->trigger, server->user, id);
	add_text(row, "trigger_id", id);
	cJSON_AddNumberToObject(row, "cycle", (double)facts->cycle);
	registry_add_pid(row, namespace_pid(&facts->who, server->pid_namespace, viewer));
	cJSON_AddNumberToObject(row, "uid", facts->who.uid);
	add_text(row, "user", facts->who.user);
	add_text(row, "name", facts->who.name);
	add_text(row, "command", facts->who.command);
	add_text(row, "job", facts->who.job);
	add_rank(row, "rank", facts->who.rank);
	add_rank(row, "world_size", facts->who.world_size);
	add_text(row, "host", facts->who.host);
	add_text(row, "label", facts->label);
	add_text(row, "status", capture_status_word(facts->status));
	add_text(row, "reason_code", cancel_reason_word(facts->reason_code));
	if (*facts->reason)
		add_text(row, "reason", facts->reason);
	else
		cJSON_AddNullToObject(row, "reason");
	time_text(facts->started, time);
	add_text(row, "started_at", time);
	if (facts->finished) {
		time_text(facts->finished, time);
		add_text(row, "finished_at", time);
	} else {
		cJSON_AddNullToObject(row, "finished_at");
	}
	cJSON_AddNumberToObject(row, "steps_recorded", (double)facts->steps_recorded);
	cJSON_AddNumberToObject(row, "steps_wanted", (double)facts->steps_wanted);
	cJSON_AddNumberToObject(row, "events", (double)facts->events);
	cJSON_AddNumberToObject(row, "lost", (double)facts->lost);
	cJSON_AddNumberToObject(row, "bytes", (double)facts->bytes);
	if (facts->step_ns)
		cJSON_AddNumberToObject(row, "step_ns", (double)facts->step_ns);
	else
		cJSON_AddNullToObject(row, "step_ns");
	cJSON_AddBoolToObject(row, "simulated", facts->simulated);
	cJSON_AddBoolToObject(row, "pinned", facts->pinned);
}
