/* clients.c - see clients.h.
 *
 * We use CUPTI without a subscriber, so a profiler that the job starts finds CUPTI free at any time, with any calls.
 * From 13.2 on several clients can be there, if all of them subscribe by the newer calls. These calls shut out clients
 * that use the older ones, so we subscribe only beside a client that has used the newer calls first.
 *
 * Only a client that records matters: before 13.2 callbacks for buffers and activity kinds belong to the process, and
 * our callbacks would replace the client's. A subscriber that records nothing is not disturbed. */
#include "clients.h"

#include "buffers.h"
#include "layout.h"
#include "session.h"

#include "../stacks/interpreter.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* cuptiSubscribe_v2's parameters grew. */
#define VERSION_MULTIPLE 130200u
#define NAME_BYTES 128

static cupti_subscriber subscriber;
static int registered; /* our callbacks have been registered in this process */
static uint64_t left;  /* kinds that an earlier session of ours could not switch off */
static size_t device_bytes;
static cupti_requested on_requested;
static cupti_completed on_completed;
static uint64_t (*times_asked)(void);

void clients_callbacks(cupti_requested requested, cupti_completed completed, uint64_t (*asked)(void),
		       size_t device_record)
{
	on_requested = requested;
	on_completed = completed;
	times_asked = asked;
	device_bytes = device_record;
}

cupti_subscriber clients_own(void)
{
	return subscriber;
}

static void requested_v2(uint8_t **buffer, size_t *bytes, size_t *most_records, void *info)
{
	(void)info;
	on_requested(buffer, bytes, most_records);
}

static void completed_v2(uint8_t *buffer, size_t bytes, size_t valid, void *info)
{
	(void)info;
	on_completed(NULL, 0, buffer, bytes, valid);
}

int clients_register(void)
{
	if (subscriber)
		return cupti_api.register_callbacks_v2(subscriber, requested_v2, completed_v2);
	int result = cupti_api.register_callbacks(on_requested, on_completed);
	registered |= !result;
	return result;
}

/* ---------------------------------------------------------------- who is there */

static int refuse_for(const char *why)
{
	session.sentence[0] = 0;
	session_say("CUPTI is held by another tool");
	if (interpreter_profiles())
		session_say(" (torch.profiler records in this process)");
	session_say(why);
	session_say("; kernels can be recorded when that tool no longer uses CUPTI");
	return -EBUSY;
}

static void ignore(void *user, unsigned domain, uint32_t cbid, const void *data)
{
	(void)user;
	(void)domain;
	(void)cbid;
	(void)data;
}

static int has_multiple(void)
{
	return cupti_api.subscribe_v2 && cupti_api.enable_v2 && cupti_api.disable_v2 &&
	       cupti_api.register_callbacks_v2 && cupti_api.next_record_v2 && cupti_api.dropped_v2 &&
	       cupti_api.attribute_get_v2 && cupti_api.attribute_set_v2;
}

/* Do the other clients allow further ones? Where several are allowed, CUPTI refuses the older calls. */
static int others_are_several(void)
{
	uint8_t state = 0;
	size_t bytes = sizeof state;
	if (!has_multiple() || !cupti_api.attribute_get)
		return 0;
	int result = cupti_api.attribute_get(CUPTI_ATTRIBUTE_MULTIPLE, &bytes, &state);
	return result == CUPTI_RESULT_NOT_COMPATIBLE || (!result && state == CUPTI_MULTIPLE_ALLOWED);
}

uint64_t clients_dropped(void)
{
	size_t n = 0;
	int result = subscriber ? cupti_api.dropped_v2(subscriber, NULL, 0, &n) : cupti_api.dropped(NULL, 0, &n);
	return result ? 0 : n;
}

/* Makes CUPTI write a record, and looks where it goes. As long as our callbacks are registered it goes into a buffer of
 * ours: then CUPTI asks us for a buffer, or a buffer of ours gets fuller. If CUPTI drops the record, that proves
 * nothing, and the test is repeated. */
