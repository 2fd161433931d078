/* derive_busy.c - see derive_busy.h. No locks.
 *
 * It goes once over the operations of a device, in order of time. A track is the device or one of its streams, and
 * knows until when it is busy. An operation adds only time after that to the track, cut at the boundaries of steps. A
 * cell has the sums of one track in one step. When there are many cells, they are added to the rows of the table. */
#include "derive_busy.h"
#include "proto/base/hash.h"
#include "proto/limits.h"
#include "proto/base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many streams of one device have rows of their own, at most. */
#define STREAMS_MAX 65536u
#define CELLS_MAX 65536u
/* So many rows, at most, say that a device did nothing in a step; further ones are left out. A real capture needs at
 * most one for each step and device. */
#define IDLE_MAX (1u << 20)
/* How many times, in all, operations may reach from one step into the next. No real device comes near this. A hostile
 * file could have operations that last hours on very many streams, and everybody would wait for it. */
#define CUTS_MAX (4u << 20)
#define DEVICE_ITSELF (-1)

struct track {
	bool taken;
	uint32_t stream, context;
	int64_t end, kernel_end; /* latest end so far; ns since the base */
	size_t last;		 /* index + 1 of the step that got its time last */
};
#define NEVER INT64_MIN

struct cell {
	uint32_t step; /* 0 = free */
	bool timed;
	int64_t stream;
	uint32_t context;
	uint64_t busy, kernel_busy, gap, gap_start, first, last;
	uint64_t kernels, copies, sets, graphs;
};

struct sweep {
	struct store *store;
	struct memory *memory;
	const struct boundaries *boundaries;
	sqlite3_stmt *insert;
	uint32_t device;
	struct track itself;
	struct track *streams; /* open addressing, capacity a power of two */
	size_t count, capacity;
	struct cell *cells; /* open addressing; CELLS_MAX places, at most half of them used */
	uint32_t *used_cells;
	size_t used;
	uint32_t cuts, idle;
	int error;
};

static int order_of(uint64_t a, uint64_t b)
{
	return ORDER(a, b);
}

static int compare_operations(const void *a, const void *b)
{
	const struct busy_operation *x = a, *y = b;
	int order = order_of(x->device, y->device);
	_Static_assert(LIMIT_STEPS < 1u << 24, "steps fit");
	return order ? order : order_of(x->start, y->start);
}

void busy_init(struct sorter *operations, int folder, struct memory *memory)
{
	sorter_init(operations, folder, memory, sizeof(struct busy_operation), BUSY_MEMORY, compare_operations);
}

uint64_t busy_skew(const struct busy_skews *skews, uint32_t device)
{
	for (uint32_t i = 0; i < skews->count; i++)
		if (skews->of[i].device == device)
			return skews->of[i].ns;
	return 0;
}

/* ---------------------------------------------------------------- tracks */

static struct track *place(struct track *streams, size_t capacity, uint32_t stream)
{
	size_t i = (size_t)hash_of(stream, 0) & (capacity - 1);
	while (streams[i].taken && streams[i].stream != stream)
		i = (i + 1) & (capacity - 1);
	return &streams[i];
}

/* NULL: there are too many streams, or there is no memory. */
static struct track *track_of(struct sweep *sweep, const struct busy_operation *operation)
{
	if (sweep->count * 2 >= sweep->capacity) {
		size_t capacity = sweep->capacity ? sweep->capacity * 2 : 64;
		struct track *grown = capacity > 2ull * STREAMS_MAX
					      ? NULL
					      : memory_get_anyway(sweep->memory, capacity * sizeof *grown);
		if (!grown)
			return NULL;
		for (size_t i = 0; i < sweep->capacity; i++)
			if (sweep->streams[i].taken)
				*place(grown, capacity, sweep->streams[i].stream) = sweep->streams[i];
		memory_put(sweep->memory, sweep->streams, sweep->capacity * sizeof *grown);
		sweep->streams = grown;
		sweep->capacity = capacity;
	}
	struct track *track = place(sweep->streams, sweep->capacity, operation->stream);
	if (!track->taken) {
		*track = (struct track){.taken = true,
					.stream = operation->stream,
					.context = operation->context,
					.end = NEVER,
					.kernel_end = NEVER};
		sweep->count++;
	}
	return track;
}

