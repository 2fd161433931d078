/* perform.c - a made-up recording, the same in every run: a segment is filled as an agent would fill it, and the daemon's code
 * makes a capture file of it. test_recording.py compares the file, and what the client makes of it, with what an earlier
 * build made. Everything that stands here is frozen: a change of it changes the recording.
 *
 *   perform gpu|host|adopted FOLDER      writes FOLDER/1.db
 *
 * gpu: host and device. host: the same without CUPTI. adopted: as gpu, but another daemon goes on in the middle. */
#include "daemon/capture/ingest.h"
#include "daemon/capture/ingest_finish.h"
#include "proto/inputs.h"
#include "daemon/capture/names_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES 4096u
#define CHUNKS 64u
#define BASE 1000000000000ull
#define REALTIME 1767225600000000000ull
#define STEPS 4
#define STEP_NS 10000000ull

enum { MAIN = 4242, BACKWARD = 4300, LOADER = 4301 };

static struct segment *segment;

/* --- the writer --- */

static struct writer {
	uint32_t thread, chunk, used;
	bool open;
} writers[3] = {{.thread = MAIN}, {.thread = BACKWARD}, {.thread = LOADER}};

static void close_chunk(struct writer *writer)
{
	if (writer->open)
		atomic_store(&segment->table[writer->chunk].state, CHUNK_FULL);
	writer->open = false;
}

static void open_chunk(struct writer *writer)
{
	uint32_t i = 0;
	while (atomic_load(&segment->table[i].state) != CHUNK_FREE)
		i++;
	if (i >= CHUNKS)
		abort();
	struct segment_chunk *chunk = &segment->table[i];
	writer->chunk = i;
	writer->used = 0;
	writer->open = true;
	atomic_store(&chunk->sequence, atomic_fetch_add(&segment->header->next_sequence, 1) + 1);
	atomic_store(&chunk->thread, writer->thread);
	atomic_store(&chunk->used, 0);
	atomic_store(&chunk->state, CHUNK_OWNED);
}