enum clients_answer clients_replaced(uint64_t *dropped)
{
	enum { TRIES = 8 };
	if (subscriber || !registered || !cupti_api.enable_dump)
		return CLIENTS_UNKNOWN;
	for (unsigned i = 0; i < TRIES; i++) {
		cupti_api.flush(0);
		*dropped += clients_dropped();
		uint64_t before = times_asked();
		size_t filled = buffers_filled();
		if (cupti_api.enable_dump(CUPTI_KIND_DEVICE))
			return CLIENTS_UNKNOWN;
		/* The end of an operation also changes a record in a buffer, but adds less than a device's record. */
		size_t now = buffers_filled();
		if (times_asked() != before || (now > filled && now - filled >= device_bytes / 2))
			return CLIENTS_OURS;
		uint64_t lost = clients_dropped();
		*dropped += lost;
		if (!lost)
			return CLIENTS_REPLACED;
	}
	return CLIENTS_UNKNOWN;
}

/* Has another client activity kinds on? 1 or 0; -1 where CUPTI does not tell: before 13.2. */
static int others_have_kinds(void)
{
	enum { MOST = 64 };
	uint32_t kinds[MOST], bytes = sizeof kinds, n = 0;
	if (!cupti_api.enabled_kinds || cupti_api.enabled_kinds(NULL, kinds, &bytes, &n))
		return -1;
	for (uint32_t i = 0; i < n; i++)
		if (i >= MOST || kinds[i] >= 64 || !(left >> kinds[i] & 1))
			return 1;
	return 0;
}

/* Does another client record? Before 13.2 a flush fails if nobody has registered callbacks. If kind CONCURRENT_KERNEL
 * is on, CUPTI refuses kind KERNEL, because the two exclude each other. */
static int others_record(void)
{
	int on = others_have_kinds();
	if (on >= 0)
		return on;
	if (registered) {
		uint64_t dropped = 0;
		enum clients_answer answer = cupti_api.enable_dump ? clients_replaced(&dropped) : CLIENTS_UNKNOWN;
		cupti_api.disable(CUPTI_KIND_DEVICE);
		/* The record that was made for the test is not part of a recording. */
		cupti_api.flush(0);
		if (answer == CLIENTS_OURS || left >> CUPTI_KIND_CONCURRENT_KERNEL & 1)
			return 0;
	} else if (cupti_api.flush(0)) {
		return 0;
	}
	int result = cupti_api.enable(CUPTI_KIND_KERNEL);
	if (!result)
		cupti_api.disable(CUPTI_KIND_KERNEL);
	return result == CUPTI_RESULT_NOT_COMPATIBLE;
}

/* ---------------------------------------------------------------- our place */

/* Subscribes in a way that allows other clients. 0, or CUPTI's answer. */
static int join_others(void)
{
	cupti_subscriber mine = NULL;
	char other[NAME_BYTES] = "";
	struct cupti_subscription wish = {
		.bytes = session.version >= VERSION_MULTIPLE ? sizeof wish
							     : offsetof(struct cupti_subscription, multiple),
		.name = "profd",
		.other = other,
		.other_bytes = NAME_BYTES - 1,
		.multiple = 1,
	};
	int result = cupti_api.subscribe_v2(&mine, ignore, NULL, &wish);
	if (result || !mine)
		return result ? result : CUPTI_RESULT_UNKNOWN;
	subscriber = mine;
	session.shared = 1;
	return 0;
}

int clients_look(void)
{
	session.shared = others_are_several();
	if (!session.shared && others_record())
		return refuse_for(": it records, and our callbacks would replace its own");
	return 0;
}

int clients_find_place(void)
{
	int error = clients_look();
	if (session.shared && join_others())
		error = clients_refuse();
	return error;
}

void clients_leave(uint64_t kinds)
{
	/* Without its subscriber all its kinds are off. */
	left = subscriber ? 0 : kinds;
	if (subscriber)
		cupti_api.unsubscribe(subscriber);
	subscriber = NULL;
}

uint64_t clients_left(void)
{
	return left;
}

int clients_refuse(void)
{
	clients_leave(left);
	session.shared = 0;
	return refuse_for(", and CUPTI serves no other tool beside it");
}
