/* test_agent_cupti_decode.c - records of several CUPTI releases, put together here by hand from their headers' numbers, are
 * read as what they say, and nothing is read that a record does not have. */
#include "agent/cupti/decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* cuptiGetVersion of some releases. */
enum { V11_7 = 17, V12_4 = 22, V13_5 = 130500 };

static unsigned char record[512];

static void begin(uint32_t kind, int filler)
{
	memset(record, filler, sizeof record);
	memcpy(record, &kind, sizeof kind);
}

static void put8(size_t at, uint8_t value)
{
	record[at] = value;
}

static void put16(size_t at, uint16_t value)
{
	memcpy(record + at, &value, sizeof value);
}

static void put32(size_t at, uint32_t value)
{
	memcpy(record + at, &value, sizeof value);
}

static void put64(size_t at, uint64_t value)
{
	memcpy(record + at, &value, sizeof value);
}

static struct cupti_layout layout_of(uint32_t version)
{
	struct cupti_layout layout;
	assert_int_equal(cupti_layout_choose(&layout, version), 0);
	return layout;
}

static const char kernel_name[] = "_Z4addPf";

/* What has stood in a kernel's record since 11.7. */
static void put_kernel(uint32_t kind, int filler)
{
	begin(kind, filler);
	put8(4, 0x21);	       /* cacheConfig: executed 2, requested 1 */
	put16(6, 40);	       /* registersPerThread */
	put64(16, 1000);       /* start */
	put64(24, 1700);       /* end */
	put32(40, 3);	       /* deviceId */
	put32(44, 1);	       /* contextId */
	put32(48, 7);	       /* streamId */
	put32(52, 128);	       /* gridX */
	put32(56, 2);	       /* gridY */
	put32(60, 3);	       /* gridZ */
	put32(64, 256);	       /* blockX */
	put32(68, 4);	       /* blockY */
	put32(72, 5);	       /* blockZ */
	put32(76, 1024);       /* staticSharedMemory */
	put32(80, 2048);       /* dynamicSharedMemory */
	put32(84, 16);	       /* localMemoryPerThread */
	put32(88, 77777);      /* localMemoryTotal */
	put32(92, 0xfffffff0); /* correlationId */
	put64(104, (uintptr_t)kernel_name);
	put64(120, 800);	   /* queued */
	put64(128, 900);	   /* submitted */
	put8(136, 1);		   /* launchType */
	put32(140, 8192);	   /* sharedMemoryExecuted */
	put64(144, 0x123456789ab); /* graphNodeId */
	put32(156, 21);		   /* graphId */
	put32(168, 9);		   /* channelID */
}

static void check_kernel(const struct event_kernel *k, const struct cupti_times *t, const char *name)
{
	assert_int_equal(k->head.size, sizeof *k);
	assert_int_equal(k->head.kind, EVENT_KERNEL);
	assert_int_equal(k->head.flags, 0);
	assert_int_equal(k->head.step, 0);
	assert_int_equal(k->start | k->duration | k->queued | k->submitted | k->name, 0);
	assert_int_equal(t->start, 1000);
	assert_int_equal(t->end, 1700);
	assert_int_equal(t->queued, 800);
	assert_int_equal(t->submitted, 900);
	assert_ptr_equal(name, kernel_name);
	assert_int_equal(k->graph_node, 0x123456789ab);
	assert_int_equal(k->correlation, 0xfffffff0);
	assert_int_equal(k->device, 3);
	assert_int_equal(k->context, 1);
	assert_int_equal(k->stream, 7);
	assert_int_equal(k->graph, 21);
	assert_int_equal(k->grid_x, 128);
	assert_int_equal(k->grid_y, 2);
	assert_int_equal(k->grid_z, 3);
	assert_int_equal(k->block_x, 256);
	assert_int_equal(k->block_y, 4);
	assert_int_equal(k->block_z, 5);
	assert_int_equal(k->static_shared, 1024);
	assert_int_equal(k->dynamic_shared, 2048);
	assert_int_equal(k->shared_executed, 8192);
	assert_int_equal(k->local_per_thread, 16);
	assert_int_equal(k->channel, 9);
	assert_int_equal(k->registers, 40);
	assert_int_equal(k->launch_type, 1);
	assert_int_equal(k->cache_config, 0x21);
}

