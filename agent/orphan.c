/* orphan.c - see orphan.h. */
#include "orphan.h"
#include "control.h"
#include "core/keeper.h"
#include "link.h"
#include "agent/sink/sink.h"

#include "../proto/limits.h"

#include <string.h>

#define ORPHANS 8

static struct orphan {
	struct segment segment; /* header NULL: free */
	uint64_t trigger;
	struct message_collector told[COLLECTOR_COUNT];
	struct message_done done;
	bool stuck;
	uint64_t give_up; /* CLOCK_MONOTONIC ns; 0 = the daemon is there */
} orphans[ORPHANS];
static bool connected;

static void forget(struct orphan *o)
{
	/* A thread that is stuck in the recorder may still write into the mapping when it goes on, so the mapping
	 * stays. */
	if (!o->stuck)
		keeper_unmap(&o->segment);
	memset(o, 0, sizeof *o);
}

static uint64_t expiry(void)
{
	return sink_now() + LIMIT_ORPHAN_SECONDS * 1000000000ull;
}

void orphan_done(const struct segment *segment, uint64_t trigger, const struct message_collector *told,
		 const struct message_done *done, bool stuck)
{
	struct orphan *o = NULL;
	for (unsigned i = 0; i < ORPHANS && !o; i++)
		if (!orphans[i].segment.header)
			o = &orphans[i];
	if (!o) {
		/* The oldest capture makes room; without a daemon its events are lost. */
		o = &orphans[0];
		for (unsigned i = 1; i < ORPHANS; i++)
			if (orphans[i].done.capture < o->done.capture)
				o = &orphans[i];
		forget(o);
	}
	o->segment = *segment;
	o->trigger = trigger;
	memcpy(o->told, told, sizeof o->told);
	o->done = *done;
	o->stuck = stuck;
	o->give_up = connected ? 0 : expiry();
	/* Without a daemon DONE is sent later, after the offer. */
	if (connected)
		link_send(&o->done, -1);
}

void orphan_finish(uint64_t capture)
{
	for (unsigned i = 0; i < ORPHANS; i++)
		if (orphans[i].segment.header && orphans[i].done.capture == capture)
			forget(&orphans[i]);
}

void orphan_lost(void)
{
	connected = false;
	for (unsigned i = 0; i < ORPHANS; i++)
		if (orphans[i].segment.header && !orphans[i].give_up)
			orphans[i].give_up = expiry();
}

static void offer(const struct segment *segment, uint64_t capture, uint64_t trigger,
		  const struct message_collector *told, bool active)
{
	struct message_offer m = MESSAGE_INIT(OFFER, offer);
	m.capture = capture;
	m.trigger = trigger;
	m.active = active;
	link_send(&m, segment->fd);
	for (unsigned i = 0; told && i < COLLECTOR_COUNT; i++)
		if (told[i].head.size)
			link_send(&told[i], -1);
}

void orphan_offer(const struct segment *segment, uint64_t capture, uint64_t trigger,
		  const struct message_collector *told)
{
	offer(segment, capture, trigger, told, true);
}

void orphan_found(void)
{
	connected = true;
	for (unsigned i = 0; i < ORPHANS; i++)
		if (orphans[i].segment.header && orphans[i].give_up)
			offer(&orphans[i].segment, orphans[i].done.capture, orphans[i].trigger, orphans[i].told, false);
	/* A DONE makes the daemon begin the next cycle, unless that cycle has been offered. So all offers come
	 * first. */
	for (unsigned i = 0; i < ORPHANS; i++)
		if (orphans[i].segment.header && orphans[i].give_up)
			link_send(&orphans[i].done, -1);
}

uint64_t orphan_work(uint64_t now)
{
	uint64_t due = UINT64_MAX;
	for (unsigned i = 0; i < ORPHANS; i++) {
		struct orphan *o = &orphans[i];
		if (!o->segment.header || !o->give_up)
			continue;
		if (now >= o->give_up)
			forget(o);
		else if (o->give_up < due)
			due = o->give_up;
	}
	return due;
}

uint32_t orphan_count(void)
{
	uint32_t n = 0;
	for (unsigned i = 0; i < ORPHANS; i++)
		n += orphans[i].segment.header && orphans[i].give_up;
	return n;
}

bool orphan_connected(void)
{
	return connected;
}

bool orphan_any(void)
{
	for (unsigned i = 0; i < ORPHANS; i++)
		if (orphans[i].segment.header)
			return true;
	return false;
}

void orphan_forget_all(void)
{
	for (unsigned i = 0; i < ORPHANS; i++)
		if (orphans[i].segment.header)
			forget(&orphans[i]);
}
