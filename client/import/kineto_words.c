/* kineto_words.c - see kineto_words.h. */
#include "kineto_words.h"

#include "kineto.h"

#include <stdbool.h>
#include <string.h>

#define WORD(text) text, sizeof(text) - 1
#define AT(member) offsetof(struct kineto_event, member), OUTSIDE
#define DEVICE_AT(member) offsetof(struct kineto_device, member), OUTSIDE
#define ABOUT(member) offsetof(struct kineto_about, member), OUTSIDE

static const struct known top_words[] = {
	{WORD("traceEvents"), FIELD_PLACE, 0, EVENTS},
	{WORD("deviceProperties"), FIELD_PLACE, 0, DEVICES},
	{WORD("distributedInfo"), FIELD_OBJECT, ABOUT(distributed)},
	{WORD("baseTimeNanoseconds"), FIELD_NUMBER, ABOUT(base)},
	{WORD("cuda_driver_version"), FIELD_NUMBER, ABOUT(driver)},
	{WORD("cupti_version"), FIELD_NUMBER, ABOUT(cupti)},
	{WORD("cuda_runtime_version"), FIELD_NUMBER, ABOUT(runtime)},
	{WORD("host_name"), FIELD_HOST, 0, OUTSIDE},
	{WORD("hostname"), FIELD_HOST, 0, OUTSIDE},
	{WORD("torch_version"), FIELD_TORCH, 0, OUTSIDE},
	{WORD("PT_VERSION"), FIELD_TORCH, 0, OUTSIDE},
};
static const struct known device_words[] = {
	{WORD("id"), FIELD_NUMBER, DEVICE_AT(id)},
	{WORD("name"), FIELD_TEXT, DEVICE_AT(name)},
	{WORD("totalGlobalMem"), FIELD_NUMBER, DEVICE_AT(memory)},
	{WORD("computeMajor"), FIELD_NUMBER, DEVICE_AT(major)},
	{WORD("computeMinor"), FIELD_NUMBER, DEVICE_AT(minor)},
	{WORD("maxThreadsPerBlock"), FIELD_NUMBER, DEVICE_AT(threads_block)},
	{WORD("maxThreadsPerMultiprocessor"), FIELD_NUMBER, DEVICE_AT(threads_multiprocessor)},
	{WORD("regsPerBlock"), FIELD_NUMBER, DEVICE_AT(registers_block)},
	{WORD("regsPerMultiprocessor"), FIELD_NUMBER, DEVICE_AT(registers_multiprocessor)},
	{WORD("warpSize"), FIELD_NUMBER, DEVICE_AT(warp)},
	{WORD("sharedMemPerBlock"), FIELD_NUMBER, DEVICE_AT(shared_block)},
	{WORD("sharedMemPerMultiprocessor"), FIELD_NUMBER, DEVICE_AT(shared_multiprocessor)},
	{WORD("numSms"), FIELD_NUMBER, DEVICE_AT(multiprocessors)},
};
static const struct known event_words[] = {
	{WORD("ph"), FIELD_PHASE, 0, OUTSIDE},	   {WORD("cat"), FIELD_CATEGORY, 0, OUTSIDE},
	{WORD("name"), FIELD_NAME, 0, OUTSIDE},	   {WORD("ts"), FIELD_START, 0, OUTSIDE},
	{WORD("dur"), FIELD_DURATION, 0, OUTSIDE}, {WORD("pid"), FIELD_NUMBER, AT(pid)},
	{WORD("tid"), FIELD_NUMBER, AT(thread)},   {WORD("args"), FIELD_PLACE, 0, ARGUMENTS},
};
static const struct known argument_words[] = {
	{WORD("correlation"), FIELD_NUMBER, AT(correlation)},
	{WORD("device"), FIELD_NUMBER, AT(device)},
	{WORD("context"), FIELD_NUMBER, AT(context)},
	{WORD("stream"), FIELD_NUMBER, AT(stream)},
	{WORD("bytes"), FIELD_NUMBER, AT(bytes)},
	{WORD("Bytes"), FIELD_NUMBER, AT(bytes)},
	{WORD("Addr"), FIELD_NUMBER, AT(address)},
	{WORD("Device Id"), FIELD_NUMBER, AT(device)},
	{WORD("Device Type"), FIELD_NUMBER, AT(device_type)},
	{WORD("Total Allocated"), FIELD_NUMBER, AT(allocated)},
	{WORD("Total Reserved"), FIELD_NUMBER, AT(reserved)},
	{WORD("Sequence number"), FIELD_NUMBER, AT(sequence)},
	{WORD("Fwd thread id"), FIELD_NUMBER, AT(forward_thread)},
	{WORD("cbid"), FIELD_NUMBER, AT(cbid)},
	{WORD("registers per thread"), FIELD_NUMBER, AT(registers)},
	{WORD("shared memory"), FIELD_NUMBER, AT(shared)},
	{WORD("graph id"), FIELD_NUMBER, AT(graph)},
	{WORD("graph node id"), FIELD_NUMBER, AT(graph_node)},
	{WORD("priority"), FIELD_NUMBER, AT(priority)},
	{WORD("wait_on_stream"), FIELD_NUMBER, AT(waits_for)},
	{WORD("wait_on_cuda_event_id"), FIELD_NUMBER, AT(event)},
	{WORD("grid"), FIELD_THREE, AT(grid)},
	{WORD("block"), FIELD_THREE, AT(block)},
	{WORD("name"), FIELD_TEXT, AT(label)},
	{WORD("CallFrom"), FIELD_TEXT, AT(from)},
	{WORD("Input Dims"), FIELD_JSON, AT(dims)},
	{WORD("Input type"), FIELD_JSON, AT(types)},
	{WORD("Input Strides"), FIELD_JSON, AT(strides)},
	{WORD("Concrete Inputs"), FIELD_JSON, AT(concrete)},
};

