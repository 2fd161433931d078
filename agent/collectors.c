/* collectors.c - see collectors.h. */
#include "collectors.h"

#include "core/collector.h"
#include "core/gate.h"
#include "core/sentence.h"
#include "enter.h"
#include "facts.h"
#include "link.h"
#include "steps/counter.h"
#include "agent/sink/control.h"
#include "tick.h"

#include "../proto/errors.h"

#include <string.h>

#define NO_OPS
#define OPS(name) &collector_##name,
static const struct collector_ops *const collectors[] = {
#define COLLECTOR(bit, NAME, word, part_of, ops, asked, option, help, fills, records) ops
#include "proto/collectors.def"
};
#define COLLECTORS (sizeof collectors / sizeof *collectors)
_Static_assert(COLLECTORS <= CONTROL_COLLECTORS, "room for every collector");

/* What the daemon was told about the collectors of control_run.capture. A new daemon is told the same again. */
static struct message_collector told[COLLECTOR_COUNT];

static void send_collector(uint64_t capture, uint32_t bit, uint32_t available, uint64_t enable, const char *sentence)
{
	struct message_collector m = MESSAGE_INIT(COLLECTOR, collector);
	m.capture = capture;
	m.collector = bit;
	m.available = available;
	m.enable = enable;
	message_text(m.sentence, sizeof m.sentence, sentence);
	if (capture)
		told[bit] = m;
	link_send(&m, -1);
}

static bool is_wanted(const struct collector_ops *c)
{
	return control_run.wanted & (1u << c->bit | collector_parts(c->bit));
}

/* Tells whether collectors[i], and so the parts that it records, ran in this capture. */
static void tell(size_t i, uint32_t ran, uint64_t enable, const char *sentence)
{
	send_collector(control_run.capture, collectors[i]->bit, ran, enable, sentence);
}

/* How long to wait for the next boundary, where the step thread is to stand there: the time of two steps and a little
 * more, if steps are known. */
#define BOUNDARY_STEPS 64
#define BOUNDARY_MORE_NS (SECOND / 100)

static uint64_t boundary_patience(void)
{
	uint64_t step = steps_median(steps_count(), BOUNDARY_STEPS, NULL), patience = 2 * step + BOUNDARY_MORE_NS;
	return !step ? 0 : patience < SECOND ? patience : SECOND;
}

static struct collector_request request(void)
{
	return (struct collector_request){
		control_run.wanted,	   control_run.generation, control_run.step_range,
		control_run.step_operator, control_run.options,	   control_run.stacks_rate,
		facts_whole_graphs(),	   boundary_patience(),	   (enter_ways() & ENTRY_ATTACH) != 0};
}

void collectors_arm(void)
{
	struct collector_request r = request();
	for (size_t i = 0; i < COLLECTORS; i++) {
		char sentence[248] = "";
		control_run.armed[i] = false;
		if (!is_wanted(collectors[i]))
			continue;
		if (collectors[i]->arm && collectors[i]->arm(&r, sentence, sizeof sentence) < 0)
			tell(i, 0, 0, sentence);
		else
			control_run.armed[i] = true;
	}
}

/* Returns the bits of what it records from now on. */
static uint32_t start(size_t i, const struct collector_request *r)
{
	char sentence[248] = "";
	uint64_t from = sink_now();
	if (!control_run.armed[i])
		return 0;
	if (collectors[i]->start(r, sentence, sizeof sentence) < 0) {
		tell(i, 0, 0, sentence);
		return 0;
	}
	control_run.on[i] = true;
	tell(i, 1, sink_now() - from, sentence);
	return 1u << collectors[i]->bit | (control_run.wanted & collector_parts(collectors[i]->bit));
}

int collectors_start(void)
{
	struct collector_request r = request();
	int error = sink_prepare(&control_run.segment, control_run.generation, control_run.max_events);
	uint32_t bits = 1u << COLLECTOR_STEPS;
	if (error == 0) {
		sink_populate();
		for (size_t i = 0; i < COLLECTORS; i++)
			bits |= start(i, &r);
		send_collector(control_run.capture, COLLECTOR_STEPS, 1, 0, step_source_sentence(control_source));
	}
	control_run.collector_bits = bits;
	control_run.collectors_on = true;
	atomic_store_explicit(&control_run.segment.header->collectors, bits, memory_order_relaxed);
	return error;
}