static void kernels_of_each_release(void **state)
{
	(void)state;
	struct event_kernel k;
	struct cupti_times t;
	const char *name;

	/* 11.7: 176 bytes. What lies behind them is the next record's and must not be taken for this one's. */
	struct cupti_layout layout = layout_of(V11_7);
	assert_int_equal(cupti_layout_size(&layout, CUPTI_KIND_CONCURRENT_KERNEL), 176);
	put_kernel(10, 0xee);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	check_kernel(&k, &t, name);
	assert_int_equal(k.local_total, 77777);
	assert_int_equal(k.cluster_x | k.cluster_y | k.cluster_z, 0);
	assert_int_equal(k.priority, 0);

	/* 12.4: 208, with clusters and a 64-bit total of local memory. */
	layout = layout_of(V12_4);
	assert_int_equal(cupti_layout_size(&layout, CUPTI_KIND_CONCURRENT_KERNEL), 208);
	put32(176, 2);
	put32(180, 4);
	put32(184, 6);
	put64(192, 5000000000);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	check_kernel(&k, &t, name);
	assert_int_equal(k.local_total, 5000000000);
	assert_int_equal(k.cluster_x, 2);
	assert_int_equal(k.cluster_y, 4);
	assert_int_equal(k.cluster_z, 6);
	assert_int_equal(k.priority, 0);

	/* 13.5: 248, with the stream's priority since 13.1. */
	layout = layout_of(V13_5);
	assert_int_equal(cupti_layout_size(&layout, CUPTI_KIND_CONCURRENT_KERNEL), 248);
	put32(216, (uint32_t)-5);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	check_kernel(&k, &t, name);
	assert_int_equal(k.priority, -5);

	/* The serialising kind has the same record; a device launch has no channel. */
	put32(0, 3);
	put32(168, 0xffffffff);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	assert_int_equal(k.channel, 0);
	put64(192, 0);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	assert_int_equal(k.local_total, 77777);
}

static void times_that_are_missing(void **state)
{
	(void)state;
	struct cupti_layout layout = layout_of(V12_4);
	struct event_kernel k;
	struct cupti_times t;
	const char *name;
	put_kernel(10, 0);
	put64(24, 0);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	assert_int_equal(k.head.flags, EVENT_FLAG_UNFINISHED);
	put64(16, 0);
	assert_int_equal(cupti_decode_kernel(&layout, record, &k, &t, &name), 1);
	assert_int_equal(k.head.flags, EVENT_FLAG_TIMELESS);

	struct event_copy c;
	begin(1, 0);
	put64(16, 5);
	assert_int_equal(cupti_decode_copy(&layout, record, &c, &t), 1);
	assert_int_equal(c.head.flags, EVENT_FLAG_UNFINISHED);
}

