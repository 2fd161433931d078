/* kineto_words.c - see kineto_words.h. */
#include "kineto_words.h"

#include "kineto.h"

#include <string.h>

#define AT(member) offsetof(struct kineto_event, member), OUTSIDE
#define DEVICE_AT(member) offsetof(struct kineto_device, member), OUTSIDE
#define ABOUT(member) offsetof(struct kineto_about, member), OUTSIDE

static const struct known top_words[] = {
	{"traceEvents", FIELD_PLACE, 0, EVENTS},
	{"deviceProperties", FIELD_PLACE, 0, DEVICES},
	{"distributedInfo", FIELD_PLACE, 0, DISTRIBUTED},
	{"baseTimeNanoseconds", FIELD_NUMBER, ABOUT(base)},
	{"host_name", FIELD_HOST, 0, OUTSIDE},
	{"hostname", FIELD_HOST, 0, OUTSIDE},
	{"torch_version", FIELD_TORCH, 0, OUTSIDE},
	{"PT_VERSION", FIELD_TORCH, 0, OUTSIDE},
};
static const struct known distributed_words[] = {
	{"rank", FIELD_NUMBER, ABOUT(rank)},
	{"world_size", FIELD_NUMBER, ABOUT(world_size)},
};
static const struct known device_words[] = {
	{"id", FIELD_NUMBER, DEVICE_AT(id)},
	{"name", FIELD_TEXT, DEVICE_AT(name)},
	{"totalGlobalMem", FIELD_NUMBER, DEVICE_AT(memory)},
	{"computeMajor", FIELD_NUMBER, DEVICE_AT(major)},
	{"computeMinor", FIELD_NUMBER, DEVICE_AT(minor)},
	{"maxThreadsPerBlock", FIELD_NUMBER, DEVICE_AT(threads_block)},
	{"maxThreadsPerMultiprocessor", FIELD_NUMBER, DEVICE_AT(threads_multiprocessor)},
	{"regsPerBlock", FIELD_NUMBER, DEVICE_AT(registers_block)},
	{"regsPerMultiprocessor", FIELD_NUMBER, DEVICE_AT(registers_multiprocessor)},
	{"warpSize", FIELD_NUMBER, DEVICE_AT(warp)},
	{"sharedMemPerBlock", FIELD_NUMBER, DEVICE_AT(shared_block)},
	{"sharedMemPerMultiprocessor", FIELD_NUMBER, DEVICE_AT(shared_multiprocessor)},
	{"numSms", FIELD_NUMBER, DEVICE_AT(multiprocessors)},
};
static const struct known event_words[] = {
	{"ph", FIELD_PHASE, 0, OUTSIDE},   {"cat", FIELD_CATEGORY, 0, OUTSIDE}, {"name", FIELD_NAME, 0, OUTSIDE},
	{"ts", FIELD_START, 0, OUTSIDE},   {"dur", FIELD_DURATION, 0, OUTSIDE}, {"pid", FIELD_NUMBER, AT(pid)},
	{"tid", FIELD_NUMBER, AT(thread)}, {"args", FIELD_PLACE, 0, ARGUMENTS},
};
static const struct known argument_words[] = {
	{"correlation", FIELD_NUMBER, AT(correlation)},
	{"device", FIELD_NUMBER, AT(device)},
	{"context", FIELD_NUMBER, AT(context)},
	{"stream", FIELD_NUMBER, AT(stream)},
	{"bytes", FIELD_NUMBER, AT(bytes)},
	{"Bytes", FIELD_NUMBER, AT(bytes)},
	{"Addr", FIELD_NUMBER, AT(address)},
	{"Device Id", FIELD_NUMBER, AT(device)},
	{"Device Type", FIELD_NUMBER, AT(device_type)},
	{"Total Allocated", FIELD_NUMBER, AT(allocated)},
	{"Total Reserved", FIELD_NUMBER, AT(reserved)},
	{"Sequence number", FIELD_NUMBER, AT(sequence)},
	{"Fwd thread id", FIELD_NUMBER, AT(forward_thread)},
	{"cbid", FIELD_NUMBER, AT(cbid)},
	{"registers per thread", FIELD_NUMBER, AT(registers)},
	{"shared memory", FIELD_NUMBER, AT(shared)},
	{"graph id", FIELD_NUMBER, AT(graph)},
	{"graph node id", FIELD_NUMBER, AT(graph_node)},
	{"priority", FIELD_NUMBER, AT(priority)},
	{"wait_on_stream", FIELD_NUMBER, AT(waits_for)},
	{"wait_on_cuda_event_id", FIELD_NUMBER, AT(event)},
	{"grid", FIELD_THREE, AT(grid)},
	{"block", FIELD_THREE, AT(block)},
	{"name", FIELD_TEXT, AT(label)},
	{"Input Dims", FIELD_JSON, AT(dims)},
	{"Input type", FIELD_JSON, AT(types)},
	{"Input Strides", FIELD_JSON, AT(strides)},
	{"Concrete Inputs", FIELD_JSON, AT(concrete)},
};

#define FIND(words) find(words, sizeof(words) / sizeof *(words), key, n)

static const struct known *find(const struct known *words, size_t count, const char *key, size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(words[i].word) == n && memcmp(words[i].word, key, n) == 0)
			return &words[i];
	return NULL;
}

const struct known *kineto_word(enum place place, const char *key, size_t n)
{
	switch (place) {
	case TOP:
		return FIND(top_words);
	case DISTRIBUTED:
		return FIND(distributed_words);
	case DEVICE:
		return FIND(device_words);
	case EVENT:
		return FIND(event_words);
	case ARGUMENTS:
		return FIND(argument_words);
	case OUTSIDE:
	case EVENTS:
	case NUMBERS:
	case DEVICES:
		break;
	}
	return NULL;
}
