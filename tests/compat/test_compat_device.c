/* test_compat_device.c - the bytes that protocol 1.1 wrote of what is new in it: the records of the device side and the longer
 * ARM; and the shorter ARM of before. A failure here means that an agent or a file of that release would be misread: mend
 * the layout, not this test. */
#include "proto/events.h"
#include "proto/message.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static size_t read_file(const char *version, const char *what, const char *name, void *to, size_t size)
{
	char path[4096];
	snprintf(path, sizeof path, TEST_FOLDER "/compat/%s/%s-%s.bin", version, what, name);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		fail_msg("%s cannot be opened", path);
	ssize_t n = read(fd, to, size);
	close(fd);
	assert_true(n > 0 && (size_t)n < size);
	return (size_t)n;
}

static union event_any read_event(const char *name, unsigned kind)
{
	_Alignas(8) unsigned char bytes[4096];
	union event_any event;
	size_t n = read_file("protocol-1.1", "event", name, bytes, sizeof bytes), at = 0;
	assert_int_equal(event_read(bytes, n, &at, &event), EVENT_OK);
	assert_int_equal(at, n);
	assert_int_equal(event.head.kind, kind);
	assert_int_equal(event.head.flags, 5);
	assert_int_equal(event.head.step, 77);
	return event;
}

static void kernel_event(void **state)
{
	(void)state;
	union event_any event = read_event("kernel", EVENT_KERNEL);
	const struct event_kernel *r = &event.kernel;
	assert_true(r->start == 0x3a332c251e171009ull);
	assert_true(r->duration == 0x726b645d564f4841ull);
	assert_true(r->queued == 0xaaa39c958e878079ull);
	assert_true(r->submitted == 0xe2dbd4cdc6bfb8b1ull);
	assert_true(r->graph_node == 0x1a130c05fef7f0e9ull);
	assert_true(r->correlation == 0x362f2821u);
	assert_true(r->device == 0x524b443du);
	assert_true(r->context == 0x6e676059u);
	assert_true(r->stream == 0x8a837c75u);
	assert_true(r->graph == 0xa69f9891u);
	assert_true(r->name == 0xc2bbb4adu);
	assert_true(r->grid_x == (int32_t)0xded7d0c9u);
	assert_true(r->grid_y == (int32_t)0xfaf3ece5u);
	assert_true(r->grid_z == (int32_t)0x160f0801u);
	assert_true(r->block_x == (int32_t)0x322b241du);
	assert_true(r->block_y == (int32_t)0x4e474039u);
	assert_true(r->block_z == (int32_t)0x6a635c55u);
	assert_true(r->static_shared == (int32_t)0x867f7871u);
	assert_true(r->dynamic_shared == (int32_t)0xa29b948du);
	assert_true(r->shared_executed == 0xbeb7b0a9u);
	assert_true(r->local_per_thread == 0xdad3ccc5u);
	assert_true(r->local_total == 0x120b04fdf6efe8e1ull);
	assert_true(r->channel == 0x2e272019u);
	assert_true(r->priority == (int32_t)0x4a433c35u);
	assert_true(r->cluster_x == 0x665f5851u);
	assert_true(r->cluster_y == 0x827b746du);
	assert_true(r->cluster_z == 0x9e979089u);
	assert_true(r->registers == 0xaca5u);
	assert_true(r->launch_type == 0xb3u);
	assert_true(r->cache_config == 0xbau);
}

static void copy_event(void **state)
{
	(void)state;
	union event_any event = read_event("copy", EVENT_COPY);
	const struct event_copy *r = &event.copy;
	assert_true(r->start == 0x474039322b241d16ull);
	assert_true(r->duration == 0x7f78716a635c554eull);
	assert_true(r->graph_node == 0xb7b0a9a29b948d86ull);
	assert_true(r->correlation == 0xd3ccc5beu);
	assert_true(r->device == 0xefe8e1dau);
	assert_true(r->context == 0xb04fdf6u);
	assert_true(r->stream == 0x27201912u);
	assert_true(r->graph == 0x433c352eu);
	assert_true(r->source_device == 0x5f58514au);
	assert_true(r->bytes == 0x979089827b746d66ull);
	assert_true(r->source_context == 0xb3aca59eu);
	assert_true(r->target_device == 0xcfc8c1bau);
	assert_true(r->target_context == 0xebe4ddd6u);
	assert_true(r->kind == 0xf2u);
	assert_true(r->source_kind == 0xf9u);
	assert_true(r->target_kind == 0x0u);
	assert_true(r->asynchronous == 0x7u);
}

