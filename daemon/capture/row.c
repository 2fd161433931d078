/* row.c - CAPTURE of docs/protocol.md: what clients are told about a capture. Thread: the loop's. No locks. */
#include "row.h"
#include "daemon/core/json.h"
#include "capture.h"
#include "daemon/core/server.h"
#include "daemon/core/namespaces.h"

void capture_describe(const struct server *server, uint64_t viewer, const struct capture_facts *facts, cJSON *row)
{
	char id[ID_BYTES];
	capture_id_text(facts->number, server->user, id);
	cJSON_AddStringToObject(row, "capture_id", id);
	trigger_id_text(facts->trigger, server->user, id);
	cJSON_AddStringToObject(row, "trigger_id", id);
	cJSON_AddNumberToObject(row, "cycle", (double)facts->cycle);
	pid_t pid = namespace_pid(&facts->who, server->pid_namespace, viewer);
	json_add_number(row, "pid", pid > 0, pid);
	cJSON_AddNumberToObject(row, "uid", facts->who.uid);
	cJSON_AddStringToObject(row, "user", facts->who.user);
	cJSON_AddStringToObject(row, "name", facts->who.name);
	cJSON_AddStringToObject(row, "command", facts->who.command);
	cJSON_AddStringToObject(row, "job", facts->who.job);
	json_add_number(row, "rank", facts->who.rank >= 0, facts->who.rank);
	json_add_number(row, "world_size", facts->who.world_size >= 0, facts->who.world_size);
	cJSON_AddStringToObject(row, "host", facts->who.host);
	cJSON_AddStringToObject(row, "label", facts->label);
	cJSON_AddStringToObject(row, "status", capture_status_word(facts->status));
	cJSON_AddStringToObject(row, "reason_code", cancel_reason_word(facts->reason_code));
	json_add_text(row, "reason", *facts->reason ? facts->reason : NULL);
	json_add_time(row, "started_at", facts->started);
	json_add_time(row, "finished_at", facts->finished);
	cJSON_AddNumberToObject(row, "steps_recorded", (double)facts->steps_recorded);
	cJSON_AddNumberToObject(row, "steps_wanted", (double)facts->steps_wanted);
	cJSON_AddNumberToObject(row, "events", (double)facts->events);
	cJSON_AddNumberToObject(row, "lost", (double)facts->lost);
	cJSON_AddNumberToObject(row, "bytes", (double)facts->bytes);
	json_add_number(row, "step_ns", facts->step_ns, (double)facts->step_ns);
	cJSON_AddBoolToObject(row, "simulated", facts->simulated);
	cJSON_AddBoolToObject(row, "pinned", facts->pinned);
}
