/* collectives.c - see collectives.h. */
#include "collectives.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const words[COLLECTIVE_COUNT] = {
	[COLLECTIVE_NONE] = "",
	[COLLECTIVE_ALL_REDUCE] = "all_reduce",
	[COLLECTIVE_ALL_GATHER] = "all_gather",
	[COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
	[COLLECTIVE_ALL_TO_ALL] = "all_to_all",
	[COLLECTIVE_BROADCAST] = "broadcast",
	[COLLECTIVE_REDUCE] = "reduce",
	[COLLECTIVE_GATHER] = "gather",
	[COLLECTIVE_SCATTER] = "scatter",
	[COLLECTIVE_BARRIER] = "barrier",
	[COLLECTIVE_SEND] = "send",
	[COLLECTIVE_RECV] = "recv",
	[COLLECTIVE_OTHER] = "other",
};

/* What a name begins with, once each _ is left out. Of two names with the same beginning the longer one comes first. */
static const struct {
	const char *letters;
	enum collective collective;
} names[] = {
	{"allreduce", COLLECTIVE_ALL_REDUCE},
	{"sparseallreduce", COLLECTIVE_ALL_REDUCE},
	{"allgather", COLLECTIVE_ALL_GATHER},
	{"alltoall", COLLECTIVE_ALL_TO_ALL},
	{"reducescatter", COLLECTIVE_REDUCE_SCATTER},
	{"broadcast", COLLECTIVE_BROADCAST},
	{"reduce", COLLECTIVE_REDUCE},
	{"gather", COLLECTIVE_GATHER},
	{"scatter", COLLECTIVE_SCATTER},
	{"monitoredbarrier", COLLECTIVE_BARRIER},
	{"barrier", COLLECTIVE_BARRIER},
	{"send", COLLECTIVE_SEND},
	{"recv", COLLECTIVE_RECV},
};

const char *collective_word(enum collective collective)
{
	return (unsigned)collective < COLLECTIVE_COUNT ? words[collective] : "";
}

static bool begins_without(const char *name, const char *letters)
{
	for (; *letters; name++) {
		if (*name == '_')
			continue;
		if (*name != *letters)
			return false;
		letters++;
	}
	return true;
}

static enum collective named(const char *name)
{
	for (size_t i = 0; i < COUNT(names); i++)
		if (begins_without(name, names[i].letters))
			return names[i].collective;
	return COLLECTIVE_NONE;
}

enum collective collective_of_operator(const char *name)
{
	static const char prefix[] = "c10d::";
	if (strncmp(name, prefix, sizeof prefix - 1) != 0)
		return COLLECTIVE_NONE;
	return named(name + sizeof prefix - 1);
}

enum collective collective_of_range(const char *name)
{
	static const char *const backends[] = {"gloo:", "nccl:", "mpi:", "ucc:", "xccl:", "hccl:"};
	for (size_t i = 0; i < COUNT(backends); i++) {
		size_t n = strlen(backends[i]);
		if (strncmp(name, backends[i], n) == 0)
			return named(name + n);
	}
	return COLLECTIVE_NONE;
}

enum collective collective_of_record(const char *name)
{
	/* Operators that wait for another one, or only announce several. */
	static const char *const none[] = {"wait",	    "init",	      "startCoalescing",
					   "endCoalescing", "end_coalescing", "start_coalescing"};
	for (size_t i = 0; i < COUNT(none); i++)
		if (strcmp(name, none[i]) == 0)
			return COLLECTIVE_NONE;
	return named(name) ?: COLLECTIVE_OTHER;
}

int64_t collective_bytes(enum collective collective, int64_t in, int64_t out, int64_t size)
{
	int64_t one, all;
	switch (collective) {
	case COLLECTIVE_BARRIER:
	case COLLECTIVE_NONE:
		return -1;
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_GATHER:
		one = in, all = out;
		break;
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_SCATTER:
		one = out, all = in;
		break;
	case COLLECTIVE_RECV:
		return out > 0 || in < 0 ? out : in;
	default:
		return in > 0 || out < 0 ? in : out;
	}
	if (all > 0 || (all == 0 && one <= 0))
		return all;
	if (one <= 0)
		return one;
	return size > 0 && one <= INT64_MAX / size ? one * size : -1;
}

double collective_bus_factor(enum collective collective, int64_t size)
{
	if (size < 2)
		return 0;
	double others = (double)(size - 1) / (double)size;
	switch (collective) {
	case COLLECTIVE_ALL_REDUCE:
		return 2 * others;
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_ALL_TO_ALL:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_SCATTER:
		return others;
	case COLLECTIVE_NONE:
	case COLLECTIVE_BARRIER:
	case COLLECTIVE_OTHER:
		return 0;
	default:
		return 1;
	}
}

const char *collective_dtype(const char *word, unsigned *ret_bytes)
{
	static const struct {
		const char *name, *torch, *kineto;
		unsigned bytes;
	} types[] = {
		{"float32", "Float", "float", 4},
		{"bfloat16", "BFloat16", "c10::BFloat16", 2},
		{"float16", "Half", "c10::Half", 2},
		{"float64", "Double", "double", 8},
		{"int64", "Long", "long int", 8},
		{"int32", "Int", "int", 4},
		{"int16", "Short", "short int", 2},
		{"int8", "Char", "signed char", 1},
		{"uint8", "Byte", "unsigned char", 1},
		{"bool", "Bool", "bool", 1},
		{"uint16", "UInt16", "short unsigned int", 2},
		{"uint32", "UInt32", "unsigned int", 4},
		{"uint64", "UInt64", "long unsigned int", 8},
		{"complex64", "ComplexFloat", "c10::complex<float>", 8},
		{"complex128", "ComplexDouble", "c10::complex<double>", 16},
		{"float8_e5m2", "Float8_e5m2", "c10::Float8_e5m2", 1},
		{"float8_e4m3fn", "Float8_e4m3fn", "c10::Float8_e4m3fn", 1},
		{"float8_e5m2fnuz", "Float8_e5m2fnuz", "c10::Float8_e5m2fnuz", 1},
		{"float8_e4m3fnuz", "Float8_e4m3fnuz", "c10::Float8_e4m3fnuz", 1},
		{"float8_e8m0fnu", "Float8_e8m0fnu", "c10::Float8_e8m0fnu", 1},
	};
	for (size_t i = 0; i < COUNT(types); i++)
		if (strcmp(types[i].torch, word) == 0 || strcmp(types[i].kineto, word) == 0) {
			*ret_bytes = types[i].bytes;
			return types[i].name;
		}
	return NULL;
}
