/* frame.c - the stack of open ranges and operators of each thread.
 *
 * A frame belongs to its thread. Another thread may end it (torch's asynchronous functions): that thread then writes
 * the record and marks the frame, and the owner takes the frame off its stack at one of its next calls. torch may hold
 * a pointer to a frame long after a recording is over, so such a frame is used again only after torch has ended it. */
#include "internal.h"

#include <string.h>

enum frame_state {
	FRAME_FREE = 0,
	FRAME_OPEN = 1,
	FRAME_ENDED = 2,    /* ended by another thread, or without a record: the owner takes it off its stack */
	FRAME_DETACHED = 3, /* off the stack, but a foreign library still has its address: the end that it reports
			     * frees it */
};

/* Frames of torch's RecordFunction are held by torch until it calls their end. */
static int is_held(const struct sink_frame *f)
{
	return f->kind == EVENT_OPERATOR || (f->kind == EVENT_RANGE && f->source == RANGE_SOURCE_TORCH_USER);
}

static uint8_t state_of(const struct sink_frame *f)
{
	return __atomic_load_n(&f->open, __ATOMIC_ACQUIRE);
}

static void set_state(struct sink_frame *f, uint8_t state)
{
	__atomic_store_n(&f->open, state, __ATOMIC_RELEASE);
}

static void release(struct sink_thread *t, struct sink_frame *f)
{
	set_state(f, FRAME_FREE);
	f->below = t->free_frames;
	t->free_frames = f;
}

/* Takes a frame off its owner's stack, also from the middle. */
static void unlink_frame(struct sink_thread *t, struct sink_frame *f)
{
	struct sink_frame **at = &t->top;
	while (*at && *at != f)
		at = &(*at)->below;
	if (*at) {
		*at = f->below;
		t->depth--;
	}
}

/* Takes frames off the stack that another thread has ended in the meantime. */
static void reap(struct sink_thread *t)
{
	while (t->top && state_of(t->top) == FRAME_ENDED) {
		struct sink_frame *f = t->top;
		t->top = f->below;
		t->depth--;
		release(t, f);
	}
}

uint64_t sink_innermost(const struct sink_thread *t)
{
	const struct sink_frame *f = t->top;
	while (f && state_of(f) == FRAME_ENDED)
		f = f->below;
	return f && f->step ? f->id : 0;
}

struct sink_frame *sink_open(struct sink_thread *t, uint8_t kind)
{
	reap(t);
	struct sink_frame *f = t->free_frames;
	if (f) {
		t->free_frames = f->below;
	} else if (t->frames_used < SINK_DEPTH) {
		f = &t->frames[t->frames_used++];
		f->owner = t;
	} else {
		if (counts_now(kind))
			sink_lost(LOSS_TOO_DEEP, kind);
		return NULL;
	}
	struct sink_frame *below = t->top;
	/* foreign[] and owner stay as they are. */
	memset(&f->below, 0, sizeof *f - offsetof(struct sink_frame, below));
	f->below = below;
	f->generation = t->generation;
	f->kind = kind;
	f->id = id_next(t);
	f->parent = below && below->step ? below->id : 0;
	f->step = step_now();
	f->depth = (uint16_t)t->depth++;
	f->sequence = -1;
	t->top = f;
	set_state(f, FRAME_OPEN);
	return f;
}

static void record(struct sink_thread *writer, const struct sink_frame *f, uint64_t end, uint8_t flags,
		   uint32_t end_thread)
{
	uint64_t duration = end > f->start ? end - f->start : 0;
	uint64_t own_time = duration > f->child ? duration - f->child : 0;
	if (f->kind == EVENT_OPERATOR) {
		/* The tail is left out, as for ranges below: most captures have no stacks of operators. */
		int short_form = !f->stack && !f->backward;
		struct event_operator e = {
			.head = {short_form ? EVENT_OPERATOR_LEAST : sizeof e, EVENT_OPERATOR, flags, f->step},
			.start = f->start,
			.duration = duration,
			.self = own_time,
			.id = f->id,
			.parent = f->parent,
			.name = f->name,
			.thread = tid_of(f->owner),
			.depth = f->depth,
			.scope = f->source,
			.entered = f->entered,
			.inputs = f->inputs,
			.sequence = f->sequence,
			.forward_thread = f->forward_thread,
			.end_thread = end_thread,
			.backward = f->backward,
			.stack = f->stack,
		};
		if (short_form)
			write_whole(writer, &e, EVENT_OPERATOR_LEAST);
		else
			write_whole(writer, &e, sizeof e);
		return;
	}
	/* The tail is left out where it would hold zeros only: most ranges have neither colour, category, payload nor inputs. */
	int plain = !f->category && !f->color && !f->payload_type && !end_thread && !f->inputs;
	struct event_range e = {
		.head = {plain ? EVENT_RANGE_LEAST : sizeof e, EVENT_RANGE, flags, f->step},
		.start = f->start,
		.duration = duration,
		.self = own_time,
		.id = f->id,
		.parent = f->parent,
		.name = f->name,
		.thread = tid_of(f->owner),
		.depth = f->depth,
		.source = f->source,
		.payload_type = f->payload_type,
		.domain = f->domain,
		.category = f->category,
		.color = f->color,
		.payload = f->payload,
		.end_thread = end_thread,
		.inputs = f->inputs,
	};
	if (plain)
		write_whole(writer, &e, EVENT_RANGE_LEAST);
	else
		write_whole(writer, &e, sizeof e);
}

