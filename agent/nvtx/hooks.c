/* hooks.c - the functions that are put into the objects' slots: they write NVTX calls into the sink.
 *
 * Any thread of the job, signal handlers too. Nothing here blocks, allocates or changes errno. The memory used here is
 * never unmapped. A hook may run late, when its slot is NULL already: then the sink refuses it. */
#include "hooks.h"

#include "names.h"
#include "nvtx_abi.h"
#include "objects.h"
#include "opened.h"
#include "step_range.h"

#include "agent/sink/sink.h"
#include "../steps/steps.h"

#include <stdatomic.h>
#include <string.h>

/* Number of the recording. A start/end range that was opened in an earlier recording is not recorded. */
static _Atomic uint32_t recording;
/* The recording whose open start/end ranges have been written as clipped. */
static _Atomic uint32_t clipped;
static _Atomic uint64_t clipped_at;

/* ---------------------------------------------------------------- attributes and names */

struct label {
	uint32_t name, domain, category, color;
	uint64_t payload;
	uint8_t payload_type;
	uint8_t ends_step;
};

/* The attributes that are there by the caller's `size`; the others are zero. */
static inline const struct nvtx_abi_attributes *attributes_of(const struct nvtx_abi_attributes *given,
							      struct nvtx_abi_attributes *copy)
{
	if (given && given->size >= sizeof *given)
		return given;
	memset(copy, 0, sizeof *copy);
	if (!given || given->size < offsetof(struct nvtx_abi_attributes, category))
		return copy;
	size_t size = given->size;
	memcpy(copy, given, size);
	/* A field of which the caller gave only a part counts as not given. */
	copy->message_type = 0;
	if (size < offsetof(struct nvtx_abi_attributes, message_type))
		copy->payload_type = 0;
	if (size < offsetof(struct nvtx_abi_attributes, payload_type))
		copy->color_type = 0;
	if (size < offsetof(struct nvtx_abi_attributes, color_type))
		copy->category = 0;
	return copy;
}

/* Interns a message (`thread` is NULL where nothing is recorded) and finds out whether a range of this name is a
 * step. */
static inline uint32_t name_of(struct sink_thread *thread, int type, const void *message, uint8_t kind,
			       uint8_t *ret_ends_step)
{
	struct nvtx_wide wide;
	struct nvtx_text *registered = NULL;
	const char *text = NULL;
	size_t bytes = 0;
	uint32_t id = 0;
	if (type == NVTX_ABI_MESSAGE_ASCII) {
		/* Most messages are constants of the program, which are looked up by their address. */
		if (thread && message && !(ret_ends_step && step_range_wanted()))
			return sink_string_static(thread, message, kind);
		text = message;
		bytes = nvtx_length(text);
	} else if (type == NVTX_ABI_MESSAGE_UNICODE) {
		nvtx_wide_init(&wide, message);
		text = wide.text;
		bytes = wide.bytes;
		if (thread && wide.truncated)
			sink_lost(LOSS_TRUNCATED, kind);
	} else if (type == NVTX_ABI_MESSAGE_REGISTERED) {
		registered = nvtx_as_string(message);
		if (registered)
			text = nvtx_text_bytes(registered, &bytes);
	}
	if (thread && text)
		id = registered ? nvtx_text_id(thread, registered, kind) : sink_string(thread, text, bytes, kind);
	if (__builtin_expect(ret_ends_step && step_range_wanted(), 0))
		*ret_ends_step = text && step_range_matches(text, bytes, thread ? sink_recording() : 0, id);
	if (type == NVTX_ABI_MESSAGE_UNICODE)
		nvtx_wide_deinit(&wide);
	return id;
}

