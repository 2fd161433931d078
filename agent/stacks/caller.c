/* caller.c - see caller.h. Frames and names are read where they lie, by loads alone: also while nobody records, the job makes no call of the system for
 * it. That is safe for the process's first thread alone: its frames stand still while it is in the agent, what they hold is there as long as they stand,
 * and it is this thread that ends the interpreter (walk.c).
 *
 * Of the modules that the frames name another thread may take the attributes and the memory away. So they are read only while none runs Python: it would
 * have to take the lock, let go of what is read, and give that back to the system, within some hundred ns. Copies by a call of the system would not fault
 * at all; but a filter of these calls that the job has installed may end it for one. */
#include "caller.h"
#include "frames.h"
#include "interpreter.h"

#include "agent/core/life.h"
#include "agent/sink/control.h"
#include "proto/python/proof.h"

#include <stdatomic.h>
#include <string.h>

/* Of a str: how many characters it has, and its bits. */
#define TEXT_LENGTH 16
#define TEXT_COMPACT 5
#define TEXT_ASCII 6
/* No name that says something is longer, with its class or without. */
#define NAME_MOST 63

/* Frames that are asked for their modules, from the innermost on; reads of memory for each. */
#define MODE_FRAMES 24
#define MODE_READS 1024
/* Of a stack whose functions named no module it is asked again after so many looks. */
#define MODE_PATIENCE 64
/* So often is it asked whether objects lie where this release has them. */
#define PROOFS 8
/* No process has memory of its own at other addresses. */
#define PAGE 4096u
#define ADDRESS_LEAST PAGE
#define ADDRESS_MOST (1ull << 47)

static struct frames frames;
static uint64_t places[FRAMES];
static void *(*this_thread)(void);
static atomic_bool known;
/* The stack of the last answer, and that: it is mostly the same one. */
static uint64_t last_hash;
static enum purpose last;
static int last_frame, waits; /* which of its frames names modules, -1: none; looks until it is asked again */
static struct mode_reader reader;
static int proofs; /* left; -1: they lie there */

static bool read_mapped(void *context, uint64_t address, void *to, size_t bytes)
{
	(void)context;
	if (address < ADDRESS_LEAST || address >= ADDRESS_MOST || bytes > ADDRESS_MOST - address)
		return false;
	memcpy(to, (const void *)(uintptr_t)address, bytes);
	return true;
}

/* Of a str 64 bytes are asked for. The shortest one has 41, and memory may end behind it. */
#define TEXT_ASKED 64
#define TEXT_LEAST 40
static bool read_short(void *context, uint64_t address, void *to, size_t bytes)
{
	size_t there = PAGE - address % PAGE;
	if (bytes != TEXT_ASKED || there < TEXT_LEAST || there >= bytes)
		return read_mapped(context, address, to, bytes);
	memset((char *)to + there, 0, bytes - there);
	return read_mapped(context, address, to, there);
}

static void find_reader(const struct python *python)
{
	frames.places = places;
	reader.python = *python;
	reader.python.memory.read = read_mapped;
	reader.yes = (uint64_t)(uintptr_t)interpreter_symbol("_Py_TrueStruct");
	reader.no = (uint64_t)(uintptr_t)interpreter_symbol("_Py_FalseStruct");
	reader.cell = (uint64_t)(uintptr_t)interpreter_symbol("PyCell_Type");
	proofs = reader.yes && reader.no && reader.cell ? PROOFS : 0;
}

void caller_find(void)
{
	struct python python;
	if (atomic_load_explicit(&known, memory_order_relaxed) || !interpreter_layout(&python))
		return;
	*(void **)&this_thread = interpreter_symbol("PyGILState_GetThisThreadState");
	if (!this_thread)
		return;
	frames_know(&python);
	frames_arm(false);
	find_reader(&python);
	atomic_store_explicit(&known, true, memory_order_release);
}

