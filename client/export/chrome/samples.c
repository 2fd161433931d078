/* samples.c - see samples.h. Times are whole microseconds: readers take no others. Each is rounded for itself, so that no error adds up. */
#include "samples.h"

#include "event.h"
#include "function_frames.h"

#include "client/export/slice.h"
#include "client/ui/figure.h"
#include "proto/limits.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

#define CATEGORY "disabled-by-default-v8.cpu_profiler"
/* Samples of one event: readers take an event as a whole. */
#define CHUNK 1024
/* Chrome numbers what all stacks begin in 1, and chrome://tracing leaves that node out. */
enum { NODE_ROOT = 1, NODE_NO_PYTHON, NODE_OF_FRAMES };

struct profile {
	const struct chrome *c;
	struct block *block;
	struct function_frames frames;
	uint32_t *written; /* by frame: the last profile that has it; [0] is that of no Python */
	uint32_t number;   /* of the profile: of its thread, from 1 on; 0: there is none yet */
	uint32_t thread;
	int64_t time; /* us, of the sample before */
	uint64_t frame_count, left_out;
	uint32_t new[FUNCTION_DEPTH]; /* of the sample in hand: frames to be written, the innermost first */
	unsigned new_count;
	/* The chunk in hand */
	bool begun, has_nodes;
	unsigned count;
	int64_t nodes[CHUNK], deltas[CHUNK];
};

static int64_t micros(int64_t ns)
{
	return ns / 1000 - (ns % 1000 < 0);
}

/* Up to what is in `data`. */
static void put_head(const struct profile *p, const char *name, int64_t time)
{
	struct buffer *b = &p->block->text;
	event_begin(b, 'P', CATEGORY);
	buffer_put(b, name, strlen(name));
	event_place(p->c, b, chrome_track(p->thread, 0), time);
	BUFFER_PUT(b, ",\"id\":\"0x");
	buffer_put_hex(b, chrome_flow_id(p->c, p->number), 1);
	BUFFER_PUT(b, "\",\"args\":{\"data\":{");
}

/* ---------------------------------------------------------------- frames */

static uint32_t node_of(uint32_t frame)
{
	return frame ? frame - 1 + NODE_OF_FRAMES : NODE_NO_PYTHON;
}

/* Up to the function's name. */
static void put_node(struct profile *p, uint32_t node, uint32_t parent)
{
	struct buffer *b = &p->block->text;
	if (p->has_nodes)
		BUFFER_PUT(b, ",");
	p->has_nodes = true;
	BUFFER_PUT(b, "\n{\"id\":");
	buffer_put_uint(b, node);
	if (parent)
		EVENT_PUT_INT(b, "parent", parent);
	BUFFER_PUT(b, ",\"callFrame\":{\"functionName\":\"");
}

static void put_bare_node(struct profile *p, uint32_t node, uint32_t parent, const char *name)
{
	put_node(p, node, parent);
	buffer_put(&p->block->text, name, strlen(name));
	BUFFER_PUT(&p->block->text, "\",\"scriptId\":0}}");
}

static void put_text(struct buffer *b, const char *text, size_t bytes)
{
	if (bytes)
		buffer_put(b, text, bytes);
	else
		BUFFER_PUT(b, "?");
}

/* "forward (train.py:14)", as the format folded has it: Perfetto reads the name and the file of a frame, but no line. */
static void put_frame(struct profile *p, uint32_t id)
{
	const struct function_frame *frame = &p->frames.frames[id];
	const struct names *names = &p->c->names;
	struct buffer *b = &p->block->text;
	size_t function_bytes, file_bytes;
	const char *function = names_text(names, frame->function, &function_bytes),
		   *file = names_text(names, frame->file, &file_bytes);
	const char *slash = file_bytes ? memrchr(file, '/', file_bytes) : NULL, *base = slash ? slash + 1 : file;
	put_node(p, node_of(id), frame->parent ? node_of(frame->parent) : NODE_ROOT);
	put_text(b, function, function_bytes);
	BUFFER_PUT(b, " (");
	put_text(b, base, file_bytes - (size_t)(base - file));
	BUFFER_PUT(b, ":");
	buffer_put_uint(b, frame->line);
	BUFFER_PUT(b, ")\"");
	EVENT_PUT_INT(b, "scriptId", frame->file);
	BUFFER_PUT(b, ",\"url\":\"");
	put_text(b, file, file_bytes);
	BUFFER_PUT(b, "\"");
	EVENT_PUT_INT(b, "lineNumber", (int64_t)frame->line - 1);
	BUFFER_PUT(b, "}}");
}