static void set_event(void **state)
{
	(void)state;
	union event_any event = read_event("set", EVENT_SET);
	const struct event_set *r = &event.set;
	assert_true(r->start == 0x544d463f38312a23ull);
	assert_true(r->duration == 0x8c857e777069625bull);
	assert_true(r->graph_node == 0xc4bdb6afa8a19a93ull);
	assert_true(r->correlation == 0xe0d9d2cbu);
	assert_true(r->device == 0xfcf5eee7u);
	assert_true(r->context == 0x18110a03u);
	assert_true(r->stream == 0x342d261fu);
	assert_true(r->graph == 0x5049423bu);
	assert_true(r->value == 0x6c655e57u);
	assert_true(r->bytes == 0xa49d968f88817a73ull);
	assert_true(r->memory_kind == 0xabu);
	assert_true(r->asynchronous == 0xb2u);
	assert_true(r->reserved0 == 0xc0b9u);
	assert_true(r->reserved == 0xdcd5cec7u);
}

static void graph_launch_event(void **state)
{
	(void)state;
	union event_any event = read_event("graph_launch", EVENT_GRAPH_LAUNCH);
	const struct event_graph_launch *r = &event.graph_launch;
	assert_true(r->start == 0xfdf6efe8e1dad3ccull);
	assert_true(r->duration == 0x352e272019120b04ull);
	assert_true(r->correlation == 0x514a433cu);
	assert_true(r->device == 0x6d665f58u);
	assert_true(r->context == 0x89827b74u);
	assert_true(r->stream == 0xa59e9790u);
	assert_true(r->graph == 0xc1bab3acu);
	assert_true(r->reserved == 0xddd6cfc8u);
}

static void api_call_event(void **state)
{
	(void)state;
	union event_any event = read_event("api_call", EVENT_API_CALL);
	const struct event_api_call *r = &event.api_call;
	assert_true(r->start == 0x615a534c453e3730ull);
	assert_true(r->duration == 0x99928b847d766f68ull);
	assert_true(r->correlation == 0xb5aea7a0u);
	assert_true(r->name == 0xd1cac3bcu);
	assert_true(r->thread == 0xede6dfd8u);
	assert_true(r->cbid == 0x902fbf4u);
	assert_true(r->result == (int32_t)0x251e1710u);
	assert_true(r->domain == 0x332cu);
	assert_true(r->reserved == 0x413au);
}

static void sync_event(void **state)
{
	(void)state;
	union event_any event = read_event("sync", EVENT_SYNC);
	const struct event_sync *r = &event.sync;
	assert_true(r->start == 0x6e676059524b443dull);
	assert_true(r->duration == 0xa69f98918a837c75ull);
	assert_true(r->correlation == 0xc2bbb4adu);
	assert_true(r->context == 0xded7d0c9u);
	assert_true(r->stream == 0xfaf3ece5u);
	assert_true(r->event == 0x160f0801u);
	assert_true(r->event_sync == 0x322b241du);
	assert_true(r->kind == 0x4039u);
	assert_true(r->result == 0x4e47u);
}

static void cuda_event_event(void **state)
{
	(void)state;
	union event_any event = read_event("cuda_event", EVENT_CUDA_EVENT);
	const struct event_cuda_event *r = &event.cuda_event;
	assert_true(r->time == 0xe3dcd5cec7c0b9b2ull);
	assert_true(r->correlation == 0xfff8f1eau);
	assert_true(r->context == 0x1b140d06u);
	assert_true(r->stream == 0x37302922u);
	assert_true(r->event == 0x534c453eu);
	assert_true(r->event_sync == 0x6f68615au);
	assert_true(r->device == 0x8b847d76u);
}

