/* fuzz_capture.c - a hostile agent's whole capture: what it writes into its segment is taken in, put into order, summed and
 * finished by the daemon's code, then shown and exported by the client's. Besides what sanitizers find, it fails where
 * one of these takes longer than its records are worth, or does not give its memory back.
 *
 * The input is a list of operations, a byte each, that is followed by what the operation needs:
 *     records   kind, flags, repetitions, which member counts up, a byte a member (or all of its bytes)
 *     text      a name for the arena, or an inputs description
 *     header    bytes anywhere in the segment's header
 *     pass      the daemon takes in what is there */
#include "client/export/export.h"
#include "client/report/losses.h"
#include "client/report/views.h"
#include "proto/base/hash.h"
#include "daemon/capture/ingest.h"
#include "daemon/capture/ingest_finish.h"
#include "proto/base/clock.h"
#include "daemon/capture/names_reader.h"
#include "proto/limits.h"
#include "take.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define CHUNK_BYTES 65536u
#define CHUNKS 32u
/* Of one input: so many that what is quadratic shows, and so few that the rest takes a moment, with sanitizers too. */
#define RECORDS_MAX 8192u
#define FINISH_NS 3000000000ull
#define SHOW_NS 6000000000ull
#define MEMORY_BYTES (16u << 20)

static char folder[64];
static int folder_fd = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	names_reader(*argc, *argv);
	snprintf(folder, sizeof folder, "%s/fuzz_capture.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(folder) || (folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
		perror(folder);
		abort();
	}
	store_temporary_folder(folder);
	return 0;
}

/* --- records --- */

struct member {
	unsigned kind;
	size_t at, bytes;
};
static const struct member members[] = {
#define EVENT(number, NAME, name, table, min_size, side, place, description)
#define FIELD(NAME, name, offset, type, member, role, column, description) {EVENT_##NAME, (offset), sizeof(type)},
#define END_EVENT(NAME, name, size)
#include "proto/events.def"
};
#define MEMBER_COUNT (sizeof members / sizeof *members)

static const struct {
	unsigned kind;
	uint16_t bytes;
} kinds[] = {
#define EVENT(number, NAME, name, table, min_size, side, place, description) {number, sizeof(struct event_##name)},
#include "proto/events.def"
};

struct agent {
	struct ingest *ingest;
	uint32_t sequence, thread, chunk, used;
	uint32_t records;
	uint32_t strings_used;
};

static struct segment *segment_of(struct agent *agent)
{
	return &agent->ingest->segment;
}

static void publish(struct agent *agent)
{
	struct segment_chunk *chunk = &segment_of(agent)->table[agent->chunk];
	if (!agent->used)
		return;
	atomic_store(&segment_of(agent)->header->next_sequence, ++agent->sequence);
	atomic_store(&chunk->used, agent->used);
	atomic_store(&chunk->sequence, agent->sequence);
	atomic_store(&chunk->thread, agent->thread);
	atomic_store(&chunk->state, CHUNK_FULL);
	agent->used = 0;
	agent->chunk = (agent->chunk + 1) % CHUNKS;
	if (agent->chunk == 0)
		ingest_run(&agent->ingest->work);
}

static void put_record(struct agent *agent, const union event_any *event)
{
	size_t bytes = event->head.size ? event->head.size : 8;
	if (bytes > sizeof *event || agent->records >= RECORDS_MAX)
		return;
	if (agent->used + bytes > CHUNK_BYTES)
		publish(agent);
	/* A store that fails takes nothing: then there is no room. */
	if (atomic_load(&segment_of(agent)->table[agent->chunk].state) != CHUNK_FREE)
		return;
	memcpy(segment_of(agent)->chunks + (size_t)agent->chunk * CHUNK_BYTES + agent->used, event, bytes);
	agent->used += (uint32_t)((bytes + 7) & ~(size_t)7);
	agent->records++;
}

static void set(union event_any *event, const struct member *member, uint64_t value)
{
	memcpy((char *)event + member->at, &value, member->bytes);
}

static void put_records(struct agent *agent, struct input *input)
{
	union event_any event = {.head = {0}};
	size_t which = take(input) % (sizeof kinds / sizeof *kinds);
	unsigned flags = take(input), times = 1u << take(input) % 15, counts = take(input), raw = take(input) & 1;
	event.head.size = kinds[which].bytes;
	event.head.kind = (uint8_t)kinds[which].kind;
	event.head.flags = (uint8_t)flags;
	event.head.step = (uint32_t)take_bytes(input, raw ? 4 : 1);
	const struct member *first = NULL, *counting[2] = {NULL, NULL};
	for (size_t i = 0; i < MEMBER_COUNT; i++) {
		if (members[i].kind != kinds[which].kind)
			continue;
		if (!first)
			first = &members[i];
		size_t place = (size_t)(&members[i] - first);
		if (place == (counts & 15))
			counting[0] = &members[i];
		if (place == counts >> 4)
			counting[1] = &members[i];
		set(&event, &members[i], take_bytes(input, raw ? members[i].bytes : 1));
	}
	for (unsigned i = 0; i < times; i++) {
		put_record(agent, &event);
		for (unsigned k = 0; k < 2; k++) {
			uint64_t value = 0;
			if (!counting[k])
				continue;
			memcpy(&value, (char *)&event + counting[k]->at, counting[k]->bytes);
			set(&event, counting[k], value + 1);
		}
	}
}

