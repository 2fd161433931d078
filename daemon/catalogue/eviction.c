/* eviction.c - see eviction.h. Any thread; no state. */
#include "eviction.h"

#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

#define NONE ((size_t)-1)
/* A capture that is about to be read stays for so long after it was finished, even if the disk is too full. */
#define HELD_NS 60000000000ull

struct user {
	uid_t uid;
	uint64_t bytes, captures;
	size_t first, last; /* the remaining rows that are not pinned, oldest first, linked by kept.next */
};

struct choice {
	struct kept *rows;
	struct user *users;
	size_t user_count, user_capacity;
	uint64_t bytes, captures, missing;
	struct eviction *evictions;
	size_t count, room;
	struct eviction_rest rest;
};

const char *eviction_word(enum eviction_reason reason)
{
	switch (reason) {
	case EVICTION_AGE:
		return "store_age";
	case EVICTION_BYTES_USER:
		return "store_bytes_user";
	case EVICTION_CAPTURES_USER:
		return "store_captures_user";
	case EVICTION_BYTES:
		return "store_bytes";
	case EVICTION_CAPTURES:
		return "store_captures";
	case EVICTION_FREE_SPACE:
		return "free_space";
	}
	return "";
}

static struct user *user_of(struct choice *choice, uid_t uid)
{
	for (size_t i = 0; i < choice->user_count; i++)
		if (choice->users[i].uid == uid)
			return &choice->users[i];
	if (!ARRAY_GROW(choice->users, choice->user_count, choice->user_capacity))
		return NULL;
	struct user *user = &choice->users[choice->user_count++];
	*user = (struct user){.uid = uid, .first = NONE, .last = NONE};
	return user;
}

static bool load(struct choice *choice, size_t count)
{
	struct user *user = NULL;
	for (size_t i = 0; i < count; i++) {
		struct kept *row = &choice->rows[i];
		if (!user || user->uid != row->uid)
			user = user_of(choice, row->uid);
		if (!user)
			return false;
		user->bytes += row->bytes;
		user->captures++;
		choice->bytes += row->bytes;
		choice->captures++;
		row->next = NONE;
		if (row->pinned)
			continue;
		if (user->last == NONE)
			user->first = i;
		else
			choice->rows[user->last].next = i;
		user->last = i;
	}
	return true;
}

/* Chooses the capture to which `at` points. False: there is none, or `room` is used up. */
static bool take_at(struct choice *choice, struct user *user, size_t *at, enum eviction_reason reason, uint64_t had)
{
	size_t index = *at;
	if (index == NONE)
		return false;
	struct kept *row = &choice->rows[index];
	if (choice->count == choice->room) {
		choice->rest.more = true;
		return false;
	}
	choice->evictions[choice->count++] = (struct eviction){index, reason, had};
	*at = row->next;
	user->bytes -= row->bytes;
	user->captures--;
	choice->bytes -= row->bytes;
	choice->captures--;
	choice->missing -= row->bytes < choice->missing ? row->bytes : choice->missing;
	return true;
}

/* Chooses the user's oldest capture. False also if it is held. */
static bool take(struct choice *choice, struct user *user, enum eviction_reason reason, uint64_t had)
{
	if (user->first != NONE && choice->rows[user->first].held) {
		choice->rest.held = true;
		return false;
	}
	return take_at(choice, user, &user->first, reason, had);
}

/* For the disk: the oldest capture that is not held, or no longer. */
static bool take_for_disk(struct choice *choice, struct user *user, uint64_t now)
{
	size_t *at = &user->first;
	while (*at != NONE && choice->rows[*at].held && now < choice->rows[*at].finished + HELD_NS) {
		choice->rest.held = true;
		at = &choice->rows[*at].next;
	}
	return take_at(choice, user, at, EVICTION_FREE_SPACE, choice->missing);
}

static void by_age(struct choice *choice, const struct eviction_limits *limits)
{
	for (size_t i = 0; i < choice->user_count; i++) {
		struct user *user = &choice->users[i];
		/* If the clock was set back, nothing is too old. */
		while (user->first != NONE && choice->rows[user->first].finished < limits->now &&
		       limits->now - choice->rows[user->first].finished >= limits->age)
			if (!take(choice, user, EVICTION_AGE, limits->now - choice->rows[user->first].finished))
				break;
		if (user->first == NONE || choice->rows[user->first].held)
			continue;
		uint64_t finished = choice->rows[user->first].finished;
		uint64_t at = limits->age > UINT64_MAX - finished ? UINT64_MAX : finished + limits->age;
		if (choice->rest.next_at == 0 || at < choice->rest.next_at)
			choice->rest.next_at = at;
	}
}

static void by_user(struct choice *choice, const struct eviction_limits *limits)
{
	for (size_t i = 0; i < choice->user_count; i++) {
		struct user *user = &choice->users[i];
		while (limits->bytes_user && user->bytes > limits->bytes_user)
			if (!take(choice, user, EVICTION_BYTES_USER, user->bytes))
				break;
		while (limits->captures_user && user->captures > limits->captures_user)
			if (!take(choice, user, EVICTION_CAPTURES_USER, user->captures))
				break;
	}
}

/* Among the users who have a capture that may be deleted, the one who has most; among equals, the one whose oldest capture is older. */
static struct user *largest(struct choice *choice, bool by_captures)
{
	struct user *best = NULL;
	for (size_t i = 0; i < choice->user_count; i++) {
		struct user *user = &choice->users[i];
		if (user->first == NONE)
			continue;
		uint64_t own = by_captures ? user->captures : user->bytes;
		uint64_t most = !best ? 0 : by_captures ? best->captures : best->bytes;
		if (!best || own > most || (own == most && user->first < best->first))
			best = user;
	}
	return best;
}

static void by_whole(struct choice *choice, const struct eviction_limits *limits)
{
	bool going = true;
	while (going && limits->bytes && choice->bytes > limits->bytes) {
		struct user *user = largest(choice, false);
		going = user && take(choice, user, EVICTION_BYTES, choice->bytes);
	}
	going = true;
	while (going && limits->captures && choice->captures > limits->captures) {
		struct user *user = largest(choice, true);
		going = user && take(choice, user, EVICTION_CAPTURES, choice->captures);
	}
	going = true;
	while (going && choice->missing) {
		struct user *user = largest(choice, false);
		/* Captures without a file free no room: if only such are left, this ends. */
		going = user && user->bytes && take_for_disk(choice, user, limits->now);
	}
	choice->rest.missing = choice->missing;
}

size_t eviction_choose(struct kept *rows, size_t count, const struct eviction_limits *limits, struct eviction *ret,
		       size_t room, struct eviction_rest *ret_rest)
{
	struct choice choice = {.rows = rows, .missing = limits->missing, .evictions = ret, .room = room};
	if (load(&choice, count)) {
		if (limits->age)
			by_age(&choice, limits);
		by_user(&choice, limits);
		by_whole(&choice, limits);
	} else {
		choice.rest.more = true;
	}
	free(choice.users);
	*ret_rest = choice.rest;
	return choice.count;
}