static void copies_and_sets(void **state)
{
	(void)state;
	struct cupti_times t;
	struct event_copy c;
	static const uint32_t releases[] = {V11_7, V12_4, V13_5};
	for (size_t i = 0; i < sizeof releases / sizeof releases[0]; i++) {
		struct cupti_layout layout = layout_of(releases[i]);
		begin(1, 0xee);
		put8(4, 1);		/* copyKind: host to device */
		put8(5, 2);		/* srcKind */
		put8(6, 3);		/* dstKind */
		put8(7, 1);		/* flags: asynchronous */
		put64(8, 6000000000);	/* bytes */
		put64(16, 10);		/* start */
		put64(24, 20);		/* end */
		put32(32, 2);		/* deviceId */
		put32(36, 4);		/* contextId */
		put32(40, 13);		/* streamId */
		put32(44, 99);		/* correlationId */
		put64(64, 0x700000001); /* graphNodeId */
		put32(72, 8);		/* graphId */
		assert_int_equal(cupti_decode_copy(&layout, record, &c, &t), 1);
		assert_int_equal(c.head.kind, EVENT_COPY);
		assert_int_equal(c.head.size, sizeof c);
		assert_int_equal(c.kind, 1);
		assert_int_equal(c.source_kind, 2);
		assert_int_equal(c.target_kind, 3);
		assert_int_equal(c.asynchronous, 1);
		assert_int_equal(c.bytes, 6000000000);
		assert_int_equal(t.start, 10);
		assert_int_equal(t.end, 20);
		assert_int_equal(t.queued | t.submitted, 0);
		assert_int_equal(c.device, 2);
		assert_int_equal(c.source_device, 2);
		assert_int_equal(c.target_device, 2);
		assert_int_equal(c.source_context | c.target_context, 0);
		assert_int_equal(c.context, 4);
		assert_int_equal(c.stream, 13);
		assert_int_equal(c.correlation, 99);
		assert_int_equal(c.graph_node, 0x700000001);
		assert_int_equal(c.graph, 8);

		begin(22, 0xee);
		put8(4, 10);
		put8(5, 3);
		put8(6, 3);
		put8(7, 0);
		put64(8, 512);
		put64(16, 30);
		put64(24, 40);
		put32(32, 1);
		put32(36, 2);
		put32(40, 3);
		put32(44, 4);	/* srcDeviceId */
		put32(48, 5);	/* srcContextId */
		put32(52, 6);	/* dstDeviceId */
		put32(56, 7);	/* dstContextId */
		put32(60, 100); /* correlationId */
		put64(72, 12);	/* graphNodeId */
		put32(80, 11);	/* graphId */
		assert_int_equal(cupti_decode_peer_copy(&layout, record, &c, &t), 1);
		assert_int_equal(c.kind, 10);
		assert_int_equal(c.asynchronous, 0);
		assert_int_equal(c.bytes, 512);
		assert_int_equal(c.device, 1);
		assert_int_equal(c.context, 2);
		assert_int_equal(c.stream, 3);
		assert_int_equal(c.source_device, 4);
		assert_int_equal(c.source_context, 5);
		assert_int_equal(c.target_device, 6);
		assert_int_equal(c.target_context, 7);
		assert_int_equal(c.correlation, 100);
		assert_int_equal(c.graph_node, 12);
		assert_int_equal(c.graph, 11);
		assert_int_equal(t.start, 30);
		assert_int_equal(t.end, 40);

		struct event_set s;
		begin(2, 0xee);
		put32(4, 0xabcdef01); /* value */
		put64(8, 4096);
		put64(16, 50);
		put64(24, 60);
		put32(32, 1);
		put32(36, 2);
		put32(40, 3);
		put32(44, 101);
		put16(48, 1); /* flags: asynchronous */
		put16(50, 3); /* memoryKind */
		put64(64, 14);
		put32(72, 15);
		assert_int_equal(cupti_decode_set(&layout, record, &s, &t), 1);
		assert_int_equal(s.head.kind, EVENT_SET);
		assert_int_equal(s.value, 0xabcdef01);
		assert_int_equal(s.bytes, 4096);
		assert_int_equal(s.device, 1);
		assert_int_equal(s.context, 2);
		assert_int_equal(s.stream, 3);
		assert_int_equal(s.correlation, 101);
		assert_int_equal(s.asynchronous, 1);
		assert_int_equal(s.memory_kind, 3);
		assert_int_equal(s.graph_node, 14);
		assert_int_equal(s.graph, 15);
		assert_int_equal(t.start, 50);
		assert_int_equal(t.end, 60);
	}
}

