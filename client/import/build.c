/* build.c - see build.h. While the trace is read its events become records that are sorted; once its steps are known these are written. */
#include "build.h"

#include "intern.h"
#include "nest.h"
#include "number.h"

#include "base/sorter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SORTER_BYTES (24u << 20)
/* Where the capture's own clock begins: times in it are never 0. */
#define CLOCK_START 1000000000ull
/* Records in one transaction. */
#define PORTION 100000
#define STEPS_MAX 1000000
#define THREADS_MAX 1024

/* A record and what it is sorted by. Its times are those of the trace still. */
struct item {
	int64_t start, end;
	uint64_t order;
	uint32_t thread;
	bool module; /* a call of a torch.nn.Module */
	union event_any event;
};

struct step {
	int64_t number, start, end;
	uint32_t thread;
};

struct thread {
	int64_t pid;
	uint32_t thread, name; /* name 0 = none */
	uint64_t operators;
};

struct build {
	struct store *store;
	struct intern strings, inputs;
	struct sorter frames, others; /* of the host, by thread; the rest, by time */
	uint64_t order;
	struct step *steps;
	size_t step_count, step_room;
	struct thread *threads;
	size_t thread_count, thread_room;
	int64_t pid, lowest, highest; /* of what is kept */
	char process[64];
	bool stacks; /* it holds frames of Python */
	struct build_counts counts;
	uint32_t portion; /* records since the last commit */
};

