/* deliver.c - see deliver.h. */
#include "deliver.h"

#include "clock.h"
#include "decoder.h"
#include "known.h"
#include "record_walk.h"
#include "thread_numbers.h"

#include "agent/sink/sink.h"

#include <sched.h>
#include <stdatomic.h>

/* Buffers that can be decoded at the same time; CUPTI has one worker, and a flush may deliver in its caller. */
#define DECODERS 6u
/* The clock is read for each buffer, but not more often than this. */
#define SAMPLE_NS 1000000u

static struct decoder decoders[DECODERS];
static struct deliver_settings settings;
static _Atomic uint64_t records;

/* ---------------------------------------------------------------- a buffer */

/* Between two looks at a decoder that another thread has. No sched_yield(): see lock_take() of sink/string.c. */
static const struct timespec nap = {0, 50000};

static struct decoder *decoder_take(void)
{
	for (unsigned round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < DECODERS; i++) {
			uint32_t free = 0;
			if (!atomic_load_explicit(&decoders[i].taken, memory_order_relaxed) &&
			    atomic_compare_exchange_strong_explicit(&decoders[i].taken, &free, 1, memory_order_acquire,
								    memory_order_relaxed))
				return &decoders[i];
		}
		nanosleep(&nap, NULL);
	}
	return NULL;
}

static void decoder_give(struct decoder *d)
{
	atomic_store_explicit(&d->taken, 0, memory_order_release);
}

/* Writes each record by `d`, or none where `d` is NULL; returns how many there are. */
static uint64_t walk(struct decoder *d, uint8_t *data, size_t valid)
{
	struct record_walk walk = {.layout = settings.layout,
				   .subscriber = settings.subscriber,
				   .each = d ? decoder_write : NULL,
				   .user = d};
	uint64_t n = record_walk(&walk, data, valid);
	if (d && d->from && walk.gaps)
		sink_lost_many(LOSS_DRIVER, 0, walk.gaps);
	return n;
}

void deliver_buffer(uint8_t *data, size_t valid, int stale)
{
	struct sink_thread *sink = sink_enter_pop();
	struct decoder *d = sink ? decoder_take() : NULL;
	uint64_t n;
	if (d) {
		clock_sample(SAMPLE_NS);
		decoder_join(d, &settings, sink, sink_recording());
		d->stale = stale;
		n = walk(d, data, valid);
		decoder_give(d);
	} else {
		/* No decoder: a signal handler interrupted the recorder, or there are more threads than the recorder
		 * follows, or all decoders are busy, or nothing is recorded. */
		n = sink_recording() ? walk(NULL, data, valid) : 0;
		if (n && sink_record_start())
			sink_lost_many(LOSS_REENTERED, 0, n);
	}
	atomic_fetch_add_explicit(&records, n, memory_order_relaxed);
	if (sink)
		sink_leave(sink);
}

void deliver_none(uint8_t *data, size_t valid)
{
	sink_lost_many(LOSS_NO_SPACE, 0, walk(NULL, data, valid));
}

/* ---------------------------------------------------------------- a session */

void deliver_begin(const struct deliver_settings *wanted)
{
	settings = *wanted;
	atomic_store_explicit(&records, 0, memory_order_relaxed);
	thread_numbers_begin(settings.pthread_numbers);
	decoder_begin();
	known_begin();
}

void deliver_end(uint64_t deadline, struct deliver_counts *ret)
{
	*ret = (struct deliver_counts){
		.records = atomic_load_explicit(&records, memory_order_relaxed),
		.known_from = decoder_known_from(),
		.last = decoder_last(),
	};
	struct sink_thread *sink = sink_enter_pop();
	if (!sink)
		return;
	uint32_t generation = sink_recording();
	for (struct decoder *d = decoders; d < decoders + DECODERS; d++) {
		uint32_t free = 0;
		while (!atomic_compare_exchange_strong_explicit(&d->taken, &free, 1, memory_order_acquire,
								memory_order_relaxed)) {
			free = 0;
			if (sink_now() >= deadline)
				break;
			nanosleep(&nap, NULL);
		}
		if (free)
			continue;
		if (d->generation == generation) {
			d->sink = sink;
			decoder_write_waiting(d);
			ret->early += d->early;
			d->early = 0;
		}
		decoder_give(d);
	}
	known_write(sink);
	sink_leave(sink);
}