static void calls_syncs_and_graphs(void **state)
{
	(void)state;
	struct cupti_times t;
	struct event_api_call a;
	struct cupti_layout old = layout_of(V11_7), new = layout_of(V13_5);
	begin(5, 0);
	put32(4, 211); /* cbid */
	put64(8, 70);
	put64(16, 80);
	put32(24, 4242);       /* processId */
	put32(28, 0xdeadbeef); /* threadId */
	put32(32, 102);
	put32(36, 700); /* returnValue */
	assert_int_equal(cupti_decode_api(&old, record, &a, &t), 1);
	assert_int_equal(a.head.kind, EVENT_API_CALL);
	assert_int_equal(a.cbid, 211);
	assert_int_equal(a.thread, 0xdeadbeef);
	assert_int_equal(a.correlation, 102);
	assert_int_equal(a.result, 700);
	assert_int_equal(a.domain, 2);
	assert_int_equal(t.start, 70);
	assert_int_equal(t.end, 80);
	put32(0, 4);
	assert_int_equal(cupti_decode_api(&old, record, &a, &t), 1);
	assert_int_equal(a.domain, 1);

	struct event_sync s;
	begin(38, 0xee);
	put32(4, 3); /* type: stream */
	put64(8, 1);
	put64(16, 2);
	put32(24, 103);
	put32(28, 1);
	put32(32, 0xffffffff); /* streamId */
	put32(36, 0xffffffff); /* cudaEventId */
	put64(40, 17);	       /* cudaEventSyncId, since 12.8 */
	put32(48, 600);	       /* returnValue, since 12.8 */
	assert_int_equal(cupti_decode_sync(&old, record, &s, &t), 1);
	assert_int_equal(s.head.kind, EVENT_SYNC);
	assert_int_equal(s.kind, 3);
	assert_int_equal(s.correlation, 103);
	assert_int_equal(s.context, 1);
	assert_int_equal(s.stream, 0xffffffff);
	assert_int_equal(s.event, 0);
	assert_int_equal(s.event_sync, 0);
	assert_int_equal(s.result, 0);
	assert_int_equal(t.start, 1);
	assert_int_equal(t.end, 2);
	put32(36, 5);
	assert_int_equal(cupti_decode_sync(&new, record, &s, &t), 1);
	assert_int_equal(s.event, 5);
	assert_int_equal(s.event_sync, 17);
	assert_int_equal(s.result, 600);
	put64(40, 0xffffffff);
	assert_int_equal(cupti_decode_sync(&new, record, &s, &t), 1);
	assert_int_equal(s.event_sync, 0);

	struct event_cuda_event e;
	begin(36, 0xee);
	put32(4, 104);
	put32(8, 1);
	put32(12, 7);
	put32(16, 6);	/* eventId */
	put32(24, 2);	/* deviceId, since 12.8 */
	put64(40, 777); /* deviceTimestamp */
	put64(48, 18);	/* cudaEventSyncId */
	assert_int_equal(cupti_decode_cuda_event(&old, record, &e, &t), 1);
	assert_int_equal(e.head.kind, EVENT_CUDA_EVENT);
	assert_int_equal(e.correlation, 104);
	assert_int_equal(e.context, 1);
	assert_int_equal(e.stream, 7);
	assert_int_equal(e.event, 6);
	assert_int_equal(e.event_sync, 0);
	assert_int_equal(e.device, 0xffffffff);
	assert_int_equal(t.start, 0);
	assert_int_equal(cupti_decode_cuda_event(&new, record, &e, &t), 1);
	assert_int_equal(e.event_sync, 18);
	assert_int_equal(e.device, 2);
	assert_int_equal(t.start, 777);

	struct event_graph_launch g;
	begin(51, 0);
	put32(4, 105);
	put64(8, 3);
	put64(16, 4);
	put32(24, 1);  /* deviceId */
	put32(28, 22); /* graphId */
	put32(32, 2);  /* contextId */
	put32(36, 3);  /* streamId */
	assert_int_equal(cupti_decode_graph(&old, record, &g, &t), 1);
	assert_int_equal(g.head.kind, EVENT_GRAPH_LAUNCH);
	assert_int_equal(g.correlation, 105);
	assert_int_equal(g.device, 1);
	assert_int_equal(g.graph, 22);
	assert_int_equal(g.context, 2);
	assert_int_equal(g.stream, 3);
	assert_int_equal(t.start, 3);
	assert_int_equal(t.end, 4);
}

