/* build.c - see build.h. While the trace is read its events become records that are sorted; once its steps are known these are written. */
#include "build.h"

#include "callers.h"
#include "collective.h"
#include "nest.h"
#include "number.h"
#include "records.h"
#include "steps.h"
#include "strings.h"

#include "proto/base/array.h"
#include "proto/base/sorter.h"
#include "proto/plausible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SORTER_BYTES (24u << 20)
/* Where the capture's own clock begins: times in it are never 0. */
#define CLOCK_START 1000000000ull
/* Records in one transaction. */
#define PORTION 100000
#define THREADS_MAX 1024

/* A record and what it is sorted by. Its times are those of the trace still. */
struct item {
	int64_t start, end;
	uint64_t order;
	uint32_t thread;
	bool module; /* a call of a torch.nn.Module */
	union event_any event;
};

struct thread {
	int64_t pid;
	uint32_t thread, name; /* name 0 = none */
	uint64_t operators;
	bool forward; /* of some of them autograd has nodes */
};

struct build {
	struct store *store;
	struct strings strings;
	struct sorter frames, others; /* of the host, by thread; the rest, by time */
	uint64_t order;
	struct steps steps;
	struct thread *threads;
	size_t thread_count, thread_room;
	int64_t pid, lowest, highest; /* of what is kept */
	char process[64];
	bool stacks; /* it holds calls of Python */
	struct callers callers;
	uint32_t forward_thread; /* torch's number of the thread that ran the forward; of several 0 */
	bool forward_threads;	 /* there are several */
	uint64_t stackless;
	struct build_counts counts;
	uint32_t portion; /* records since the last commit */
};

static int by_thread(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	/* What encloses comes first. */
	return ORDER(x->thread, y->thread) ?: ORDER(x->start, y->start) ?: ORDER(y->end, x->end) ?: ORDER(x->order, y->order);
}

static int by_time(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return ORDER(x->start, y->start) ?: ORDER(x->order, y->order);
}

struct build *build_new(struct store *store, int folder)
{
	struct build *build = calloc(1, sizeof *build);
	if (!build)
		return NULL;
	build->store = build->strings.store = store;
	build->pid = -1;
	build->lowest = INT64_MAX;
	build->highest = INT64_MIN;
	if (callers_init(&build->callers, &build->strings, folder)) {
		callers_deinit(&build->callers);
		free(build);
		return NULL;
	}
	sorter_init(&build->frames, folder, NULL, sizeof(struct item), SORTER_BYTES, by_thread);
	sorter_init(&build->others, folder, NULL, sizeof(struct item), SORTER_BYTES, by_time);
	return build;
}

void build_free(struct build *build)
{
	if (!build)
		return;
	sorter_deinit(&build->frames);
	sorter_deinit(&build->others);
	callers_deinit(&build->callers);
	strings_free(&build->strings);
	steps_free(&build->steps);
	free(build->threads);
	free(build);
}

static bool no_memory(struct build *build)
{
	store_set_error(build->store, -ENOMEM, "there is no memory left");
	return false;
}

static struct thread *thread_of(struct build *build, int64_t pid, uint32_t thread)
{
	for (size_t i = build->thread_count; i > 0; i--)
		if (build->threads[i - 1].thread == thread && build->threads[i - 1].pid == pid)
			return &build->threads[i - 1];
	if (build->thread_count == THREADS_MAX)
		return NULL;
	if (!ARRAY_GROW(build->threads, build->thread_count, build->thread_room))
		return NULL;
	build->threads[build->thread_count] = (struct thread){.pid = pid, .thread = thread};
	return &build->threads[build->thread_count++];
}

/* --- reading --- */

static bool went_well(struct build *build, int error)
{
	if (error)
		store_set_error(build->store, error,
				error == -ENOMEM ? "there is no memory left" : "the disk takes no more");
	return !error;
}

static bool sort(struct build *build, struct sorter *sorter, const struct item *item)
{
	return went_well(build, sorter_add(sorter, item));
}

