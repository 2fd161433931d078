/* test_compat.c - the bytes that version 0.1.0 wrote, decoded by this release to the values they had. A failure here means
 * that an agent or a file of that release would be misread: mend the layout, not this test. */
#include "proto/events.h"
#include "proto/message.h"
#include "proto/segment.h"
#include "proto/status.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static size_t read_file(const char *what, const char *name, void *to, size_t size)
{
	char path[4096];
	snprintf(path, sizeof path, TEST_FOLDER "/compat/0.1.0/%s-%s.bin", what, name);
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
	size_t n = read_file("event", name, bytes, sizeof bytes), at = 0;
	assert_int_equal(event_read(bytes, n, &at, &event), EVENT_OK);
	assert_int_equal(at, n);
	assert_int_equal(event.head.kind, kind);
	assert_int_equal(event.head.flags, 5);
	assert_int_equal(event.head.step, 77);
	assert_int_equal(event_read(bytes, n, &at, &event), EVENT_END);
	at = 0;
	event_read(bytes, n, &at, &event);
	return event;
}

static union message_any read_message(const char *name, unsigned type, int from_agent)
{
	unsigned char bytes[4096];
	union message_any message;
	const char *why = "";
	size_t n = read_file("message", name, bytes, sizeof bytes);
	if (message_check(bytes, n, from_agent, &message, &why) != 0)
		fail_msg("%s: %s", name, why);
	assert_int_equal(message.head.type, type);
	return message;
}

static void range_event(void **state)
{
	(void)state;
	union event_any event = read_event("range", EVENT_RANGE);
	const struct event_range *r = &event.range;
	assert_true(r->start == 0x777069625b544d46ull);
	assert_true(r->duration == 0xafa8a19a938c857eull);
	assert_true(r->self == 0xe7e0d9d2cbc4bdb6ull);
	assert_true(r->id == 0x1f18110a03fcf5eeull);
	assert_true(r->parent == 0x575049423b342d26ull);
	assert_true(r->name == 0x736c655eu);
	assert_true(r->thread == 0x8f88817au);
	assert_true(r->depth == 0x9d96u);
	assert_true(r->source == 0xa4u);
	assert_true(r->payload_type == 0xabu);
	assert_true(r->domain == 0xc7c0b9b2u);
	assert_true(r->category == 0xe3dcd5ceu);
	assert_true(r->color == 0xfff8f1eau);
	assert_true(r->payload == 0x373029221b140d06ull);
	assert_true(r->end_thread == 0x534c453eu);
	assert_true(r->inputs == 0x6f68615au);
}

static void operator_event(void **state)
{
	(void)state;
	union event_any event = read_event("operator", EVENT_OPERATOR);
	const struct event_operator *r = &event.operator;
	assert_true(r->start == 0x847d766f68615a53ull);
	assert_true(r->duration == 0xbcb5aea7a099928bull);
	assert_true(r->self == 0xf4ede6dfd8d1cac3ull);
	assert_true(r->id == 0x2c251e17100902fbull);
	assert_true(r->parent == 0x645d564f48413a33ull);
	assert_true(r->name == 0x8079726bu);
	assert_true(r->thread == 0x9c958e87u);
	assert_true(r->depth == 0xaaa3u);
	assert_true(r->scope == 0xb1u);
	assert_true(r->entered == 0xb8u);
	assert_true(r->inputs == 0xd4cdc6bfu);
	assert_true(r->sequence == 866378844190925531);
	assert_true(r->forward_thread == 0x28211a13u);
	assert_true(r->end_thread == 0x443d362fu);
}

static void mark_event(void **state)
{
	(void)state;
	union event_any event = read_event("mark", EVENT_MARK);
	const struct event_mark *r = &event.mark;
	assert_true(r->time == 0x918a837c756e6760ull);
	assert_true(r->name == 0xada69f98u);
	assert_true(r->thread == 0xc9c2bbb4u);
	assert_true(r->domain == 0xe5ded7d0u);
	assert_true(r->category == 0x1faf3ecu);
	assert_true(r->color == 0x1d160f08u);
	assert_true(r->source == 0x24u);
	assert_true(r->payload_type == 0x2bu);
	assert_true(r->reserved == 0x3932u);
	assert_true(r->payload == 0x716a635c554e4740ull);
}

