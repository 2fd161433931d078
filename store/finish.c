/* finish.c - see finish.h. No locks. */
#include "finish.h"
#include "proto/base/clock.h"
#include "derive.h"
#include "proto/message.h"
#include "summary.h"
#include "verdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is being finished. */
struct finish {
	struct store *store;
	struct totals *totals;
	struct device *device;
	struct store_ending *ending;
	struct capture_facts *facts;
	const struct store_watch *watch;
	struct store_finished *result;
};

/* Kernels that were launched but not recorded, less those that other losses count. */
static uint64_t missing_kernels(const struct finish *finish, const struct derived *derived)
{
	uint64_t told = 0;
	for (unsigned loss = 0; loss < LOSS_COUNT; loss++)
		if (loss_is_loss(loss))
			told += finish->ending->lost[loss][EVENT_KERNEL] + finish->ending->lost[loss][0];
	return derived->bare > told ? derived->bare - told : 0;
}

static uint64_t put_losses(struct finish *finish, const struct derived *derived)
{
	struct store *store = finish->store;
	sqlite3_stmt *statement = store_prepare(
		store, "INSERT INTO losses (kind, loss, count, is_loss, sentence) VALUES (?, ?, ?, ?, ?)");
	uint64_t lost = 0;
	for (unsigned loss = 0; statement && loss < LOSS_COUNT; loss++) {
		for (unsigned kind = 0; kind < EVENT_KIND_COUNT && !store->error; kind++) {
			uint64_t count = finish->ending->lost[loss][kind];
			if (count > STORE_LOST_MOST)
				count = STORE_LOST_MOST;
			if (loss == LOSS_DOUBTFUL)
				count += derived->doubtful[kind];
			if (loss == LOSS_UNLAUNCHED)
				count += derived->unlaunched[kind];
			if (loss == LOSS_MANGLED && kind == EVENT_KERNEL)
				count += derived->mangled;
			if (loss == LOSS_MISSING && kind == EVENT_KERNEL)
				count += missing_kernels(finish, derived);
			if (loss == LOSS_EARLIER)
				count += derived->earlier[kind];
			if (count == 0 || !loss_name(loss))
				continue;
			finish->result->lost[loss] += count;
			const char *name = event_name(kind);
			sqlite3_bind_text(statement, 1, name ? name : "event", -1, SQLITE_STATIC);
			sqlite3_bind_text(statement, 2, loss_name(loss), -1, SQLITE_STATIC);
			sqlite3_bind_int64(statement, 3, (int64_t)count);
			sqlite3_bind_int(statement, 4, loss_is_loss(loss));
			sqlite3_bind_text(statement, 5, loss_sentence(loss), -1, SQLITE_STATIC);
			if (sqlite3_step(statement) != SQLITE_DONE)
				store_fail(store, "writing");
			sqlite3_reset(statement);
			if (loss_is_loss(loss))
				lost = lost + count > STORE_LOST_MOST ? STORE_LOST_MOST : lost + count;
		}
	}
	sqlite3_finalize(statement);
	return lost;
}

/* What a collector recorded that ran and said nothing; or why one did not run that nobody wanted. */
static const char *collector_sentence(unsigned bit, const struct store_collector *collector, char *text, size_t bytes)
{
	if (*collector->sentence)
		return collector->sentence;
	if (collector->wanted && !collector->told)
		return "the agent did not say whether it ran";
	if (collector->wanted && !collector->ran)
		return "the agent did not say why it did not run";
	const struct collector_facts *facts = collector_facts(bit);
	if (!*facts->records)
		return "this release of profd does not record it";
	if (collector->ran)
		return facts->records;
	snprintf(text, bytes, *facts->option ? "not asked for (--%s)" : "not asked for", facts->option);
	return text;
}