/* Of record_param_comms; kernels of NCCL have some of them again. */
static const struct known collective_words[] = {
	{WORD("Collective name"), FIELD_TEXT, AT(collective.name)},
	{WORD("dtype"), FIELD_TEXT, AT(collective.dtype)},
	{WORD("In msg nelems"), FIELD_NUMBER, AT(collective.in_elements)},
	{WORD("Out msg nelems"), FIELD_NUMBER, AT(collective.out_elements)},
	{WORD("In split size"), FIELD_LIST, AT(collective.in_split)},
	{WORD("Out split size"), FIELD_LIST, AT(collective.out_split)},
	{WORD("Group size"), FIELD_NUMBER, AT(collective.group_size)},
	{WORD("Process Group Name"), FIELD_WORD, AT(collective.group)},
	{WORD("Process Group ID"), FIELD_WORD, AT(collective.group)}, /* torch 2.3 and before */
	{WORD("Process Group Description"), FIELD_TEXT, AT(collective.description)},
	{WORD("Process Group Ranks"), FIELD_LIST, AT(collective.ranks)},
	{WORD("Rank"), FIELD_NUMBER, AT(collective.rank)},
	{WORD("Seq"), FIELD_NUMBER, AT(collective.sequence)},
	{WORD("Is asynchronized op"), FIELD_NUMBER, AT(collective.asynchronous)},
};

#define FIND(words) find(words, sizeof(words) / sizeof *(words), key, n)

static const struct known *find(const struct known *words, size_t count, const char *key, size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (words[i].bytes == n && words[i].word[0] == key[0] && memcmp(words[i].word, key, n) == 0)
			return &words[i];
	return NULL;
}

/* Most keys that are not read begin otherwise, and there are some in each event. */
static bool is_collective(const char *key, size_t n)
{
	return n && strchr("CdIOGPRS", key[0]);
}

const struct known *kineto_word(enum place place, const char *key, size_t n)
{
	const struct known *known;
	switch (place) {
	case TOP:
		return FIND(top_words);
	case DEVICE:
		return FIND(device_words);
	case EVENT:
		return FIND(event_words);
	case ARGUMENTS:
		known = FIND(argument_words);
		return known || !is_collective(key, n) ? known : FIND(collective_words);
	case OUTSIDE:
	case EVENTS:
	case NUMBERS:
	case DEVICES:
		break;
	}
	return NULL;
}