static void memory(void **state)
{
	(void)state;
	struct cupti_times t;
	struct event_allocation a;
	struct cupti_layout layout = layout_of(V12_4);
	begin(49, 0);
	put32(4, 1); /* memoryOperationType: allocation */
	put32(8, 3); /* memoryKind */
	put32(12, 106);
	put64(16, 0x7f0000000000);
	put64(24, 1 << 20);
	put64(32, 55); /* timestamp */
	put32(52, 1);
	put32(56, 2);
	put32(60, 3);
	put32(72, 1);	      /* isAsync */
	put32(80, 1);	      /* memoryPoolType: local */
	put64(88, 0x5000);    /* address */
	put64(104, 32 << 20); /* pool.size */
	put64(112, 9 << 20);  /* utilizedSize */
	assert_int_equal(cupti_decode_memory(&layout, record, &a, &t), 1);
	assert_int_equal(a.head.kind, EVENT_ALLOCATION);
	assert_int_equal(a.head.flags, 0);
	assert_int_equal(a.source, ALLOCATION_CUPTI);
	assert_int_equal(a.operation, ALLOCATION_TAKEN);
	assert_int_equal(a.memory_kind, 3);
	assert_int_equal(a.correlation, 106);
	assert_int_equal(a.address, 0x7f0000000000);
	assert_int_equal(a.bytes, 1 << 20);
	assert_int_equal(t.start, 55);
	assert_int_equal(a.device, 1);
	assert_int_equal(a.context, 2);
	assert_int_equal(a.stream, 3);
	assert_int_equal(a.asynchronous, 1);
	assert_int_equal(a.pool, 0x5000);
	assert_int_equal(a.reserved, 32 << 20);
	assert_int_equal(a.total, 9 << 20);
	/* An imported pool: its size is another process's id. */
	put32(4, 2);
	put32(80, 2);
	put64(104, 4711);
	assert_int_equal(cupti_decode_memory(&layout, record, &a, &t), 1);
	assert_int_equal(a.operation, ALLOCATION_GIVEN_BACK);
	assert_int_equal(a.pool, 0x5000);
	assert_int_equal(a.reserved, 0);
	assert_int_equal(a.total, 0);

	begin(50, 0);
	put32(4, 1); /* memoryPoolOperationType: created */
	put32(8, 1); /* memoryPoolType: local */
	put32(12, 107);
	put32(20, 1);	   /* deviceId */
	put64(24, 64);	   /* minBytesToKeep */
	put64(32, 0x6000); /* address */
	put64(40, 4096);   /* size */
	put64(56, 66);	   /* timestamp */
	put64(64, 1024);   /* utilizedSize */
	assert_int_equal(cupti_decode_pool(&layout, record, &a, &t), 1);
	assert_int_equal(a.source, ALLOCATION_POOL);
	assert_int_equal(a.operation, ALLOCATION_POOL_CREATED);
	assert_int_equal(a.correlation, 107);
	assert_int_equal(a.device, 1);
	assert_int_equal(a.pool, 0x6000);
	assert_int_equal(a.bytes, 4096);
	assert_int_equal(a.reserved, 4096);
	assert_int_equal(a.total, 1024);
	assert_int_equal(t.start, 66);
	put32(4, 2);
	assert_int_equal(cupti_decode_pool(&layout, record, &a, &t), 1);
	assert_int_equal(a.operation, ALLOCATION_POOL_DESTROYED);
	put32(4, 3);
	assert_int_equal(cupti_decode_pool(&layout, record, &a, &t), 1);
	assert_int_equal(a.operation, ALLOCATION_POOL_TRIMMED);
	assert_int_equal(a.bytes, 64);
	put32(4, 9);
	assert_int_equal(cupti_decode_pool(&layout, record, &a, &t), 1);
	assert_int_equal(a.operation, 0);

	struct event_unified_memory u;
	begin(25, 0);
	put32(4, 1); /* counterKind: bytes transferred to the device */
	put64(8, 65536);
	put64(16, 77);
	put64(24, 88);
	put64(32, 0x9000);
	put32(40, 0xffffffff); /* srcId: host */
	put32(44, 1);	       /* dstId */
	put32(48, 0xbad);      /* streamId: invalid in every release */
	put32(56, 2);	       /* flags */
	assert_int_equal(cupti_decode_unified_memory(&layout, record, &u, &t), 1);
	assert_int_equal(u.head.kind, EVENT_UNIFIED_MEMORY);
	assert_int_equal(u.kind, 1);
	assert_int_equal(u.value, 65536);
	assert_int_equal(u.address, 0x9000);
	assert_int_equal(u.source, 0xffffffff);
	assert_int_equal(u.target, 1);
	assert_int_equal(u.stream, 0);
	assert_int_equal(u.detail, 2);
	assert_int_equal(t.start, 77);
	assert_int_equal(t.end, 88);
	/* A page fault of the host is an instant: no end is not unfinished. */
	put32(4, 3);
	put64(24, 0);
	assert_int_equal(cupti_decode_unified_memory(&layout, record, &u, &t), 1);
	assert_int_equal(u.head.flags, 0);
	assert_int_equal(t.end, 77);
}