/* Finds what a profile does not have yet of a stack. */
static void find_new(struct profile *p, uint32_t frame, uint32_t number)
{
	p->new_count = 0;
	for (uint32_t at = frame; p->written[at] != number && p->new_count < FUNCTION_DEPTH;
	     at = p->frames.frames[at].parent) {
		p->new[p->new_count++] = at;
		if (!at || !p->frames.frames[at].parent)
			break;
	}
}

/* The outermost first. */
static int put_new(struct profile *p)
{
	int error = 0;
	p->frame_count += p->new_count;
	while (p->new_count > 0 && !error) {
		uint32_t id = p->new[--p->new_count];
		p->written[id] = p->number;
		if (id)
			put_frame(p, id);
		else
			put_bare_node(p, NODE_NO_PYTHON, NODE_ROOT, "(no Python)");
		error = block_flush_full(p->block);
	}
	return error;
}

/* ---------------------------------------------------------------- chunks */

static void put_numbers(struct buffer *b, const int64_t *numbers, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (i)
			BUFFER_PUT(b, ",");
		buffer_put_int(b, numbers[i]);
	}
}

static void begin_chunk(struct profile *p, int64_t time)
{
	put_head(p, "ProfileChunk", time);
	BUFFER_PUT(&p->block->text, "\"cpuProfile\":{\"nodes\":[");
	p->begun = true;
	p->has_nodes = false;
	p->count = 0;
}

static int end_chunk(struct profile *p)
{
	struct buffer *b = &p->block->text;
	if (!p->begun)
		return 0;
	BUFFER_PUT(b, "],\"samples\":[");
	put_numbers(b, p->nodes, p->count);
	BUFFER_PUT(b, "]},\"timeDeltas\":[");
	put_numbers(b, p->deltas, p->count);
	BUFFER_PUT(b, "]}}}");
	p->begun = false;
	return block_flush_full(p->block);
}

static int begin_thread(struct profile *p, uint32_t thread, int64_t time)
{
	struct buffer *b = &p->block->text;
	int error = end_chunk(p);
	p->thread = thread;
	p->number++;
	p->time = micros(time - p->c->origin);
	put_head(p, "Profile", time);
	BUFFER_PUT(b, "\"startTime\":");
	buffer_put_int(b, p->time);
	BUFFER_PUT(b, "}}}");
	begin_chunk(p, time);
	put_bare_node(p, NODE_ROOT, 0, "(root)");
	p->frame_count++;
	return error;
}

static int put_sample(struct profile *p, uint32_t thread, int64_t time, int64_t stack)
{
	const struct function_frame *known = function_frame(&p->frames, stack);
	uint32_t frame = known ? (uint32_t)stack : 0;
	bool begins = !p->number || thread != p->thread;
	int error = 0;
	if (!slice_time(p->c->part, time, 0))
		return 0;
	find_new(p, frame, p->number + begins);
	/* A frame that is not there is not the same as none. */
	if ((stack && !known) || p->frame_count + begins + p->new_count > SAMPLES_FRAMES_MAX) {
		p->left_out++;
		return 0;
	}
	if (begins)
		error = begin_thread(p, thread, time);
	else if (!p->begun)
		begin_chunk(p, time);
	if (!error)
		error = put_new(p);
	int64_t now = micros(time - p->c->origin);
	p->nodes[p->count] = node_of(frame);
	p->deltas[p->count++] = now - p->time;
	p->time = now;
	return !error && p->count == CHUNK ? end_chunk(p) : error;
}

static int put_all(struct profile *p)
{
	sqlite3_stmt *row;
	int code, error = 0;
	/* Files of earlier releases do not have the table. */
	if (sqlite3_prepare_v2(p->c->reader->db, "SELECT thread & 4294967295, time, stack FROM samples ORDER BY 1, 2",
			       -1, &row, NULL) != SQLITE_OK)
		return 0;
	while (!error && (code = sqlite3_step(row)) == SQLITE_ROW)
		error = put_sample(p, (uint32_t)sqlite3_column_int64(row, 0), figure_time(sqlite3_column_int64(row, 1)),
				   sqlite3_column_int64(row, 2));
	sqlite3_finalize(row);
	if (!error)
		error = code == SQLITE_DONE ? 0 : -EIO;
	return error ? error : end_chunk(p);
}

int samples_put(const struct chrome *c, struct block *block, uint64_t *left_out)
{
	if (!reader_count(c->reader, "SELECT EXISTS (SELECT 1 FROM samples)", 0))
		return 0;
	struct profile *p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	p->c = c;
	p->block = block;
	p->written = calloc((size_t)LIMIT_STACKS + 1, sizeof *p->written);
	int error = p->written ? function_frames_load(&p->frames, c->reader) : -ENOMEM;
	if (!error)
		error = put_all(p);
	*left_out += p->left_out;
	function_frames_deinit(&p->frames);
	free(p->written);
	free(p);
	return error;
}
