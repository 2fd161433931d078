/* stamp.c - see stamp.h. Everything except the line belongs to the agent's thread. */
#include "stamp.h"
#include "keeper.h"

#include <string.h>

/* The first line is set after this time; until then the hooks ask the kernel's clock. */
#define FIRST_NS 10000000ull
#define LOOK_NS 100000000ull
/* Once this much time has passed, the rate is always measured over at least this much: then the error of a single look
 * hardly counts. */
#define SPEED_NS 1000000000ull
/* With a larger error it is another clock: the machine slept, or moved to another host. */
#define OFF_MOST_NS 50000
/* If a look took longer, the thread was interrupted. */
#define WINDOW_NS 2000
#define TRIES 5

struct stamp_line stamp_line;

struct pair {
	uint64_t ticks, time;
};

static struct {
	struct pair first; /* the rate is measured from here */
	struct pair next;  /* the next `first` */
	struct pair last;
	uint64_t due; /* UINT64_MAX: no look */
	uint64_t off; /* ns at most */
} state = {.due = UINT64_MAX};
/* The count of turns never starts again: a reader could otherwise mix values of two lines. */
static uint32_t turns;

static void lay(uint64_t ticks, uint64_t time, int64_t rate)
{
	turns += turns == UINT32_MAX - 1 ? 4 : 2;
	atomic_store_explicit(&stamp_line.turn, turns | 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&stamp_line.ticks, ticks, memory_order_relaxed);
	atomic_store_explicit(&stamp_line.time, time, memory_order_relaxed);
	atomic_store_explicit(&stamp_line.rate, rate, memory_order_relaxed);
	atomic_store_explicit(&stamp_line.turn, turns, memory_order_release);
}

static int is_there(void)
{
	return atomic_load_explicit(&stamp_line.turn, memory_order_relaxed) != 0;
}

static void leave(void)
{
	atomic_store_explicit(&stamp_line.turn, 0, memory_order_release);
	state.due = UINT64_MAX;
}

/* Returns the largest error that was seen. */
static uint64_t forget(void)
{
	uint64_t off = state.off;
	memset(&state, 0, sizeof state);
	leave();
	atomic_store_explicit(&stamp_line.rate, 0, memory_order_relaxed);
	return off;
}

/* ns * 2^32 for each tick. */
static int64_t rate_of(uint64_t ns, uint64_t ticks)
{
	return ticks ? (int64_t)(((unsigned __int128)ns << 32) / ticks) : 0;
}

static int64_t off_by(uint64_t ticks, uint64_t time)
{
	uint64_t line = stamp_on_line(atomic_load_explicit(&stamp_line.time, memory_order_relaxed),
				      (int64_t)(ticks - atomic_load_explicit(&stamp_line.ticks, memory_order_relaxed)),
				      atomic_load_explicit(&stamp_line.rate, memory_order_relaxed));
	return (int64_t)(line - time);
}

int stamp_meet(uint64_t ticks, uint64_t time)
{
	struct pair now = {ticks, time};
	if (!state.first.ticks) {
		state.first = state.next = state.last = now;
		return 1;
	}
	if (ticks <= state.last.ticks || time <= state.last.time) {
		leave();
		return 0;
	}
	int64_t off = 0;
	if (is_there()) {
		off = off_by(ticks, time);
		uint64_t far = (uint64_t)(off < 0 ? -off : off);
		/* An error of 0 is shown as 1 ns: 0 means that there was no line. */
		state.off = far > state.off ? far : state.off ? state.off : 1;
		if (far > OFF_MOST_NS) {
			leave();
			return 0;
		}
	}
	int64_t rate = rate_of(time - state.first.time, ticks - state.first.ticks);
	/* The new line begins where the old one is, so that times never go back, and meets the kernel's clock at the
	 * next look. */
	lay(ticks, time + (uint64_t)off, rate - (int64_t)((__int128)off * rate / (int64_t)LOOK_NS));
	if (time - state.next.time >= SPEED_NS) {
		state.first = state.next;
		state.next = now;
	}
	state.last = now;
	return 1;
}

#ifdef __x86_64__
static uint64_t read_counter(void)
{
	return __builtin_ia32_rdtsc();
}

static uint64_t read_clock(void)
{
	return clock_now();
}

static const struct stamp_source machine = {"/sys/devices/system/clocksource/clocksource0/current_clocksource",
					    read_counter, read_clock};
static const struct stamp_source *source = &machine;

/* Takes the shortest of some tries: it was interrupted least, so its clock and counter belong together best. */
static int look(struct pair *ret)
{
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = source->counter(), time = source->clock(), after = source->counter();
		if (after < before || after - before >= least)
			continue;
		least = after - before;
		*ret = (struct pair){before + least / 2, time};
	}
	int64_t rate = atomic_load_explicit(&stamp_line.rate, memory_order_relaxed);
	return least != UINT64_MAX && (!rate || (int64_t)(least * (uint64_t)rate >> 32) < WINDOW_NS);
}

static long kernel_counts_so(void *unused)
{
	char name[32];
	(void)unused;
	size_t n = keeper_read_file(source->path, name, sizeof name);
	return n && strcmp(name, "tsc\n") == 0;
}

/* In a virtual machine each read of the counter may call the host, and cost more than the kernel's clock. */
static int is_cheap(void)
{
	uint64_t counter = UINT64_MAX, kernel = UINT64_MAX;
	for (unsigned i = 0; i < TRIES; i++) {
		volatile uint64_t unused;
		uint64_t a = source->clock();
		for (unsigned k = 0; k < 32; k++)
			unused = source->counter();
		uint64_t b = source->clock();
		for (unsigned k = 0; k < 32; k++)
			unused = source->clock();
		uint64_t c = source->clock();
		(void)unused;
		counter = b - a < counter ? b - a : counter;
		kernel = c - b < kernel ? c - b : kernel;
	}
	return counter < kernel;
}

void stamp_begin_with(const struct stamp_source *from)
{
	struct pair pair;
	forget();
	source = from;
	if (!keeper_run(kernel_counts_so, NULL) || !is_cheap() || !look(&pair))
		return;
	stamp_meet(pair.ticks, pair.time);
	state.due = pair.time + FIRST_NS;
}

void stamp_begin(void)
{
	stamp_begin_with(&machine);
}

uint64_t stamp_follow(uint64_t now)
{
	struct pair pair;
	if (now < state.due)
		return state.due;
	if (!look(&pair)) {
		state.due = now + FIRST_NS;
	} else if (stamp_meet(pair.ticks, pair.time)) {
		uint64_t lasts = pair.time - state.first.time;
		state.due = pair.time + (lasts < LOOK_NS ? FIRST_NS : LOOK_NS);
	}
	return state.due;
}

uint64_t stamp_end(void)
{
	struct pair pair;
	/* Nobody knows the error of a line that was never compared with the clock. */
	if (is_there() && look(&pair))
		stamp_meet(pair.ticks, pair.time);
	return forget();
}
#else
void stamp_begin(void)
{
}

void stamp_begin_with(const struct stamp_source *from)
{
	(void)from;
}

uint64_t stamp_follow(uint64_t now)
{
	(void)now;
	return UINT64_MAX;
}

uint64_t stamp_end(void)
{
	return forget();
}
#endif