/* The whole label of an event with attributes. */
static void label_of(struct sink_thread *thread, struct nvtx_text *domain, const struct nvtx_abi_attributes *given,
		     uint8_t kind, struct label *ret)
{
	struct nvtx_abi_attributes copy;
	const struct nvtx_abi_attributes *a = attributes_of(given, &copy);
	memset(ret, 0, sizeof *ret);
	ret->name = name_of(thread, a->message_type, a->message, kind, kind == EVENT_RANGE ? &ret->ends_step : NULL);
	if (!thread)
		return;
	ret->domain = nvtx_text_id(thread, domain, kind);
	ret->category = nvtx_category_id(thread, domain, a->category, kind);
	if (a->color_type == NVTX_ABI_COLOR_ARGB)
		ret->color = a->color;
	/* Extended payloads are pointers into the job's memory, so they are left out. */
	if (a->payload_type > 0 && a->payload_type <= NVTX_ABI_PAYLOAD_LAST) {
		ret->payload_type = (uint8_t)a->payload_type;
		ret->payload = a->payload;
	}
}

/* The label of an event that has a name only, in the default domain. */
static inline void label_of_name(struct sink_thread *thread, int type, const void *message, uint8_t kind,
				 struct label *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->name = name_of(thread, type, message, kind, kind == EVENT_RANGE ? &ret->ends_step : NULL);
}

/* The label of any event. `type` 0: `what` are attributes; else enum nvtx_abi_message, and `what` is a name. */
static inline void label_any(struct sink_thread *thread, struct nvtx_text *domain, int type, const void *what,
			     uint8_t kind, struct label *ret)
{
	if (type)
		label_of_name(thread, type, what, kind, ret);
	else
		label_of(thread, domain, what, kind, ret);
}

/* ---------------------------------------------------------------- push and pop */

static inline int push(struct nvtx_text *domain, int type, const void *what)
{
	uint64_t key = (uint64_t)(uintptr_t)domain;
	struct label label;
	int level = NVTX_ABI_NO_TRACKING;
	struct sink_thread *t = sink_enter(EVENT_RANGE);
	if (t) {
		struct sink_frame *below = sink_find(t, RANGE_SOURCE_NVTX_PUSH_POP, key);
		struct sink_frame *f = sink_open(t, EVENT_RANGE);
		uint32_t above = below ? below->level + below->beyond + 1 : 0;
		label_any(t, domain, type, what, EVENT_RANGE, &label);
		if (f) {
			f->source = RANGE_SOURCE_NVTX_PUSH_POP;
			f->key = key;
			f->level = above;
			f->name = label.name;
			f->domain = label.domain;
			f->category = label.category;
			f->color = label.color;
			f->payload = label.payload;
			f->payload_type = label.payload_type;
			f->start = sink_stamp();
		} else if (below) {
			/* Too deep, and counted as such. Its pop must not close the range below. */
			below->beyond++;
		}
		level = (int)above;
		sink_leave(t);
	} else if (__builtin_expect(step_range_wanted(), 0)) {
		label_any(NULL, domain, type, what, EVENT_RANGE, &label);
	}
	if (__builtin_expect(step_range_wanted(), 0))
		step_range_push(key, label.ends_step);
	return level;
}

static inline int pop(struct nvtx_text *domain)
{
	uint64_t now = sink_stamp(), key = (uint64_t)(uintptr_t)domain;
	int level = NVTX_ABI_NO_TRACKING;
	struct sink_thread *t = sink_enter_pop();
	if (t) {
		/* NULL: the range was pushed before the hooks were on. */
		struct sink_frame *f = sink_find(t, RANGE_SOURCE_NVTX_PUSH_POP, key);
		if (f) {
			level = (int)(f->level + f->beyond);
			if (f->beyond)
				f->beyond--;
			else
				sink_close(t, f, now);
		}
		sink_leave(t);
	}
	if (__builtin_expect(step_range_wanted(), 0) && step_range_pop(key))
		steps_range_end(now);
	return level;
}

static int range_push_ex(const struct nvtx_abi_attributes *attributes)
{
	return push(NULL, 0, attributes);
}

