/* progress.c - see progress.h. Thread: the loop's. No locks. */
#include "progress.h"
#include "daemon/core/json.h"
#include "capture.h"
#include "registry.h"
#include "trigger.h"
#include "daemon/core/connection.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/server.h"

/* At most ten rows of progress a second for each capture. */
#define PROGRESS_NS 90000000ull

void capture_progress(struct capture *capture, uint64_t now)
{
	struct trigger *trigger = capture->trigger;
	if (!trigger)
		return;
	struct conn *conn = trigger->conn;
	if (!conn || conn->queued > CONN_QUEUE_BYTES / 2 || now < capture->told_at + PROGRESS_NS)
		return;
	bool cycle_unbegun = capture->facts.cycle && !capture_has_begun(capture);
	/* Followers are told of a capture only when its note is written: if the daemon were killed before, the next one
	 * would not know the capture. */
	if (capture->unanswered || capture->state == STATE_ASKED || capture->state == STATE_STORING || cycle_unbegun)
		return;
	uint32_t status = capture_status_now(capture), steps = capture->told_steps, warmup = capture->told_warmup;
	if (capture->ingest && capture->ingest->has_segment && capture->state == STATE_RUNNING) {
		steps = capture_steps(capture);
		warmup = atomic_load(&capture->ingest->segment.header->steps_warmup);
	}
	if (capture->told_at && status == capture->told_status && steps == capture->told_steps &&
	    warmup == capture->told_warmup)
		return;
	capture->told_at = now;
	capture->told_status = status;
	capture->told_steps = steps;
	capture->told_warmup = warmup;
	char id[ID_BYTES];
	capture_id_text(capture->facts.number, trigger->server->user, id);
	cJSON *row = conn_row_new("progress");
	cJSON_AddStringToObject(row, "capture_id", id);
	pid_t pid = namespace_pid(&capture->facts.who, trigger->server->pid_namespace, trigger->pid_namespace);
	json_add_number(row, "pid", pid > 0, pid);
	json_add_number(row, "rank", capture->facts.who.rank >= 0, capture->facts.who.rank);
	cJSON_AddStringToObject(row, "status", capture_status_word(status));
	cJSON_AddNumberToObject(row, "step", steps);
	cJSON_AddNumberToObject(row, "of", (double)capture->facts.steps_wanted);
	cJSON_AddNumberToObject(row, "warmup_step", warmup);
	cJSON_AddNumberToObject(row, "elapsed", (double)(now - trigger->began));
	conn_row(conn, row);
}
