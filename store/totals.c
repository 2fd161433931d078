/* totals.c - see totals.h. */
#include "totals.h"
#include "proto/base/hash.h"
#include "proto/limits.h"
#include "proto/plausible.h"

#include <stdlib.h>
#include <string.h>

/* 262,144 groups of 64 bytes: 16 MiB for a capture that has them. */
#define GROUPS_MAX (1u << 18)

static bool same(const struct total *a, const struct total *b)
{
	return a->name == b->name && a->step == b->step && a->kind == b->kind && a->domain == b->domain &&
	       a->source == b->source;
}

static struct total *place(struct total *table, size_t capacity, const struct total *key)
{
	uint64_t rest = (uint64_t)key->domain << 32 | (uint64_t)key->source << 8 | key->kind;
	size_t i = (size_t)hash_of(hash_of(key->name, key->step), rest) & (capacity - 1);
	while (table[i].kind && !same(&table[i], key))
		i = (i + 1) & (capacity - 1);
	return &table[i];
}

static bool grow(struct totals *totals)
{
	size_t capacity = totals->capacity ? totals->capacity * 2 : 1024;
	if (capacity > 2ull * GROUPS_MAX)
		return false;
	struct total *table = memory_get(totals->memory, capacity * sizeof *table);
	if (!table)
		return false;
	for (size_t i = 0; i < totals->capacity; i++)
		if (totals->table[i].kind)
			*place(table, capacity, &totals->table[i]) = totals->table[i];
	memory_put(totals->memory, totals->table, totals->capacity * sizeof *table);
	totals->table = table;
	totals->capacity = capacity;
	return true;
}

static struct total *group(struct totals *totals, const struct total *key)
{
	if (totals->count * 2 >= totals->capacity && !grow(totals)) {
		totals->incomplete = true;
		return NULL;
	}
	struct total *total = place(totals->table, totals->capacity, key);
	if (!total->kind) {
		*total = (struct total){.kind = key->kind,
					.source = key->source,
					.name = key->name,
					.domain = key->domain,
					.step = key->step,
					.min = UINT64_MAX};
		totals->count++;
	}
	return total;
}

static void count(struct total *total, uint64_t duration, uint64_t self)
{
	total->calls++;
	total->total += duration;
	total->self += self;
	if (duration < total->min)
		total->min = duration;
	if (duration > total->max)
		total->max = duration;
}

static bool room_for_step(struct totals *totals, uint32_t ordinal)
{
	if (ordinal < totals->step_capacity)
		return true;
	if (ordinal > LIMIT_STEPS)
		return false;
	size_t capacity = totals->step_capacity ? totals->step_capacity : 64;
	while (capacity <= ordinal)
		capacity *= 2;
	size_t had = totals->step_capacity;
	struct total_step *steps =
		memory_grow(totals->memory, totals->steps, had * sizeof *steps, capacity * sizeof *steps);
	if (!steps)
		return false;
	memset(steps + had, 0, (capacity - had) * sizeof *steps);
	totals->steps = steps;
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++) {
		if (!event_needs_step(kind))
			continue;
		struct total_span *spans = memory_grow_anyway(totals->memory, totals->spans[kind], had * sizeof *spans,
							      capacity * sizeof *spans);
		if (!spans)
			return false;
		for (size_t i = had; i < capacity; i++)
			spans[i] = (struct total_span){UINT64_MAX, 0};
		totals->spans[kind] = spans;
	}
	totals->step_capacity = capacity;
	return true;
}

static void span(struct totals *totals, unsigned kind, uint32_t step, uint64_t start)
{
	if (!room_for_step(totals, step)) {
		totals->incomplete = true;
		return;
	}
	struct total_span *s = &totals->spans[kind][step];
	if (start < s->first)
		s->first = start;
	if (start > s->last)
		s->last = start;
}

static void operator_call(void *context, const struct fold_call *call)
{
	struct total *total =
		group(context, &(struct total){.kind = EVENT_OPERATOR, .name = call->name, .step = call->step});
	if (total)
		count(total, call->duration, call->self);
}

static void into_fold(struct totals *totals, const union event_any *event)
{
	fold_add(&totals->fold, event);
	if (totals->fold.broken)
		totals->incomplete = true;
}

void totals_init(struct totals *totals, struct memory *memory)
{
	memset(totals, 0, sizeof *totals);
	totals->memory = totals->fold.memory = memory;
	totals->fold.call = operator_call;
	totals->fold.context = totals;
}

void totals_chunk(struct totals *totals, uint32_t writer, uint32_t sequence)
{
	fold_chunk(&totals->fold, writer, sequence);
}

void totals_end(struct totals *totals)
{
	if (!totals->incomplete)
		fold_end(&totals->fold);
	if (totals->fold.broken)
		totals->incomplete = true;
}

void totals_add(struct totals *totals, const union event_any *event)
{
	totals->events++;
	if (totals->incomplete)
		return;
	struct total *total;
	if (event_needs_step(event->head.kind))
		span(totals, event->head.kind, event->head.step, event_time(event));
	switch (event->head.kind) {
	case EVENT_OPERATOR:
		into_fold(totals, event);
		break;
	case EVENT_RANGE: {
		const struct event_range *r = &event->range;
		total = group(totals, &(struct total){.kind = EVENT_RANGE,
						      .source = r->source,
						      .name = r->name,
						      .domain = r->domain,
						      .step = r->head.step});
		if (total)
			count(total, r->duration, r->self);
		into_fold(totals, event);
		break;
	}
	case EVENT_STEP: {
		uint32_t ordinal = event->head.step;
		/* No agent writes two records with one ordinal: the rows decide. */
		if (ordinal == 0 || !room_for_step(totals, ordinal) || totals->steps[ordinal].ordinal) {
			totals->incomplete = true;
			break;
		}
		totals->steps[ordinal] = (struct total_step){
			event->step.start, event->step.start + event->step.duration, event->step.number, ordinal};
		if (ordinal > totals->step_last)
			totals->step_last = ordinal;
		break;
	}
	default: /* the kind has no sums */
		break;
	}
}

void totals_move(struct totals *totals, struct total key, uint32_t from, uint32_t to, uint64_t duration, uint64_t self)
{
	/* It is no longer known into which call an operator was folded. */
	if (key.kind == EVENT_OPERATOR)
		totals->incomplete = true;
	if (totals->incomplete)
		return;
	key.step = from;
	struct total *total = group(totals, &key);
	if (!total || total->calls == 0) {
		totals->incomplete = true;
		return;
	}
	total->calls--;
	total->total -= duration;
	total->self -= self;
	if (duration == total->min || duration == total->max)
		total->stale = true;
	key.step = to;
	total = group(totals, &key);
	if (total)
		count(total, duration, self);
}

void totals_deinit(struct totals *totals)
{
	struct memory *memory = totals->memory;
	fold_deinit(&totals->fold);
	memory_put(memory, totals->table, totals->capacity * sizeof *totals->table);
	memory_put(memory, totals->steps, totals->step_capacity * sizeof *totals->steps);
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++)
		if (totals->spans[kind])
			memory_put(memory, totals->spans[kind], totals->step_capacity * sizeof *totals->spans[kind]);
	memset(totals, 0, sizeof *totals);
}