static void put(uint32_t thread, void *record, uint8_t kind, size_t bytes, uint32_t step, uint8_t flags)
{
	struct writer *writer = &writers[thread == MAIN ? 0 : thread == BACKWARD ? 1 : 2];
	const struct event_head head = {(uint16_t)bytes, kind, flags, step};
	memcpy(record, &head, sizeof head);
	if (writer->open && writer->used + bytes > CHUNK_BYTES)
		close_chunk(writer);
	if (!writer->open)
		open_chunk(writer);
	memcpy(segment->chunks + (size_t)writer->chunk * CHUNK_BYTES + writer->used, record, bytes);
	writer->used += (uint32_t)bytes;
	atomic_store(&segment->table[writer->chunk].used, writer->used);
}
#define PUT(thread, KIND, kind, step, flags, ...)                                                                      \
	do {                                                                                                           \
		struct event_##kind record = {__VA_ARGS__};                                                            \
		put(thread, &record, EVENT_##KIND, sizeof record, step, flags);                                        \
	} while (0)

static _Atomic uint32_t tail;

static uint32_t claim(const void *bytes, size_t n, uint32_t type)
{
	uint32_t id = segment_string_claim(segment, &tail, (uint32_t)n);
	if (!id)
		abort();
	memcpy(segment->strings + (size_t)id * 8 + sizeof(struct segment_string), bytes, n);
	segment_string_finish(segment, id, (uint32_t)n, type);
	segment_strings_publish(segment, 0);
	return id;
}

/* The id of a text, which is written once. */
static uint32_t text(const char *what)
{
	static struct {
		const char *text;
		uint32_t id;
	} known[64];
	size_t i = 0;
	while (known[i].text && strcmp(known[i].text, what) != 0)
		i++;
	if (i + 1 == sizeof known / sizeof *known)
		abort();
	if (!known[i].text) {
		known[i].text = what;
		known[i].id = claim(what, strlen(what), STRING_TEXT);
	}
	return known[i].id;
}

/* --- the host --- */

static uint64_t next_id = 1;

static void operator_(uint32_t thread, uint64_t start, uint64_t duration, uint64_t self, uint64_t id, uint64_t parent,
		      const char *name, uint16_t depth, uint32_t step, uint8_t flags)
{
	struct event_operator record = {
		.start = start,
		.duration = duration,
		.self = self,
		.id = id,
		.parent = parent,
		.name = *name ? text(name) : 0,
		.thread = thread,
		.depth = depth,
		.scope = depth ? 0 : 1,
		.sequence = thread == BACKWARD ? (int64_t)id : -1,
		.forward_thread = thread == BACKWARD ? 1 : 0,
	};
	/* As agents write one that has no stack, and as all of them did before there were any. */
	put(thread, &record, EVENT_OPERATOR, offsetof(struct event_operator, backward), step, flags);
}

static void range(uint32_t thread, uint64_t start, uint64_t duration, uint64_t self, uint64_t id, uint64_t parent,
		  const char *name, uint16_t depth, uint32_t step, uint8_t flags, uint8_t source)
{
	PUT(thread, RANGE, range, step, flags, .start = start, .duration = duration, .self = self, .id = id,
	    .parent = parent, .name = text(name), .thread = thread, .depth = depth, .source = source,
	    .domain = source == RANGE_SOURCE_NVTX_START_END ? text("io") : 0, .category = depth ? 0 : text("phase"),
	    .color = depth ? 0 : 0xff00ff00u, .end_thread = flags & EVENT_FLAG_ASYNC ? LOADER : 0);
}

static void call(uint32_t correlation, uint64_t start, uint64_t duration, const char *name, uint32_t step,
		 uint8_t flags, int32_t result)
{
	PUT(MAIN, API_CALL, api_call, step, flags, .start = start, .duration = duration, .correlation = correlation,
	    .name = text(name), .thread = MAIN, .cbid = 211, .result = result,
	    .domain = strncmp(name, "cuda", 4) ? 1 : 2);
}

/* --- the device --- */

static void kernel(uint32_t correlation, uint64_t start, uint64_t duration, const char *name, uint32_t stream,
		   uint8_t flags)
{
	PUT(MAIN, KERNEL, kernel, 0, flags, .start = start, .duration = duration, .correlation = correlation,
	    .device = stream == 20 ? 1 : 0, .context = stream == 20 ? 2 : 1, .stream = stream, .name = text(name),
	    .grid_x = 64, .grid_y = 2, .grid_z = 1, .block_x = 128, .block_y = 1, .block_z = 1, .dynamic_shared = 1024,
	    .registers = 40, .priority = -1, .cluster_x = 1, .cluster_y = 1, .cluster_z = 1, .launch_type = 1);
}

static void copy(uint32_t correlation, uint64_t start, uint64_t duration, uint64_t bytes, uint8_t kind)
{
	PUT(MAIN, COPY, copy, 0, start ? 0 : EVENT_FLAG_TIMELESS, .start = start, .duration = duration,
	    .correlation = correlation, .context = 1, .stream = 7, .bytes = bytes, .kind = kind, .source_kind = 1,
	    .target_kind = 3, .asynchronous = 1);
}

static const char
	gemm[] = "_ZN7cutlass6KernelI4gemmEEvNT_6ParamsE",
	relu[] = "_Z4reluPfi",
	fill[] = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
	broken[] = "_ZN9unfinished", plain[] = "plain_c_kernel";

static void device_facts(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		PUT(MAIN, DEVICE, device, 0, 0, .id = i, .uuid_low = 0x1122334455667788u + i,
		    .uuid_high = 0x99aabbccddeeff00u, .memory = 80ull << 30, .bandwidth = 3000000000000u,
		    .name = text("Made Up 100"), .multiprocessors = 132, .capability_major = 9, .warp = 32,
		    .max_threads_block = 1024, .max_threads_multiprocessor = 2048, .max_blocks_multiprocessor = 32,
		    .registers_block = 65536, .registers_multiprocessor = 65536, .shared_block = 49152,
		    .shared_multiprocessor = 233472, .clock = 1980000);
		PUT(MAIN, CONTEXT, context, 0, 0, .id = i + 1, .device = i, .default_stream = 7, .api = 1);
	}
	PUT(MAIN, STREAM, stream, 0, 0, .id = 13, .context = 1, .priority = -1, .kind = 1, .name = text("side"));
	PUT(MAIN, MODULE, module, 0, 0, .id = 3, .context = 1, .bytes = 65536);
}