/* The frame is ended by another thread, or by its owner's thread after a jump out of the recorder. */
static void record_elsewhere(struct sink_thread *t, const struct sink_frame *f, uint64_t end)
{
	uint32_t thread = tid_of(t);
	int elsewhere = thread != tid_of(f->owner);
	record(t, f, end, elsewhere ? EVENT_FLAG_ASYNC : 0, elsewhere ? thread : 0);
}

void sink_close(struct sink_thread *t, struct sink_frame *f, uint64_t end)
{
	uint8_t state = state_of(f);
	if (state == FRAME_FREE)
		return;
	int live = state == FRAME_OPEN && f->step && f->generation == recording_now(memory_order_relaxed);
	if (f->owner != t) {
		if (live)
			record_elsewhere(t, f, end);
		frame_forget(f);
		return;
	}
	if (state == FRAME_DETACHED) {
		release(t, f);
		return;
	}
	if (t->top == f) {
		t->top = f->below;
		t->depth--;
	} else {
		unlink_frame(t, f);
	}
	if (live) {
		struct sink_frame *parent = f->below;
		if (parent && parent->id == f->parent && end > f->start)
			parent->child += end - f->start;
		record(t, f, end, 0, 0);
	}
	release(t, f);
	reap(t);
}

struct sink_frame *sink_find(struct sink_thread *t, uint8_t source, uint64_t key)
{
	for (struct sink_frame *f = t->top; f; f = f->below)
		if (f->kind == EVENT_RANGE && f->source == source && f->key == key && state_of(f) == FRAME_OPEN)
			return f;
	return NULL;
}

int sink_within(const struct sink_thread *t, uint8_t kind, uint8_t source, int (*is)(const struct sink_frame *frame))
{
	for (struct sink_frame *f = t->top; f; f = f->below)
		if (f->kind == kind && (!source || f->source == source) && state_of(f) == FRAME_OPEN && is(f))
			return 1;
	return 0;
}

void frame_forget(struct sink_frame *f)
{
	/* A detached frame that another thread ends stays taken, because its owner does not look at it again. That happens at most
	 * SINK_DEPTH times in a thread's life, and only where an asynchronous function outlives a whole recording. */
	if (state_of(f) == FRAME_OPEN)
		set_state(f, FRAME_ENDED);
}

int frames_abandon_all(struct sink_thread *t)
{
	int held = 0;
	while (t->top) {
		struct sink_frame *f = t->top;
		t->top = f->below;
		if (is_held(f) && state_of(f) == FRAME_OPEN) {
			set_state(f, FRAME_DETACHED);
			held = 1;
		} else {
			release(t, f);
		}
	}
	t->depth = 0;
	return held;
}

uint32_t frames_open(struct sink_thread *t, uint32_t generation)
{
	/* Racy on purpose: the count only decides how long to wait. frames_used never shrinks, and the frames do not move. */
	uint32_t n = 0, used = __atomic_load_n(&t->frames_used, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < used && i < SINK_DEPTH; i++)
		if (state_of(&t->frames[i]) == FRAME_OPEN && t->frames[i].generation == generation && t->frames[i].step)
			n++;
	return n;
}

static int is_open(struct sink_frame *f, uint32_t generation)
{
	return state_of(f) == FRAME_OPEN && f->generation == generation && f->step;
}

static void clip(struct sink_thread *own, const struct sink_frame *f, uint64_t end)
{
	if (!f->start)
		return;
	record(own, f, end, EVENT_FLAG_CLIPPED, 0);
	count_loss(LOSS_CLIPPED, f->kind);
}

void frames_clip(struct sink_thread *t, struct sink_thread *own, uint32_t generation, uint64_t end)
{
	for (uint32_t i = 0; i < t->frames_used && i < SINK_DEPTH; i++)
		if (is_open(&t->frames[i], generation))
			clip(own, &t->frames[i], end);
}

uint32_t frames_bury(struct sink_thread *t, struct sink_thread *own, uint32_t generation, uint64_t end)
{
	uint32_t held = 0;
	for (uint32_t i = 0; i < t->frames_used && i < SINK_DEPTH; i++) {
		struct sink_frame *f = &t->frames[i];
		if (!is_open(f, generation))
			continue;
		if (is_held(f)) {
			held++;
		} else {
			clip(own, f, end);
			set_state(f, FRAME_ENDED);
		}
	}
	return held;
}

void frames_count_left(struct sink_thread *t, uint32_t generation)
{
	for (uint32_t i = 0; i < t->frames_used && i < SINK_DEPTH; i++)
		if (is_open(&t->frames[i], generation))
			count_loss(LOSS_LEFT, t->frames[i].kind);
}