static void put_collectors(struct finish *finish)
{
	struct store *store = finish->store;
	sqlite3_stmt *statement = store_prepare(
		store, "INSERT INTO collectors (collector, wanted, ran, enable, sentence) VALUES (?, ?, ?, ?, ?)");
	for (unsigned bit = 0; statement && bit < COLLECTOR_COUNT && !store->error; bit++) {
		const struct store_collector *collector = &finish->ending->collectors[bit];
		const char *word = collector_word(bit);
		if (!word)
			continue;
		char text[64];
		const char *sentence = collector_sentence(bit, collector, text, sizeof text);
		sqlite3_bind_text(statement, 1, word, -1, SQLITE_STATIC);
		sqlite3_bind_int(statement, 2, collector->wanted);
		sqlite3_bind_int(statement, 3, collector->ran);
		if (collector->ran && collector->enable)
			sqlite3_bind_int64(statement, 4, (int64_t)(collector->enable & INT64_MAX));
		else
			sqlite3_bind_null(statement, 4);
		sqlite3_bind_text(statement, 5, sentence, -1, SQLITE_STATIC);
		if (sqlite3_step(statement) != SQLITE_DONE)
			store_fail(store, "writing");
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
}

static void meta_known(struct store *store, const char *key, uint64_t value)
{
	if (value)
		store_meta_int(store, key, (int64_t)(value & INT64_MAX));
}

static void put_boundary(struct store *store, const char *key, uint64_t time)
{
	if (store->base && time && time <= INT64_MAX)
		store_meta_int(store, key, (int64_t)(time - store->base));
}

static void put_processors(struct store *store, const struct store_processors *processors)
{
	meta_known(store, "processors", processors->machine);
	meta_known(store, "processors_allowed", processors->allowed);
	meta_known(store, "processors_limit", processors->limit);
	if (!processors->limit || !processors->periods)
		return;
	store_meta_int(store, "quota_periods", (int64_t)(processors->periods & INT64_MAX));
	store_meta_int(store, "quota_stopped", (int64_t)(processors->stopped & INT64_MAX));
}

static void put_meta(struct finish *finish)
{
	struct store *store = finish->store;
	const struct capture_facts *facts = finish->facts;
	const struct store_ending *ending = finish->ending;
	store_put_facts(store, facts);
	store_meta_text(store, "capture_id", ending->id);
	store_meta_text(store, "trigger_id", ending->trigger_id);
	put_boundary(store, "record_start", ending->record_start);
	put_boundary(store, "record_end", ending->record_end);
	store_meta_text(store, "status", capture_status_word(facts->status));
	if (*facts->reason)
		store_meta_text(store, "reason", facts->reason);
	store_meta_text(store, "reason_code", cancel_reason_word(facts->reason_code));
	if (ending->has_done || ending->step_source) {
		const char *source = step_source_word(ending->step_source);
		store_meta_text(store, "step_source", source ? source : "");
	}
	if (ending->has_done) {
		store_meta_int(store, "other_thread_steps", (int64_t)(ending->other_thread_steps & INT64_MAX));
		store_meta_int(store, "late_steps", (int64_t)ending->late);
		store_meta_int(store, "enable", (int64_t)(ending->enable & INT64_MAX));
		store_meta_int(store, "drain", (int64_t)(ending->drain & INT64_MAX));
		store_meta_int(store, "agent_cpu", (int64_t)(ending->agent_cpu & INT64_MAX));
		store_meta_int(store, "agent_bytes", (int64_t)(ending->agent_bytes & INT64_MAX));
		meta_known(store, "clock_off", ending->clock_off);
	}
	if (*ending->step_range)
		store_meta_text(store, "step_range", ending->step_range);
	meta_known(store, "step_before", ending->step_before);
	meta_known(store, "step_during", ending->step_during);
	put_processors(store, &ending->processors);
	store_meta_int(store, "events", (int64_t)facts->events);
	store_meta_int(store, "lost", (int64_t)facts->lost);
	store_meta_int(store, "simulated", facts->simulated);
	store_run(store, "DELETE FROM meta WHERE key IN ('segment_device', 'segment_inode', 'finish_attempts') OR key "
			 "GLOB 'handoff_*'");
}

/* Corrects the status that the caller gave by what is really in the file. */
static void judge(struct capture_facts *facts, const struct derived *derived)
{
	facts->steps_recorded = derived->steps;
	facts->step_ns = derived->step_ns;
	facts->events = derived->events;
	facts->simulated = derived->simulated;
	if (*derived->trouble && facts->status == CAPTURE_COMPLETE) {
		facts->status = CAPTURE_INCOMPLETE;
		facts->reason_code = REASON_DAEMON;
		snprintf(facts->reason, sizeof facts->reason, "the GPU's records were not put into order: %.300s",
			 derived->trouble);
	}
	if (facts->status == CAPTURE_COMPLETE && derived->notes.missing_step) {
		facts->status = CAPTURE_INCOMPLETE;
		facts->reason_code = REASON_AGENT;
		notes_missing(&derived->notes, facts->reason, sizeof facts->reason);
	}
	if (facts->steps_recorded < facts->steps_wanted && facts->status == CAPTURE_COMPLETE) {
		facts->status = CAPTURE_INCOMPLETE;
		facts->reason_code = REASON_AGENT;
		snprintf(facts->reason, sizeof facts->reason, "%llu of %llu steps were recorded",
			 (unsigned long long)facts->steps_recorded, (unsigned long long)facts->steps_wanted);
	}
	if (facts->events == 0 && facts->steps_recorded == 0)
		facts->status = CAPTURE_FAILED;
}

/* ns from the last boundary until now. If that is not known: from DONE. */
static uint64_t since_last(const struct store_ending *ending)
{
	uint64_t now = clock_monotonic(), end = ending->record_end;
	/* An imported trace ended at some time of some clock. */
	if (!ending->done_at)
		return 0;
	if (end == 0 || end > now || end + 3600ull * 1000000000u < now)
		end = ending->done_at;
	return end && end < now ? now - end : 0;
}

static const char disk_is_full[] = "no space is left on the disk of the store to find out what launched what";

static void undo(struct store *store)
{
	store_rollback(store);
	store->error = 0;
	*store->sentence = 0;
}

/* Rows that were committed before the disk was full are good. The file is ended with little room, and with nothing
 * that can grow. */
static void end_without_disk(struct finish *finish)
{
	struct store *store = finish->store;
	struct capture_facts *facts = finish->facts;
	bool full = store->error == -ENOSPC;
	facts->status = CAPTURE_INCOMPLETE;
	facts->reason_code = REASON_DAEMON;
	text_copy(facts->reason, sizeof facts->reason, store->sentence);
	undo(store);
	finish->totals->incomplete = true;
	if (full)
		file_without_disk(store);
}

/* first: nothing had gone wrong before. Otherwise the reason stands already, and this error follows from it. */
static int spoil(struct finish *finish, bool first)
{
	struct store *store = finish->store;
	struct capture_facts *facts = finish->facts;
	int error = store->error ? store->error : -EIO;
	facts->status = CAPTURE_FAILED;
	facts->reason_code = REASON_DAEMON;
	if (first)
		text_copy(facts->reason, sizeof facts->reason,
			  *store->sentence ? store->sentence : "its file could not be written");
	file_discard(store);
	return error;
}

/* So many times the daemon may end while it finishes a capture. Then the capture is taken for the cause, and is not
 * tried again. */
#define ATTEMPTS_MOST 3

/* Says in the file that another attempt begins. */
static bool tried_too_often(struct store *store)
{
	int64_t attempts = store_get_int(store, "finish_attempts");
	if (store_meta_int(store, "finish_attempts", attempts + 1) || attempts < ATTEMPTS_MOST)
		return false;
	store->error = -ETIME;
	snprintf(store->sentence, sizeof store->sentence, "the daemon ended %d times while it tried", ATTEMPTS_MOST);
	return true;
}

/* The collector's views then say why they are empty. */
static void leave_out(struct store_collector *collector, const char *why)
{
	if (collector->ran || (collector->wanted && !collector->told))
		text_copy(collector->sentence, sizeof collector->sentence, why);
	collector->ran = false;
}

/* Finishes the capture with its rows as they came: nobody, and no other capture, waits for ever. The file says what
 * was not summed. */
static int without_order(struct finish *finish, struct derived *derived)
{
	struct store *store = finish->store;
	struct capture_facts *facts = finish->facts;
	facts->status = CAPTURE_INCOMPLETE;
	facts->reason_code = store->error == -ECANCELED ? REASON_CANCELLED : REASON_DAEMON;
	snprintf(facts->reason, sizeof facts->reason,
		 "its records are there, but were not put into order, so that totals are missing: %.250s",
		 store->sentence);
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		struct store_collector *collector = &finish->ending->collectors[bit];
		const struct collector_facts *known = collector_facts(bit);
		/* Steps are complete as they came. */
		if (!known || !known->fills || bit == COLLECTOR_STEPS)
			continue;
		leave_out(collector, "its records are in the file, but were not put into order");
	}
	undo(store);
	return derive_nothing(store, finish->totals, derived);
}

