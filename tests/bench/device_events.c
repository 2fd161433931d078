/* device_events.c - plays an agent that records a busy GPU: connects to a daemon, is armed by a trigger, and writes KERNELS
 * kernels with the calls that launched them, in ranges and operators, over STEPS steps, as fast as the daemon gives room,
 * or one launch each NS nanoseconds. Drops nothing: waits where no chunk is free. Prints, as JSON, when the last record
 * was written (CLOCK_MONOTONIC ns), how many events there are and how long it waited for room.
 *
 *     device_events SOCKET KERNELS STEPS [NS]
 *
 * One thread. Build: cc -I ROOT device_events.c libproto.a */
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/segment.h"
#include "proto/socket.h"
#include "proto/version.h"

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAMES 200u
#define LAUNCH_NS 4000u
/* Launches in one operator, operators in one range. */
#define PER_OPERATOR 4u
#define PER_RANGE 10u
#define HOST_THREAD 100u
#define WORKER_THREAD 200u

/* What one writer appends to. */
struct writer {
	uint32_t thread, chunk, used;
	unsigned char *at; /* NULL = it has none */
};

static struct segment segment;
static uint64_t waited_ns, events;
static uint32_t next_chunk, name_ids[NAMES], call_name, operator_names[8], range_name;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "device_events: %s\n", what);
	exit(1);
}

static void nap(void)
{
	const struct timespec pause = {0, 200000};
	nanosleep(&pause, NULL);
}

