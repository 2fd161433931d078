/* trigger_reply.c - see trigger_reply.h. Thread: the loop's. No locks. */
#include "trigger_reply.h"

#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/history.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/server.h"
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct put_trigger {
	struct work work;
	struct server *server;
	uint64_t number;
	uid_t uid;
	pid_t pid;
	char text[];
};

static int64_t put_trigger_run(struct work *work)
{
	struct put_trigger *put = (struct put_trigger *)work;
	catalogue_put_trigger(catalogue_of(put->server), put->number, put->uid, put->pid, put->text);
	free(put);
	return WORK_DONE;
}

/* At most this much of a request is kept in the catalogue. */
#define TRIGGER_TEXT_BYTES 4096
void reply_prepare_note(struct trigger *trigger, const char *text, size_t n)
{
	if (n > TRIGGER_TEXT_BYTES)
		n = TRIGGER_TEXT_BYTES;
	struct put_trigger *put = calloc(1, sizeof *put + n + 1);
	if (!put)
		return;
	put->work.run = put_trigger_run;
	put->server = trigger->server;
	put->number = trigger->number;
	put->uid = trigger->by.uid;
	put->pid = trigger->by.pid;
	memcpy(put->text, text, n);
	text_clean(put->text, n);
	trigger->unnoted = put;
}

static void audit(const struct trigger *trigger, const struct identity *target, const char *subject,
		  const char *outcome, bool refused)
{
	struct audit_entry entry = {.by = trigger->by,
				    .user = trigger->user,
				    .trusted = trigger->admin,
				    .refused = refused,
				    .action = trigger->dry_run ? "estimate" : "trigger",
				    .outcome = outcome,
				    .subject = subject,
				    .target_pid = target ? target->pid : 0,
				    .target_uid = target ? target->uid : (uid_t)-1};
	audit_put(trigger->server, &entry);
}

void reply_audit_target(const struct trigger *trigger, const struct identity *target, enum error error)
{
	char id[ID_BYTES] = "";
	if (!trigger->dry_run)
		trigger_id_text(trigger->number, trigger->server->user, id);
	audit(trigger, target, id, error ? error_word(error) : "armed", error != ERROR_NONE);
}

void reply_note(struct trigger *trigger)
{
	struct put_trigger *put = trigger->unnoted;
	if (!put || trigger->waiting)
		return;
	trigger->unnoted = NULL;
	if (!catalogue_submit(catalogue_of(trigger->server), &put->work))
		free(put);
	char id[ID_BYTES], subject[128];
	trigger_id_text(trigger->number, trigger->server->user, id);
	snprintf(subject, sizeof subject, "%s: %u armed, %u refused", id, trigger->armed, trigger->refused);
	bool none = !trigger->armed && !trigger->wait_until;
	audit(trigger, trigger->targets == 1 ? &trigger->target : NULL, subject,
	      trigger->armed	     ? "armed"
	      : trigger->first_error ? error_word(trigger->first_error)
	      : trigger->wait_until  ? "waiting"
				     : error_word(ERROR_NO_TARGET),
	      none);
}

void reply_note_end(const struct trigger *trigger)
{
	char id[ID_BYTES], subject[128];
	if (trigger->armed)
		return;
	trigger_id_text(trigger->number, trigger->server->user, id);
	snprintf(subject, sizeof subject, "%s: what was started has ended, and nothing of it was armed", id);
	audit(trigger, NULL, subject, error_word(trigger->first_error ? trigger->first_error : ERROR_NO_STEPS), true);
}

cJSON *reply_target(const struct trigger *trigger, const struct process *process, int32_t pid, enum error error)
{
	cJSON *row = conn_row_new("target");
	int32_t shown = process ? registry_visible_pid(process, trigger->pid_namespace) : pid;
	json_add_number(row, "pid", shown > 0, shown);
	if (process) {
		cJSON_AddStringToObject(row, "name", process->who.name);
		json_add_number(row, "rank", process->who.rank >= 0, process->who.rank);
	}
	cJSON_AddStringToObject(row, "outcome", error ? error_word(error) : "armed");
	return row;
}

void reply_row(struct trigger *trigger, cJSON *row)
{
	if (trigger->conn)
		conn_row(trigger->conn, row);
	else
		cJSON_Delete(row);
}