static int derive_bounded(struct finish *finish, bool full, const char *no_rest, struct derived *derived)
{
	bool cupti = finish->ending->collectors[COLLECTOR_CUPTI].ran;
	store_watch_begin(finish->store, finish->watch);
	int error = derive_run(finish->store, finish->totals, finish->device, cupti, full, no_rest, derived);
	store_watch_end(finish->store);
	return error;
}

/* The transaction stays open. *ended: something had gone wrong before. */
static int put_into_order(struct finish *finish, struct derived *derived, bool *ended)
{
	struct store *store = finish->store;
	bool full = store->error == -ENOSPC;
	*ended = store->error != 0;
	if (*ended)
		end_without_disk(finish);
	else if (tried_too_often(store))
		return without_order(finish, derived);
	int error = store->error ? store->error : derive_bounded(finish, full, full ? disk_is_full : NULL, derived);
	if (error && error != -ECANCELED && derived->rest_failed) {
		/* Derives the host's side once more, without the part that failed. */
		char trouble[STORE_SENTENCE_BYTES];
		text_copy(trouble, sizeof trouble, store->sentence);
		undo(store);
		finish->totals->incomplete = true;
		error = derive_bounded(finish, false, trouble, derived);
	}
	return error == -ETIME || error == -ECANCELED ? without_order(finish, derived) : error;
}