static void memory_at(uint64_t time, uint64_t bytes, uint8_t operation, uint8_t source)
{
	PUT(MAIN, ALLOCATION, allocation, 0, 0, .time = time, .address = 0x7f0000000000u, .bytes = bytes,
	    .total = bytes, .context = 1, .thread = MAIN, .source = source, .operation = operation, .memory_kind = 3);
}

static void overhead_at(uint64_t time)
{
	PUT(MAIN, OVERHEAD, overhead, 0, 0, .start = time, .duration = 1500, .thread = MAIN, .kind = 1 << 16);
}

static void page_fault_at(uint64_t time)
{
	PUT(MAIN, UNIFIED_MEMORY, unified_memory, 0, 0, .start = time, .duration = 700, .address = 0x7f1000000000u,
	    .value = 65536, .kind = 1, .source = 0xffffffffu);
}

static void device_step(uint32_t ordinal, uint64_t start, uint32_t first)
{
	call(first, start + 150000, 20000, "cudaLaunchKernel", ordinal, 0, 0);
	kernel(first, start + 200000, 800000, gemm, 7, 0);
	call(first + 1, start + 550000, 15000, "cudaLaunchKernel", ordinal, 0, 0);
	kernel(first + 1, start + 900000, 300000, relu, 13, 0);
	call(first + 2, start + 700000, 30000, "cudaMemcpyAsync", ordinal, 0, 0);
	copy(first + 2, ordinal == 3 ? 0 : start + 1300000, ordinal == 3 ? 0 : 90000, 4096u * ordinal, 1);
	call(first + 3, start + 800000, 10000, "cuMemsetD8Async", ordinal, 0, ordinal == 2 ? 700 : 0);
	PUT(MAIN, SET, set, 0, 0, .start = start + 1500000, .duration = 5000, .correlation = first + 3, .context = 1,
	    .stream = 7, .bytes = 8192, .memory_kind = 3, .asynchronous = 1);
	call(first + 4, start + 900000, 40000, "cudaGraphLaunch", ordinal, 0, 0);
	PUT(MAIN, GRAPH_LAUNCH, graph_launch, 0, 0, .start = start + 2000000, .duration = 1000000,
	    .correlation = first + 4, .context = 1, .stream = 13, .graph = 5);
	/* The record of the call is missing. */
	kernel(first + 5, start + 3500000, 50000 * ordinal, plain, 20, 0);
	call(first + 6, start + 5100000, 12000, "cudaLaunchKernel", ordinal, 0, 0);
	kernel(first + 6, start + 5300000, 6000000, ordinal == 1 ? broken : fill, 7, 0);
	call(first + 7, start + 9000000, 500000, "cudaStreamSynchronize", ordinal, 0, 0);
	PUT(MAIN, SYNC, sync, 0, 0, .start = start + 9000100, .duration = 499000, .correlation = first + 7,
	    .context = 1, .stream = 7, .kind = 3);
	PUT(MAIN, CUDA_EVENT, cuda_event, 0, 0, .time = start + 4000000, .correlation = first + 9, .context = 1,
	    .stream = 7, .event = 2);
	memory_at(start + 300000, 1u << 20, ALLOCATION_TAKEN, ALLOCATION_CUPTI);
	memory_at(start + STEP_NS - 10, 1u << 20, ALLOCATION_GIVEN_BACK, ALLOCATION_CUPTI);
	page_fault_at(start + 310000);
	overhead_at(start + 1000);
}