static bool add(struct build *build, struct sorter *sorter, const struct kineto_event *event,
		const union event_any *record)
{
	struct item item = {.start = event->start,
			    .end = event->start + event->duration,
			    .order = build->order++,
			    .thread = thread_id(event->thread),
			    .event = *record};
	build->lowest = item.start < build->lowest ? item.start : build->lowest;
	build->highest = item.end > build->highest ? item.end : build->highest;
	return sort(build, sorter, &item);
}

/* A node of autograd tells whose backward it is by a number and by torch's own number of the thread. The trace does not
 * tell which thread that is. */
static void take_sequence(struct build *build, struct thread *thread, const struct event_operator *operator)
{
	if (!operator->forward_thread) {
		thread->forward |= operator->sequence >= 0;
		return;
	}
	build->forward_threads |= build->forward_thread && build->forward_thread != operator->forward_thread;
	build->forward_thread = operator->forward_thread;
}

/* Adds what has times. */
static bool add_timed(struct build *build, const struct kineto_event *event)
{
	union event_any record;
	record_of(event, &build->strings, &record);
	switch (record.head.kind) {
	case EVENT_OPERATOR: {
		struct thread *of = thread_of(build, event->pid, record.operator.thread);
		if (of) {
			of->operators++;
			take_sequence(build, of, &record.operator);
		}
		build->counts.operators = true;
		build->counts.shapes = build->counts.shapes || record.operator.inputs;
		/* The collective's record comes right behind its operator: nothing else has the same times and an order
		 * between theirs. */
		union event_any collective;
		return add(build, &build->frames, event, &record) &&
		       (!collective_of(event, &build->strings, &collective) ||
			add(build, &build->frames, event, &collective));
	}
	case EVENT_RANGE:
		build->counts.annotations = true;
		build->counts.shapes = build->counts.shapes || record.range.inputs;
		if (!steps_add(&build->steps, event, record.range.thread))
			return no_memory(build);
		return add(build, &build->frames, event, &record);
	case EVENT_FRAMEWORK_ALLOCATION:
		build->counts.memory = true;
		return add(build, &build->frames, event, &record);
	case EVENT_GARBAGE:
		return add(build, &build->others, event, &record);
	case EVENT_API_CALL:
	case EVENT_KERNEL:
	case EVENT_COPY:
	case EVENT_SET:
	case EVENT_SYNC:
	case EVENT_OVERHEAD:
		build->counts.device = true;
		build->counts.calls = build->counts.calls || record.head.kind == EVENT_API_CALL;
		build->counts.syncs = build->counts.syncs || record.head.kind == EVENT_SYNC;
		return add(build, &build->others, event, &record);
	default:
		store_set_error(build->store, -EINVAL, "an event has become a record of no kind that is known");
		return false;
	}
}

/* The stacks of operators are made of calls of Python. The outermost calls of modules, which are a model's forward, are
 * also kept as ranges (put_frames). Calls do not tell when the recording began. */
static bool add_python(struct build *build, const struct kineto_event *event)
{
	static const char module[] = "nn.Module: ";
	bool kept = false;
	build->stacks = true;
	if (event->timed && event->name.text && !went_well(build, callers_add(&build->callers, event, &kept)))
		return false;
	build->counts.python += !kept;
	if (!kept || strncmp(event->name.text, module, sizeof module - 1) != 0)
		return true;
	struct item item = {.start = event->start,
			    .end = event->start + event->duration,
			    .order = build->order++,
			    .thread = thread_id(event->thread),
			    .module = true};
	record_module(event, &build->strings, &item.event);
	return sort(build, &build->frames, &item);
}

static void take_names(struct build *build, const struct kineto_event *event)
{
	if (!event->label.text)
		return;
	if (event->kind == KINETO_PROCESS_NAME) {
		if (!*build->process && event->pid > 0)
			text_copy(build->process, sizeof build->process, event->label.text);
		return;
	}
	struct thread *thread = event->thread > 0 ? thread_of(build, event->pid, thread_id(event->thread)) : NULL;
	if (thread)
		thread->name = strings_name(&build->strings, event->label);
}

static bool is_host(enum kineto_kind kind)
{
	return kind == KINETO_OPERATOR || kind == KINETO_ANNOTATION || kind == KINETO_RUNTIME ||
	       kind == KINETO_DRIVER || kind == KINETO_MEMORY;
}