bool collectors_want_still(void)
{
	bool any = false;
	for (size_t i = 0; i < COLLECTORS; i++)
		any |= control_run.armed[i] && collectors[i]->still;
	return any;
}

uint64_t collectors_poll(uint64_t now)
{
	uint64_t due = UINT64_MAX;
	for (size_t i = 0; i < COLLECTORS; i++) {
		if (!control_run.on[i] || !collectors[i]->poll)
			continue;
		uint64_t wanted = collectors[i]->poll(now, atomic_load(&control_run.thread));
		due = wanted < due ? wanted : due;
	}
	return due;
}

uint64_t collectors_bytes(void)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < COLLECTORS; i++)
		if (control_run.on[i] && collectors[i]->bytes)
			bytes += collectors[i]->bytes();
	return bytes;
}

static void tell_note(size_t i)
{
	char sentence[248] = "";
	if (collectors[i]->note && collectors[i]->note(sentence, sizeof sentence))
		tell(i, 1, told[collectors[i]->bit].enable, sentence);
}

void collectors_stop(uint64_t now, uint64_t time)
{
	for (size_t i = 0; i < COLLECTORS; i++)
		if (control_run.on[i])
			tell_note(i);
	for (size_t i = COLLECTORS; i-- > 0;)
		if (control_run.on[i])
			collectors[i]->stop();
	sink_drain();
	for (size_t i = 0; i < COLLECTORS; i++)
		if (control_run.on[i] && collectors[i]->drain)
			collectors[i]->drain(now + time);
}

void collectors_disarm(void)
{
	for (size_t i = 0; i < COLLECTORS; i++) {
		if (control_run.armed[i] && collectors[i]->disarm)
			collectors[i]->disarm();
		control_run.on[i] = control_run.armed[i] = false;
	}
	control_run.collectors_on = false;
}

struct message_collector *collectors_told(void)
{
	return told;
}

void collectors_forget(void)
{
	memset(told, 0, sizeof told);
}

bool collectors_refuse(uint32_t bits, char *sentence, size_t bytes)
{
	char why[248];
	for (size_t i = 0; i < COLLECTORS; i++) {
		uint32_t mine = bits & (1u << collectors[i]->bit | collector_parts(collectors[i]->bit));
		if (!mine || (collectors[i]->probe(why, sizeof why) == 1 &&
			      (!collectors[i]->probe_parts || collectors[i]->probe_parts(mine, why, sizeof why) == 0)))
			continue;
		struct sentence s = sentence_begin(sentence, bytes);
		sentence_add(&s, collector_word((unsigned)__builtin_ctz(mine)));
		sentence_add(&s, ": ");
		sentence_add(&s, why);
		return true;
	}
	return false;
}

bool collectors_others(char *sentence, size_t bytes)
{
	for (size_t i = 0; i < COLLECTORS; i++)
		if (collectors[i]->others && collectors[i]->others(sentence, bytes))
			return true;
	return false;
}

void collectors_probe(void)
{
	char sentence[248];
	uint32_t source = steps_source();
	uint32_t overruns = gate_overruns();
	message_text(
		sentence, sizeof sentence,
		source != STEP_SOURCE_NONE
			? step_source_sentence(source)
			: "no steps seen yet: neither profd_step() nor torch's Optimizer.step has been called; use "
			  "--step-range, --step-op or --duration");
	if (overruns) {
		struct sentence s = sentence_continue(sentence, sizeof sentence);
		sentence_add(&s, "; ");
		sentence_add_number(&s, overruns);
		sentence_add(&s, " forks did not wait until the agent had left the loader, torch or CUPTI");
	}
	send_collector(0, COLLECTOR_STEPS, source != STEP_SOURCE_NONE, 0, sentence);
	for (size_t i = 0; i < COLLECTORS; i++) {
		sentence[0] = 0;
		int can = collectors[i]->probe(sentence, sizeof sentence);
		send_collector(0, collectors[i]->bit, can == 1, 0, sentence);
	}
	send_collector(0, COLLECTOR_STEPS, 2, 0, "");
}