void reply_refused(struct trigger *trigger, const struct process *process, int32_t pid, enum error error,
		   const char *detail)
{
	char text[SENTENCE_BYTES], number[80];
	int32_t shown = process ? registry_visible_pid(process, trigger->pid_namespace) : pid;
	if (shown > 0)
		snprintf(number, sizeof number, error == ERROR_NO_TARGET ? "pid %d" : "%d", shown);
	else
		text_copy(number, sizeof number, process ? process->who.name : "?");
	const char *format = error_sentence(error);
	bool own = format && strcmp(format, "%s") == 0;
	error_text(error, own ? detail : error == ERROR_NOT_YOURS ? "that process" : number, text);
	cJSON *row = reply_target(trigger, error == ERROR_NOT_YOURS ? NULL : process, shown, error);
	cJSON_AddStringToObject(row, "message", text);
	/* A pid of another namespace means nothing here. */
	bool known = process || trigger->pid_namespace == trigger->server->pid_namespace;
	struct identity target = {.uid = (uid_t)-1};
	if (known) {
		target.pid = process ? process->who.pid : pid;
		target.uid = process ? process->who.uid : audit_owner(pid);
	}
	trigger->target = target;
	trigger->targets++;
	bool alone = trigger->request.pid_count == 1 && !trigger->dry_run;
	if (!alone && (error == ERROR_NOT_YOURS || error == ERROR_QUOTA))
		reply_audit_target(trigger, &target, error);
	reply_row(trigger, row);
	trigger->refused++;
	if (!trigger->first_error) {
		trigger->first_error = error;
		text_copy(trigger->first_sentence, sizeof trigger->first_sentence, text);
		trigger->first_pid = shown;
	}
}

static void tell_nobody(const struct trigger_request *request, char text[SENTENCE_BYTES])
{
	char what[160];
	if (*request->name || *request->job) {
		snprintf(what, sizeof what, "%s%s", *request->name ? "the name " : "the job ",
			 *request->name ? request->name : request->job);
		error_text(ERROR_NO_TARGET, what, text);
		return;
	}
	text_copy(
		text, SENTENCE_BYTES,
		"no process that you may trigger is registered; `profd run -- COMMAND` starts one, `profd doctor --pid PID` says "
		"why one is missing");
}

void reply_end(struct trigger *trigger)
{
	struct conn *conn = trigger->conn;
	trigger->conn = NULL;
	if (!conn)
		return;
	conn->follows = false;
	if (trigger->armed == 0) {
		cJSON *end = cJSON_CreateObject(), *object = cJSON_AddObjectToObject(end, "error");
		enum error error = trigger->first_error ? trigger->first_error
				   : trigger->left_out	? ERROR_NO_STEPS
							: ERROR_NO_TARGET;
		char text[SENTENCE_BYTES];
		tell_nobody(&trigger->request, text);
		if (trigger->left_out)
			text_copy(
				text, sizeof text,
				"the matching processes are launchers or helpers without steps; name those that step: "
				"`profd ps` lists them");
		cJSON_AddStringToObject(object, "code", error_word(error));
		cJSON_AddStringToObject(object, "message", trigger->first_error ? trigger->first_sentence : text);
		if (trigger->first_pid)
			cJSON_AddNumberToObject(object, "pid", trigger->first_pid);
		conn_end(conn, end);
		return;
	}
	cJSON *end = cJSON_CreateObject();
	char id[ID_BYTES];
	trigger_id_text(trigger->number, trigger->server->user, id);
	cJSON_AddStringToObject(end, "trigger_id", id);
	conn_end(conn, end);
}

static void tell_accepted(struct trigger *trigger)
{
	char id[ID_BYTES];
	trigger_id_text(trigger->number, trigger->server->user, id);
	cJSON *row = conn_row_new("accepted");
	cJSON_AddStringToObject(row, "trigger_id", id);
	cJSON_AddNumberToObject(row, "armed", trigger->armed);
	cJSON_AddNumberToObject(row, "refused", trigger->refused);
	reply_row(trigger, row);
}

void reply_accepted(struct trigger *trigger)
{
	if (trigger->accepted_told || !trigger->armed)
		return;
	trigger->accepted_told = true;
	counters_triggered(&trigger->server->counters, ERROR_NONE);
	tell_accepted(trigger);
}

void reply_waiting(struct trigger *trigger)
{
	struct conn *conn = trigger->conn;
	tell_accepted(trigger);
	trigger->conn = NULL;
	if (!conn)
		return;
	conn->follows = false;
	conn_end(conn, NULL);
}