static bool take_chunk(uint32_t *ret)
{
	uint32_t ready = atomic_load(&segment.header->chunks_ready);
	for (uint32_t k = 0; k < ready; k++) {
		uint32_t i = next_chunk++ % ready, state = CHUNK_FREE;
		if (atomic_compare_exchange_strong(&segment.table[i].state, &state, CHUNK_OWNED)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static void finish_chunk(struct writer *writer)
{
	if (!writer->at)
		return;
	atomic_store(&segment.table[writer->chunk].used, writer->used);
	atomic_store(&segment.table[writer->chunk].state, CHUNK_FULL);
	writer->at = NULL;
}

static void put(struct writer *writer, const void *record, uint32_t n)
{
	if (writer->at && writer->used + n > segment.chunk_bytes)
		finish_chunk(writer);
	if (!writer->at) {
		uint64_t from = now();
		while (!take_chunk(&writer->chunk))
			nap();
		waited_ns += now() - from;
		struct segment_chunk *chunk = &segment.table[writer->chunk];
		atomic_store(&chunk->sequence, atomic_fetch_add(&segment.header->next_sequence, 1) + 1);
		atomic_store(&chunk->thread, writer->thread);
		writer->at = segment.chunks + (size_t)writer->chunk * segment.chunk_bytes;
		writer->used = 0;
	}
	memcpy(writer->at + writer->used, record, n);
	writer->used += n;
	events++;
}

static uint32_t put_text(const char *text)
{
	uint32_t at = atomic_load(&segment.header->strings_used), n = (uint32_t)strlen(text);
	struct segment_string head = {.bytes = n, .type = STRING_TEXT};
	memcpy(segment.strings + at, &head, sizeof head);
	memcpy(segment.strings + at + sizeof head, text, n);
	atomic_store(&segment.header->strings_used, at + SEGMENT_STRING_SIZE(n));
	return at / 8;
}

static void put_texts(void)
{
	char text[128];
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(text, sizeof text,
			 "_ZN2at6native29vectorized_elementwise_kernelILi%uENS0_"
			 "11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
			 i);
		name_ids[i] = put_text(text);
	}
	for (unsigned i = 0; i < 8; i++) {
		snprintf(text, sizeof text, "aten::operator_%u", i);
		operator_names[i] = put_text(text);
	}
	call_name = put_text("cudaLaunchKernel");
	range_name = put_text("layer");
}

/* --- the conversation --- */

static union message_any receive(int connection, int *ret_fd)
{
	unsigned char packet[4096];
	union message_any message;
	int fds[LIMIT_PACKET_FDS];
	unsigned count = LIMIT_PACKET_FDS;
	struct pollfd ready = {connection, POLLIN, 0};
	if (poll(&ready, 1, 60000) != 1)
		die("no message in 60 s");
	ssize_t n = socket_receive(connection, packet, sizeof packet, fds, &count, 0);
	if (n <= 0 || message_check(packet, (size_t)n, 0, &message, NULL))
		die("no message that can be read");
	for (unsigned i = 0; i < count; i++) {
		if (i == 0 && ret_fd)
			*ret_fd = fds[i];
		else
			close(fds[i]);
	}
	return message;
}

static uint64_t start_time(void)
{
	char text[1024] = "";
	FILE *file = fopen("/proc/self/stat", "r");
	if (!file || !fgets(text, sizeof text, file))
		die("/proc/self/stat cannot be read");
	fclose(file);
	char *at = strrchr(text, ')');
	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static void say(int connection, const void *message, size_t n)
{
	if (socket_send(connection, message, n, NULL, 0))
		die("the daemon does not read");
}

static void introduce(int connection)
{
	struct message_hello hello = MESSAGE_INIT(HELLO, hello);
	struct stat facts;
	hello.major = PROTOCOL_MAJOR;
	hello.minor = PROTOCOL_MINOR;
	hello.pid = (int32_t)getpid();
	hello.pid_namespace = stat("/proc/self/ns/pid", &facts) ? 0 : facts.st_ino;
	hello.start_time = start_time();
	hello.rank = hello.local_rank = hello.world_size = -1;
	hello.step_source = STEP_SOURCE_OPTIMIZER;
	message_text(hello.version, sizeof hello.version, PROFD_VERSION);
	message_text(hello.name, sizeof hello.name, "device_events");
	say(connection, &hello, sizeof hello);
}

/* --- the records --- */

static uint32_t correlation;
static uint64_t identity;

static void put_launch(struct writer *worker, uint32_t step, uint64_t at, uint64_t *device_at, uint64_t n)
{
	struct event_api_call call = {.head = {sizeof call, EVENT_API_CALL, 0, step},
				      .start = at,
				      .duration = 2500,
				      .correlation = ++correlation,
				      .name = call_name,
				      .thread = HOST_THREAD,
				      .cbid = 211,
				      .domain = 2};
	struct event_kernel kernel = {.head = {sizeof kernel, EVENT_KERNEL, 0, 0},
				      .start = *device_at,
				      .duration = 3000 + n % 7 * 100,
				      .correlation = correlation,
				      .context = 1,
				      .stream = n % 50 ? 7 : 20,
				      .name = name_ids[n * 2654435761u % NAMES],
				      .grid_x = 108,
				      .grid_y = 1,
				      .grid_z = 1,
				      .block_x = 256,
				      .block_y = 1,
				      .block_z = 1,
				      .registers = 32};
	*device_at += kernel.duration + 200;
	put(worker, &call, sizeof call);
	put(worker, &kernel, sizeof kernel);
}

static void put_frame(struct writer *host, uint32_t step, uint64_t start, uint64_t end, bool operator, uint64_t id,
		      uint64_t parent)
{
	if (operator) {
		struct event_operator o = {.head = {sizeof o, EVENT_OPERATOR, 0, step},
					   .start = start,
					   .duration = end - start,
					   .self = end - start,
					   .id = id,
					   .parent = parent,
					   .name = operator_names[id % 8],
					   .thread = HOST_THREAD,
					   .depth = 1,
					   .sequence = -1};
		put(host, &o, sizeof o);
		return;
	}
	struct event_range r = {.head = {sizeof r, EVENT_RANGE, 0, step},
				.start = start,
				.duration = end - start,
				.id = id,
				.name = range_name,
				.thread = HOST_THREAD,
				.source = RANGE_SOURCE_NVTX_PUSH_POP};
	put(host, &r, sizeof r);
}

static void record(uint64_t kernels, uint64_t steps, uint64_t pace)
{
	struct writer host = {.thread = HOST_THREAD}, worker = {.thread = WORKER_THREAD};
	uint64_t base = atomic_load(&segment.header->base_monotonic), began = now();
	uint64_t device_at = base + 10000, step_start = base, range_start = base, range_id = ++identity;
	uint32_t step = 1;
	for (uint64_t n = 0; n < kernels; n++) {
		uint64_t at = base + n * LAUNCH_NS, end = at + LAUNCH_NS;
		put_launch(&worker, step, at + 500, &device_at, n);
		bool step_ends = n + 1 == kernels * step / steps;
		bool range_ends = step_ends || (n + 1) % (PER_OPERATOR * PER_RANGE) == 0;
		if ((n + 1) % PER_OPERATOR == 0 && at >= range_start + (PER_OPERATOR - 1) * LAUNCH_NS)
			put_frame(&host, step, end - PER_OPERATOR * LAUNCH_NS + 100, end - 200, true, ++identity,
				  range_id);
		if (range_ends) {
			put_frame(&host, step, range_start, end - 100, false, range_id, 0);
			range_start = end;
			range_id = ++identity;
		}
		if (step_ends) {
			struct event_step s = {.head = {sizeof s, EVENT_STEP, 0, step},
					       .start = step_start,
					       .duration = end - step_start,
					       .number = 100 + step,
					       .thread = HOST_THREAD,
					       .source = STEP_SOURCE_OPTIMIZER,
					       .collectors = 1u << COLLECTOR_STEPS | 1u << COLLECTOR_NVTX |
							     1u << COLLECTOR_TORCH | 1u << COLLECTOR_CUPTI};
			put(&host, &s, sizeof s);
			step_start = end;
			atomic_store(&segment.header->steps_recorded, step++);
		}
		while (pace && now() < began + (n + 1) * pace)
			nap();
	}
	finish_chunk(&host);
	finish_chunk(&worker);
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: device_events SOCKET KERNELS STEPS [NS]\n");
		return 2;
	}
	uint64_t kernels = strtoull(argv[2], NULL, 10), steps = strtoull(argv[3], NULL, 10);
	uint64_t pace = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	int connection = socket_connect(argv[1]), fd = -1;
	if (connection < 0 || !kernels || !steps)
		die("no daemon there");
	introduce(connection);
	if (receive(connection, NULL).head.type != MESSAGE_WELCOME)
		die("not welcome");
	union message_any message;
	do
		message = receive(connection, &fd);
	while (message.head.type != MESSAGE_ARM);
	if (segment_map(&segment, fd, UINT64_MAX))
		die("the segment cannot be mapped");
	struct message_armed armed = MESSAGE_INIT(ARMED, armed);
	armed.capture = message.arm.capture;
	armed.step_source = STEP_SOURCE_OPTIMIZER;
	say(connection, &armed, sizeof armed);
	struct message_collector told = MESSAGE_INIT(COLLECTOR, collector);
	told.capture = message.arm.capture;
	told.collector = COLLECTOR_CUPTI;
	told.available = 1;
	say(connection, &told, sizeof told);
	atomic_store(&segment.header->collectors, 1u << COLLECTOR_CUPTI | 1u << COLLECTOR_NVTX | 1u << COLLECTOR_TORCH);
	put_texts();
	struct timespec real;
	clock_gettime(CLOCK_REALTIME, &real);
	atomic_store(&segment.header->base_monotonic, now());
	atomic_store(&segment.header->base_realtime, (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec);
	atomic_store(&segment.header->record_start, now());
	atomic_store(&segment.header->phase, SEGMENT_RECORD);
	record(kernels, steps, pace);
	uint64_t last = now();
	atomic_store(&segment.header->record_end, last);
	atomic_store(&segment.header->phase, SEGMENT_DONE);
	struct message_done done = MESSAGE_INIT(DONE, done);
	done.capture = message.arm.capture;
	done.steps = (uint32_t)steps;
	done.step_source = STEP_SOURCE_OPTIMIZER;
	say(connection, &done, sizeof done);
	printf("{\"last\": %" PRIu64 ", \"events\": %" PRIu64 ", \"waited_ns\": %" PRIu64 "}\n", last, events,
	       waited_ns);
	fflush(stdout);
	/* The daemon says when it needs the segment no more. */
	while (receive(connection, NULL).head.type != MESSAGE_FINISH)
		;
	return 0;
}
