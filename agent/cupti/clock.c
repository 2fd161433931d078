/* clock.c - see clock.h.
 *
 * A reading is CUPTI's clock between two of CLOCK_MONOTONIC; half of what lies between these is how far it may be off. What
 * the last readings say of the next one, and by how much it differs, tells of jumps and of changes of the rate: then the stretch
 * that ends with it is doubtful by that much. */
#include "clock.h"

#include "agent/core/room.h"
#include "agent/sink/sink.h"

#include <errno.h>
#include <stdatomic.h>

/* Readings of one session: dense at first, an hour at ten a second afterwards. */
#define READINGS 65536
#define DENSE 2000
#define SPARSE_NS 100000000u
/* The narrowest of several tries counts. A try as narrow as NARROW_NS is good enough; a try as wide as WIDE_NS was interrupted. */
#define TRIES 5
#define NARROW_NS 100
#define TRIES_WIDE 50
#define WIDE_NS 3000
/* Readings are at least so far apart. */
#define APART_NS 500000u
/* The time between two readings, about. */
#define SPACING_NS 10000000u
/* A rate is taken from readings this far apart, if there are any. */
#define BASELINE_NS 200000000u
/* Clocks that are disciplined may change their rate by this part of it without having stepped. */
#define RATE_CHANGE 0.001
/* And nobody calls less than this a jump. */
#define STEP_NS 2000

struct reading {
	uint64_t ticks, time;
	uint32_t error;	  /* ns, of the reading itself */
	uint32_t stretch; /* ns, of times between the reading before and this one; saturated */
	uint32_t epoch;	  /* first reading of the run of the clock that it belongs to */
	uint32_t reserved;
};

static struct reading *readings;
static _Atomic uint32_t count;
static _Atomic uint32_t writing;
static _Atomic uint32_t stepped;
static _Atomic uint32_t silent; /* the last look at CUPTI's clock had no answer */
static _Atomic uint64_t worst;
static clock_reader read_ticks;

int clock_begin(clock_reader reader)
{
	if (!readings) {
		void *map = room_try(READINGS * sizeof *readings);
		if (!map)
			return -ENOMEM;
		readings = map;
	}
	atomic_store(&count, 0);
	atomic_store(&writing, 0);
	atomic_store(&stepped, 0);
	atomic_store(&silent, 0);
	atomic_store(&worst, 0);
	read_ticks = reader;
	return 0;
}

static int take(struct reading *ret)
{
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < (best > WIDE_NS ? TRIES_WIDE : TRIES) && best > NARROW_NS; i++) {
		uint64_t ticks, before = sink_now();
		if (read_ticks(&ticks))
			return -EIO;
		uint64_t after = sink_now();
		if (after - before >= best)
			continue;
		best = after - before;
		*ret = (struct reading){.ticks = ticks, .time = before + best / 2};
		ret->error = best / 2 + 1 < UINT32_MAX ? (uint32_t)(best / 2 + 1) : UINT32_MAX;
	}
	return 0;
}

/* ns a tick at the reading `at`, from the readings of its run of the clock up to there, and by which part of it that may be off.
 * 0 where they are too close together to tell. */
static double rate_at(uint32_t at, double *ret_off)
{
	uint32_t from = at;
	while (from > readings[at].epoch && readings[at].time - readings[from].time < BASELINE_NS)
		from--;
	double base = (double)(readings[at].time - readings[from].time);
	double ticks = (double)(int64_t)(readings[at].ticks - readings[from].ticks);
	double noise = (double)readings[at].error + (double)readings[from].error;
	if (ticks <= 0 || base < noise * 10)
		return 0;
	*ret_off = noise / base;
	return base / ticks;
}

/* The same, of an earlier run of the clock where this one is new; 0 where nothing is known. */
static double rate_known(uint32_t at, double *ret_off)
{
	double rate = rate_at(at, ret_off);
	while (rate == 0 && readings[at].epoch > 0) {
		at = readings[at].epoch - 1;
		rate = rate_at(at, ret_off);
	}
	return rate;
}

/* Judges `next` by the readings before it: how far it lies from what they foretell, and whether that is a step. */
static void judge(struct reading *next, uint32_t n)
{
	const struct reading *last = &readings[n - 1];
	double elapsed = (double)(next->time - last->time), ticks = (double)(int64_t)(next->ticks - last->ticks);
	double uncertain = 0, rate = rate_known(n - 1, &uncertain), beyond = 0;
	next->epoch = last->epoch;
	if (rate > 0) {
		double off = ticks * rate - elapsed;
		beyond = (off < 0 ? -off : off) - (double)last->error - (double)next->error - uncertain * elapsed;
	}
	if (ticks <= 0 || beyond > elapsed * RATE_CHANGE + STEP_NS) {
		atomic_store_explicit(&stepped, 1, memory_order_relaxed);
		/* A run of one reading may go on at any rate, or a change of the rate would be a step for ever. */
		if (last->epoch != n - 1 || ticks <= 0)
			next->epoch = n;
	}
	double stretch = (double)(last->error > next->error ? last->error : next->error) + (beyond > 0 ? beyond : 0);
	if (ticks <= 0 && stretch < elapsed)
		stretch = elapsed;
	next->stretch = stretch < (double)UINT32_MAX ? (uint32_t)stretch : UINT32_MAX;
}