static void device_around(uint64_t end)
{
	/* Launched before the recording, and at work in it; then one that was over before. */
	kernel(3, BASE - 500000, 700000, gemm, 7, 0);
	kernel(4, BASE - 900000, 100000, relu, 7, 0);
	/* Launched within the clock error of a boundary. */
	call(900, BASE + STEP_NS - 300, 5000, "cudaLaunchKernel", 1, EVENT_FLAG_DOUBTFUL, 0);
	kernel(900, BASE + STEP_NS + 400000, 100000, relu, 7, EVENT_FLAG_UNFINISHED);
	/* Of no step. */
	call(901, end + 500, 5000, "cudaLaunchKernel", 0, 0, 0);
	kernel(901, end + 9000, 1000, relu, 7, 0);
	memory_at(BASE - 100, 512, ALLOCATION_TAKEN, ALLOCATION_CUPTI);
	memory_at(end + 1, 512, ALLOCATION_GIVEN_BACK, ALLOCATION_CUPTI);
	page_fault_at(end + 100);
	overhead_at(end + 100);
	PUT(MAIN, SESSION, session, 0, 0, .clock_error = 900, .records = 60, .buffer_bytes = 8u << 20, .early = 1,
	    .enable = 4000000, .drain = 2000000, .cupti_version = 24, .driver_version = 12080,
	    .library = text("/usr/local/cuda/lib64/libcupti.so.12"), .options = SESSION_GRAPHS_WHOLE, .kinds = 10,
	    .runtime_version = 12080, .refused = 1ull << ACTIVITY_MEMORY, .known_from = BASE + 200000);
}

/* --- the whole --- */

static void host_step(uint32_t ordinal, uint64_t start, uint32_t inputs)
{
	uint64_t forward = next_id, linear = forward + 1, inner = forward + 2, addmm = forward + 3,
		 relu_op = forward + 4, backward = forward + 5, node = forward + 6, load = forward + 7,
		 empty = forward + 8;
	uint32_t claimed = ordinal == 2 ? 1 : ordinal; /* of one step a wrong one, which the boundaries put right */
	next_id += 9;
	/* A dispatcher that comes back to the same operator is one call with it. */
	PUT(MAIN, OPERATOR, operator, claimed, 0, .start = start + 140000, .duration = 60000, .self = 60000,
	    .id = addmm, .parent = inner, .name = text("aten::addmm"), .thread = MAIN, .depth = 3, .inputs = inputs,
	    .sequence = -1);
	operator_(MAIN, start + 120000, 100000, 40000, inner, linear, "aten::linear", 2, claimed, 0);
	operator_(MAIN, start + 110000, 200000 + 1000 * ordinal, 100000 + 1000 * ordinal, linear, forward,
		  "aten::linear", 1, claimed, 0);
	operator_(MAIN, start + 500000, 150000, 150000, relu_op, forward, "aten::relu", 1, ordinal, 0);
	PUT(MAIN, MARK, mark, ordinal == 3 ? 2 : ordinal, 0, .time = start + 600000, .name = text("checkpoint"),
	    .thread = MAIN, .domain = text("io"), .color = 0xffff0000u, .source = RANGE_SOURCE_NVTX_PUSH_POP);
	range(MAIN, start + 100000, 4000000, 3650000 - 1000 * ordinal, forward, 0, "forward", 0, ordinal, 0,
	      RANGE_SOURCE_NVTX_PUSH_POP);
	operator_(BACKWARD, start + 5050000, 300000, 300000, node, backward, "AddmmBackward0", 1, ordinal, 0);
	operator_(BACKWARD, start + 5000000, 400000, 100000, backward, 0,
		  "autograd::engine::evaluate_function: AddmmBackward0", 0, ordinal, 0);
	range(MAIN, start + 200000, 9000000, 9000000, load, 0, "load", 0, ordinal, EVENT_FLAG_ASYNC,
	      RANGE_SOURCE_NVTX_START_END);
	operator_(LOADER, start + 7000000, 30, 30, empty, 0, "", 0, ordinal, 0);
	/* As long as it was when the results were frozen: a longer one fills chunks earlier, and records come in another order. */
	struct event_step step = {.start = start,
				  .duration = STEP_NS - 1000 * ordinal,
				  .number = 100 + ordinal,
				  .thread = MAIN,
				  .source = STEP_SOURCE_OPTIMIZER,
				  .collectors = (uint16_t)(atomic_load(&segment->header->collectors))};
	put(MAIN, &step, EVENT_STEP, offsetof(struct event_step, collections_0), ordinal, 0);
}