static void allocation_event(void **state)
{
	(void)state;
	union event_any event = read_event("allocation", EVENT_ALLOCATION);
	const struct event_allocation *r = &event.allocation;
	assert_true(r->time == 0x7b746d665f58514aull);
	assert_true(r->address == 0xb3aca59e97908982ull);
	assert_true(r->bytes == 0xebe4ddd6cfc8c1baull);
	assert_true(r->total == 0x231c150e0700f9f2ull);
	assert_true(r->reserved == 0x5b544d463f38312aull);
	assert_true(r->pool == 0x938c857e77706962ull);
	assert_true(r->correlation == 0xafa8a19au);
	assert_true(r->device == 0xcbc4bdb6u);
	assert_true(r->context == 0xe7e0d9d2u);
	assert_true(r->stream == 0x3fcf5eeu);
	assert_true(r->thread == 0x1f18110au);
	assert_true(r->source == 0x26u);
	assert_true(r->operation == 0x2du);
	assert_true(r->memory_kind == 0x34u);
	assert_true(r->asynchronous == 0x3bu);
}

static void unified_memory_event(void **state)
{
	(void)state;
	union event_any event = read_event("unified_memory", EVENT_UNIFIED_MEMORY);
	const struct event_unified_memory *r = &event.unified_memory;
	assert_true(r->start == 0xf0e9e2dbd4cdc6bfull);
	assert_true(r->duration == 0x28211a130c05fef7ull);
	assert_true(r->address == 0x6059524b443d362full);
	assert_true(r->value == 0x98918a837c756e67ull);
	assert_true(r->kind == 0xb4ada69fu);
	assert_true(r->source == 0xd0c9c2bbu);
	assert_true(r->target == 0xece5ded7u);
	assert_true(r->stream == 0x801faf3u);
	assert_true(r->detail == 0x241d160fu);
	assert_true(r->reserved == 0x4039322bu);
}

static void overhead_event(void **state)
{
	(void)state;
	union event_any event = read_event("overhead", EVENT_OVERHEAD);
	const struct event_overhead *r = &event.overhead;
	assert_true(r->start == 0xa29b948d867f7871ull);
	assert_true(r->duration == 0xdad3ccc5beb7b0a9ull);
	assert_true(r->thread == 0xf6efe8e1u);
	assert_true(r->kind == 0x120b04fdu);
	assert_true(r->correlation == 0x2e272019u);
	assert_true(r->reserved == 0x4a433c35u);
}

static void device_event(void **state)
{
	(void)state;
	union event_any event = read_event("device", EVENT_DEVICE);
	const struct event_device *r = &event.device;
	assert_true(r->uuid_low == 0xafa8a19a938c857eull);
	assert_true(r->uuid_high == 0xe7e0d9d2cbc4bdb6ull);
	assert_true(r->memory == 0x1f18110a03fcf5eeull);
	assert_true(r->bandwidth == 0x575049423b342d26ull);
	assert_true(r->id == 0x736c655eu);
	assert_true(r->name == 0x8f88817au);
	assert_true(r->multiprocessors == 0xaba49d96u);
	assert_true(r->capability_major == 0xc7c0b9b2u);
	assert_true(r->capability_minor == 0xe3dcd5ceu);
	assert_true(r->warp == 0xfff8f1eau);
	assert_true(r->max_threads_block == 0x1b140d06u);
	assert_true(r->max_threads_multiprocessor == 0x37302922u);
	assert_true(r->max_blocks_multiprocessor == 0x534c453eu);
	assert_true(r->registers_block == 0x6f68615au);
	assert_true(r->registers_multiprocessor == 0x8b847d76u);
	assert_true(r->shared_block == 0xa7a09992u);
	assert_true(r->shared_multiprocessor == 0xc3bcb5aeu);
	assert_true(r->clock == 0xdfd8d1cau);
}

