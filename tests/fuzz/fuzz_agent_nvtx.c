/* fuzz_agent_nvtx.c - what a job may pass to NVTX: names, wide names, attributes of any size and type, payloads, handles that are
 * not ours. The hooks run on the real sink and a real segment; what they wrote must be records that the daemon takes. */
#include "agent/core/collector.h"
#include "agent/nvtx/nvtx.h"
#include "agent/nvtx/nvtx_abi.h"
#include "agent/sink/control.h"
#include "proto/limits.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define IDS 16
#define SEGMENT_BYTES (1u << 20)
static nvtx_abi_function core[IDS], core2[IDS];
static nvtx_abi_function *core_table[IDS], *core2_table[IDS];

static void own_init(void)
{
}

static int get_table(int module, nvtx_abi_table *table, unsigned int *size)
{
	*table = module == NVTX_ABI_MODULE_CORE ? core_table : core2_table;
	*size = module == NVTX_ABI_MODULE_CORE ? 16 : 15;
	return module == NVTX_ABI_MODULE_CORE || module == NVTX_ABI_MODULE_CORE2;
}

static const void *get_export_table(uint32_t id)
{
	static const struct nvtx_abi_callbacks callbacks = {sizeof callbacks, get_table};
	return id == NVTX_ABI_ETID_CALLBACKS ? &callbacks : NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	for (int i = 1; i < IDS; i++) {
		core_table[i] = &core[i];
		core2_table[i] = &core2[i];
		core[i] = core2[i] = own_init;
	}
	return nvtx_inject((void *)(uintptr_t)get_export_table) == 1 ? 0 : 1;
}

/* --- what is passed --- */

struct input {
	const uint8_t *at;
	size_t left;
	const void *handles[4]; /* what NVTX has given out: domains and registered strings */
	uint64_t ranges[4];
};

static unsigned take(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->at++;
}

/* A text with nothing readable behind its end. To be freed. */
static char *take_text(struct input *input, size_t unit)
{
	size_t n = (size_t)take(input) * (1 + (size_t)(take(input) & 15)) * unit,
	       there = n < input->left ? n : input->left;
	char *text = calloc(n + unit, 1);
	if (!text)
		abort();
	memcpy(text, input->at, there);
	/* What is asked for beyond the input repeats itself: long names are cheap then. */
	for (size_t i = there; there && i < n; i++)
		text[i] = text[i % there];
	input->at += there;
	input->left -= there;
	return text;
}

static const void *handle(struct input *input)
{
	unsigned which = take(input);
	return which < 4 ? input->handles[which] : which < 8 ? (const char *)input->handles + which : NULL;
}

static void with_attributes(struct input *input, void (*call)(struct input *, const struct nvtx_abi_attributes *))
{
	struct nvtx_abi_attributes all = {0};
	unsigned how = take(input);
	char *text = NULL;
	all.version = (uint16_t)take(input);
	all.size = (uint16_t)(how & 8 ? take(input) | take(input) << 8 : sizeof all);
	all.category = take(input);
	all.color_type = (int32_t)take(input) - 1;
	all.payload_type = (int32_t)take(input) - 1;
	all.payload = take(input);
	all.message_type = (int32_t)(how & 7);
	if (all.message_type == NVTX_ABI_MESSAGE_ASCII)
		all.message = text = take_text(input, 1);
	else if (all.message_type == NVTX_ABI_MESSAGE_UNICODE)
		all.message = text = take_text(input, sizeof(wchar_t));
	else if (all.message_type == NVTX_ABI_MESSAGE_REGISTERED)
		all.message = handle(input);
	/* As much memory as the caller says that there is. */
	size_t size = all.size < sizeof all ? all.size : sizeof all;
	size = size < 4 ? 4 : size;
	struct nvtx_abi_attributes *given = malloc(size);
	if (!given)
		abort();
	memcpy(given, &all, size);
	call(input, given);
	free(given);
	free(text);
}

static void push_ex(struct input *input, const struct nvtx_abi_attributes *a)
{
	(void)input;
	((int (*)(const void *))core[NVTX_ABI_CORE_RangePushEx])(a);
}

static void mark_ex(struct input *input, const struct nvtx_abi_attributes *a)
{
	(void)input;
	((void (*)(const void *))core[NVTX_ABI_CORE_MarkEx])(a);
}

static void domain_push_ex(struct input *input, const struct nvtx_abi_attributes *a)
{
	((int (*)(const void *, const void *))core2[NVTX_ABI_CORE2_DomainRangePushEx])(handle(input), a);
}

