/* functions.c - see functions.h. It goes once over a thread's operators and ranges, by their start, with the calls that are open. The thread
 * that calls it waits; no locks. */
#include "functions.h"

#include "chrome.h"
#include "event.h"

#include "client/export/slice.h"
#include "client/ui/figure.h"
#include "proto/base/array.h"
#include "proto/events.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* Of those that are open at a time; deeper operators are not looked at, further ranges not kept whole. */
#define OPERATORS 1024
#define RANGES 64
#define NO_PLACE UINT32_MAX
/* Operators that an estimate looks at. */
#define ESTIMATE_ROWS 20000
_Static_assert(RANGE_SOURCE_NVTX_START_END == 2, "the query leaves out start/end ranges");

/* A call that may go on. */
struct open_call {
	int64_t start, end; /* as far as is known; its inner calls' ends are not in it yet */
	int64_t before;	    /* it cannot have begun earlier: then something else ran */
	uint32_t frame, place;
};

struct open_operator {
	int64_t start, end;
	unsigned depth; /* calls that it was called in: what it calls itself ends with it */
};

struct walk {
	struct functions *to;
	uint32_t thread;
	int64_t step, ended; /* ended: the last operator that has */
	struct open_call calls[FUNCTION_DEPTH];
	struct open_operator operators[OPERATORS];
	struct nesting_slice ranges[RANGES];
	uint32_t chain[FUNCTION_DEPTH]; /* of the operator in hand: its frames, the outermost first */
	unsigned depth, operator_count, range_count;
	int error;
};

static void close_calls(struct walk *w, unsigned depth, int64_t now)
{
	while (w->depth > depth) {
		const struct open_call *call = &w->calls[--w->depth];
		int64_t end = call->end < now ? call->end : now;
		if (w->depth && w->calls[w->depth - 1].end < end)
			w->calls[w->depth - 1].end = end;
		if (call->place != NO_PLACE)
			w->to->slices[call->place] = (struct nesting_slice){w->thread, call->start, end};
	}
}

static void pass_operators(struct walk *w, int64_t now)
{
	while (w->operator_count && w->operators[w->operator_count - 1].end <= now) {
		const struct open_operator *ended = &w->operators[--w->operator_count];
		close_calls(w, ended->depth, ended->end);
		w->ended = ended->end > w->ended ? ended->end : w->ended;
	}
}

/* Room for one more. 0, or -ENOMEM; 1: there are as many as there may be, and it is left out. */
static int make_room(struct functions *f)
{
	if (f->count == FUNCTION_CALLS_MAX) {
		f->left_out++;
		return 1;
	}
	return ARRAY_GROW(f->slices, f->count, f->slice_room) && ARRAY_GROW(f->calls, f->count, f->call_room) ? 0
													      : -ENOMEM;
}

static uint32_t add_call(struct walk *w, uint32_t frame)
{
	struct functions *f = w->to;
	uint32_t outer = w->depth ? w->calls[w->depth - 1].place : NO_PLACE;
	int full = make_room(f);
	if (full) {
		w->error = full < 0 ? full : w->error;
		return NO_PLACE;
	}
	f->calls[f->count] = (struct function_call){frame, outer == NO_PLACE ? 0 : outer + 1};
	f->slices[f->count] = (struct nesting_slice){0};
	return (uint32_t)f->count++;
}

/* Fills the chain with the frames that the open calls do not have; returns how many calls go on. */
static unsigned match(struct walk *w, uint32_t stack)
{
	const struct function_frames *frames = &w->to->frames;
	unsigned depth = frames->frames[stack].depth;
	uint32_t at = stack;
	while (depth && (depth > w->depth || w->calls[depth - 1].frame != at)) {
		w->chain[--depth] = at;
		at = frames->frames[at].parent;
	}
	if (depth < w->depth && depth < frames->frames[stack].depth &&
	    function_frame_is_same(&frames->frames[w->calls[depth].frame], &frames->frames[w->chain[depth]]))
		depth++;
	return depth;
}