static int64_t row_of(const struct sweep *sweep, const struct track *track)
{
	return track == &sweep->itself ? DEVICE_ITSELF : (int64_t)track->stream;
}

/* ---------------------------------------------------------------- cells */

static const char insert_sql[] =
	"INSERT INTO step_devices (step, device, stream, context, busy, kernel_busy, gap, gap_start, first, last, "
	"kernels, copies, sets, graphs) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) "
	"ON CONFLICT (step, device, stream) DO UPDATE SET busy = busy + ?5, kernel_busy = kernel_busy + ?6, "
	"gap_start = CASE WHEN ?7 > gap THEN ?8 ELSE gap_start END, gap = max(gap, ?7), "
	"first = min(coalesce(first, ?9), coalesce(?9, first)), last = max(coalesce(last, ?10), coalesce(?10, last)), "
	"kernels = kernels + ?11, copies = copies + ?12, sets = sets + ?13, graphs = graphs + ?14";

static void bind_known(sqlite3_stmt *statement, int at, uint64_t value, bool known)
{
	if (known)
		sqlite3_bind_int64(statement, at, (int64_t)value);
	else
		sqlite3_bind_null(statement, at);
}

static void flush(struct sweep *sweep)
{
	sqlite3_stmt *insert = sweep->insert;
	for (size_t i = 0; i < sweep->used; i++) {
		struct cell *c = &sweep->cells[sweep->used_cells[i]];
		const uint64_t counts[] = {c->kernels, c->copies, c->sets, c->graphs};
		sqlite3_bind_int64(insert, 1, c->step);
		sqlite3_bind_int64(insert, 2, sweep->device);
		sqlite3_bind_int64(insert, 3, c->stream);
		bind_known(insert, 4, c->context, c->stream != DEVICE_ITSELF);
		sqlite3_bind_int64(insert, 5, (int64_t)c->busy);
		sqlite3_bind_int64(insert, 6, (int64_t)c->kernel_busy);
		sqlite3_bind_int64(insert, 7, (int64_t)c->gap);
		bind_known(insert, 8, c->gap_start, c->gap != 0);
		bind_known(insert, 9, c->first, c->timed);
		bind_known(insert, 10, c->last, c->timed);
		for (int k = 0; k < 4; k++)
			sqlite3_bind_int64(insert, 11 + k, (int64_t)counts[k]);
		if (sqlite3_step(insert) != SQLITE_DONE)
			store_fail(sweep->store, "writing");
		sqlite3_reset(insert);
		c->step = 0;
	}
	sweep->used = 0;
}

static struct cell *cell_of(struct sweep *sweep, uint32_t step, const struct track *track)
{
	int64_t stream = row_of(sweep, track);
	if (sweep->used * 2 >= CELLS_MAX)
		flush(sweep);
	size_t i = (size_t)hash_of(step, (uint64_t)stream) & (CELLS_MAX - 1);
	while (sweep->cells[i].step && (sweep->cells[i].step != step || sweep->cells[i].stream != stream))
		i = (i + 1) & (CELLS_MAX - 1);
	struct cell *cell = &sweep->cells[i];
	if (!cell->step) {
		*cell = (struct cell){.step = step, .stream = stream, .context = track->context};
		sweep->used_cells[sweep->used++] = (uint32_t)i;
	}
	return cell;
}

/* ---------------------------------------------------------------- the sweep */

/* A step ends where the next one begins, whatever its row says. */
static int64_t end_of(const struct boundaries *b, size_t i)
{
	uint64_t end = b->steps[i].end;
	if (i + 1 < b->count && b->steps[i + 1].start < end)
		end = b->steps[i + 1].start;
	return (int64_t)end;
}

/* The first step that has not ended by `time`. */
static size_t first_after(const struct boundaries *b, int64_t time)
{
	size_t low = ARRAY_BEFORE(b->count, middle, end_of(b, middle) <= time);
	return low;
}