static void step_event(void **state)
{
	(void)state;
	union event_any event = read_event("step", EVENT_STEP);
	const struct event_step *r = &event.step;
	assert_true(r->start == 0x9e979089827b746dull);
	assert_true(r->duration == 0xd6cfc8c1bab3aca5ull);
	assert_true(r->number == 0xe0700f9f2ebe4ddull);
	assert_true(r->thread == 0x2a231c15u);
	assert_true(r->source == 0x3831u);
	assert_true(r->collectors == 0x463fu);
}

static void thread_time_event(void **state)
{
	(void)state;
	union event_any event = read_event("thread_time", EVENT_THREAD_TIME);
	const struct event_thread_time *r = &event.thread_time;
	assert_true(r->time == 0xa03fcf5eee7e0d9ull);
	assert_true(r->cpu == 0x423b342d261f1811ull);
	assert_true(r->waited == 0x7a736c655e575049ull);
	assert_true(r->voluntary == 0x968f8881u);
	assert_true(r->involuntary == 0xb2aba49du);
	assert_true(r->thread == 0xcec7c0b9u);
	assert_true(r->children == 0xeae3dcd5u);
}

static void worker_event(void **state)
{
	(void)state;
	union event_any event = read_event("worker", EVENT_WORKER);
	const struct event_worker *r = &event.worker;
	assert_true(r->start == 0x17100902fbf4ede6ull);
	assert_true(r->duration == 0x4f48413a332c251eull);
	assert_true(r->cpu == 0x878079726b645d56ull);
	assert_true(r->waited == 0xbfb8b1aaa39c958eull);
	assert_true(r->pid == 0xdbd4cdc6u);
	assert_true(r->name == 0xf7f0e9e2u);
}

static void thread_event(void **state)
{
	(void)state;
	union event_any event = read_event("thread", EVENT_THREAD);
	const struct event_thread *r = &event.thread;
	assert_true(r->pthread == 0xaba49d968f88817aull);
	assert_true(r->thread == 0xc7c0b9b2u);
	assert_true(r->name == 0xe3dcd5ceu);
	assert_true(r->torch_id == 0xfff8f1eau);
	assert_true(r->reserved == 0x1b140d06u);
}

static void hello_message(void **state)
{
	(void)state;
	union message_any message = read_message("hello", MESSAGE_HELLO, 1);
	const struct message_hello *r = &message.hello;
	assert_true(r->major == 0x4d46u);
	assert_true(r->minor == 0x5b54u);
	assert_true(r->pid == 2003855714);
	assert_true(r->pid_namespace == 0xafa8a19a938c857eull);
	assert_true(r->start_time == 0xe7e0d9d2cbc4bdb6ull);
	assert_true(r->rank == 66909678);
	assert_true(r->local_rank == 521670922);
	assert_true(r->world_size == 993275174);
	assert_true(r->libraries == 0x57504942u);
	assert_true(r->nvtx_modules == 0x736c655eu);
	assert_true(r->step_source == 0x8f88817au);
	assert_true(r->entry == 0xaba49d96u);
	assert_true(r->orphans == 0xc7c0b9b2u);
	assert_string_equal(r->version, "version \xc3\xa9");
	assert_string_equal(r->launcher, "launcher \xc3\xa9");
	assert_string_equal(r->job, "job \xc3\xa9");
	assert_string_equal(r->name, "name \xc3\xa9");
	assert_string_equal(r->command, "command \xc3\xa9");
	assert_string_equal(r->torch_version, "torch_version \xc3\xa9");
	assert_string_equal(r->host, "host \xc3\xa9");
}

static void welcome_message(void **state)
{
	(void)state;
	union message_any message = read_message("welcome", MESSAGE_WELCOME, 0);
	const struct message_welcome *r = &message.welcome;
	assert_true(r->major == 0x5a53u);
	assert_true(r->minor == 0x6861u);
	assert_true(r->reserved == 0x847d766fu);
	assert_string_equal(r->version, "version \xc3\xa9");
}

static void refuse_message(void **state)
{
	(void)state;
	union message_any message = read_message("refuse", MESSAGE_REFUSE, 0);
	const struct message_refuse *r = &message.refuse;
	assert_true(r->error == 0x756e6760u);
	assert_true(r->reserved == 0x918a837cu);
	assert_string_equal(r->sentence, "sentence \xc3\xa9");
}

