/* offsets.c - see offsets.h. Up to 3.12 the offsets are those that the headers of each release give on 64-bit machines. From 3.13 on the
 * runtime begins with a table of them, _Py_DebugOffsets, whose own layout differs by release. */
#include "offsets.h"

#include <stddef.h>
#include <string.h>

/* The last release whose offsets are those of its headers. */
enum { PYTHON_MINOR_HEADERS = 12 };

/* A row for each field: its offsets in 3.9, 3.10, 3.11 and 3.12. Fields without a row are 0. */
#define FIELD(name) offsetof(struct python_offsets, name)
static const struct {
	size_t field;
	int32_t by_minor[PYTHON_MINOR_HEADERS - PYTHON_MINOR_LEAST + 1];
} known[] = {
	{FIELD(runtime_head), {32, 32, 40, 40}},
	{FIELD(runtime_finalizing), {16, 16, 24, 24}},
	{FIELD(gil_holder), {360, 360, 368, 8}},
	{FIELD(gil_locked), {368, 368, 376, 16}},
	{FIELD(interpreter_next), {0, 0, 0, 0}},
	{FIELD(interpreter_threads), {8, 8, 16, 72}},
	{FIELD(interpreter_modules), {856, 856, 888, 944}},
	{FIELD(interpreter_gil), {-1, -1, -1, 384}},
	{FIELD(interpreter_collections), {744, 744, 776, 240}},
	{FIELD(thread_next), {8, 8, 8, 8}},
	{FIELD(thread_ident), {176, 176, 152, 136}},
	{FIELD(thread_native), {-1, -1, 160, 144}},
	{FIELD(thread_frame), {24, 24, 56, 56}},
	{FIELD(cframe_current), {-1, -1, 8, 0}},
	{FIELD(thread_cframe), {-1, 48, -1, -1}},
	{FIELD(frame_previous), {24, 24, 48, 8}},
	{FIELD(frame_code), {32, 32, 32, 0}},
	{FIELD(frame_instruction), {104, 96, 56, 56}},
	{FIELD(frame_owner), {-1, -1, 69, 70}},
	{FIELD(frame_locals), {360, 352, 72, 72}},
	{FIELD(code_file), {104, 104, 112, 112}},
	{FIELD(code_name), {112, 112, 128, 128}},
	{FIELD(code_line), {40, 40, 72, 68}},
	{FIELD(code_table), {120, 120, 136, 136}},
	{FIELD(code_start), {-1, -1, 184, 192}},
	{FIELD(code_flags), {36, 36, 48, 48}},
	{FIELD(code_arguments), {16, 16, 56, 52}},
	{FIELD(code_keywords), {24, 24, 64, 60}},
	{FIELD(text_state), {32, 32, 32, 32}},
	{FIELD(text_ascii), {48, 48, 48, 40}},
	{FIELD(text_wide), {72, 72, 72, 56}},
	{FIELD(bytes_data), {32, 32, 32, 32}},
	{FIELD(tuple_items), {24, 24, 24, 24}},
	{FIELD(debugger), {-1, -1, -1, -1}},
};

static void from_headers(unsigned minor, struct python_offsets *o)
{
	memset(o, 0, sizeof *o);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		memcpy((char *)o + known[i].field, &known[i].by_minor[minor - PYTHON_MINOR_LEAST], sizeof(int32_t));
}

/* Words of _Py_DebugOffsets, by name. */
enum { WORDS_MOST = 160 };

/* The runtime's figures are checked: an offset must lie within its structure. */
static bool take(int32_t *to, uint64_t value)
{
	*to = (int32_t)value;
	return value < 1u << 20;
}

/* A frame is read as a whole, so its fields must lie in the part that is read. */
static bool take_of_frame(int32_t *to, uint64_t value)
{
	return take(to, value) && value <= PYTHON_FRAME_BYTES - sizeof(uint64_t);
}

/* `next` is the number of words that a group has in this release. */
struct groups {
	unsigned runtime, interpreter, thread, frame, code, tuple, text, bytes, garbage, debugger;
};

static struct groups groups_of(unsigned minor)
{
	bool newer = minor >= 14;
	struct groups at;

	at.runtime = 3;
	at.interpreter = at.runtime + 3;
	at.thread = at.interpreter + (newer ? 16 : 13);
	at.frame = at.thread + 9;
	at.code = at.frame + (newer ? 8 : 6);
	/* object, type, tuple, list, 3.14's set, dict, float, long, bytes, text, gc, generator, list node */
	at.tuple = at.code + (newer ? 11 : 10) + 2 + 4;
	at.bytes = at.tuple + 3 + 3 + (newer ? 4 : 0) + 3 + 2 + 3;
	at.text = at.bytes + 3;
	at.garbage = at.text + 4;
	at.debugger = newer ? at.text + 4 + 2 + 4 + 2 : 0;
	return at;
}