static int range_push_a(const char *message)
{
	return push(NULL, NVTX_ABI_MESSAGE_ASCII, message);
}

static int range_push_w(const wchar_t *message)
{
	return push(NULL, NVTX_ABI_MESSAGE_UNICODE, message);
}

static int domain_range_push_ex(const void *domain, const struct nvtx_abi_attributes *attributes)
{
	return push(nvtx_as_domain(domain), 0, attributes);
}

static int range_pop(void)
{
	return pop(NULL);
}

static int domain_range_pop(const void *domain)
{
	return pop(nvtx_as_domain(domain));
}

/* ---------------------------------------------------------------- start and end */

static int opened_write(struct sink_thread *t, const struct nvtx_opened *range, uint64_t end, uint8_t flags,
			uint32_t end_thread)
{
	uint64_t duration = end > range->start ? end - range->start : 0;
	struct event_range record = {
		.head = {sizeof record, EVENT_RANGE, flags, range->step},
		.start = range->start,
		.duration = duration,
		.self = duration,
		.id = range->id,
		.name = range->name,
		.thread = range->thread,
		.source = RANGE_SOURCE_NVTX_START_END,
		.payload_type = range->payload_type,
		.domain = range->domain,
		.category = range->category,
		.color = range->color,
		.payload = range->payload,
		.end_thread = end_thread,
	};
	return sink_write(t, &record);
}

static void opened_clip(struct sink_thread *t, const struct nvtx_opened *range, uint64_t end)
{
	if (opened_write(t, range, end, EVENT_FLAG_CLIPPED, 0))
		sink_lost(LOSS_CLIPPED, EVENT_RANGE);
}

/* A range that is not recorded has the handle 0, as without a tool. */
static inline uint64_t range_start(struct nvtx_text *domain, int type, const void *what)
{
	struct label label;
	struct nvtx_opened range = {.generation = 0};
	uint64_t handle = 0;
	struct sink_thread *t = sink_enter(EVENT_RANGE);
	if (t) {
		label_any(t, domain, type, what, EVENT_RANGE, &label);
		range.generation = atomic_load(&recording);
		range.id = sink_id(t);
		range.step = sink_step();
		range.thread = sink_tid(t);
		range.name = label.name;
		range.domain = label.domain;
		range.category = label.category;
		range.color = label.color;
		range.payload = label.payload;
		range.payload_type = label.payload_type;
		range.ends_step = label.ends_step;
		range.start = sink_stamp();
		handle = nvtx_opened_add(&range);
		if (!handle) {
			if (range.step)
				sink_lost(LOSS_TOO_DEEP, EVENT_RANGE);
		} else if (atomic_load(&clipped) == range.generation && nvtx_opened_take(handle, &range)) {
			/* The agent's thread has already written the ranges that were open. */
			opened_clip(t, &range, atomic_load(&clipped_at));
		}
		sink_leave(t);
	} else if (__builtin_expect(step_range_wanted(), 0)) {
		label_any(NULL, domain, type, what, EVENT_RANGE, &label);
		range.ends_step = label.ends_step;
		if (range.ends_step)
			handle = nvtx_opened_add(&range);
	}
	return handle;
}

static void range_end(uint64_t handle)
{
	uint64_t now = sink_stamp();
	struct nvtx_opened range;
	if (!nvtx_opened_take(handle, &range))
		return;
	if (range.generation && range.generation == atomic_load_explicit(&recording, memory_order_relaxed)) {
		struct sink_thread *t = sink_enter_pop();
		if (t) {
			uint32_t thread = sink_tid(t);
			int elsewhere = thread != range.thread;
			opened_write(t, &range, now, elsewhere ? EVENT_FLAG_ASYNC : 0, elsewhere ? thread : 0);
			sink_leave(t);
		} else if (range.step) {
			/* A signal handler that interrupted the recorder ends the range. */
			sink_lost(LOSS_REENTERED, EVENT_RANGE);
		}
	}
	if (range.ends_step && step_range_wanted())
		steps_range_end(now);
}