static void arm_message(void **state)
{
	(void)state;
	union message_any message = read_message("arm", MESSAGE_ARM, 0);
	const struct message_arm *r = &message.arm;
	assert_true(r->capture == 0x9e979089827b746dull);
	assert_true(r->trigger == 0xd6cfc8c1bab3aca5ull);
	assert_true(r->cycle == 0xe0700f9f2ebe4ddull);
	assert_true(r->skip_first == 0x2a231c15u);
	assert_true(r->wait == 0x463f3831u);
	assert_true(r->warmup == 0x625b544du);
	assert_true(r->active == 0x7e777069u);
	assert_true(r->repeat == 0x9a938c85u);
	assert_true(r->collectors == 0xb6afa8a1u);
	assert_true(r->at_step == 0xeee7e0d9d2cbc4bdull);
	assert_true(r->duration == 0x261f18110a03fcf5ull);
	assert_true(r->max_events == 0x5e575049423b342dull);
	assert_string_equal(r->step_range, "step_range \xc3\xa9");
	assert_string_equal(r->step_operator, "step_operator \xc3\xa9");
}

static void armed_message(void **state)
{
	(void)state;
	union message_any message = read_message("armed", MESSAGE_ARMED, 1);
	const struct message_armed *r = &message.armed;
	assert_true(r->capture == 0xaba49d968f88817aull);
	assert_true(r->step == 0xe3dcd5cec7c0b9b2ull);
	assert_true(r->step_source == 0xfff8f1eau);
	assert_true(r->reserved == 0x1b140d06u);
}

static void declined_message(void **state)
{
	(void)state;
	union message_any message = read_message("declined", MESSAGE_DECLINED, 1);
	const struct message_declined *r = &message.declined;
	assert_true(r->capture == 0xb8b1aaa39c958e87ull);
	assert_true(r->error == 0xd4cdc6bfu);
	assert_true(r->reserved == 0xf0e9e2dbu);
	assert_string_equal(r->sentence, "sentence \xc3\xa9");
}

static void cancel_message(void **state)
{
	(void)state;
	union message_any message = read_message("cancel", MESSAGE_CANCEL, 0);
	const struct message_cancel *r = &message.cancel;
	assert_true(r->capture == 0xc5beb7b0a9a29b94ull);
	assert_true(r->reason == 0xe1dad3ccu);
	assert_true(r->reserved == 0xfdf6efe8u);
}

static void collector_message(void **state)
{
	(void)state;
	union message_any message = read_message("collector", MESSAGE_COLLECTOR, 1);
	const struct message_collector *r = &message.collector;
	assert_true(r->capture == 0xd2cbc4bdb6afa8a1ull);
	assert_true(r->collector == 0xeee7e0d9u);
	assert_true(r->available == 0xa03fcf5u);
	assert_true(r->enable == 0x423b342d261f1811ull);
	assert_string_equal(r->sentence, "sentence \xc3\xa9");
}

static void done_message(void **state)
{
	(void)state;
	union message_any message = read_message("done", MESSAGE_DONE, 1);
	const struct message_done *r = &message.done;
	assert_true(r->capture == 0xdfd8d1cac3bcb5aeull);
	assert_true(r->reason == 0xfbf4ede6u);
	assert_true(r->steps == 0x17100902u);
	assert_true(r->first_step == 0x4f48413a332c251eull);
	assert_true(r->step_before == 0x878079726b645d56ull);
	assert_true(r->step_during == 0xbfb8b1aaa39c958eull);
	assert_true(r->enable == 0xf7f0e9e2dbd4cdc6ull);
	assert_true(r->drain == 0x2f28211a130c05feull);
	assert_true(r->agent_cpu == 0x676059524b443d36ull);
	assert_true(r->agent_bytes == 0x9f98918a837c756eull);
	assert_true(r->late == 0xbbb4ada6u);
	assert_true(r->step_source == 0xd7d0c9c2u);
	assert_true(r->other_thread_steps == 0xf0801faf3ece5deull);
}

static void after_message(void **state)
{
	(void)state;
	union message_any message = read_message("after", MESSAGE_AFTER, 1);
	const struct message_after *r = &message.after;
	assert_true(r->capture == 0xece5ded7d0c9c2bbull);
	assert_true(r->step_after == 0x241d160f0801faf3ull);
	assert_true(r->steps == 0x4039322bu);
	assert_true(r->reserved == 0x5c554e47u);
}