/* The statistics lie right before the flag, whose offset the table has, and have a fixed distance from the collector's
 * beginning. A trial release of 3.13 with another distance is refused. */
static int32_t collections_of(uint64_t collector, const uint64_t *garbage, unsigned minor)
{
	const uint64_t bytes = sizeof(uint64_t) * PYTHON_GENERATIONS * PYTHON_GENERATION_WORDS;
	const uint64_t from = minor >= 14 ? 120 : 128;
	return collector < 1u << 20 && collector % sizeof(uint64_t) == 0 && garbage[1] == from + bytes
		       ? (int32_t)(collector + from)
		       : -1;
}

static bool from_table(const uint64_t *words, unsigned minor, struct python_offsets *o)
{
	struct groups at = groups_of(minor);
	const uint64_t *interpreter = words + at.interpreter, *thread = words + at.thread;
	const uint64_t *frame = words + at.frame, *code = words + at.code, *debugger = words + at.debugger;
	bool newer = minor >= 14;
	unsigned gil = newer ? 9 : 8; /* 3.14 has threads_main before it */

	memset(o, 0, sizeof *o);
	o->cframe_current = o->thread_cframe = o->debugger = -1;
	bool fine =
		take(&o->runtime_finalizing, words[at.runtime + 1]) && take(&o->runtime_head, words[at.runtime + 2]);
	fine = fine && take(&o->interpreter_next, interpreter[2]) && take(&o->interpreter_threads, interpreter[3]);
	fine = fine && take(&o->interpreter_modules, interpreter[newer ? 6 : 5]) &&
	       take(&o->interpreter_gil, interpreter[gil]);
	o->interpreter_collections = collections_of(interpreter[newer ? 5 : 4], words + at.garbage, minor);
	fine = fine && take(&o->gil_locked, interpreter[gil + 3] - interpreter[gil + 1]);
	fine = fine && take(&o->gil_holder, interpreter[gil + 4] - interpreter[gil + 1]);
	fine = fine && take(&o->thread_next, thread[2]) && take(&o->thread_frame, thread[4]);
	fine = fine && take(&o->thread_ident, thread[5]) && take(&o->thread_native, thread[6]);
	fine = fine && take_of_frame(&o->frame_previous, frame[1]) && take_of_frame(&o->frame_code, frame[2]);
	fine = fine && take_of_frame(&o->frame_instruction, frame[3]) && take_of_frame(&o->frame_owner, frame[5]) &&
	       take_of_frame(&o->frame_locals, frame[4]);
	fine = fine && take(&o->code_file, code[1]) && take(&o->code_name, code[3]) && take(&o->code_table, code[4]);
	fine = fine && take(&o->code_line, code[5]) && take(&o->code_start, code[9]) && code[6] >= sizeof(int32_t) &&
	       take(&o->code_arguments, code[6]);
	/* The table has only one of these three fields; they lie side by side. */
	o->code_flags = o->code_arguments - (int32_t)sizeof(int32_t);
	o->code_keywords = o->code_arguments + 2 * (int32_t)sizeof(int32_t);
	fine = fine && take(&o->bytes_data, words[at.bytes + 2]) && take(&o->tuple_items, words[at.tuple + 1]);
	fine = fine && take(&o->text_state, words[at.text + 1]) && take(&o->text_ascii, words[at.text + 3]);
	o->text_wide = o->text_ascii + 16; /* the UTF-8 form and its length */
	if (newer)
		fine = fine && take(&o->breaker, debugger[0]) && take(&o->debugger, debugger[1]) &&
		       take(&o->interpreter_debugger_enabled, debugger[2]) && take(&o->debugger_pending, debugger[3]) &&
		       take(&o->debugger_path, debugger[4]) && take(&o->debugger_path_bytes, debugger[5]);
	return fine;
}

enum python_offsets_result python_offsets_find(struct python_memory *memory, uint64_t runtime, unsigned *minor,
					       struct python_offsets *ret)
{
	uint64_t words[WORDS_MOST];

	if (*minor >= PYTHON_MINOR_LEAST && *minor <= PYTHON_MINOR_HEADERS) {
		from_headers(*minor, ret);
		return OFFSETS_KNOWN;
	}
	if (*minor && *minor < PYTHON_MINOR_LEAST)
		return OFFSETS_UNKNOWN;
	if (!python_read(memory, runtime, words, sizeof words))
		return OFFSETS_UNREADABLE;
	if (memcmp(words, "xdebugpy", 8) != 0 || words[1] >> 24 != 3)
		return OFFSETS_UNKNOWN;
	*minor = (unsigned)(words[1] >> 16 & 0xff);
	if (*minor <= PYTHON_MINOR_HEADERS || *minor > PYTHON_MINOR_MOST)
		return OFFSETS_UNKNOWN;
	if (words[2])
		return OFFSETS_FREE_THREADED;
	return from_table(words, *minor, ret) ? OFFSETS_KNOWN : OFFSETS_UNKNOWN;
}