int clock_sample(uint64_t spacing)
{
	uint32_t n = atomic_load_explicit(&count, memory_order_acquire), idle = 0;
	if (n > DENSE && spacing < SPARSE_NS)
		spacing = SPARSE_NS;
	if (spacing < APART_NS)
		spacing = APART_NS;
	if (n >= READINGS || (n && sink_now() - readings[n - 1].time < spacing))
		return 0;
	struct reading next = {0};
	int error = take(&next);
	atomic_store_explicit(&silent, error != 0, memory_order_relaxed);
	if (error)
		return error;
	if (!atomic_compare_exchange_strong_explicit(&writing, &idle, 1, memory_order_acquire, memory_order_relaxed))
		return 0;
	n = atomic_load_explicit(&count, memory_order_relaxed);
	if (n == 0 || (n < READINGS && next.time > readings[n - 1].time)) {
		next.stretch = next.error;
		if (n)
			judge(&next, n);
		readings[n] = next;
		if (next.stretch > atomic_load_explicit(&worst, memory_order_relaxed))
			atomic_store_explicit(&worst, next.stretch, memory_order_relaxed);
		atomic_store_explicit(&count, n + 1, memory_order_release);
	}
	atomic_store_explicit(&writing, 0, memory_order_release);
	return 0;
}

uint64_t clock_error(int *ret_stepped, int *ret_silent)
{
	uint64_t error = atomic_load_explicit(&worst, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(&count, memory_order_acquire);
	*ret_stepped = (int)atomic_load_explicit(&stepped, memory_order_relaxed);
	*ret_silent = (int)atomic_load_explicit(&silent, memory_order_relaxed);
	/* Nobody has seen since how it runs. */
	if (*ret_silent && n)
		error += (uint64_t)((double)(sink_now() - readings[n - 1].time) * RATE_CHANGE);
	return error;
}

/* ---------------------------------------------------------------- conversion */

/* The last reading of [first, last] whose ticks are not behind `ticks`; first where all are. */
static uint32_t before(uint32_t first, uint32_t last, uint64_t ticks)
{
	while (first < last) {
		uint32_t middle = first + (last - first + 1) / 2;
		if (readings[middle].ticks <= ticks)
			first = middle;
		else
			last = middle - 1;
	}
	return first;
}

/* The last reading of the run of the clock that `ticks` lies in, or nearest to; the newest of several. */
static uint32_t run_of(uint64_t ticks, uint32_t n)
{
	uint32_t nearest = n - 1;
	uint64_t least = UINT64_MAX;
	for (uint32_t last = n - 1;; last = readings[last].epoch - 1) {
		uint64_t from = readings[readings[last].epoch].ticks, to = readings[last].ticks;
		uint64_t distance = ticks < from ? from - ticks : ticks > to ? ticks - to : 0;
		if (distance < least) {
			least = distance;
			nearest = last;
		}
		if (distance == 0 || readings[last].epoch == 0)
			return nearest;
	}
}

/* Points the cursor to the line that holds for `ticks`. */
/* Most of CUPTI's clocks count ns. Where a stretch of so many ticks says nothing else, within its error, its ticks are
 * ns: what two readings were off by is no rate. */
static void count_ns(struct clock_cursor *cursor, uint64_t ticks)
{
	double off = (cursor->rate - 1) * (double)ticks;
	if ((off < 0 ? -off : off) <= (double)cursor->error)
		cursor->rate = 1;
}

static void find(struct clock_cursor *cursor, uint64_t ticks, uint32_t n)
{
	uint32_t last = run_of(ticks, n), first = readings[last].epoch, at = before(first, last, ticks);
	const struct reading *a = &readings[at], *b = at < last ? a + 1 : NULL;
	double off;
	*cursor = (struct clock_cursor){.base_ticks = a->ticks, .base = a->time, .count = n, .error = a->stretch};
	if (ticks >= a->ticks && b) {
		cursor->from = a->ticks;
		cursor->to = b->ticks;
		cursor->rate = (double)(b->time - a->time) / (double)(b->ticks - a->ticks);
		cursor->error = b->stretch;
		count_ns(cursor, b->ticks - a->ticks);
		return;
	}
	cursor->rate = rate_known(last, &off);
	if (cursor->rate == 0)
		cursor->rate = 1;
	count_ns(cursor, SPACING_NS);
	if (ticks < a->ticks) {
		cursor->from = cursor->to = ticks;
		return;
	}
	/* After the last reading; a reading of a later run says how far off that may be. */
	cursor->from = a->ticks;
	cursor->to = last + 1 == n ? UINT64_MAX : ticks;
	if (last + 1 < n)
		cursor->error = readings[last + 1].stretch;
}

uint64_t clock_convert(struct clock_cursor *cursor, uint64_t ticks)
{
	uint32_t n = atomic_load_explicit(&count, memory_order_acquire);
	if (__builtin_expect(n == 0, 0))
		return ticks;
	/* After the last reading of that time a new one says more. */
	if (ticks < cursor->from || ticks > cursor->to || cursor->count == 0 ||
	    (cursor->to == UINT64_MAX && cursor->count != n))
		find(cursor, ticks, n);
	if (cursor->rate == 1)
		return cursor->base + (ticks - cursor->base_ticks);
	double elapsed = (double)(int64_t)(ticks - cursor->base_ticks) * cursor->rate;
	return cursor->base + (uint64_t)(int64_t)elapsed;
}

uint64_t clock_between(const struct clock_cursor *cursor, uint64_t start, uint64_t end, uint64_t ticks)
{
	uint64_t converted = end > start ? end - start : 0;
	uint64_t off = converted > ticks ? converted - ticks : ticks - converted;
	/* A jump between the two is no time that passed. */
	uint64_t most = 2 * cursor->error < STEP_NS ? 2 * cursor->error : STEP_NS;
	return cursor->rate == 1 && off <= most ? ticks : converted;
}