static void domain_range_end(const void *domain, uint64_t handle)
{
	(void)domain; /* handles are unique across domains */
	range_end(handle);
}

static uint64_t range_start_ex(const struct nvtx_abi_attributes *attributes)
{
	return range_start(NULL, 0, attributes);
}

static uint64_t range_start_a(const char *message)
{
	return range_start(NULL, NVTX_ABI_MESSAGE_ASCII, message);
}

static uint64_t range_start_w(const wchar_t *message)
{
	return range_start(NULL, NVTX_ABI_MESSAGE_UNICODE, message);
}

static uint64_t domain_range_start_ex(const void *domain, const struct nvtx_abi_attributes *attributes)
{
	return range_start(nvtx_as_domain(domain), 0, attributes);
}

void nvtx_hooks_prepare(void)
{
	struct nvtx_opened range;
	/* Forgets ranges that were open only to end steps; recorded ones have been clipped. */
	for (uint32_t at = 0; nvtx_opened_sweep(&at, &range);)
		;
	uint32_t next = atomic_load(&recording) + 1;
	atomic_store(&recording, next ? next : 1);
}

void nvtx_hooks_clip(uint64_t end)
{
	struct nvtx_opened range;
	uint32_t now = atomic_load(&recording);
	struct sink_thread *t = sink_enter_pop();
	atomic_store(&clipped_at, end);
	atomic_store(&clipped, now);
	for (uint32_t at = 0; nvtx_opened_sweep(&at, &range);) {
		if (range.generation != now)
			continue;
		if (t)
			opened_clip(t, &range, end);
		else
			sink_lost(LOSS_NO_SPACE, EVENT_RANGE);
	}
	if (t)
		sink_leave(t);
}

/* ---------------------------------------------------------------- marks */

static inline void mark(struct nvtx_text *domain, int type, const void *what)
{
	if (!sink_recording())
		return;
	uint64_t now = sink_stamp();
	struct sink_thread *t = sink_enter(EVENT_MARK);
	if (!t)
		return;
	struct label label;
	label_any(t, domain, type, what, EVENT_MARK, &label);
	struct event_mark record = {
		.head = {sizeof record, EVENT_MARK, 0, sink_step()},
		.time = now,
		.name = label.name,
		.thread = sink_tid(t),
		.domain = label.domain,
		.category = label.category,
		.color = label.color,
		.source = RANGE_SOURCE_NVTX_PUSH_POP,
		.payload_type = label.payload_type,
		.payload = label.payload,
	};
	sink_write(t, &record);
	sink_leave(t);
}

static void mark_ex(const struct nvtx_abi_attributes *attributes)
{
	mark(NULL, 0, attributes);
}

static void mark_a(const char *message)
{
	mark(NULL, NVTX_ABI_MESSAGE_ASCII, message);
}

static void mark_w(const wchar_t *message)
{
	mark(NULL, NVTX_ABI_MESSAGE_UNICODE, message);
}

static void domain_mark_ex(const void *domain, const struct nvtx_abi_attributes *attributes)
{
	mark(nvtx_as_domain(domain), 0, attributes);
}

/* ---------------------------------------------------------------- names and handles: always hooked */

static const void *domain_create_a(const char *name)
{
	return nvtx_domain(name, nvtx_length(name));
}

static const void *domain_create_w(const wchar_t *name)
{
	struct nvtx_wide wide;
	nvtx_wide_init(&wide, name);
	const void *domain = nvtx_domain(wide.text, wide.bytes);
	nvtx_wide_deinit(&wide);
	return domain;
}

static void domain_destroy(const void *domain)
{
	/* Another object may use the same handle for the domain of this name, so it stays. */
	(void)domain;
}

static const void *domain_register_string_a(const void *domain, const char *text)
{
	return nvtx_string(nvtx_as_domain(domain), text, nvtx_length(text));
}

