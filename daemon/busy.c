/* busy.c - see busy.h. No locks. */
#include "busy.h"
#include "store_rows.h"
#include "proto/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Streams of one device in one step that have a row of their own. */
#define STREAMS_MAX 65536u

/* One row in the making: intervals come in the order of their starts. */
struct track {
	bool taken, timed;
	uint32_t stream, context;
	uint64_t busy, kernel_busy;
	uint64_t end, kernel_end; /* of all until now */
	uint64_t gap, gap_start, first;
	uint64_t kernels, copies, sets, graphs;
};

struct tracks {
	struct track device;
	struct track *streams; /* open addressing, capacity a power of two */
	size_t count, capacity;
};

static int order_of(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_operations(const void *a, const void *b)
{
	const struct busy_operation *x = a, *y = b;
	int order = order_of((uint64_t)x->step << 32 | x->device, (uint64_t)y->step << 32 | y->device);
	_Static_assert(LIMIT_STEPS < 1u << 24, "steps fit");
	return order ? order : order_of(x->start, y->start);
}

void busy_init(struct sorter *operations, int folder)
{
	sorter_init(operations, folder, sizeof(struct busy_operation), BUSY_MEMORY, compare_operations);
}

static struct track *place(struct track *streams, size_t capacity, uint32_t stream)
{
	size_t i = (stream * 0x9e3779b1u >> 7) & (capacity - 1);
	while (streams[i].taken && streams[i].stream != stream)
		i = (i + 1) & (capacity - 1);
	return &streams[i];
}

/* NULL where there are too many. */
static struct track *track_of(struct tracks *tracks, const struct busy_operation *operation)
{
	if (tracks->count * 2 >= tracks->capacity) {
		size_t capacity = tracks->capacity ? tracks->capacity * 2 : 64;
		struct track *grown = capacity > 2 * STREAMS_MAX ? NULL : calloc(capacity, sizeof *grown);
		if (!grown)
			return NULL;
		for (size_t i = 0; i < tracks->capacity; i++)
			if (tracks->streams[i].taken)
				*place(grown, capacity, tracks->streams[i].stream) = tracks->streams[i];
		free(tracks->streams);
		tracks->streams = grown;
		tracks->capacity = capacity;
	}
	struct track *track = place(tracks->streams, tracks->capacity, operation->stream);
	if (!track->taken) {
		*track = (struct track){.taken = true, .stream = operation->stream, .context = operation->context};
		tracks->count++;
	}
	return track;
}

/* What [start, end) adds to a union that reaches until *reached. */
static uint64_t beyond(uint64_t start, uint64_t end, uint64_t *reached)
{
	uint64_t from = start > *reached ? start : *reached;
	if (end <= from)
		return 0;
	*reached = end;
	return end - from;
}

static void extend(struct track *track, const struct busy_operation *operation)
{
	switch (operation->kind) {
	case EVENT_KERNEL:
		track->kernels++;
		break;
	case EVENT_COPY:
		track->copies++;
		break;
	case EVENT_SET:
		track->sets++;
		break;
	default:
		track->graphs++;
		break;
	}
	uint64_t start = operation->start, end = operation->end;
	if (!start)
		return;
	if (!track->timed) {
		track->timed = true;
		track->first = track->end = start;
	}
	if (start > track->end && start - track->end > track->gap) {
		track->gap = start - track->end;
		track->gap_start = track->end;
	}
	if (operation->kind == EVENT_KERNEL || operation->kind == EVENT_GRAPH_LAUNCH)
		track->kernel_busy += beyond(start, end, &track->kernel_end);
	track->busy += beyond(start, end, &track->end);
	if (start > track->end)
		track->end = start; /* of no duration */
}

static void write_track(struct rows *rows, uint32_t step, uint32_t device, int64_t stream, const struct track *track)
{
	uint64_t base = rows->store->base;
	const int64_t values[] = {
		step,
		device,
		stream,
		stream < 0 ? ROWS_NULL : (int64_t)track->context,
		(int64_t)track->busy,
		(int64_t)track->kernel_busy,
		(int64_t)track->gap,
		track->gap ? (int64_t)(track->gap_start - base) : ROWS_NULL,
		track->timed ? (int64_t)(track->first - base) : ROWS_NULL,
		track->timed ? (int64_t)(track->end - base) : ROWS_NULL,
		(int64_t)track->kernels,
		(int64_t)track->copies,
		(int64_t)track->sets,
		(int64_t)track->graphs,
	};
	rows_add(rows, values);
}

static void write_tracks(struct rows *rows, struct tracks *tracks, uint32_t step, uint32_t device)
{
	write_track(rows, step, device, -1, &tracks->device);
	for (size_t i = 0; i < tracks->capacity; i++)
		if (tracks->streams[i].taken)
			write_track(rows, step, device, tracks->streams[i].stream, &tracks->streams[i]);
	if (tracks->capacity)
		memset(tracks->streams, 0, tracks->capacity * sizeof *tracks->streams);
	tracks->count = 0;
	tracks->device = (struct track){0};
}

int busy_write(struct sorter *operations, struct store *store)
{
	struct tracks tracks = {0};
	struct rows rows;
	const struct busy_operation *operation;
	uint32_t step = 0, device = 0;
	bool any = false;
	rows_begin(&rows, store, "step_devices", 14);
	sorter_rewind(operations);
	while ((operation = sorter_next(operations)) != NULL) {
		if (any && (operation->step != step || operation->device != device))
			write_tracks(&rows, &tracks, step, device);
		any = true;
		step = operation->step;
		device = operation->device;
		extend(&tracks.device, operation);
		struct track *track = track_of(&tracks, operation);
		if (track)
			extend(track, operation);
	}
	if (any)
		write_tracks(&rows, &tracks, step, device);
	free(tracks.streams);
	rows_end(&rows);
	return operations->error ? operations->error : store->error;
}