static void half(bool gpu, unsigned from, unsigned to, uint32_t inputs)
{
	for (uint32_t ordinal = from; ordinal <= to; ordinal++) {
		uint64_t start = BASE + (ordinal - 1) * STEP_NS;
		if (gpu)
			device_step(ordinal, start, 100 * ordinal);
		else
			memory_at(start + 400000, 4096, ALLOCATION_TAKEN, ALLOCATION_TORCH);
		host_step(ordinal, start, inputs);
	}
}

static void around(bool gpu)
{
	uint64_t end = BASE + STEPS * STEP_NS;
	PUT(MAIN, THREAD, thread, 0, 0, .pthread = 0x7f00aa, .thread = MAIN, .name = text("python3"));
	PUT(MAIN, THREAD, thread, 0, 0, .thread = MAIN, .name = text("trainer"), .torch_id = 1);
	PUT(BACKWARD, THREAD, thread, 0, 0, .pthread = 0x7f00bb, .thread = BACKWARD, .name = text("pt_autograd_0"),
	    .torch_id = 2);
	/* Outside of all steps; still open at the end; with a duration that nobody believes. */
	operator_(MAIN, BASE - 5000, 1000, 1000, next_id++, 0, "aten::zeros", 0, 0, 0);
	range(LOADER, end - 2000000, 2000000, 2000000, next_id++, 0, "prefetch", 0, STEPS, EVENT_FLAG_CLIPPED,
	      RANGE_SOURCE_PROFD);
	operator_(MAIN, BASE + 5, 1ull << 50, 10, next_id++, 0, "aten::zeros", 0, 1, 0);
	PUT(MAIN, MARK, mark, 0, 0, .time = end + 7, .name = text("done\n\xff"), .thread = MAIN,
	    .source = RANGE_SOURCE_PROFD);
	if (gpu)
		device_around(end);
	else
		memory_at(end + 1, 4096, ALLOCATION_GIVEN_BACK, ALLOCATION_TORCH);
	for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
		close_chunk(&writers[i]);
}

static uint32_t put_inputs(void)
{
	static const uint32_t words[] = {INPUTS_WORD(INPUTS_TENSOR, 6u << INPUTS_DTYPE_SHIFT | 2u), 8, 16,
					 INPUTS_WORD(INPUTS_BOOL, 1)};
	return claim(words, sizeof words, STRING_INPUTS);
}

/* --- the daemon --- */

static void until_done(struct ingest *ingest, enum ingest_wish wish)
{
	atomic_store(&ingest->wish, wish);
	while (ingest_run(&ingest->work) != WORK_DONE)
		;
}

static void tell(struct ingest *ingest, bool gpu)
{
	struct store_ending *ending = &ingest->ending;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		bool device = bit == COLLECTOR_CUPTI || bit == COLLECTOR_MEMORY;
		ending->collectors[bit] =
			(struct store_collector){.wanted = collector_word(bit) && bit <= COLLECTOR_MEMORY,
						 .told = true,
						 .ran = !device || gpu,
						 .enable = 1000 * bit};
		if (device && !gpu)
			snprintf(ending->collectors[bit].sentence, sizeof ending->collectors[bit].sentence,
				 "no CUDA in this process");
	}
	ending->done_at = 1;
	ending->has_done = true;
	ending->step_before = STEP_NS - 5000;
	ending->step_during = STEP_NS;
	ending->enable = 111;
	ending->drain = 222;
	ending->agent_cpu = 333;
	ending->agent_bytes = 444;
	ending->late = 1;
	ending->step_source = STEP_SOURCE_OPTIMIZER;
	snprintf(ending->id, sizeof ending->id, "1");
	snprintf(ending->trigger_id, sizeof ending->trigger_id, "t1");
	ingest->facts.status = CAPTURE_COMPLETE;
}