static const void *domain_register_string_w(const void *domain, const wchar_t *text)
{
	struct nvtx_wide wide;
	nvtx_wide_init(&wide, text);
	const void *string = nvtx_string(nvtx_as_domain(domain), wide.text, wide.bytes);
	nvtx_wide_deinit(&wide);
	return string;
}

static void domain_name_category_a(const void *domain, uint32_t category, const char *name)
{
	nvtx_category_name(nvtx_as_domain(domain), category, name, nvtx_length(name));
}

static void domain_name_category_w(const void *domain, uint32_t category, const wchar_t *name)
{
	struct nvtx_wide wide;
	nvtx_wide_init(&wide, name);
	nvtx_category_name(nvtx_as_domain(domain), category, wide.text, wide.bytes);
	nvtx_wide_deinit(&wide);
}

static void name_category_a(uint32_t category, const char *name)
{
	domain_name_category_a(NULL, category, name);
}

static void name_category_w(uint32_t category, const wchar_t *name)
{
	domain_name_category_w(NULL, category, name);
}

static void name_os_thread_a(uint32_t thread, const char *name)
{
	if (name)
		sink_name_thread(thread, name, nvtx_length(name));
}

static void name_os_thread_w(uint32_t thread, const wchar_t *name)
{
	struct nvtx_wide wide;
	nvtx_wide_init(&wide, name);
	if (wide.text)
		sink_name_thread(thread, wide.text, wide.bytes);
	nvtx_wide_deinit(&wide);
}

#define HOOK(module, name, always, function)                                                                           \
	{                                                                                                              \
		NVTX_ABI_MODULE_##module, NVTX_ABI_##module##_##name, always, (nvtx_abi_function)(function)            \
	}
const struct nvtx_hook nvtx_hooks[] = {
	HOOK(CORE, MarkEx, 0, mark_ex),
	HOOK(CORE, MarkA, 0, mark_a),
	HOOK(CORE, MarkW, 0, mark_w),
	HOOK(CORE, RangeStartEx, 0, range_start_ex),
	HOOK(CORE, RangeStartA, 0, range_start_a),
	HOOK(CORE, RangeStartW, 0, range_start_w),
	HOOK(CORE, RangeEnd, 0, range_end),
	HOOK(CORE, RangePushEx, 0, range_push_ex),
	HOOK(CORE, RangePushA, 0, range_push_a),
	HOOK(CORE, RangePushW, 0, range_push_w),
	HOOK(CORE, RangePop, 0, range_pop),
	HOOK(CORE, NameCategoryA, 1, name_category_a),
	HOOK(CORE, NameCategoryW, 1, name_category_w),
	HOOK(CORE, NameOsThreadA, 1, name_os_thread_a),
	HOOK(CORE, NameOsThreadW, 1, name_os_thread_w),
	HOOK(CORE2, DomainMarkEx, 0, domain_mark_ex),
	HOOK(CORE2, DomainRangeStartEx, 0, domain_range_start_ex),
	HOOK(CORE2, DomainRangeEnd, 0, domain_range_end),
	HOOK(CORE2, DomainRangePushEx, 0, domain_range_push_ex),
	HOOK(CORE2, DomainRangePop, 0, domain_range_pop),
	HOOK(CORE2, DomainNameCategoryA, 1, domain_name_category_a),
	HOOK(CORE2, DomainNameCategoryW, 1, domain_name_category_w),
	HOOK(CORE2, DomainRegisterStringA, 1, domain_register_string_a),
	HOOK(CORE2, DomainRegisterStringW, 1, domain_register_string_w),
	HOOK(CORE2, DomainCreateA, 1, domain_create_a),
	HOOK(CORE2, DomainCreateW, 1, domain_create_w),
	HOOK(CORE2, DomainDestroy, 1, domain_destroy),
};
const size_t nvtx_hook_count = sizeof nvtx_hooks / sizeof *nvtx_hooks;