static void put_text(struct agent *agent, struct input *input)
{
	struct segment *segment = segment_of(agent);
	struct segment_string head = {.type = 1 + take(input) % 2};
	size_t most = take(input);
	head.bytes = (uint32_t)(most < input->left ? most : input->left);
	if (agent->strings_used + SEGMENT_STRING_SIZE(head.bytes) > atomic_load(&segment->header->strings_ready))
		return;
	memcpy(segment->strings + agent->strings_used, &head, sizeof head);
	memcpy(segment->strings + agent->strings_used + sizeof head, input->at, head.bytes);
	input->at += head.bytes;
	input->left -= head.bytes;
	agent->strings_used += SEGMENT_STRING_SIZE(head.bytes);
	atomic_store(&segment->header->strings_used, agent->strings_used);
}

static void write_header(struct agent *agent, struct input *input)
{
	size_t at = take_bytes(input, 2) % (sizeof(struct segment_header) - 8) & ~(size_t)7;
	uint64_t value = take_bytes(input, 8);
	memcpy((char *)segment_of(agent)->header + at, &value, sizeof value);
}

static void obey(struct agent *agent, struct input *input)
{
	while (input->left) {
		unsigned operation = take(input);
		if (operation < 160) {
			put_records(agent, input);
		} else if (operation < 200) {
			put_text(agent, input);
		} else if (operation < 220) {
			write_header(agent, input);
		} else {
			publish(agent);
			agent->thread = operation;
			ingest_run(&agent->ingest->work);
		}
	}
	publish(agent);
}

/* --- the client --- */

static void show(struct reader *reader)
{
	size_t count;
	const struct view *views = view_table(&count);
	struct report_options options = {0};
	for (options.step = 0; options.step < 2; options.step++)
		for (size_t i = 0; i < count; i++) {
			struct table *table = views[i].table(reader, &options);
			cJSON_Delete(table_json(table, 100));
			table_free(table);
		}
	table_free(report_collectors(reader));
}

static void export_all(struct reader *reader)
{
	size_t count;
	const struct export_format *formats = export_formats(&count);
	char path[128], why[1024];
	snprintf(path, sizeof path, "%s/export", folder);
	for (size_t i = 0; i < count; i++) {
		struct export_options options = {.threads = 2, .compression = EXPORT_COMPRESSION_NONE};
		if (export_run(&formats[i], reader, 1, &options, path, why, sizeof why)) {
			fprintf(stderr, "%s: %s\n", formats[i].name, why);
			abort();
		}
		unlink(path);
	}
}

static void read_back(void)
{
	struct reader reader;
	char why[1024];
	int fd = openat(folder_fd, "1.db", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || reader_open(&reader, fd, why, sizeof why)) {
		fprintf(stderr, "%s\n", fd < 0 ? strerror(errno) : why);
		abort();
	}
	uint64_t began = clock_thread();
	show(&reader);
	export_all(&reader);
	if (clock_thread() - began > SHOW_NS) {
		fprintf(stderr, "show and export took %.1f s\n", (double)(clock_thread() - began) / 1e9);
		abort();
	}
	reader_close(&reader);
	unlinkat(folder_fd, "1.db", 0);
}

/* --- the daemon --- */

static void finish(struct ingest *ingest, unsigned flags)
{
	ingest->ending.has_done = flags & 1;
	ingest->ending.done_at = clock_monotonic();
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		ingest->ending.collectors[bit] = (struct store_collector){.wanted = true, .told = true, .ran = true};
	ingest->facts.status = CAPTURE_COMPLETE;
	atomic_store(&ingest->wish, INGEST_END);
	uint64_t began = clock_thread();
	while (ingest_run(&ingest->work) != WORK_DONE)
		;
	ingest_finish(&ingest->work);
	if (clock_thread() - began > FINISH_NS) {
		fprintf(stderr, "the finish took %.1f s\n", (double)(clock_thread() - began) / 1e9);
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct input input = {data, n};
	struct segment segment;
	struct memory memory = {.most = MEMORY_BYTES};
	struct capture_facts facts = {.number = 1, .started = 1, .steps_wanted = 1};
	unsigned flags = take(&input);
	if (flags & 2)
		memory.most = 65536;
	if (segment_create(&segment, 1, CHUNKS * CHUNK_BYTES, CHUNK_BYTES))
		return 0;
	struct ingest *ingest = ingest_new(&facts, &segment, false, folder_fd, folder, &memory);
	if (!ingest || segment_provide(&ingest->segment, CHUNKS, 65536))
		abort();
	struct agent agent = {.ingest = ingest, .thread = 1, .strings_used = SEGMENT_STRINGS_FIRST};
	atomic_store(&ingest->segment.header->phase, SEGMENT_RECORD);
	atomic_store(&ingest->segment.header->base_monotonic, flags & 4 ? 0 : 1);
	if (flags & 8)
		atomic_store(&ingest->segment.header->collectors, 1u << COLLECTOR_CUPTI);
	ingest_run(&ingest->work);
	obey(&agent, &input);
	finish(ingest, flags);
	bool kept = ingest->facts.status != CAPTURE_FAILED;
	ingest_free(ingest);
	if (memory.used) {
		fprintf(stderr, "%llu bytes stay counted\n", (unsigned long long)memory.used);
		abort();
	}
	if (kept)
		read_back();
	return 0;
}