bool build_event(struct build *build, const struct kineto_event *event)
{
	switch (event->kind) {
	case KINETO_NONE:
	case KINETO_WINDOW:
		return true;
	case KINETO_PROCESS_NAME:
	case KINETO_THREAD_NAME:
		take_names(build, event);
		return !store_error(build->store);
	case KINETO_PYTHON:
		return add_python(build, event);
	case KINETO_SAMPLES:
		build->counts.samples++;
		return true;
	case KINETO_STRANGE:
		build->counts.strange++;
		return true;
	default:
		break;
	}
	if (!event->timed) {
		build->counts.untimed++;
		return true;
	}
	if (is_host(event->kind) && build->pid < 0 && event->pid > 0)
		build->pid = event->pid;
	return add_timed(build, event);
}

bool build_device(struct build *build, const struct kineto_device *device)
{
	union event_any record;
	record_device(device, &build->strings, &record);
	store_put_event(build->store, &record);
	return !store_error(build->store);
}

/* --- writing --- */

/* Without steps: one window over all that was recorded, of the thread that has begun most operators, or the process's first. */
static bool settle_steps(struct build *build)
{
	uint32_t thread = 0;
	uint64_t most = 0;
	if (build->steps.count) {
		steps_settle(&build->steps);
		return true;
	}
	for (size_t i = 0; i < build->thread_count; i++) {
		const struct thread *of = &build->threads[i];
		bool first = of->operators && of->pid == (int64_t)of->thread;
		if (first || of->operators > most) {
			thread = of->thread;
			most = first ? UINT64_MAX : of->operators;
		}
	}
	return steps_window(&build->steps, build->lowest, build->highest, thread) || no_memory(build);
}

static uint64_t clock_of(const struct build *build, int64_t time)
{
	return CLOCK_START + (uint64_t)(time - build->lowest);
}

static bool put(void *context, const union event_any *event)
{
	struct build *build = context;
	store_put_event(build->store, event);
	if (++build->portion == PORTION) {
		build->portion = 0;
		store_commit(build->store);
		store_begin(build->store);
	}
	return !store_error(build->store);
}

static bool put_steps(struct build *build, uint16_t collectors)
{
	for (size_t i = 0; i < build->steps.count; i++) {
		const struct step *step = &build->steps.rows[i];
		union event_any record = {.step = {.head = {.kind = EVENT_STEP, .step = (uint32_t)i + 1}}};
		record.step.start = clock_of(build, step->start);
		record.step.duration = (uint64_t)(step->end - step->start);
		record.step.number = (uint64_t)step->number;
		record.step.thread = step->thread;
		record.step.source = build->steps.window ? STEP_SOURCE_DURATION : STEP_SOURCE_RANGE;
		record.step.collectors = collectors;
		if (!put(build, &record))
			return false;
	}
	build->counts.steps = build->steps.count;
	return true;
}

static bool put_threads(struct build *build)
{
	size_t forward = 0;
	for (size_t i = 0; i < build->thread_count; i++)
		forward += build->threads[i].forward;
	for (size_t i = 0; i < build->thread_count; i++) {
		const struct thread *thread = &build->threads[i];
		union event_any record = {
			.thread = {.head = {.kind = EVENT_THREAD}, .thread = thread->thread, .name = thread->name}};
		if (thread->forward && forward == 1 && !build->forward_threads)
			record.thread.torch_id = build->forward_thread;
		if (thread->pid == build->pid && !put(build, &record))
			return false;
	}
	return true;
}

/* Is it a module that no other one has called? It is cut to the time in which something else was recorded. */
static bool is_outermost(const struct build *build, struct item *item, struct item *module)
{
	if (module->thread == item->thread && item->start < module->end)
		return false;
	*module = *item;
	item->start = item->start > build->lowest ? item->start : build->lowest;
	item->end = item->end < build->highest ? item->end : build->highest;
	item->event.range.duration = (uint64_t)(item->end - item->start);
	return item->end > item->start;
}

/* What of Python an operator was called in. */
static bool take_callers(struct build *build, const struct item *item, struct event_operator *operator)
{
	uint32_t stack;
	bool lost;
	int error = callers_of(&build->callers, item->thread, item->start, &stack, &operator->entered, &lost);
	operator->stack = stack;
	build->stackless += lost;
	return went_well(build, error);
}

