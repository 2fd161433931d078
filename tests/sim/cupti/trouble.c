/* trouble.c - what the script wants to go wrong with records and buffers. sim_lock held throughout. */
#include "simcupti.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	KIND_OF_LATER_RELEASE = 200, /* the walk through a buffer knows it, the headers do not */
	SIZE_OF_LATER_RELEASE = 48,
	KIND_OF_NOBODY = 0x7f000001, /* the walk ends at it */
	LONG_NAME = 10240,
	OTHER_SIZE = 65536,
};

bool every(const char *key)
{
	static struct {
		const char *key;
		uint64_t asked;
	} counts[32];
	uint64_t n = script_number(key, 0);
	if (!n)
		return false;
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		if (counts[i].key && strcmp(counts[i].key, key) != 0)
			continue;
		counts[i].key = key;
		return ++counts[i].asked % n == 0;
	}
	return false;
}

uint64_t trouble_random(uint64_t below)
{
	static uint64_t state;
	if (!state)
		state = script_number("seed", 1) * 0x9e3779b97f4a7c15u + 1;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static const char *long_name(void)
{
	static char name[LONG_NAME + 1];
	if (!name[0])
		for (size_t i = 0; i < LONG_NAME; i++)
			name[i] = (char)('a' + i % 26);
	return name;
}

void trouble_record(uint8_t *record, uint32_t kind)
{
	if (kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && kind != CUPTI_ACTIVITY_KIND_KERNEL)
		return;
	sim_Kernel *kernel = (sim_Kernel *)record;
	if (every("zero"))
		kernel->start = kernel->end = kernel->completed = 0;
	if (every("null_name"))
		kernel->name = NULL;
	if (every("long_name"))
		kernel->name = long_name();
	if (every("byte_name"))
		kernel->name = "kernel\xff\xfe\x80\xc3(\xed\xa0\x80\x01\x1b[31m";
}

static uint32_t growth[KINDS_MAX];

static void load_growth(void)
{
	for (const char *part = script_value("grow"); part && *part;) {
		char *end;
		unsigned long kind = strtoul(part, &end, 10);
		unsigned long bytes = *end == ':' ? strtoul(end + 1, &end, 10) : 0;
		if (kind < KINDS_MAX && bytes <= 256)
			growth[kind] = (uint32_t)(bytes & ~7u);
		part = *end == '+' ? end + 1 : NULL;
	}
}

size_t trouble_growth(uint32_t kind)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load_growth);
	return growth[kind];
}

size_t trouble_kind_size(uint32_t kind)
{
	return kind == KIND_OF_LATER_RELEASE && script_value("unknown") ? SIZE_OF_LATER_RELEASE : 0;
}

bool trouble_unknown(uint8_t *record)
{
	CUpti_Activity *activity = (CUpti_Activity *)record;
	memset(record, 0xa5, SIZE_OF_LATER_RELEASE);
	if (every("unknown"))
		activity->kind = (CUpti_ActivityKind)KIND_OF_LATER_RELEASE;
	else if (every("invalid"))
		activity->kind = (CUpti_ActivityKind)KIND_OF_NOBODY;
	else
		return false;
	return true;
}

void trouble_shuffle(struct buffer *buffer)
{
	if (!script_value("shuffle") || buffer->records < 2)
		return;
	size_t count = 0, *offsets = calloc(buffer->records, sizeof *offsets);
	uint8_t *copy = malloc(buffer->used);
	if (!offsets || !copy)
		abort();
	memcpy(copy, buffer->data, buffer->used);
	CUpti_Activity *record = NULL;
	while (count < buffer->records && sim_next_record(copy, buffer->used, &record) == CUPTI_SUCCESS)
		offsets[count++] = (size_t)((uint8_t *)record - copy);
	if (count == buffer->records) { /* else there is something in it that the walk ends at */
		size_t used = 0;
		for (size_t i = count; i > 0; i--) {
			size_t chosen = trouble_random(i), offset = offsets[chosen];
			size_t size = sim_record_size(((CUpti_Activity *)(copy + offset))->kind);
			memcpy(buffer->data + used, copy + offset, size);
			used += size;
			offsets[chosen] = offsets[i - 1];
		}
	}
	free(copy);
	free(offsets);
}

static void other_requested(uint8_t **data, size_t *size, size_t *records_max)
{
	void *memory = mmap(NULL, OTHER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*data = memory == MAP_FAILED ? NULL : memory;
	*size = *data ? OTHER_SIZE : 0;
	*records_max = 0;
}

/* The other client finds that the buffer is none of its own, and lets it be. */
static void other_completed(CUcontext context, uint32_t stream, uint8_t *data, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)data;
	(void)size;
	(void)valid;
}

void trouble_replace(struct client *client)
{
	static uint64_t first, asked;
	static bool done;
	const char *value = script_value("replace");
	if (!value || done || client != &sim_clients[0] || !client->completed)
		return;
	if (!first)
		first = sim_monotonic();
	bool time = strpbrk(value, "smu") != NULL;
	if (time ? sim_monotonic() - first < script_time("replace", 0) : ++asked < script_number("replace", 1))
		return;
	done = true;
	client->requested = other_requested;
	client->completed = other_completed;
}

void trouble_foreign(struct buffer *buffer, const struct client *client)
{
	static uint8_t foreign[8][4096] __attribute__((aligned(8)));
	static unsigned next;
	uint8_t record[RECORD_MAX];
	const struct sim_operation operation = {
		.kind = SIM_KERNEL, .correlation = 4000000000u, .name = "of_another_client"};
	uint64_t now = sim_monotonic();
	buffer->data = foreign[next++ % 8];
	buffer->size = sizeof foreign[0];
	size_t size = sim_record_size(record_operation(record, client, &operation, now - 1000, now));
	memcpy(buffer->data, record, size);
	buffer->used = size;
}

static bool write_all(int file, const void *data, size_t size)
{
	for (const uint8_t *at = data; size > 0;) {
		ssize_t written = write(file, at, size);
		if (written <= 0)
			return false;
		at += written;
		size -= (size_t)written;
	}
	return true;
}

/* DIR/PID-N.buffer: its valid bytes; DIR/PID-N.records: a line with how many records were put into it, then a line each:
 * offset, kind, size. */
void trouble_dump(const struct buffer *buffer)
{
	static unsigned number;
	char path[512], line[80];
	const char *folder = script_value("dump");
	if (!folder)
		return;
	for (int what = 0; what < 2; what++) {
		snprintf(path, sizeof path, "%s/%d-%04u.%s", folder, (int)getpid(), number,
			 what ? "records" : "buffer");
		int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		bool good = file >= 0;
		if (good && what == 0)
			good = write_all(file, buffer->data, buffer->used);
		if (good && what == 1) {
			int length = snprintf(line, sizeof line, "%zu\n", buffer->records);
			good = write_all(file, line, (size_t)length);
			CUpti_Activity *record = NULL;
			while (good && sim_next_record(buffer->data, buffer->used, &record) == CUPTI_SUCCESS) {
				length = snprintf(line, sizeof line, "%zu %u %zu\n",
						  (size_t)((uint8_t *)record - buffer->data), (unsigned)record->kind,
						  sim_record_size(record->kind));
				good = write_all(file, line, (size_t)length);
			}
		}
		if (!good)
			fprintf(stderr, "simulated CUPTI: %s cannot be written\n", path);
		if (file >= 0)
			close(file);
	}
	number++;
}