static void offer_message(void **state)
{
	(void)state;
	union message_any message = read_message("offer", MESSAGE_OFFER, 1);
	const struct message_offer *r = &message.offer;
	assert_true(r->capture == 0xf9f2ebe4ddd6cfc8ull);
	assert_true(r->trigger == 0x312a231c150e0700ull);
	assert_true(r->active == 0x4d463f38u);
	assert_true(r->reserved == 0x69625b54u);
}

static void probe_message(void **state)
{
	(void)state;
	union message_any message = read_message("probe", MESSAGE_PROBE, 0);
	const struct message_probe *r = &message.probe;
	assert_true(r->reserved == 0x6fff8f1eae3dcd5ull);
}

static void finish_message(void **state)
{
	(void)state;
	union message_any message = read_message("finish", MESSAGE_FINISH, 0);
	const struct message_finish *r = &message.finish;
	assert_true(r->capture == 0x130c05fef7f0e9e2ull);
	assert_true(r->wanted == 0x2f28211au);
	assert_true(r->reserved == 0x4b443d36u);
}

/* What two programs of different age share without a message. */
#define LIES_AT(type, member, at) assert_int_equal(offsetof(struct type, member), at)
static void shared_memory(void **state)
{
	(void)state;
	LIES_AT(segment_header, magic, 0);
	LIES_AT(segment_header, version, 8);
	LIES_AT(segment_header, header_bytes, 12);
	LIES_AT(segment_header, total_bytes, 16);
	LIES_AT(segment_header, capture, 24);
	LIES_AT(segment_header, chunk_bytes, 32);
	LIES_AT(segment_header, chunk_count, 36);
	LIES_AT(segment_header, table_at, 40);
	LIES_AT(segment_header, strings_at, 48);
	LIES_AT(segment_header, chunks_at, 56);
	LIES_AT(segment_header, strings_bytes, 64);
	LIES_AT(segment_header, chunks_ready, 128);
	LIES_AT(segment_header, strings_ready, 132);
	LIES_AT(segment_header, chunks_free, 192);
	LIES_AT(segment_header, next_sequence, 256);
	LIES_AT(segment_header, strings_used, 260);
	LIES_AT(segment_header, phase, 320);
	LIES_AT(segment_header, steps_recorded, 324);
	LIES_AT(segment_header, steps_warmup, 328);
	LIES_AT(segment_header, collectors, 332);
	LIES_AT(segment_header, base_monotonic, 336);
	LIES_AT(segment_header, base_realtime, 344);
	LIES_AT(segment_header, record_start, 352);
	LIES_AT(segment_header, record_end, 360);
	LIES_AT(segment_header, lost, 384);
	assert_int_equal(sizeof(((struct segment_header *)0)->lost), 32 * 64 * 8);
	LIES_AT(segment_chunk, state, 0);
	LIES_AT(segment_chunk, used, 4);
	LIES_AT(segment_chunk, sequence, 8);
	LIES_AT(segment_chunk, thread, 12);
	assert_int_equal(sizeof(struct segment_chunk), 64);
	assert_int_equal(sizeof(struct segment_string), 8);
	LIES_AT(status_page, source, 12);
	LIES_AT(status_page, steps, 16);
	LIES_AT(status_page, last, 24);
	LIES_AT(status_page, other_thread_steps, 32);
	LIES_AT(status_page, step_thread, 40);
	LIES_AT(status_page, ring, 48);
	LIES_AT(status_page, batches, 48 + 8 * LIMIT_STATUS_RING);
	LIES_AT(status_page, batch_purpose, 48 + 8 * LIMIT_STATUS_RING + 64);
	assert_int_equal(SEGMENT_MAGIC, 0x31474553444f5250ull);
	assert_int_equal(STATUS_MAGIC, 0x3153555441545350ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_event),	     cmocka_unit_test(operator_event),
		cmocka_unit_test(mark_event),	     cmocka_unit_test(step_event),
		cmocka_unit_test(thread_time_event), cmocka_unit_test(worker_event),
		cmocka_unit_test(thread_event),	     cmocka_unit_test(hello_message),
		cmocka_unit_test(welcome_message),   cmocka_unit_test(refuse_message),
		cmocka_unit_test(arm_message),	     cmocka_unit_test(armed_message),
		cmocka_unit_test(declined_message),  cmocka_unit_test(cancel_message),
		cmocka_unit_test(collector_message), cmocka_unit_test(done_message),
		cmocka_unit_test(after_message),     cmocka_unit_test(offer_message),
		cmocka_unit_test(probe_message),     cmocka_unit_test(finish_message),
		cmocka_unit_test(shared_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