/* How many of the calls may go on where the innermost `entered` calls of modules are new. */
static unsigned without_new(const struct walk *w, uint32_t stack, int64_t entered)
{
	const struct function_frame *frames = w->to->frames.frames, *at = &frames[stack];
	if (entered <= 0 || !at->modules)
		return FUNCTION_DEPTH;
	unsigned old = entered < at->modules ? at->modules - (unsigned)entered : 0;
	while (!at->module || at->modules != old + 1)
		at = &frames[at->parent];
	return at->depth - 1u;
}

/* A range ends in the call that it began in. So if a range reaches into calls from outside and they go on after it,
 * they hold it: their start moves to its start, unless something else ran in between. */
static void hold_ended(struct walk *w, unsigned depth, int64_t now)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < w->range_count; i++) {
		const struct nesting_slice range = w->ranges[i];
		if (range.end > now) {
			w->ranges[kept++] = range;
			continue;
		}
		for (unsigned d = depth; d-- > 0 && w->calls[d].start > range.start;)
			if (range.end > w->calls[d].start && range.start >= w->calls[d].before)
				w->calls[d].start = range.start;
	}
	w->range_count = kept;
}

/* The innermost call in which an open range began lasts at least until the end of that range. */
static void hold_open(struct walk *w)
{
	for (unsigned i = 0; i < w->range_count; i++) {
		unsigned d = w->depth;
		while (d && w->calls[d - 1].start >= w->ranges[i].start)
			d--;
		if (d && w->calls[d - 1].end < w->ranges[i].end)
			w->calls[d - 1].end = w->ranges[i].end;
	}
}

static void go_on(struct walk *w, unsigned depth, uint32_t stack, int64_t start)
{
	hold_ended(w, depth, start);
	close_calls(w, depth, start);
	hold_open(w);
	if (depth && depth <= w->to->frames.frames[stack].depth) {
		/* It may be at another line by now. */
		struct open_call *last = &w->calls[depth - 1];
		uint32_t at = stack;
		for (unsigned up = w->to->frames.frames[stack].depth; up > depth; up--)
			at = w->to->frames.frames[at].parent;
		last->frame = at;
		if (last->place != NO_PLACE)
			w->to->calls[last->place].frame = at;
	}
}

/* The innermost is open until `end` at least. */
static void begin_calls(struct walk *w, uint32_t stack, int64_t start, int64_t end)
{
	int64_t before = w->ended;
	if (w->operator_count && w->operators[w->operator_count - 1].start > before)
		before = w->operators[w->operator_count - 1].start;
	unsigned all = w->to->frames.frames[stack].depth;
	if (w->depth >= all && w->depth && w->calls[w->depth - 1].end < end)
		w->calls[w->depth - 1].end = end;
	for (; w->depth < all; w->depth++) {
		uint32_t frame = w->chain[w->depth], place = add_call(w, frame);
		w->calls[w->depth] = (struct open_call){start, w->depth + 1 == all ? end : start, before, frame, place};
	}
}

static void take_operator(struct walk *w, int64_t start, int64_t end, int64_t stack, int64_t entered, int64_t step)
{
	const struct open_operator *around = w->operator_count ? &w->operators[w->operator_count - 1] : NULL;
	if (w->operator_count == OPERATORS || (around && end > around->end))
		return;
	if (!around && step != w->step) {
		close_calls(w, 0, start);
		w->step = step;
	}
	if (function_frame(&w->to->frames, stack)) {
		unsigned depth = match(w, (uint32_t)stack), most = without_new(w, (uint32_t)stack, entered);
		if (most < depth) {
			/* What was left out of the chain begins anew. */
			uint32_t at = (uint32_t)stack;
			for (unsigned d = w->to->frames.frames[stack].depth; d > most; d--) {
				w->chain[d - 1] = at;
				at = w->to->frames.frames[at].parent;
			}
			depth = most;
		}
		/* What runs in an operator is called by what called that. */
		if (!around || depth >= around->depth) {
			go_on(w, depth, (uint32_t)stack, start);
			begin_calls(w, (uint32_t)stack, start, end);
		}
	}
	w->operators[w->operator_count++] = (struct open_operator){start, end, w->depth};
}

static void take_range(struct walk *w, int64_t start, int64_t end)
{
	if (w->range_count < RANGES && (!w->operator_count || end <= w->operators[w->operator_count - 1].end))
		w->ranges[w->range_count++] = (struct nesting_slice){w->thread, start, end};
}