static bool put_frames(struct build *build)
{
	struct nest nest = {.context = build, .closed = put, .nodes = build->stacks};
	struct item module = {.end = INT64_MIN};
	const struct item *next;
	build->callers.context = build;
	build->callers.found = put;
	bool ok = !sorter_rewind(&build->frames) && went_well(build, callers_rewind(&build->callers));
	while (ok && (next = sorter_next(&build->frames))) {
		struct item copy = *next, *item = &copy;
		if (item->module && !is_outermost(build, item, &module))
			continue;
		union event_any event = item->event;
		event.head.step = steps_at(&build->steps, item->start);
		event_set_time(&event, clock_of(build, item->start));
		if (event.head.kind == EVENT_FRAMEWORK_ALLOCATION)
			ok = nest_around(&nest, item->thread, clock_of(build, item->start),
					 &event.framework_allocation.parent) &&
			     put(build, &event);
		else if (event.head.kind == EVENT_COLLECTIVE) {
			event.collective.operator= nest.last_id;
			ok = put(build, &event);
		} else
			ok = (event.head.kind != EVENT_OPERATOR || !build->stacks ||
			      take_callers(build, item, &event.operator)) &&
			     nest_open(&nest, &event);
	}
	ok = ok && !build->frames.error && nest_end(&nest);
	nest_free(&nest);
	/* What is sorted next, and what the store needs, take its place in memory. */
	sorter_deinit(&build->frames);
	sorter_deinit(&build->callers.calls);
	return ok;
}

static bool put_others(struct build *build)
{
	const struct item *item;
	bool ok = !sorter_rewind(&build->others);
	while (ok && (item = sorter_next(&build->others))) {
		union event_any event = item->event;
		event_set_time(&event, clock_of(build, item->start));
		if (event.head.kind == EVENT_API_CALL || event.head.kind == EVENT_GARBAGE)
			event.head.step = steps_at(&build->steps, item->start);
		ok = put(build, &event);
	}
	sorter_deinit(&build->others);
	return ok && !build->others.error;
}

/* The profiler writes annotations, if there are any, where it writes operators. */
static bool has_ranges(const struct build_counts *counts)
{
	return counts->operators || counts->annotations;
}

/* Kinds of CUPTI's records that were not asked for, as the trace shows: of calls there are some wherever a device works; waits are records of
 * their own in newer releases of torch alone, and not by default. */
static int64_t absent_kinds(const struct build_counts *counts)
{
	int64_t kinds = counts->syncs ? 0 : INT64_C(1) << ACTIVITY_SYNC;
	if (!counts->calls)
		kinds |= INT64_C(1) << ACTIVITY_RUNTIME | INT64_C(1) << ACTIVITY_DRIVER;
	return kinds;
}

static bool has_stacks(const struct build *build)
{
	return build->stacks && build->counts.operators;
}

