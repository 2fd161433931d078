/* sweep.c - see sweep.h. */
#include "sweep.h"

#include "proto/base/array.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

static int read_steps(struct sweep *s, const struct reader *r)
{
	sqlite3_stmt *statement;
	size_t size = 0;
	int error = 0, row;
	if (sqlite3_prepare_v2(
		    r->db,
		    "SELECT thread, start, duration FROM steps WHERE source IS NOT 5 ORDER BY thread, start, duration DESC",
		    -1, &statement, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (row = sqlite3_step(statement)) == SQLITE_ROW) {
		struct step step = {.thread = (uint32_t)sqlite3_column_int64(statement, 0)};
		step.start = sweep_clamp(sqlite3_column_int64(statement, 1), -SWEEP_TIME_LIMIT);
		step.end = step.start + sweep_clamp(sqlite3_column_int64(statement, 2), 0);
		const struct step *last = s->step_count ? &s->steps[s->step_count - 1] : NULL;
		if (last && last->thread == step.thread && last->end > step.start)
			continue; /* in a broken file: it has no track to keep free */
		if (!ARRAY_GROW(s->steps, s->step_count, size))
			error = -ENOMEM;
		else
			s->steps[s->step_count++] = step;
	}
	sqlite3_finalize(statement);
	return error ? error : row == SQLITE_DONE ? 0 : -EIO;
}

int sweep_init(struct sweep *s, struct nesting *nesting, const struct reader *r)
{
	*s = (struct sweep){.nesting = nesting};
	return read_steps(s, r);
}

void sweep_deinit(struct sweep *s)
{
	for (unsigned i = 0; i < NESTING_LANES; i++)
		free(s->lanes[i].all);
	free(s->steps);
}

static int begin_track(struct sweep *s, uint64_t track)
{
	struct nesting *n = s->nesting;
	if (!ARRAY_GROW(n->tracks, n->track_count, s->track_size))
		return -ENOMEM;
	n->tracks[n->track_count++] = (struct nesting_track){.track = track, .lanes = 1};
	s->track = track;
	s->begun = true;
	for (unsigned i = 0; i < NESTING_LANES; i++)
		s->lanes[i].used = 0;
	size_t from = 0;
	while (from < s->step_count && s->steps[from].thread < track)
		from++;
	s->steps_from = s->steps_at = from;
	while (s->steps_at < s->step_count && s->steps[s->steps_at].thread == track)
		s->steps_at++;
	return 0;
}

/* Does the slice overlap a step without one holding the other? */
static bool crosses_step(struct sweep *s, int64_t start, int64_t end)
{
	while (s->steps_at > s->steps_from && s->steps[s->steps_at - 1].start >= end)
		s->steps_at--;
	if (s->steps_at == s->steps_from)
		return false;
	const struct step *last = &s->steps[s->steps_at - 1];
	if (end < last->end)
		return start < last->start;
	/* The last one ends before the slice does: the slice must not begin inside of any. */
	size_t low = s->steps_from +
		     ARRAY_BEFORE(s->steps_at - s->steps_from, at, s->steps[s->steps_from + at].start < start);
	if (low == s->steps_from)
		return false;
	const struct step *around = &s->steps[low - 1];
	return start < around->end && end > around->end;
}

static bool fits(struct lane *lane, int64_t start, int64_t end)
{
	while (lane->used && lane->all[lane->used - 1].start >= end)
		lane->used--;
	return lane->used == 0 || lane->all[lane->used - 1].start <= start;
}

/* Row of the innermost operator around the next slice, on whatever lane it is; 0 = none. */
static uint32_t operator_around(struct sweep *s, int64_t start, int64_t end)
{
	const struct nesting_track *own = &s->nesting->tracks[s->nesting->track_count - 1];
	const struct opened *found = NULL;
	for (unsigned i = 0; i < own->lanes; i++) {
		const struct lane *lane = &s->lanes[i];
		if (!fits(&s->lanes[i], start, end) || !lane->used)
			continue;
		const struct opened *last = &lane->all[lane->used - 1];
		if (last->within && (!found || last->start > found->start))
			found = last;
	}
	return found ? found->within : 0;
}

int sweep_take(struct sweep *s, enum nesting_table table, int64_t row, uint64_t track, int64_t start, int64_t end)
{
	if (!s->begun || s->track != track) {
		int error = begin_track(s, track);
		if (error)
			return error;
	}
	struct nesting *n = s->nesting;
	unsigned lane = crosses_step(s, start, end) ? 1 : 0;
	while (lane < NESTING_LANES && !fits(&s->lanes[lane], start, end))
		lane++;
	if (table == NESTING_API_CALLS && n->call_operators && (uint64_t)row - (uint64_t)n->call_first < n->call_count)
		n->call_operators[row - n->call_first] = operator_around(s, start, end);
	if (lane < NESTING_LANES) {
		struct lane *on = &s->lanes[lane];
		uint32_t within = on->used ? on->all[on->used - 1].within : 0;
		if (end > start) {
			if (!ARRAY_GROW(on->all, on->used, on->size))
				return -ENOMEM;
			on->all[on->used++] = (struct opened){
				.start = start,
				.within = table == NESTING_OPERATORS ? (uint32_t)row : within,
			};
		}
	}
	if (lane == 0)
		return 0;
	if (!ARRAY_GROW(n->moves[table], n->move_count[table], s->move_size[table]))
		return -ENOMEM;
	n->moves[table][n->move_count[table]++] = (struct nesting_move){
		.row = row,
		.lane = lane < NESTING_LANES ? (uint8_t)lane : NESTING_ASYNC,
	};
	struct nesting_track *own = &n->tracks[n->track_count - 1];
	if (lane < NESTING_LANES && own->lanes <= lane)
		own->lanes = (uint8_t)(lane + 1);
	return 0;
}

int sweep_add_step_tracks(struct sweep *s)
{
	int error = 0;
	size_t swept = s->nesting->track_count;
	for (size_t i = 0; i < s->step_count && !error; i++) {
		bool there = i > 0 && s->steps[i - 1].thread == s->steps[i].thread;
		for (size_t k = 0; k < swept && !there; k++)
			there = s->nesting->tracks[k].track == s->steps[i].thread;
		if (!there)
			error = begin_track(s, s->steps[i].thread);
	}
	return error;
}