static void domain_start_ex(struct input *input, const struct nvtx_abi_attributes *a)
{
	const void *domain = handle(input);
	input->ranges[take(input) & 3] =
		((uint64_t(*)(const void *, const void *))core2[NVTX_ABI_CORE2_DomainRangeStartEx])(domain, a);
}

static void with_text(struct input *input, unsigned what)
{
	char *text = take_text(input, what & 1 ? sizeof(wchar_t) : 1);
	static const int ids[] = {NVTX_ABI_CORE_RangePushA, NVTX_ABI_CORE_RangePushW, NVTX_ABI_CORE_MarkA,
				  NVTX_ABI_CORE_MarkW};
	if (what < 4)
		((int (*)(const void *))core[ids[what]])(text);
	else if (what < 6)
		input->handles[take(input) & 1] =
			((const void *(*)(const void *))
				 core2[what & 1 ? NVTX_ABI_CORE2_DomainCreateW : NVTX_ABI_CORE2_DomainCreateA])(text);
	else if (what < 8)
		input->handles[2 + (take(input) & 1)] =
			((const void *(*)(const void *, const void *))
				 core2[what & 1 ? NVTX_ABI_CORE2_DomainRegisterStringW
						: NVTX_ABI_CORE2_DomainRegisterStringA])(handle(input), text);
	else
		((void (*)(const void *, uint32_t, const void *))
			 core2[what & 1 ? NVTX_ABI_CORE2_DomainNameCategoryW : NVTX_ABI_CORE2_DomainNameCategoryA])(
			handle(input), take(input), text);
	free(text);
}

static void obey(struct input *input)
{
	static void (*const calls[])(struct input *, const struct nvtx_abi_attributes *) = {
		push_ex, mark_ex, domain_push_ex, domain_start_ex};
	while (input->left) {
		unsigned what = take(input) % 18;
		if (what < 10)
			with_text(input, what);
		else if (what < 14)
			with_attributes(input, calls[what - 10]);
		else if (what == 14)
			((int (*)(void))core[NVTX_ABI_CORE_RangePop])();
		else if (what == 15)
			((int (*)(const void *))core2[NVTX_ABI_CORE2_DomainRangePop])(handle(input));
		else if (what == 16)
			((void (*)(uint64_t))core[NVTX_ABI_CORE_RangeEnd])(input->ranges[take(input) & 3]);
		else
			((void (*)(const void *))core2[NVTX_ABI_CORE2_DomainDestroy])(handle(input));
	}
}

/* --- what was written --- */

static void check(struct segment *segment)
{
	static _Alignas(8) unsigned char bytes[LIMIT_CHUNK_BYTES], text[LIMIT_STRING_BYTES];
	uint32_t sequence, thread, at = 0, id, type, length;
	for (uint32_t i = 0; i < segment->chunk_count; i++) {
		size_t place = 0, n = segment_copy_chunk(segment, i, bytes, &sequence, &thread);
		union event_any event;
		enum event_verdict verdict;
		while ((verdict = event_read(bytes, n, &place, &event)) == EVENT_OK)
			;
		if (verdict != EVENT_END)
			abort();
	}
	int more;
	while ((more = segment_next_string(segment, &at, text, &id, &type, &length)) == 1)
		;
	if (more)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static uint32_t generation;
	struct segment daemon_side, agent_side;
	struct input input = {.at = data, .left = n};
	char sentence[256] = "";
	struct collector_request request = {.wanted = 1u << COLLECTOR_NVTX,
					    .generation = ++generation,
					    .step_range = n && data[0] & 1 ? "*step*" : "",
					    .step_operator = ""};
	if (segment_create(&daemon_side, generation, SEGMENT_BYTES, LIMIT_CHUNK_BYTES_MIN))
		return 0;
	if (segment_provide(&daemon_side, 16, 65536) || segment_map(&agent_side, dup(daemon_side.fd), UINT64_MAX) ||
	    sink_prepare(&agent_side, generation, 0) || collector_nvtx.arm(&request, sentence, sizeof sentence) ||
	    collector_nvtx.start(&request, sentence, sizeof sentence))
		abort();
	sink_begin(sink_now());
	take(&input);
	obey(&input);
	uint64_t last = sink_now();
	sink_end(last);
	sink_drain();
	collector_nvtx.stop();
	collector_nvtx.drain(last + 1000000000u);
	if (sink_finish(last, last + 1000000000u))
		abort();
	sink_release();
	collector_nvtx.disarm();
	check(&daemon_side);
	segment_deinit(&agent_side);
	segment_deinit(&daemon_side);
	return 0;
}