static void overheads_and_facts(void **state)
{
	(void)state;
	struct cupti_times t;
	struct cupti_layout old = layout_of(V11_7), new = layout_of(V13_5);
	struct event_overhead o;
	begin(17, 0xee);
	put32(4, 2 << 16); /* overheadKind */
	put32(8, 2);	   /* objectKind: thread */
	put32(12, 4242);   /* processId */
	put32(16, 31);	   /* threadId */
	put64(24, 5);
	put64(32, 6);
	put32(40, 108); /* correlationId, since 12.3 */
	assert_int_equal(cupti_decode_overhead(&old, record, &o, &t), 1);
	assert_int_equal(o.head.kind, EVENT_OVERHEAD);
	assert_int_equal(o.kind, 2 << 16);
	assert_int_equal(o.thread, 31);
	assert_int_equal(o.correlation, 0);
	assert_int_equal(t.start, 5);
	assert_int_equal(t.end, 6);
	put32(8, 1);
	assert_int_equal(cupti_decode_overhead(&new, record, &o, &t), 1);
	assert_int_equal(o.thread, 0);
	assert_int_equal(o.correlation, 108);

	struct event_device d;
	const char *name;
	begin(8, 0);
	put64(8, 3350000000);		/* globalMemoryBandwidth, kB/s */
	put64(16, 85899345920);		/* globalMemorySize */
	put32(32, 32);			/* numThreadsPerWarp */
	put32(36, 1980000);		/* coreClockRate */
	put32(44, 132);			/* numMultiprocessors */
	put32(52, 64);			/* maxWarpsPerMultiprocessor */
	put32(56, 24);			/* maxBlocksPerMultiprocessor */
	put32(60, 233472);		/* maxSharedMemoryPerMultiprocessor */
	put32(64, 65536);		/* maxRegistersPerMultiprocessor */
	put32(68, 65535);		/* maxRegistersPerBlock */
	put32(72, 49152);		/* maxSharedMemoryPerBlock */
	put32(76, 1024);		/* maxThreadsPerBlock */
	put32(104, 9);			/* computeCapabilityMajor */
	put32(108, 1);			/* computeCapabilityMinor */
	put32(112, 5);			/* id */
	put64(120, 0x0807060504030201); /* uuid */
	put64(128, 0x1817161514131211);
	put64(136, (uintptr_t)kernel_name);
	assert_int_equal(cupti_decode_device(&old, record, &d, &name), 1);
	assert_int_equal(d.head.kind, EVENT_DEVICE);
	assert_ptr_equal(name, kernel_name);
	assert_int_equal(d.bandwidth, 3350000000000);
	assert_int_equal(d.memory, 85899345920);
	assert_int_equal(d.warp, 32);
	assert_int_equal(d.clock, 1980000);
	assert_int_equal(d.multiprocessors, 132);
	assert_int_equal(d.max_threads_multiprocessor, 2048);
	assert_int_equal(d.max_blocks_multiprocessor, 24);
	assert_int_equal(d.shared_multiprocessor, 233472);
	assert_int_equal(d.registers_multiprocessor, 65536);
	assert_int_equal(d.registers_block, 65535);
	assert_int_equal(d.shared_block, 49152);
	assert_int_equal(d.max_threads_block, 1024);
	assert_int_equal(d.capability_major, 9);
	assert_int_equal(d.capability_minor, 1);
	assert_int_equal(d.id, 5);
	assert_int_equal(d.uuid_low, 0x0807060504030201);
	assert_int_equal(d.uuid_high, 0x1817161514131211);

	struct event_context c;
	begin(9, 0xee);
	put32(4, 2);
	put32(8, 1);
	put16(12, 1);
	put16(14, 7);
	assert_int_equal(cupti_decode_context(&old, record, &c), 1);
	assert_int_equal(c.head.kind, EVENT_CONTEXT);
	assert_int_equal(c.id, 2);
	assert_int_equal(c.device, 1);
	assert_int_equal(c.api, 1);
	assert_int_equal(c.default_stream, 7);

	struct event_stream s;
	begin(37, 0);
	put32(4, 2);
	put32(8, 13);
	put32(12, (uint32_t)-2);
	put32(16, 4);
	assert_int_equal(cupti_decode_stream(&old, record, &s), 1);
	assert_int_equal(s.head.kind, EVENT_STREAM);
	assert_int_equal(s.context, 2);
	assert_int_equal(s.id, 13);
	assert_int_equal(s.priority, -2);
	assert_int_equal(s.kind, 4);

	struct event_module m;
	begin(27, 0);
	put32(4, 2);
	put32(8, 6);
	put32(12, 54321);
	assert_int_equal(cupti_decode_module(&old, record, &m), 1);
	assert_int_equal(m.head.kind, EVENT_MODULE);
	assert_int_equal(m.context, 2);
	assert_int_equal(m.id, 6);
	assert_int_equal(m.bytes, 54321);
}

