/* clock.c - see clock.h.
 *
 * For a reading CUPTI's clock is read between two reads of CLOCK_MONOTONIC; its error is half of the time between these
 * two. The last readings predict the next one. If that differs by more than the errors allow, the clock jumped or
 * changed its rate, and times between the last reading and this one have an error of that size. */
#include "clock.h"

#include "agent/core/room.h"
#include "agent/sink/sink.h"

#include <errno.h>
#include <stdatomic.h>

/* Readings of one session: dense at first, an hour at ten a second afterwards. */
#define READINGS 65536
#define DENSE 2000
#define SPARSE_NS 100000000u
/* The narrowest of several tries counts. A try of at most NARROW_NS is good enough; a try of more than WIDE_NS was
 * interrupted. */
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
/* A clock that NTP adjusts may change its rate by this part without a step. */
#define RATE_CHANGE 0.001
/* A difference of less than this is no step. */
#define STEP_NS 2000

struct reading {
	uint64_t ticks, time;
	uint32_t error;	  /* ns, of the reading itself */
	uint32_t stretch; /* ns, error of times between the reading before and this one; saturated */
	uint32_t epoch;	  /* first reading of its run: the clock has not stepped since */
	uint32_t reserved;
};

static struct reading *readings;
static _Atomic uint32_t count;
static _Atomic uint32_t writing;
static _Atomic uint32_t stepped;
static _Atomic uint32_t silent; /* CUPTI's clock did not answer when it was read last */
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

/* ns per tick at the reading `at`, from the readings of its run up to there. *ret_off: the relative error. 0 where the
 * readings are too close together. */
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

/* The same; from an earlier run where this one is too new. 0 where nothing is known. */
static double rate_known(uint32_t at, double *ret_off)
{
	double rate = rate_at(at, ret_off);
	while (rate == 0 && readings[at].epoch > 0) {
		at = readings[at].epoch - 1;
		rate = rate_at(at, ret_off);
	}
	return rate;
}

/* Compares `next` with what the readings before it predict: sets its error, and finds out whether the clock stepped. */
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
		/* After a run of only one reading no new run begins: its rate is not known, and a change of the rate
		 * would count as a step again and again. */
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
	/* Since then nobody has seen how the clock runs. */
	if (*ret_silent && n)
		error += (uint64_t)((double)(sink_now() - readings[n - 1].time) * RATE_CHANGE);
	return error;
}

/* ---------------------------------------------------------------- conversion */

/* The last reading of [first, last] whose ticks are not greater than `ticks`; first where all are greater. */
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

/* The last reading of the run in which `ticks` lies, or to which it is nearest; the newest of several such runs. */
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

/* Most of CUPTI's clocks count ns. If the rate over so many ticks differs from 1 by no more than the error of the
 * readings, one tick is one ns. */
static void count_ns(struct clock_cursor *cursor, uint64_t ticks)
{
	double off = (cursor->rate - 1) * (double)ticks;
	if ((off < 0 ? -off : off) <= (double)cursor->error)
		cursor->rate = 1;
}

/* Points the cursor to the line that holds for `ticks`. */
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
	/* `ticks` is after the run's last reading. If a later run follows, its first reading has the error of these
	 * times. */
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
	/* Looks again where a new reading follows the one that was the last. */
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
	/* If the clock jumped between the two, the ticks are not the time that passed. */
	uint64_t most = 2 * cursor->error < STEP_NS ? 2 * cursor->error : STEP_NS;
	return cursor->rate == 1 && off <= most ? ticks : converted;
}
