/* snapshot.c - see snapshot.h. */
#include "snapshot.h"

#include "client/ui/json.h"
#include "client/ui/text.h"

#include "proto/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A process stands still if it has shown no step for this long, and for this many of its usual steps. */
#define STALLED_NS 60000000000ll
#define STALLED_STEPS 20
#define TIMEOUT_NS 120000000000ll

static const char *text_of(const cJSON *row, const char *key)
{
	const char *text = json_text(row, key);

	return text ? text : "";
}

/* --- picking --- */

/* Does "0,3,8-15" hold the rank? With rank -1: is it such a list? */
static bool in_ranks(const char *ranks, int64_t rank, bool *ret_valid)
{
	bool found = false;

	*ret_valid = true;
	for (const char *at = ranks;;) {
		char *end;
		long from, to;

		if (*at < '0' || *at > '9') {
			*ret_valid = false;
			return false;
		}
		from = to = strtol(at, &end, 10);
		if (*end == '-' && end[1] >= '0' && end[1] <= '9')
			to = strtol(end + 1, &end, 10);
		found = found || (rank >= from && rank <= to);
		if (to < from || (*end && *end != ',')) {
			*ret_valid = false;
			return false;
		}
		if (!*end)
			return found;
		at = end + 1;
	}
}

const char *snapshot_ranks_refusal(const char *ranks)
{
	bool valid;

	in_ranks(ranks, -1, &valid);
	return valid ? NULL : "ranks are wanted with commas between, such as 0,3 or 0-7";
}

static bool is_user(const cJSON *process, const char *user)
{
	char number[24];

	snprintf(number, sizeof number, "%.0f", json_number(process, "uid", -1));
	return strcmp(text_of(process, "user"), user) == 0 || strcmp(number, user) == 0;
}

/* Everything but the step time. */
static bool meets(const cJSON *process, const struct criteria *criteria)
{
	int64_t rank = (int64_t)json_number(process, "rank", -1);
	bool valid, listed = criteria->pid_count == 0;

	if (criteria->name && !glob_matches(criteria->name, text_of(process, "name")))
		return false;
	if (criteria->user && !is_user(process, criteria->user))
		return false;
	if (criteria->job && strcmp(criteria->job, text_of(process, "job")) != 0)
		return false;
	for (size_t i = 0; i < criteria->pid_count && !listed; i++)
		listed = (double)criteria->pids[i] == json_number(process, "pid", 0);
	return listed && (!criteria->ranks || rank < 0 || in_ranks(criteria->ranks, rank, &valid));
}

static int by_place(const void *a, const void *b)
{
	const cJSON *one = *(cJSON *const *)a, *other = *(cJSON *const *)b;
	static const char *const texts[] = {"daemon", "user", "job", "name"};
	static const char *const numbers[] = {"rank", "pid"};
	int order = 0;

	for (size_t i = 0; !order && i < sizeof texts / sizeof *texts; i++)
		order = strcmp(text_of(one, texts[i]), text_of(other, texts[i]));
	for (size_t i = 0; !order && i < sizeof numbers / sizeof *numbers; i++) {
		double left = json_number(one, numbers[i], -1), right = json_number(other, numbers[i], -1);

		order = (left > right) - (left < right);
	}
	return order;
}

static bool together(const struct unit *unit, unsigned daemon, const cJSON *process)
{
	const cJSON *first = unit->members[0].process;
	const char *job = text_of(process, "job");

	return unit->daemon == daemon && *job && strcmp(job, text_of(first, "job")) == 0 &&
	       json_number(process, "uid", -1) == json_number(first, "uid", -1);
}

static bool shows_steps(const cJSON *process)
{
	return strcmp(text_of(process, "step_source"), "none") != 0;
}

/* If a process of a job steps, its launchers and helpers are left out. */
static void leave_out_helpers(struct unit *unit)
{
	size_t kept = 0;
	bool any = false;

	for (size_t i = 0; i < unit->count; i++)
		any = any || shows_steps(unit->members[i].process);
	for (size_t i = 0; any && i < unit->count; i++) {
		if (shows_steps(unit->members[i].process))
			unit->members[kept++] = unit->members[i];
		else
			cJSON_Delete(unit->members[i].process);
	}
	if (any)
		unit->count = kept;
}