static void begin_thread(struct walk *w, uint32_t thread)
{
	pass_operators(w, INT64_MAX);
	close_calls(w, 0, INT64_MAX);
	w->thread = thread;
	w->step = -1;
	w->ended = INT64_MIN;
	w->range_count = 0;
}

enum { C_THREAD, C_START, C_DURATION, C_STACK, C_ENTERED, C_STEP, C_RANGE };

static void take(struct walk *w, sqlite3_stmt *row)
{
	uint32_t thread = (uint32_t)sqlite3_column_int64(row, C_THREAD);
	int64_t start = figure_time(sqlite3_column_int64(row, C_START));
	int64_t end = start + figure_length(sqlite3_column_int64(row, C_DURATION));
	if (thread != w->thread)
		begin_thread(w, thread);
	pass_operators(w, start);
	if (sqlite3_column_int(row, C_RANGE))
		take_range(w, start, end);
	else
		take_operator(w, start, end, sqlite3_column_int64(row, C_STACK), sqlite3_column_int64(row, C_ENTERED),
			      sqlite3_column_int64(row, C_STEP));
}

/* operators: where they are read from. */
static int find(struct walk *w, const struct reader *r, const char *operators)
{
	char sql[512];
	sqlite3_stmt *row;
	snprintf(
		sql, sizeof sql,
		"SELECT thread & 4294967295, start, duration, stack, entered, step, 0 FROM %s WHERE backward IS NULL UNION ALL "
		"SELECT thread & 4294967295, start, duration, 0, 0, 0, 1 FROM ranges WHERE source <> 2 ORDER BY 1, 2, 3 DESC",
		operators);
	int code = SQLITE_DONE;
	/* Files of earlier releases do not have the columns. */
	if (sqlite3_prepare_v2(r->db, sql, -1, &row, NULL) != SQLITE_OK)
		return 0;
	while (!w->error && (code = sqlite3_step(row)) == SQLITE_ROW)
		take(w, row);
	sqlite3_finalize(row);
	begin_thread(w, 0);
	return w->error ? w->error : code == SQLITE_DONE ? 0 : -EIO;
}

static int find_in(struct functions *f, const struct reader *r, const char *operators)
{
	*f = (struct functions){0};
	if (!reader_count(r, "SELECT ran FROM collectors WHERE collector = 'operator_stacks'", 0))
		return 0;
	struct walk *w = calloc(1, sizeof *w);
	int error = w ? function_frames_load(&f->frames, r) : -ENOMEM;
	if (!error) {
		w->to = f;
		error = find(w, r, operators);
	}
	free(w);
	for (size_t i = 0; i < f->count; i++) {
		struct function_module *module = &f->frames.modules[f->frames.frames[f->calls[i].frame].module];
		module->first = f->slices[i].start < module->first ? f->slices[i].start : module->first;
	}
	f->collections = f->count;
	return error ? error : function_frames_number(&f->frames);
}

int functions_add_collections(struct functions *f, const struct reader *r)
{
	sqlite3_stmt *row;
	int code, error = 0;
	f->collections = f->count;
	/* Files of earlier releases do not have the table. */
	if (sqlite3_prepare_v2(
		    r->db,
		    "SELECT thread & 4294967295, start, duration, generation FROM garbage_collections WHERE thread <> 0 "
		    "ORDER BY start, rowid",
		    -1, &row, NULL) != SQLITE_OK)
		return 0;
	while (!error && (code = sqlite3_step(row)) == SQLITE_ROW) {
		int64_t start = figure_time(sqlite3_column_int64(row, 1));
		int full = make_room(f);
		error = full < 0 ? full : 0;
		if (full)
			continue;
		f->calls[f->count] = (struct function_call){.frame = (uint32_t)sqlite3_column_int64(row, 3) & 3};
		f->slices[f->count++] = (struct nesting_slice){(uint64_t)sqlite3_column_int64(row, 0), start,
							       start + figure_length(sqlite3_column_int64(row, 2))};
	}
	sqlite3_finalize(row);
	return error ? error : code == SQLITE_DONE ? 0 : -EIO;
}

int functions_find(struct functions *f, const struct reader *r)
{
	return find_in(f, r, "operators");
}