int main(int argc, char **argv)
{
	names_reader(argc, argv);
	bool gpu = argc == 3 && strcmp(argv[1], "host") != 0, adopted = argc == 3 && strcmp(argv[1], "adopted") == 0;
	int folder = argc == 3 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct capture_facts facts = {.number = 1,
				      .trigger = 1,
				      .started = REALTIME,
				      .steps_wanted = STEPS,
				      .label = "frozen",
				      .who = {.pid = MAIN,
					      .agent_pid = MAIN,
					      .start_time = 99,
					      .uid = 1000,
					      .rank = 1,
					      .local_rank = 0,
					      .world_size = 2,
					      .host = "node-1",
					      .name = "python3",
					      .command = "python3 train.py",
					      .job = "7",
					      .launcher = "torchrun",
					      .torch_version = "2.4.1",
					      .agent_version = "0.1.0"}};
	struct segment made;
	if (folder < 0 || segment_create(&made, 1, CHUNKS * CHUNK_BYTES, CHUNK_BYTES)) {
		fprintf(stderr, "usage: perform gpu|host|adopted FOLDER\n");
		return 2;
	}
	store_temporary_folder(argv[2]);
	struct ingest *ingest = ingest_new(&facts, &made, false, folder, argv[2], NULL);
	segment = &ingest->segment;
	if (segment_provide(segment, CHUNKS, 65536))
		return 1;
	struct segment_header *header = segment->header;
	uint32_t on = 1u << COLLECTOR_STEPS | 1u << COLLECTOR_NVTX | 1u << COLLECTOR_TORCH | 1u << COLLECTOR_SHAPES;
	atomic_store(&header->collectors, gpu ? on | 1u << COLLECTOR_CUPTI | 1u << COLLECTOR_MEMORY : on);
	atomic_store(&header->phase, SEGMENT_RECORD);
	atomic_store(&header->base_monotonic, BASE);
	atomic_store(&header->base_realtime, REALTIME + 5);
	atomic_store(&header->record_start, BASE);
	uint32_t inputs = put_inputs();
	if (gpu)
		device_facts();
	half(gpu, 1, 2, inputs);
	for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
		close_chunk(&writers[i]);
	if (adopted) {
		until_done(ingest, INGEST_HAND_OFF);
		struct segment again;
		if (segment_adopt(&again, dup(segment->fd)))
			return 1;
		ingest_free(ingest);
		ingest = ingest_new(&facts, &again, true, folder, argv[2], NULL);
		segment = &ingest->segment;
		header = segment->header;
	}
	half(gpu, 3, STEPS, inputs);
	around(gpu);
	atomic_store(&header->lost[LOSS_NO_SPACE][EVENT_OPERATOR], 7);
	atomic_store(&header->record_end, BASE + STEPS * STEP_NS);
	atomic_store(&header->phase, SEGMENT_DONE);
	until_done(ingest, INGEST_END);
	tell(ingest, gpu);
	ingest_finish(&ingest->work);
	bool kept = ingest->facts.status == CAPTURE_COMPLETE;
	if (!kept)
		fprintf(stderr, "%s\n", ingest->facts.reason);
	printf("%s %llu events, %llu lost\n", capture_status_word(ingest->facts.status),
	       (unsigned long long)ingest->facts.events, (unsigned long long)ingest->facts.lost);
	ingest_free(ingest);
	return !kept;
}