static void context_event(void **state)
{
	(void)state;
	union event_any event = read_event("context", EVENT_CONTEXT);
	const struct event_context *r = &event.context;
	assert_true(r->id == 0xa099928bu);
	assert_true(r->device == 0xbcb5aea7u);
	assert_true(r->default_stream == 0xd8d1cac3u);
	assert_true(r->api == 0xf4ede6dfu);
}

static void stream_event(void **state)
{
	(void)state;
	union event_any event = read_event("stream", EVENT_STREAM);
	const struct event_stream *r = &event.stream;
	assert_true(r->id == 0xada69f98u);
	assert_true(r->context == 0xc9c2bbb4u);
	assert_true(r->priority == (int32_t)0xe5ded7d0u);
	assert_true(r->kind == 0x1faf3ecu);
	assert_true(r->name == 0x1d160f08u);
	assert_true(r->reserved == 0x39322b24u);
}

static void module_event(void **state)
{
	(void)state;
	union event_any event = read_event("module", EVENT_MODULE);
	const struct event_module *r = &event.module;
	assert_true(r->id == 0xbab3aca5u);
	assert_true(r->context == 0xd6cfc8c1u);
	assert_true(r->bytes == 0xe0700f9f2ebe4ddull);
}

static void session_event(void **state)
{
	(void)state;
	union event_any event = read_event("session", EVENT_SESSION);
	const struct event_session *r = &event.session;
	assert_true(r->clock_error == 0x2d261f18110a03fcull);
	assert_true(r->records == 0x655e575049423b34ull);
	assert_true(r->buffer_bytes == 0x9d968f88817a736cull);
	assert_true(r->foreign_buffers == 0xd5cec7c0b9b2aba4ull);
	assert_true(r->astray_buffers == 0xd06fff8f1eae3dcull);
	assert_true(r->early == 0x453e373029221b14ull);
	assert_true(r->enable == 0x7d766f68615a534cull);
	assert_true(r->drain == 0xb5aea7a099928b84ull);
	assert_true(r->cupti_version == 0xd1cac3bcu);
	assert_true(r->driver_version == (int32_t)0xede6dfd8u);
	assert_true(r->library == 0x902fbf4u);
	assert_true(r->options == 0x251e1710u);
	assert_true(r->kinds == 0x413a332cu);
	assert_true(r->runtime_version == (int32_t)0x5d564f48u);
}

static union message_any read_arm(const char *version, size_t bytes)
{
	unsigned char packet[4096];
	union message_any message;
	size_t n = read_file(version, "message", "arm", packet, sizeof packet);
	assert_int_equal(n, bytes);
	assert_int_equal(message_check(packet, n, 0, &message, NULL), 0);
	assert_int_equal(message.head.type, MESSAGE_ARM);
	assert_true(message.arm.max_events == 0x5e575049423b342dull);
	assert_string_equal(message.arm.step_operator, "step_operator \xc3\xa9");
	return message;
}

static void arm_message(void **state)
{
	(void)state;
	union message_any message = read_arm("protocol-1.1", 344);
	assert_true(message.arm.options == 0x7a736c65u);
	assert_true(message.arm.batches == 0x968f8881u);
}

/* What it did not say yet is 0. */
static void shorter_arm_message(void **state)
{
	(void)state;
	union message_any message = read_arm("0.1.0", 336);
	assert_int_equal(message.arm.options, 0);
	assert_int_equal(message.arm.batches, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_event),
		cmocka_unit_test(copy_event),
		cmocka_unit_test(set_event),
		cmocka_unit_test(graph_launch_event),
		cmocka_unit_test(api_call_event),
		cmocka_unit_test(sync_event),
		cmocka_unit_test(cuda_event_event),
		cmocka_unit_test(allocation_event),
		cmocka_unit_test(unified_memory_event),
		cmocka_unit_test(overhead_event),
		cmocka_unit_test(device_event),
		cmocka_unit_test(context_event),
		cmocka_unit_test(stream_event),
		cmocka_unit_test(module_event),
		cmocka_unit_test(session_event),
		cmocka_unit_test(arm_message),
		cmocka_unit_test(shorter_arm_message),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