static void keep_one(struct unit *unit)
{
	while (unit->count > 1)
		cJSON_Delete(unit->members[--unit->count].process);
}

static void add_member(struct unit *unit, const cJSON *process)
{
	struct member *member;

	unit->members = need(reallocarray(unit->members, unit->count + 1, sizeof *unit->members));
	member = &unit->members[unit->count++];
	*member = (struct member){.process = need(cJSON_Duplicate(process, true)), .busy = -1, .history = -1};
	member->pid = (int64_t)json_number(process, "pid", 0);
	member->rank = (int64_t)json_number(process, "rank", -1);
}

/* Counts all processes that live, not only those that are picked. */
static bool has_double(const cJSON *processes, const cJSON *process)
{
	struct who who = who_of(process, false);
	const cJSON *other;

	cJSON_ArrayForEach(other, processes)
	{
		struct who one = who_of(other, false);

		if (other != process && shows_steps(other) && who_same(&who, &one) &&
		    json_number(other, "pid", 0) != json_number(process, "pid", 0))
			return true;
	}
	return false;
}

struct unit *snapshot_pick(const cJSON *processes, const char *const *paths, unsigned path_count,
			   const struct criteria *criteria, size_t *ret_count, size_t *ret_fast)
{
	cJSON *sorted = need(cJSON_Duplicate(processes, true));
	struct unit *units = NULL;
	const cJSON *process;
	size_t count = 0;

	*ret_fast = 0;
	json_sort(sorted, by_place);
	cJSON_ArrayForEach(process, sorted)
	{
		unsigned daemon = 0;
		size_t u = 0;

		while (daemon < path_count && strcmp(paths[daemon], text_of(process, "daemon")) != 0)
			daemon++;
		if (daemon == path_count || !meets(process, criteria))
			continue;
		if (criteria->least_step && json_number(process, "step_ns", 0) < (double)criteria->least_step) {
			*ret_fast += shows_steps(process);
			continue;
		}
		while (u < count && !together(&units[u], daemon, process))
			u++;
		if (u == count) {
			units = need(reallocarray(units, ++count, sizeof *units));
			units[u] = (struct unit){.daemon = daemon, .deleted = need(cJSON_CreateArray())};
		}
		add_member(&units[u], process);
		units[u].members[units[u].count - 1].by_pid = has_double(sorted, process);
	}
	for (size_t u = 0; u < count; u++) {
		leave_out_helpers(&units[u]);
		if (criteria->one_per_job)
			keep_one(&units[u]);
	}
	cJSON_Delete(sorted);
	*ret_count = count;
	return units;
}

void snapshot_free(struct unit *units, size_t count)
{
	for (size_t u = 0; u < count; u++) {
		for (size_t i = 0; i < units[u].count; i++) {
			cJSON_Delete(units[u].members[i].process);
			cJSON_Delete(units[u].members[i].captured);
		}
		free(units[u].members);
		cJSON_Delete(units[u].deleted);
	}
	free(units);
}

/* --- times --- */

bool snapshot_is_stalled(const char *last_step_at, int64_t step, int64_t now_realtime, int64_t *ret_ago)
{
	struct tm broken = {0};
	const char *rest = last_step_at ? strptime(last_step_at, "%Y-%m-%dT%H:%M:%S", &broken) : NULL;
	int64_t least = step > 0 && step < INT64_MAX / STALLED_STEPS ? step * STALLED_STEPS : STALLED_NS;

	*ret_ago = rest ? now_realtime - (int64_t)timegm(&broken) * 1000000000 : 0;
	return rest && *ret_ago > (least > STALLED_NS ? least : STALLED_NS);
}

int64_t snapshot_timeout(int64_t timeout, int64_t steps, int64_t step)
{
	int64_t wanted;

	if (timeout)
		return timeout;
	if (__builtin_mul_overflow(step, 3 * (steps + 1), &wanted) || wanted > (int64_t)LIMIT_DURATION_NS)
		wanted = (int64_t)LIMIT_DURATION_NS;
	return wanted > TIMEOUT_NS ? wanted : TIMEOUT_NS;
}

int64_t snapshot_start(size_t i, size_t n, int64_t stagger, double random)
{
	double share = n ? (double)stagger / (double)n : 0;

	return (int64_t)(share * ((double)i + random));
}
