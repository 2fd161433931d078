/* clients.c - see clients.h.
 *
 * As long as nobody else is there we are CUPTI's client without a subscriber: a profiler that the job starts meanwhile finds
 * CUPTI free, whichever calls it uses. From 13.3 on there may be several clients, if all of them subscribe by the newer calls;
 * these shut out whoever uses the older ones, so that we do it only beside somebody who has begun so. */
#include "clients.h"

#include "buffers.h"
#include "layout.h"
#include "session.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* cuptiSubscribe_v2's parameters grew. */
#define VERSION_MULTIPLE 130200u
#define NAME_BYTES 128

static cupti_subscriber subscriber;
static char holder[NAME_BYTES]; /* beside whom we are */
static int registered;		/* our callbacks have been, in this process */
static cupti_requested on_requested;
static cupti_completed on_completed;
static uint64_t (*times_asked)(void);

void clients_callbacks(cupti_requested requested, cupti_completed completed, uint64_t (*asked)(void))
{
	on_requested = requested;
	on_completed = completed;
	times_asked = asked;
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

static int refuse_for(const char *who, const char *why)
{
	session.sentence[0] = 0;
	session_say("CUPTI is held by another tool");
	if (*who) {
		session_say(" (");
		session_say(who);
		session_say(")");
	}
	session_say(why);
	session_say("; kernels can be recorded when that has ended");
	return -EBUSY;
}

static void ignore(void *user, unsigned domain, uint32_t cbid, const void *data)
{
	(void)user;
	(void)domain;
	(void)cbid;
	(void)data;
}

/* other[NAME_BYTES]: name of whoever is there, as far as CUPTI says. */
static int subscribe_v2(cupti_subscriber *ret, int multiple, char *other)
{
	struct cupti_subscription wish = {
		.bytes = session.version >= VERSION_MULTIPLE ? sizeof wish
							     : offsetof(struct cupti_subscription, multiple),
		.name = "profd",
		.other = other,
		.other_bytes = NAME_BYTES - 1,
		.multiple = (uint8_t)multiple,
	};
	memset(other, 0, NAME_BYTES);
	*ret = NULL;
	return cupti_api.subscribe_v2(ret, ignore, NULL, &wish);
}

static int has_multiple(void)
{
	return cupti_api.subscribe_v2 && cupti_api.enable_v2 && cupti_api.disable_v2 &&
	       cupti_api.register_callbacks_v2 && cupti_api.next_record_v2 && cupti_api.dropped_v2 &&
	       cupti_api.attribute_get_v2 && cupti_api.attribute_set_v2;
}

int clients_record(void)
{
	uint32_t on = 0;
	return cupti_api.enabled_kinds && !cupti_api.enabled_kinds(NULL, NULL, NULL, &on) && on;
}

/* A record that we provoke is written into a buffer of ours as long as our callbacks are CUPTI's. */
int clients_replaced(void)
{
	if (subscriber || !registered || !cupti_api.enable_dump)
		return 0;
	cupti_api.flush(0);
	uint64_t before = times_asked();
	size_t filled = buffers_filled();
	if (cupti_api.enable_dump(CUPTI_KIND_DEVICE))
		return 0;
	return times_asked() == before && buffers_filled() == filled;
}

/* Does somebody record without a subscriber? From 13.2 on CUPTI says so. Before, it says whether anybody has registered callbacks
 * at all; whether their kernels are on shows in that the kind which excludes these cannot be. */
static int others_without_subscriber(void)
{
	if (cupti_api.enabled_kinds)
		return clients_record();
	if (registered) {
		int replaced = !cupti_api.enable_dump || clients_replaced();
		cupti_api.disable(CUPTI_KIND_DEVICE);
		/* What was provoked is no part of a recording. */
		cupti_api.flush(0);
		if (!replaced)
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

/* CUPTI for us alone: asked for by subscribing, which is undone at once. 0, or -EBUSY or another errno with a sentence. */
static int be_alone(void)
{
	cupti_subscriber mine = NULL;
	int result = CUPTI_RESULT_UNKNOWN;
	holder[0] = 0;
	/* First what takes nothing from anybody: whoever subscribes while we do is told that CUPTI is taken. */
	if (cupti_api.enabled_kinds && clients_record())
		return refuse_for("", ": it has activity kinds enabled");
	if (cupti_api.subscribe_v2)
		result = subscribe_v2(&mine, 0, holder);
	if (result && result != CUPTI_RESULT_TAKEN)
		result = cupti_api.subscribe(&mine, ignore, NULL);
	if (!result)
		cupti_api.unsubscribe(mine);
	if (result == CUPTI_RESULT_TAKEN)
		return refuse_for(holder, ", and serves one at a time");
	if (result == CUPTI_RESULT_NOT_INITIALIZED || result == CUPTI_RESULT_UNKNOWN)
		return session_refuse(-ENODEV, "CUPTI cannot work in this process: no matching CUDA driver", result);
	if (result)
		return session_refuse(-EIO, "CUPTI cannot be used in this process", result);
	if (others_without_subscriber())
		return refuse_for("", ": it records kernels without a subscriber, and ours would come in the place of "
				      "its records");
	return 0;
}

/* A subscriber beside which others can be; 0 where it is there. */
static int join_others(void)
{
	cupti_subscriber mine;
	char other[NAME_BYTES];
	int result = subscribe_v2(&mine, 1, other);
	if (result || !mine)
		return result ? result : CUPTI_RESULT_UNKNOWN;
	subscriber = mine;
	session.shared = 1;
	return 0;
}

int clients_find_place(void)
{
	int error = be_alone();
	if (error == -EBUSY && has_multiple() && join_others() == 0) {
		session.sentence[0] = 0;
		error = 0;
	}
	return error;
}

void clients_leave(void)
{
	if (subscriber)
		cupti_api.unsubscribe(subscriber);
	subscriber = NULL;
}

int clients_refuse(void)
{
	clients_leave();
	session.shared = 0;
	return refuse_for(holder, ", and lets no other in");
}