/* Takes the part of the idle interval [start, end) that lies in this step, if it is the step's longest. */
static void put_gap(struct sweep *sweep, const struct track *track, size_t i, int64_t start, int64_t end)
{
	const struct boundaries *b = sweep->boundaries;
	int64_t from = (int64_t)b->steps[i].start, to = end_of(b, i);
	from = start > from ? start : from;
	to = end < to ? end : to;
	if (to <= from)
		return;
	struct cell *cell = cell_of(sweep, b->steps[i].ordinal, track);
	if ((uint64_t)(to - from) > cell->gap) {
		cell->gap = (uint64_t)(to - from);
		cell->gap_start = (uint64_t)from;
	}
}

/* The track did nothing in [start, end). A device gets a row for each step that the interval touches; a stream only
 * for the steps in which the interval begins and ends. */
static void put_idle(struct sweep *sweep, const struct track *track, int64_t start, int64_t end)
{
	const struct boundaries *b = sweep->boundaries;
	if (track->last)
		put_gap(sweep, track, track->last - 1, start, end);
	/* Most intervals end in the step in which they begin. */
	if (track->last && end < end_of(b, track->last - 1))
		return;
	size_t next = first_after(b, end), i = track->last ? track->last : first_after(b, start);
	for (; track == &sweep->itself && i < next && sweep->idle < IDLE_MAX; i++, sweep->idle++)
		put_gap(sweep, track, i, start, end);
	if (next < b->count && next + 1 != track->last)
		put_gap(sweep, track, next, start, end);
}

/* Adds [start, end), in which the track was not busy before, to the steps in which it lies. The track was busy until
 * `reached`, and idle from there to `start`. */
static void put(struct sweep *sweep, struct track *track, int64_t start, int64_t end, int64_t reached, bool kernel)
{
	const struct boundaries *b = sweep->boundaries;
	unsigned parts = 0;
	if (!kernel && start > reached)
		put_idle(sweep, track, reached, start);
	for (size_t i = first_after(b, start); i < b->count && !sweep->error; i++, parts++) {
		int64_t from = (int64_t)b->steps[i].start, to = end_of(b, i);
		if (from >= end && !(start == end && from == start))
			break;
		if (parts > 0 && ++sweep->cuts > CUTS_MAX)
			sweep->error = -E2BIG;
		from = start > from ? start : from;
		to = end < to ? end : to;
		struct cell *cell = cell_of(sweep, b->steps[i].ordinal, track);
		if (kernel) {
			cell->kernel_busy += (uint64_t)(to - from);
			continue;
		}
		cell->busy += (uint64_t)(to - from);
		track->last = i + 1;
	}
}

static void count(struct sweep *sweep, struct cell *cell, const struct busy_operation *operation, int64_t start,
		  int64_t end)
{
	switch (operation->kind) {
	case EVENT_KERNEL:
		cell->kernels++;
		break;
	case EVENT_COPY:
		cell->copies++;
		break;
	case EVENT_SET:
		cell->sets++;
		break;
	case EVENT_GRAPH_LAUNCH:
		cell->graphs++;
		break;
	default:
		store_set_error(sweep->store, -EINVAL, BUSY_KIND_UNKNOWN);
		return;
	}
	if (!operation->start)
		return;
	if (!cell->timed || start < (int64_t)cell->first)
		cell->first = (uint64_t)start;
	if (!cell->timed || end > (int64_t)cell->last)
		cell->last = (uint64_t)end;
	cell->timed = true;
}

/* skew: ns by which the device's clock is ahead. */
static void extend(struct sweep *sweep, struct track *track, const struct busy_operation *operation, uint64_t skew)
{
	int64_t start = (int64_t)(operation->start - sweep->store->base);
	int64_t end = (int64_t)(operation->end - sweep->store->base);
	if (operation->step)
		count(sweep, cell_of(sweep, operation->step, track), operation, start, end);
	if (!operation->start)
		return;
	start += (int64_t)skew;
	end += (int64_t)skew;
	bool kernel = operation->kind == EVENT_KERNEL || operation->kind == EVENT_GRAPH_LAUNCH;
	if (end > track->end || (start == end && start == track->end)) {
		put(sweep, track, start > track->end ? start : track->end, end, track->end, false);
		track->end = end;
	}
	if (kernel && end > track->kernel_end) {
		put(sweep, track, start > track->kernel_end ? start : track->kernel_end, end, NEVER, true);
		track->kernel_end = end;
	}
}