static int by_thread(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	/* What encloses comes first. */
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int by_time(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

struct build *build_new(struct store *store, int folder)
{
	struct build *build = calloc(1, sizeof *build);
	if (!build)
		return NULL;
	build->store = store;
	build->pid = -1;
	build->lowest = INT64_MAX;
	build->highest = INT64_MIN;
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
	intern_free(&build->strings);
	intern_free(&build->inputs);
	free(build->steps);
	free(build->threads);
	free(build);
}

static bool no_memory(struct build *build)
{
	store_set_error(build->store, -ENOMEM, "there is no memory left");
	return false;
}

/* --- texts --- */

/* The id of a text in the file; 0: there is none, or the store has failed. */
static uint32_t string_id(struct build *build, const char *text, size_t n)
{
	bool is_new;
	if (!n)
		return 0;
	uint32_t id = intern_id(&build->strings, intern_key((struct intern_key){0}, text, n), &is_new);
	if (!id)
		no_memory(build);
	else if (is_new) {
		char *clean = strndup(text, n);
		if (!clean)
			return no_memory(build);
		text_clean(clean, n);
		store_put_string(build->store, id, clean, n);
		free(clean);
	}
	return id;
}

static uint32_t name_id(struct build *build, struct kineto_text text)
{
	return text.text ? string_id(build, text.text, text.n) : 0;
}

static const char *json_or(struct kineto_text text, const char *otherwise)
{
	return text.text ? text.text : otherwise;
}

static uint32_t inputs_id(struct build *build, const struct kineto_event *event)
{
	const struct kineto_text *texts[] = {&event->dims, &event->types, &event->strides, &event->concrete};
	struct intern_key key = {0};
	bool is_new, any = false;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		key = intern_key(key, texts[i]->text ? texts[i]->text : "", texts[i]->text ? texts[i]->n : 0);
		any = any || texts[i]->n > 2;
	}
	if (!any)
		return 0;
	uint32_t id = intern_id(&build->inputs, key, &is_new);
	if (!id)
		no_memory(build);
	else if (is_new)
		store_put_inputs(build->store, id, json_or(event->dims, "[]"), json_or(event->types, "[]"),
				 json_or(event->strides, "[]"), json_or(event->concrete, "[]"));
	build->counts.shapes = true;
	return id;
}

static struct thread *thread_of(struct build *build, int64_t pid, uint32_t thread)
{
	for (size_t i = build->thread_count; i > 0; i--)
		if (build->threads[i - 1].thread == thread && build->threads[i - 1].pid == pid)
			return &build->threads[i - 1];
	if (build->thread_count == THREADS_MAX)
		return NULL;
	if (build->thread_count == build->thread_room) {
		size_t room = build->thread_room ? build->thread_room * 2 : 64;
		struct thread *grown = realloc(build->threads, room * sizeof *grown);
		if (!grown)
			return NULL;
		build->threads = grown;
		build->thread_room = room;
	}
	build->threads[build->thread_count] = (struct thread){.pid = pid, .thread = thread};
	return &build->threads[build->thread_count++];
}

/* --- records --- */

static bool sort(struct build *build, struct sorter *sorter, const struct item *item)
{
	int error = sorter_add(sorter, item);
	if (error)
		store_set_error(build->store, error,
				error == -ENOMEM ? "there is no memory left" : "the disk takes no more");
	return !error;
}

static bool add(struct build *build, struct sorter *sorter, const struct kineto_event *event, uint32_t thread,
		union event_any *record, uint8_t kind)
{
	struct item item = {.start = event->start,
			    .end = event->start + event->duration,
			    .order = build->order++,
			    .thread = thread,
			    .event = *record};
	item.event.head.kind = kind;
	build->lowest = item.start < build->lowest ? item.start : build->lowest;
	build->highest = item.end > build->highest ? item.end : build->highest;
	return sort(build, sorter, &item);
}

static bool add_step(struct build *build, const struct kineto_event *event, uint32_t thread)
{
	char *end;
	errno = 0;
	long long number = strtoll(event->name.text + 13, &end, 10);
	if (errno || end == event->name.text + 13 || *end || number < 0 || build->step_count == STEPS_MAX)
		return true;
	if (build->step_count == build->step_room) {
		size_t room = build->step_room ? build->step_room * 2 : 64;
		struct step *grown = realloc(build->steps, room * sizeof *grown);
		if (!grown)
			return no_memory(build);
		build->steps = grown;
		build->step_room = room;
	}
	build->steps[build->step_count++] = (struct step){
		.number = number, .start = event->start, .end = event->start + event->duration, .thread = thread};
	return true;
}

static bool add_operator(struct build *build, const struct kineto_event *event, uint32_t thread)
{
	union event_any record = {0};
	struct thread *of = thread_of(build, event->pid, thread);
	if (of)
		of->operators++;
	build->counts.operators = true;
	record.operator.duration =(uint64_t) event->duration;
	record.operator.name = name_id(build, event->name);
	record.operator.thread = thread;
	record.operator.inputs = inputs_id(build, event);
	record.operator.sequence = event->sequence;
	record.operator.forward_thread = small(event->forward_thread);
	return add(build, &build->frames, event, thread, &record, EVENT_OPERATOR);
}

static bool add_annotation(struct build *build, const struct kineto_event *event, uint32_t thread)
{
	union event_any record = {0};
	if (event->name.text && strncmp(event->name.text, "ProfilerStep#", 13) == 0 && !add_step(build, event, thread))
		return false;
	build->counts.operators = true;
	record.range.duration = (uint64_t)event->duration;
	record.range.name = name_id(build, event->name);
	record.range.thread = thread;
	record.range.source = RANGE_SOURCE_TORCH_USER;
	return add(build, &build->frames, event, thread, &record, EVENT_RANGE);
}

/* Frames of Python are left out, but for calls of modules: what a model's forward is. Of those the outermost are kept (put_frames). They say
 * nothing of when the recording began. */
static bool add_python(struct build *build, const struct kineto_event *event, uint32_t thread)
{
	static const char module[] = "nn.Module: ";
	build->stacks = true;
	if (!event->timed || !event->name.text || strncmp(event->name.text, module, sizeof module - 1) != 0) {
		build->counts.python++;
		return true;
	}
	struct item item = {.start = event->start,
			    .end = event->start + event->duration,
			    .order = build->order++,
			    .thread = thread,
			    .module = true};
	item.event.head.kind = EVENT_RANGE;
	item.event.range.name = name_id(build, event->name);
	item.event.range.thread = thread;
	item.event.range.source = RANGE_SOURCE_TORCH_USER;
	return sort(build, &build->frames, &item);
}

static bool add_call(struct build *build, const struct kineto_event *event, uint32_t thread)
{
	union event_any record = {0};
	size_t n = event->name.n, digits = n;
	while (digits && event->name.text[digits - 1] >= '0' && event->name.text[digits - 1] <= '9')
		digits--;
	if (digits < n && digits > 2 && memcmp(event->name.text + digits - 2, "_v", 2) == 0)
		n = digits - 2;
	build->counts.device = true;
	record.api_call.duration = (uint64_t)event->duration;
	record.api_call.correlation = small(event->correlation);
	record.api_call.name = string_id(build, event->name.text, n);
	record.api_call.thread = thread;
	record.api_call.cbid = small(event->cbid);
	record.api_call.domain = event->kind == KINETO_DRIVER ? 1 : 2;
	return add(build, &build->others, event, thread, &record, EVENT_API_CALL);
}

static bool add_kernel(struct build *build, const struct kineto_event *event)
{
	union event_any record = {0};
	build->counts.device = true;
	record.kernel.duration = (uint64_t)event->duration;
	record.kernel.correlation = small(event->correlation);
	record.kernel.device = small(event->device);
	record.kernel.context = small(event->context);
	record.kernel.stream = small(event->stream);
	record.kernel.name = name_id(build, event->name);
	record.kernel.graph = small(event->graph);
	record.kernel.graph_node = large(event->graph_node);
	record.kernel.grid_x = (int32_t)small(event->grid[0]);
	record.kernel.grid_y = (int32_t)small(event->grid[1]);
	record.kernel.grid_z = (int32_t)small(event->grid[2]);
	record.kernel.block_x = (int32_t)small(event->block[0]);
	record.kernel.block_y = (int32_t)small(event->block[1]);
	record.kernel.block_z = (int32_t)small(event->block[2]);
	record.kernel.registers =
		(uint16_t)(event->registers > 0 && event->registers < UINT16_MAX ? event->registers : 0);
	/* torch adds the two kinds up. */
	record.kernel.dynamic_shared = (int32_t)(event->shared > 0 && event->shared < INT32_MAX ? event->shared : 0);
	record.kernel.priority = (int32_t)small(event->priority);
	return add(build, &build->others, event, 0, &record, EVENT_KERNEL);
}

/* The number of the word at *text, which moves behind it. 0: none of these. */
static uint8_t word_number(const char **text, const char *(*word)(unsigned number))
{
	for (unsigned i = 1; i < 16; i++) {
		const char *known = word(i);
		size_t n = known ? strlen(known) : 0;
		/* "Device" begins "Device Static" as well. */
		if (n && strncmp(*text, known, n) == 0 &&
		    !strchr("abcdefghijklmnopqrstuvwxyz", (*text)[n] ? (*text)[n] : '-') &&
		    strncmp(*text + n, " Static", 7) != 0) {
			*text += n;
			return (uint8_t)i;
		}
	}
	return 0;
}

/* "Memcpy HtoD (Pageable -> Device)" */
static bool add_copy(struct build *build, const struct kineto_event *event)
{
	union event_any record = {0};
	const char *at = event->name.text ? event->name.text : "";
	build->counts.device = true;
	record.copy.duration = (uint64_t)event->duration;
	record.copy.correlation = small(event->correlation);
	record.copy.device = record.copy.source_device = record.copy.target_device = small(event->device);
	record.copy.context = small(event->context);
	record.copy.stream = small(event->stream);
	record.copy.bytes = large(event->bytes);
	record.copy.graph = small(event->graph);
	record.copy.graph_node = large(event->graph_node);
	if (strncmp(at, "Memcpy ", 7) == 0) {
		at += 7;
		record.copy.kind = word_number(&at, copy_kind_word);
		if (strncmp(at, " (", 2) == 0) {
			at += 2;
			record.copy.source_kind = word_number(&at, memory_kind_word);
			if (strncmp(at, " -> ", 4) == 0) {
				at += 4;
				record.copy.target_kind = word_number(&at, memory_kind_word);
			}
		}
	}
	return add(build, &build->others, event, 0, &record, EVENT_COPY);
}

static bool add_set(struct build *build, const struct kineto_event *event)
{
	union event_any record = {0};
	const char *at = event->name.text ? event->name.text : "";
	build->counts.device = true;
	record.set.duration = (uint64_t)event->duration;
	record.set.correlation = small(event->correlation);
	record.set.device = small(event->device);
	record.set.context = small(event->context);
	record.set.stream = small(event->stream);
	record.set.bytes = large(event->bytes);
	record.set.graph = small(event->graph);
	record.set.graph_node = large(event->graph_node);
	if (strncmp(at, "Memset (", 8) == 0) {
		at += 8;
		record.set.memory_kind = word_number(&at, memory_kind_word);
	}
	return add(build, &build->others, event, 0, &record, EVENT_SET);
}

static bool add_sync(struct build *build, const struct kineto_event *event)
{
	static const char *const words[] = {NULL, "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
	union event_any record = {0};
	build->counts.device = true;
	record.sync.duration = (uint64_t)event->duration;
	record.sync.correlation = small(event->correlation);
	record.sync.context = small(event->context);
	record.sync.stream = or_none(event->stream);
	record.sync.event = small(event->event);
	for (uint16_t i = 1; event->name.text && i < sizeof words / sizeof *words; i++)
		if (strcmp(event->name.text, words[i]) == 0)
			record.sync.kind = i;
	return add(build, &build->others, event, 0, &record, EVENT_SYNC);
}

static bool add_overhead(struct build *build, const struct kineto_event *event)
{
	/* CUpti_ActivityOverheadKind, by Kineto's words. */
	static const struct {
		const char *word;
		uint32_t kind;
	} kinds[] = {
		{"Driver Compiler", 1},
		{"Buffer Flush", 1 << 16},
		{"Instrumentation", 2 << 16},
		{"Resource", 3 << 16},
		{"Runtime Triggered Module Loading", 4 << 16},
		{"Lazy Function Loading", 5 << 16},
		{"Command Buffer Full", 6 << 16},
		{"Activity Buffer Request", 7 << 16},
		{"UVM Activity Init", 8 << 16},
	};
	union event_any record = {0};
	build->counts.device = true;
	record.overhead.duration = (uint64_t)event->duration;
	record.overhead.thread = event->thread > 0 ? thread_id(event->thread) : 0;
	for (size_t i = 0; event->name.text && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(event->name.text, kinds[i].word) == 0)
			record.overhead.kind = kinds[i].kind;
	return add(build, &build->others, event, 0, &record, EVENT_OVERHEAD);
}

static bool add_memory(struct build *build, const struct kineto_event *event, uint32_t thread)
{
	union event_any record = {0};
	/* c10::DeviceType::CUDA; the host's memory has no table. */
	if (event->device_type != 1) {
		build->counts.memory_host++;
		return true;
	}
	build->counts.memory = true;
	record.allocation.address = (uint64_t)event->address;
	record.allocation.bytes = event->bytes < 0 ? (uint64_t)-event->bytes : (uint64_t)event->bytes;
	record.allocation.total = large(event->allocated);
	record.allocation.reserved = large(event->reserved);
	record.allocation.device = small(event->device);
	record.allocation.thread = thread;
	record.allocation.source = ALLOCATION_TORCH;
	record.allocation.operation = event->bytes < 0 ? ALLOCATION_GIVEN_BACK : ALLOCATION_TAKEN;
	record.allocation.memory_kind = 3;
	return add(build, &build->others, event, thread, &record, EVENT_ALLOCATION);
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
		thread->name = name_id(build, event->label);
}

static bool is_host(enum kineto_kind kind)
{
	return kind == KINETO_OPERATOR || kind == KINETO_ANNOTATION || kind == KINETO_RUNTIME ||
	       kind == KINETO_DRIVER || kind == KINETO_MEMORY;
}

bool build_event(struct build *build, const struct kineto_event *event)
{
	uint32_t thread = thread_id(event->thread);
	switch (event->kind) {
	case KINETO_NONE:
	case KINETO_WINDOW:
		return true;
	case KINETO_PROCESS_NAME:
	case KINETO_THREAD_NAME:
		take_names(build, event);
		return !store_error(build->store);
	case KINETO_PYTHON:
		return add_python(build, event, thread);
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
	switch (event->kind) {
	case KINETO_OPERATOR:
		return add_operator(build, event, thread);
	case KINETO_ANNOTATION:
		return add_annotation(build, event, thread);
	case KINETO_RUNTIME:
	case KINETO_DRIVER:
		return add_call(build, event, thread);
	case KINETO_KERNEL:
		return add_kernel(build, event);
	case KINETO_COPY:
		return add_copy(build, event);
	case KINETO_SET:
		return add_set(build, event);
	case KINETO_SYNC:
		return add_sync(build, event);
	case KINETO_OVERHEAD:
		return add_overhead(build, event);
	case KINETO_MEMORY:
		return add_memory(build, event, thread);
	default:
		return true;
	}
}

bool build_device(struct build *build, const struct kineto_device *device)
{
	union event_any record = {.head = {.kind = EVENT_DEVICE}};
	record.device.id = small(device->id);
	record.device.name = name_id(build, device->name);
	record.device.memory = large(device->memory);
	record.device.capability_major = small(device->major);
	record.device.capability_minor = small(device->minor);
	record.device.warp = small(device->warp);
	record.device.multiprocessors = small(device->multiprocessors);
	record.device.max_threads_block = small(device->threads_block);
	record.device.max_threads_multiprocessor = small(device->threads_multiprocessor);
	record.device.registers_block = small(device->registers_block);
	record.device.registers_multiprocessor = small(device->registers_multiprocessor);
	record.device.shared_block = small(device->shared_block);
	record.device.shared_multiprocessor = small(device->shared_multiprocessor);
	store_put_event(build->store, &record);
	return !store_error(build->store);
}

/* --- writing --- */

static int by_start(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* A step lasts until the next one begins, where that has the next number. Without steps: one window over all that was recorded. */
static bool settle_steps(struct build *build)
{
	if (!build->step_count) {
		uint32_t thread = 0;
		uint64_t most = 0;
		for (size_t i = 0; i < build->thread_count; i++) {
			const struct thread *of = &build->threads[i];
			bool first = of->operators && of->pid == (int64_t)of->thread;
			if (first || of->operators > most) {
				thread = of->thread;
				most = first ? UINT64_MAX : of->operators;
			}
		}
		build->steps = malloc(sizeof *build->steps);
		if (!build->steps)
			return no_memory(build);
		build->steps[build->step_count++] =
			(struct step){.number = 0, .start = build->lowest, .end = build->highest, .thread = thread};
		return true;
	}
	qsort(build->steps, build->step_count, sizeof *build->steps, by_start);
	size_t kept = 0;
	for (size_t i = 0; i < build->step_count; i++) {
		struct step *last = kept ? &build->steps[kept - 1] : NULL;
		/* The same annotation may stand there twice. */
		if (last && last->number == build->steps[i].number)
			continue;
		if (last && (build->steps[i].number == last->number + 1 || build->steps[i].start < last->end))
			last->end = build->steps[i].start;
		build->steps[kept++] = build->steps[i];
	}
	build->step_count = kept;
	return true;
}

static uint64_t clock_of(const struct build *build, int64_t time)
{
	return CLOCK_START + (uint64_t)(time - build->lowest);
}

/* The ordinal of the step in which this time lies; 0 = in none. */
static uint32_t step_of(const struct build *build, int64_t time)
{
	size_t low = 0, high = build->step_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (build->steps[middle].start <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low && time < build->steps[low - 1].end ? (uint32_t)low : 0;
}

static bool put(void *context, const union event_any *event)
{
	struct build *build = context;
	build->counts.events++;
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
	for (size_t i = 0; i < build->step_count; i++) {
		const struct step *step = &build->steps[i];
		union event_any record = {.step = {.head = {.kind = EVENT_STEP, .step = (uint32_t)i + 1}}};
		record.step.start = clock_of(build, step->start);
		record.step.duration = (uint64_t)(step->end - step->start);
		record.step.number = (uint64_t)step->number;
		record.step.thread = step->thread;
		record.step.source = step->number ? STEP_SOURCE_RANGE : STEP_SOURCE_DURATION;
		record.step.collectors = collectors;
		if (!put(build, &record))
			return false;
	}
	build->counts.steps = build->step_count;
	return true;
}

static bool put_threads(struct build *build)
{
	for (size_t i = 0; i < build->thread_count; i++) {
		const struct thread *thread = &build->threads[i];
		union event_any record = {
			.thread = {.head = {.kind = EVENT_THREAD}, .thread = thread->thread, .name = thread->name}};
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

static bool put_frames(struct build *build)
{
	struct nest nest = {.context = build, .closed = put};
	struct item module = {.end = INT64_MIN};
	const struct item *next;
	bool ok = !sorter_rewind(&build->frames);
	while (ok && (next = sorter_next(&build->frames))) {
		struct item copy = *next, *item = &copy;
		if (item->module && !is_outermost(build, item, &module)) {
			build->counts.python++;
			continue;
		}
		union event_any event = item->event;
		event.head.step = step_of(build, item->start);
		if (event.head.kind == EVENT_OPERATOR)
			event.operator.start = clock_of(build, item->start);
		else
			event.range.start = clock_of(build, item->start);
		ok = nest_open(&nest, &event);
	}
	ok = ok && !build->frames.error && nest_end(&nest);
	nest_free(&nest);
	return ok;
}

static bool put_others(struct build *build)
{
	const struct item *item;
	bool ok = !sorter_rewind(&build->others);
	while (ok && (item = sorter_next(&build->others))) {
		union event_any event = item->event;
		uint64_t start = clock_of(build, item->start);
		switch (event.head.kind) {
		case EVENT_API_CALL:
			event.head.step = step_of(build, item->start);
			event.api_call.start = start;
			break;
		case EVENT_KERNEL:
			event.kernel.start = start;
			break;
		case EVENT_COPY:
			event.copy.start = start;
			break;
		case EVENT_SET:
			event.set.start = start;
			break;
		case EVENT_SYNC:
			event.sync.start = start;
			break;
		case EVENT_OVERHEAD:
			event.overhead.start = start;
			break;
		case EVENT_ALLOCATION:
			event.allocation.time = start;
			break;
		default:
			break;
		}
		ok = put(build, &event);
	}
	return ok && !build->others.error;
}

/* torch.profiler's with_stack calls a hook at every call of Python, in the thread that it records. */
static void note_stacks(const struct build *build)
{
	if (build->stacks)
		store_meta_text(
			build->store, "notes",
			"Python stacks were recorded (with_stack): time in Python, and so launch-bound, is longer by it");
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
		{COLLECTOR_STEPS, true, ""},
		{COLLECTOR_TORCH, counts->operators, "the trace holds no operators"},
		{COLLECTOR_SHAPES, counts->shapes, "the trace holds no shapes (record_shapes)"},
		{COLLECTOR_CUPTI, counts->device, "the trace holds nothing of a GPU"},
		{COLLECTOR_MEMORY, counts->memory, "the trace holds no allocations on a GPU (profile_memory)"},
		{COLLECTOR_NVTX, false, "torch.profiler records no NVTX ranges"},
	};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		struct store_collector *to = &ending->collectors[parts[i].collector];
		to->wanted = to->told = true;
		to->ran = parts[i].ran;
		if (!to->ran)
			text_copy(to->sentence, sizeof to->sentence, parts[i].absent);
	}
	ending->record_start = clock_of(build, build->steps[0].start);
	ending->record_end = clock_of(build, build->steps[build->step_count - 1].end);
	ending->step_source = build->steps[0].number ? STEP_SOURCE_RANGE : STEP_SOURCE_DURATION;
	text_copy(ending->step_range, sizeof ending->step_range, build->steps[0].number ? "ProfilerStep#" : "");
	facts->status = CAPTURE_COMPLETE;
	facts->steps_wanted = build->step_count;
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

int build_finish(struct build *build, const struct kineto_about *about, struct capture_facts *facts,
		 struct store_ending *ending, struct build_counts *ret)
{
	struct store *store = build->store;
	uint16_t collectors = 1u << COLLECTOR_STEPS;
	if (build->lowest > build->highest) {
		store_set_error(store, -ENODATA,
				"it holds no events of torch.profiler: no operator, no annotation, no CUDA activity");
	} else if (settle_steps(build)) {
		collectors |= (uint16_t)(build->counts.operators << COLLECTOR_TORCH | build->counts.device
											      << COLLECTOR_CUPTI);
		tell(build, about, facts, ending);
		store_set_base(store, CLOCK_START, facts->started);
		store_put_facts(store, facts);
		note_stacks(build);
		if (put_steps(build, collectors) && put_threads(build) && put_frames(build))
			put_others(build);
		int error = build->frames.error ? build->frames.error : build->others.error;
		if (error)
			store_set_error(store, error, "what waits to be sorted cannot be read back");
		store_commit(store);
	}
	*ret = build->counts;
	return store_error(store);
}