/* Decodes the record at `at`, whatever its kind; returns the size of the event. */
static size_t decode_any(const struct cupti_layout *layout, const void *at)
{
	static union event_any out;
	struct cupti_times t;
	const char *name;
	int done = 0;
	switch (cupti_record_kind(at)) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		done = cupti_decode_kernel(layout, at, &out.kernel, &t, &name);
		break;
	case CUPTI_KIND_MEMCPY:
		done = cupti_decode_copy(layout, at, &out.copy, &t);
		break;
	case CUPTI_KIND_MEMCPY2:
		done = cupti_decode_peer_copy(layout, at, &out.copy, &t);
		break;
	case CUPTI_KIND_MEMSET:
		done = cupti_decode_set(layout, at, &out.set, &t);
		break;
	case CUPTI_KIND_GRAPH_TRACE:
		done = cupti_decode_graph(layout, at, &out.graph_launch, &t);
		break;
	case CUPTI_KIND_RUNTIME:
	case CUPTI_KIND_DRIVER:
	case CUPTI_KIND_INTERNAL_LAUNCH_API:
		done = cupti_decode_api(layout, at, &out.api_call, &t);
		break;
	case CUPTI_KIND_SYNCHRONIZATION:
		done = cupti_decode_sync(layout, at, &out.sync, &t);
		break;
	case CUPTI_KIND_CUDA_EVENT:
		done = cupti_decode_cuda_event(layout, at, &out.cuda_event, &t);
		break;
	case CUPTI_KIND_MEMORY2:
		done = cupti_decode_memory(layout, at, &out.allocation, &t);
		break;
	case CUPTI_KIND_MEMORY_POOL:
		done = cupti_decode_pool(layout, at, &out.allocation, &t);
		break;
	case CUPTI_KIND_UNIFIED_MEMORY_COUNTER:
		done = cupti_decode_unified_memory(layout, at, &out.unified_memory, &t);
		break;
	case CUPTI_KIND_OVERHEAD:
		done = cupti_decode_overhead(layout, at, &out.overhead, &t);
		break;
	case CUPTI_KIND_DEVICE:
		done = cupti_decode_device(layout, at, &out.device, &name);
		break;
	case CUPTI_KIND_CONTEXT:
		done = cupti_decode_context(layout, at, &out.context);
		break;
	case CUPTI_KIND_STREAM:
		done = cupti_decode_stream(layout, at, &out.stream);
		break;
	case CUPTI_KIND_MODULE:
		done = cupti_decode_module(layout, at, &out.module);
		break;
	}
	return done ? out.head.size : 0;
}

/* A record that ends where readable memory ends, in every release; and one that begins at an odd address. */
static void nothing_beyond_the_record(void **state)
{
	(void)state;
	static const uint32_t versions[] = {
#define CUPTI_RELEASE(release, version) (version),
#include "agent/cupti/records.def"
	};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
	memset(memory, 0x5a, page);
	unsigned decoded = 0;
	for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
		struct cupti_layout layout = layout_of(versions[i]);
		for (uint32_t kind = 0; kind < CUPTI_KIND_COUNT; kind++) {
			size_t size = cupti_layout_size(&layout, kind);
			if (!size)
				continue;
			memcpy(memory + page - size, &kind, sizeof kind);
			decoded += decode_any(&layout, memory + page - size) != 0;
			memcpy(memory + 1, &kind, sizeof kind);
			decode_any(&layout, memory + 1);
		}
	}
	/* 19 kinds that are read, in 17 releases. */
	assert_int_equal(decoded, 19 * 17);
	munmap(memory, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_of_each_release),
		cmocka_unit_test(times_that_are_missing),
		cmocka_unit_test(copies_and_sets),
		cmocka_unit_test(calls_syncs_and_graphs),
		cmocka_unit_test(memory),
		cmocka_unit_test(overheads_and_facts),
		cmocka_unit_test(nothing_beyond_the_record),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