static void tell(const struct build *build, const struct kineto_about *about, struct capture_facts *facts,
		 struct store_ending *ending)
{
	const struct build_counts *counts = &build->counts;
	const struct {
		enum collector collector;
		bool ran;
		const char *absent;
	} parts[] = {
		{COLLECTOR_STEPS, has_ranges(counts), "the trace holds no annotations"},
		{COLLECTOR_TORCH, counts->operators, "the trace holds no operators"},
		{COLLECTOR_SHAPES, counts->shapes, "the trace holds no shapes (record_shapes)"},
		{COLLECTOR_CUPTI, counts->device, "the trace holds nothing of a GPU"},
		{COLLECTOR_MEMORY, false, "a trace holds no allocations by CUDA itself"},
		{COLLECTOR_ALLOCATIONS, counts->memory, "the trace holds no allocations (profile_memory)"},
		{COLLECTOR_PYTHON, false,
		 has_stacks(build) ? "a trace holds no samples of Python stacks"
				   : "a trace holds stacks of Python only if it was recorded with_stack=True"},
		{COLLECTOR_OPERATOR_STACKS, has_stacks(build),
		 "the trace holds no calls of Python around operators (with_stack)"},
		{COLLECTOR_MODULES, has_stacks(build) && build->callers.modules,
		 counts->operators ? "the trace holds no calls of modules (with_stack, with_modules)"
				   : "the trace holds no operators"},
		{COLLECTOR_COMPILE, false, "a trace does not list the compilations by torch.compile"},
		{COLLECTOR_NVTX, false,
		 has_ranges(counts) ? "torch.profiler records no NVTX ranges" : "the trace holds no annotations"},
	};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		struct store_collector *to = &ending->collectors[parts[i].collector];
		to->wanted = to->told = true;
		to->ran = parts[i].ran;
		if (!to->ran)
			text_copy(to->sentence, sizeof to->sentence, parts[i].absent);
	}
	ending->record_start = clock_of(build, build->steps.rows[0].start);
	ending->record_end = clock_of(build, build->steps.rows[build->steps.count - 1].end);
	ending->step_source = build->steps.window ? STEP_SOURCE_DURATION : STEP_SOURCE_RANGE;
	text_copy(ending->step_range, sizeof ending->step_range, build->steps.window ? "" : STEP_ANNOTATION);
	facts->status = CAPTURE_COMPLETE;
	facts->steps_wanted = build->steps.count;
	facts->started = (uint64_t)(build->lowest + (about->base > 0 ? about->base : 0));
	facts->who.pid = facts->who.agent_pid = build->pid > 0 && build->pid < INT32_MAX ? (pid_t)build->pid : 0;
	facts->who.rank = about->rank >= 0 && about->rank < INT32_MAX ? (int32_t)about->rank : -1;
	facts->who.world_size =
		about->world_size > 0 && about->world_size < INT32_MAX ? (int32_t)about->world_size : -1;
	facts->who.local_rank = -1;
	text_copy(facts->who.name, sizeof facts->who.name, *build->process ? build->process : "torch");
	text_copy(facts->who.host, sizeof facts->who.host, about->host);
	text_copy(facts->who.torch_version, sizeof facts->who.torch_version, about->torch);
}

/* What the process's CUDA was; small(): what is no version is none. */
static void put_versions(struct store *store, const struct kineto_about *about)
{
	const struct {
		const char *key;
		int64_t version;
	} versions[] = {{"driver_version", about->driver},
			{"cupti_version", about->cupti},
			{"runtime_version", about->runtime}};
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		if (small(versions[i].version))
			store_meta_int(store, versions[i].key, small(versions[i].version));
}

int build_finish(struct build *build, const struct kineto_about *about, struct capture_facts *facts,
		 struct store_ending *ending, struct build_counts *ret)
{
	struct store *store = build->store;
	uint16_t collectors = 0;
	if (build->lowest > build->highest) {
		store_set_error(store, -ENODATA,
				"it holds no events of torch.profiler: no operator, no annotation, no CUDA activity");
	} else if (settle_steps(build)) {
		const struct build_counts *counts = &build->counts;
		collectors |=
			(uint16_t)(has_ranges(counts) << COLLECTOR_STEPS | counts->operators << COLLECTOR_TORCH |
				   counts->device << COLLECTOR_CUPTI | has_stacks(build) << COLLECTOR_OPERATOR_STACKS |
				   (has_stacks(build) && build->callers.modules) << COLLECTOR_MODULES);
		tell(build, about, facts, ending);
		store_set_base(store, CLOCK_START, facts->started);
		store_put_facts(store, facts);
		if (about->distributed)
			store_meta_text(store, "distributed_info", about->distributed);
		if (counts->device) {
			store_meta_int(store, "absent_kinds", absent_kinds(counts));
			put_versions(store, about);
		}
		/* The hook is called at every call of Python. */
		if (build->stacks)
			store_meta_text(
				store, "notes",
				"Python stacks were recorded (with_stack): time in Python, and so launch-bound, is longer by it");
		if (put_steps(build, collectors) && put_threads(build) && put_frames(build))
			put_others(build);
		store_count_lost(ending, LOSS_STACKLESS, EVENT_OPERATOR, build->stackless);
		int error = build->frames.error ? build->frames.error : build->others.error;
		if (error)
			store_set_error(store, error, "what waits to be sorted cannot be read back");
		store_commit(store);
	}
	*ret = build->counts;
	return store_error(store);
}