static uint64_t word(uint64_t at)
{
	uint64_t ret;
	memcpy(&ret, (const void *)(uintptr_t)at, sizeof ret);
	return ret;
}

/* The end of the function's name. Not more is read than there is: memory may end behind it. */
static enum purpose purpose_of_code(uint64_t code)
{
	const struct python_offsets *o = &frames_python.offsets;
	char name[NAME_MOST + 1];
	uint32_t state;
	uint64_t text = word(code + (uint64_t)o->code_name), length = word(text + TEXT_LENGTH);
	memcpy(&state, (const void *)(uintptr_t)(text + (uint64_t)o->text_state), sizeof state);
	/* Names of other than ASCII's characters say nothing. */
	if (!(state >> TEXT_COMPACT & 1) || !(state >> TEXT_ASCII & 1) || length > INT64_MAX)
		return PURPOSE_NONE;
	size_t n = length < NAME_MOST ? (size_t)length : NAME_MOST;
	memcpy(name, (const char *)(uintptr_t)(text + (uint64_t)o->text_ascii) + (length - n), n);
	name[n] = 0;
	return purpose_of(name);
}

static enum purpose purpose_of_frames(int count)
{
	enum purpose ret = PURPOSE_NONE;
	/* Only what evaluates needs its caller's word. */
	for (int i = 0; i < count && (ret == PURPOSE_NONE || ret == PURPOSE_EVALUATION); i++) {
		enum purpose own = purpose_of_code(frames.now[i].code);
		bool decides = ret == PURPOSE_EVALUATION && own != PURPOSE_NONE && own != PURPOSE_EVALUATION;
		ret = purpose_within(ret, own);
		if (decides)
			break;
	}
	return ret;
}

/* Do objects lie where they are looked for? */
static bool is_proved(void)
{
	if (proofs > 0) {
		struct python python = reader.python;
		python.memory.read = read_short;
		proofs = python_disproved(&python) ? proofs - 1 : -1;
	}
	return proofs < 0;
}

/* The frame that names modules, -1: none does. It is the one of the last time, if the stack is that. */
static int find_modes(int count, int from, struct modes *ret)
{
	for (int i = from; i < count && i < MODE_FRAMES; i++) {
		modes_of_frame(&reader, places[i], frames.now[i].code, MODE_READS, ret);
		if (ret->count)
			return i;
	}
	return -1;
}

static void look_at_modes(int count, bool is_last, uint64_t state, struct modes *ret)
{
	if (is_last && last_frame < 0 && waits-- > 0)
		return;
	if (!frames_alone(state) || !is_proved()) {
		last_frame = 0;
		return;
	}
	last_frame = find_modes(count, is_last && last_frame > 0 ? last_frame : 0, ret);
	waits = MODE_PATIENCE;
	/* What was changed meanwhile may be read as it never was. */
	if (!frames_alone(state))
		ret->count = 0;
}

enum purpose caller_purpose(struct modes *ret)
{
	uint64_t hash;
	ret->count = 0;
	if (!atomic_load_explicit(&known, memory_order_acquire) || (int)sink_own_tid() != life_words->process)
		return PURPOSE_NONE;
	uint64_t state = (uint64_t)(uintptr_t)this_thread();
	const uint64_t *ending = (const uint64_t *)(uintptr_t)(frames_python.runtime +
							       (uint64_t)frames_python.offsets.runtime_finalizing);
	if (!state || __atomic_load_n(ending, __ATOMIC_RELAXED) || !frames_lie_still(state))
		return PURPOSE_NONE;
	int count = frames_directly(&frames, state, &hash);
	if (count <= 0)
		return PURPOSE_NONE;
	bool is_last = hash == last_hash;
	if (!is_last) {
		last = purpose_of_frames(count);
		last_hash = hash;
		last_frame = 0;
	}
	if (last == PURPOSE_NONE || last == PURPOSE_TRAINING)
		look_at_modes(count, is_last, state, ret);
	return last;
}