int64_t functions_estimate(const struct reader *r, int64_t operators)
{
	char some[96];
	struct functions f;
	snprintf(some, sizeof some, "(SELECT * FROM operators LIMIT %d)", ESTIMATE_ROWS);
	int error = find_in(&f, r, some);
	int64_t calls = error ? 0 : (int64_t)f.count, rows = operators < ESTIMATE_ROWS ? operators : ESTIMATE_ROWS;
	functions_deinit(&f);
	return rows > 0 ? (int64_t)((double)calls * (double)operators / (double)rows) : 0;
}

void functions_deinit(struct functions *f)
{
	function_frames_deinit(&f->frames);
	free(f->slices);
	free(f->calls);
	*f = (struct functions){0};
}

/* Ids are the file's, as those of flows are. 0: there is no such call. */
static void put_id(const struct chrome *c, struct buffer *b, const char *key, uint32_t id)
{
	buffer_put(b, key, strlen(key));
	buffer_put_uint(b, chrome_flow_id(c, id));
}

/* torch_tb_profiler adds doubles up, and drops what then ends after what it lies in: there an outer call ends 0.01 ns after each inner one. */
static void put_duration(const struct chrome *c, struct buffer *b, int64_t duration, unsigned depth)
{
	unsigned more = c->shape == CHROME_TENSORBOARD ? FUNCTION_DEPTH - depth : 0;
	BUFFER_PUT(b, ",\"dur\":");
	buffer_put_micros(b, duration + more / 100);
	if (more) {
		const char digits[] = {(char)('0' + more / 10 % 10), (char)('0' + more % 10)};
		buffer_put(b, digits, sizeof digits);
	}
}

/* As torch.profiler writes it. */
static void put_collection(const struct chrome *c, struct buffer *b, size_t place, uint8_t lane, int64_t event_index)
{
	const struct nesting_slice *slice = &c->functions.slices[place];
	event_begin(b, 'X', "python_function");
	BUFFER_PUT(b, "Python GC");
	event_place(c, b, chrome_track((uint32_t)slice->track, lane), slice->start);
	BUFFER_PUT(b, ",\"dur\":");
	buffer_put_micros(b, slice->end - slice->start);
	BUFFER_PUT(b, ",\"args\":{\"Ev Idx\":");
	buffer_put_int(b, event_index);
	if (c->functions.calls[place].frame != GARBAGE_GENERATION_UNKNOWN)
		EVENT_PUT_INT(b, "Generation", c->functions.calls[place].frame);
	BUFFER_PUT(b, "}}");
}

void functions_put(const struct chrome *c, struct buffer *b, size_t call, uint8_t lane, int64_t event_index)
{
	const struct functions *f = &c->functions;
	const struct nesting_slice *slice = &f->slices[call];
	if (!slice_time(c->part, slice->start, slice->end - slice->start))
		return;
	if (call >= f->collections) {
		put_collection(c, b, call, lane, event_index);
		return;
	}
	const struct function_frame *frame = &f->frames.frames[f->calls[call].frame];
	event_begin(b, 'X', "python_function");
	function_frames_put_name(&f->frames, &c->names, b, frame);
	event_place(c, b, chrome_track((uint32_t)slice->track, lane), slice->start);
	put_duration(c, b, slice->end - slice->start, frame->depth);
	BUFFER_PUT(b, ",\"args\":{");
	if (frame->parent) {
		BUFFER_PUT(b, "\"CallFrom\":\"");
		function_frames_put_place(&c->names, b, &f->frames.frames[frame->parent]);
		BUFFER_PUT(b, "\",");
	}
	if (f->calls[call].parent)
		put_id(c, b, "\"Python parent id\":", f->calls[call].parent);
	put_id(c, b, f->calls[call].parent ? ",\"Python id\":" : "\"Python id\":", (uint32_t)call + 1);
	if (frame->module) {
		EVENT_PUT_INT(b, "Python module id", f->frames.modules[frame->module].number);
		BUFFER_PUT(b, ",\"Module\":\"");
		function_frames_put_path(&f->frames, &c->names, b, frame->module);
		BUFFER_PUT(b, "\"");
	}
	EVENT_PUT_INT(b, "Ev Idx", event_index);
	BUFFER_PUT(b, "}}");
}
