/* schedule.c - see schedule.h. */
#include "schedule.h"
#include "limits.h"

#include <stddef.h>

const char *schedule_check(const struct schedule *s)
{
	if (s->active == 0)
		return "the number of recorded steps must be at least 1";
	if (s->active > LIMIT_STEPS)
		return "at most 100000 steps fit into one capture; use --repeat for more";
	if (s->skip_first > LIMIT_SCHEDULE_STEPS || s->wait > LIMIT_SCHEDULE_STEPS ||
	    s->warmup > LIMIT_SCHEDULE_STEPS || s->repeat > LIMIT_SCHEDULE_STEPS)
		return "a schedule counts to 1000000000 steps at most";
	return NULL;
}

uint64_t schedule_period(const struct schedule *s)
{
	return (uint64_t)s->wait + s->warmup + s->active;
}

enum schedule_state schedule_state(const struct schedule *s, uint64_t position, uint64_t *ret_cycle)
{
	if (ret_cycle)
		*ret_cycle = 0;
	if (position < s->skip_first)
		return SCHEDULE_NONE;
	position -= s->skip_first;
	uint64_t steps = schedule_period(s);
	if (steps == 0)
		return SCHEDULE_NONE;
	uint64_t cycle = position / steps, at = position % steps;
	if (ret_cycle)
		*ret_cycle = cycle;
	if (s->repeat > 0 && cycle >= s->repeat)
		return SCHEDULE_NONE;
	if (at < s->wait)
		return SCHEDULE_NONE;
	if (at < (uint64_t)s->wait + s->warmup)
		return SCHEDULE_WARMUP;
	return at + 1 < steps ? SCHEDULE_RECORD : SCHEDULE_RECORD_AND_SAVE;
}

uint64_t schedule_warmup_at(const struct schedule *s, uint64_t cycle)
{
	return s->skip_first + cycle * schedule_period(s) + s->wait;
}

uint64_t schedule_record_at(const struct schedule *s, uint64_t cycle)
{
	return schedule_warmup_at(s, cycle) + s->warmup;
}

const char *schedule_state_name(enum schedule_state state)
{
	switch (state) {
	case SCHEDULE_NONE:
		return "NONE";
	case SCHEDULE_WARMUP:
		return "WARMUP";
	case SCHEDULE_RECORD:
		return "RECORD";
	case SCHEDULE_RECORD_AND_SAVE:
		return "RECORD_AND_SAVE";
	}
	return NULL;
}