/* The device is idle after its last operation. */
static void end_device(struct sweep *sweep)
{
	if (sweep->itself.end != NEVER)
		put_idle(sweep, &sweep->itself, sweep->itself.end, INT64_MAX);
	for (size_t i = 0; i < sweep->capacity; i++)
		if (sweep->streams[i].taken && sweep->streams[i].last)
			put_gap(sweep, &sweep->streams[i], sweep->streams[i].last - 1, sweep->streams[i].end,
				INT64_MAX);
	flush(sweep);
}

/* All work that the step launched ran in other steps: so the device was idle for the whole step. */
static void put_whole_gaps(struct sweep *sweep)
{
	const struct boundaries *b = sweep->boundaries;
	sqlite3_stmt *update = store_prepare(
		sweep->store,
		"UPDATE step_devices SET gap = ?2, gap_start = ?3 WHERE step = ?1 AND busy = 0 AND gap = 0 "
		"AND first IS NOT NULL");
	for (size_t i = 0; update && i < b->count && !sweep->store->error; i++) {
		int64_t start = (int64_t)b->steps[i].start, end = end_of(b, i);
		if (end <= start)
			continue;
		sqlite3_bind_int64(update, 1, b->steps[i].ordinal);
		sqlite3_bind_int64(update, 2, end - start);
		sqlite3_bind_int64(update, 3, start);
		if (sqlite3_step(update) != SQLITE_DONE)
			store_fail(sweep->store, "writing");
		sqlite3_reset(update);
	}
	sqlite3_finalize(update);
}

static void next_device(struct sweep *sweep, uint32_t device)
{
	end_device(sweep);
	/* Each device starts with no room: otherwise each of very many devices would take the room of the largest one
	 * before it. */
	memory_put(sweep->memory, sweep->streams, sweep->capacity * sizeof *sweep->streams);
	sweep->streams = NULL;
	sweep->count = sweep->capacity = 0;
	sweep->itself = (struct track){.end = NEVER, .kernel_end = NEVER};
	sweep->device = device;
}

int busy_write(struct sorter *operations, const struct boundaries *boundaries, const struct busy_skews *skews,
	       struct store *store)
{
	struct sweep sweep = {.store = store,
			      .memory = operations->memory,
			      .boundaries = boundaries,
			      .itself = {.end = NEVER, .kernel_end = NEVER}};
	const struct busy_operation *operation;
	uint64_t skew = 0;
	bool any = false;
	sweep.cells = calloc(CELLS_MAX, sizeof *sweep.cells);
	sweep.used_cells = calloc(CELLS_MAX / 2, sizeof *sweep.used_cells);
	sweep.insert = sweep.cells && sweep.used_cells ? store_prepare(store, insert_sql) : NULL;
	sweep.error = sweep.insert ? 0 : -ENOMEM;
	sorter_rewind(operations);
	while (!sweep.error && !store->error && (operation = sorter_next(operations)) != NULL) {
		if (!any || operation->device != sweep.device) {
			next_device(&sweep, operation->device);
			skew = busy_skew(skews, operation->device);
			any = true;
		}
		extend(&sweep, &sweep.itself, operation, skew);
		struct track *track = track_of(&sweep, operation);
		if (track)
			extend(&sweep, track, operation, skew);
	}
	if (!sweep.error) {
		end_device(&sweep);
		put_whole_gaps(&sweep);
	}
	sqlite3_finalize(sweep.insert);
	memory_put(sweep.memory, sweep.streams, sweep.capacity * sizeof *sweep.streams);
	free(sweep.cells);
	free(sweep.used_cells);
	if (sweep.error && !store->error) {
		store->error = sweep.error;
		snprintf(store->sentence, sizeof store->sentence, "%s",
			 sweep.error == -E2BIG
				 ? "operations of a device reach from one step into the next more often than can be"
				 : "the daemon is out of memory");
	}
	return operations->error ? operations->error : store->error;
}