/* Makes a finished capture of the rows in one transaction: whenever the daemon ends, the file has all of that or
 * nothing. 0 or a negative errno. */
static int put_all(struct finish *finish, struct derived *derived, bool *ended)
{
	struct store *store = finish->store;
	uint64_t began = clock_monotonic(), began_cpu = clock_thread();
	int error = put_into_order(finish, derived, ended);
	if (error)
		return error;
	judge(finish->facts, derived);
	uint64_t derived_at = clock_monotonic();
	finish->result->moved = derived->moved;
	finish->result->derive_ns = derived_at - began;
	finish->result->derive_cpu = clock_thread() - began_cpu;
	memset(finish->result->lost, 0, sizeof finish->result->lost);
	finish->facts->lost = put_losses(finish, derived);
	if (derived->blocks_left)
		leave_out(&finish->ending->collectors[COLLECTOR_ALLOCATIONS],
			  "its records are in the file, but there was no memory to add them up (memory_user)");
	put_collectors(finish);
	put_meta(finish);
	notes_write(&derived->notes, store);
	/* Only for an agent's capture: no imported trace holds NVTX. */
	if (finish->ending->has_done)
		notes_nvtx(&finish->ending->collectors[COLLECTOR_NVTX], store);
	if (derived->collectives_left)
		notes_add(store, "collective operations are not listed: there was no memory for them (memory_user)");
	if (*finish->ending->note)
		notes_add(store, finish->ending->note);
	if (*finish->ending->before)
		notes_add(store, finish->ending->before);
	/* The verdict reads the file itself (breakdown/pages.h). */
	error = store_flush(store);
	if (error)
		return error;
	cJSON *verdict = verdict_run(store, finish->watch, derived, *ended, finish->result->verdict);
	finish->facts->step_ns = derived->step_ns;
	finish->result->since_last = since_last(finish->ending);
	char *text = summary_text(store, finish->ending, derived, finish->result->since_last, verdict);
	if (text)
		store_meta_text(store, "summary", text);
	free(text);
	meta_known(store, "derive", finish->result->since_last);
	error = store_commit(store);
	finish->result->summary_ns = clock_monotonic() - derived_at;
	return error;
}

int finish_run(struct store *store, struct store_ending *ending, struct capture_facts *facts,
	       const struct store_watch *watch, struct store_finished *ret)
{
	struct finish finish = {store, &store->totals, &store->device, ending, facts, watch, ret};
	struct derived derived = {0};
	bool ended = false;
	memset(ret, 0, sizeof *ret);
	facts->finished = clock_realtime();
	file_release(store);
	if (!store->db)
		return spoil(&finish, true);
	int error = put_all(&finish, &derived, &ended);
	/* All rows are there, but there is no room to put them into order. So the file is ended as if the disk had
	 * been full before. */
	if (error == -ENOSPC && !ended)
		error = put_all(&finish, &derived, &ended);
	device_deinit(finish.device);
	if (error)
		return spoil(&finish, !ended);
	uint64_t summed_at = clock_monotonic();
	if (facts->status == CAPTURE_FAILED && !store->error) {
		/* Nothing was recorded, so there is nothing to keep. */
		file_discard(store);
		return 0;
	}
	if (file_publish(store, &facts->bytes, ret->warning))
		return spoil(&finish, !ended);
	ret->kept = true;
	ret->disk_ns = clock_monotonic() - summed_at;
	return 0;
}
