/* quota.c - see quota.h. Thread: the loop's. No locks. */
#include "quota.h"
#include "proto/base/clock.h"
#include "server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define MINUTE (60 * SECOND)

/* Each agent needs one for its connection and one for the pidfd of its process. */
#define DESCRIPTORS_CONNECTION 2
/* Kept for files, captures and the daemon's own. */
#define DESCRIPTORS_KEPT 256
/* Connections that only root can use. */
#define CONNECTIONS_ROOT 16
/* This many of a user's connections are kept for clients: at most an eighth of them. */
#define CONNECTIONS_CLIENTS 16
/* Connections that wait to be told why not. */
#define REFUSED_ALL 64
#define REFUSED_USER 4
/* Descriptors of one user that nobody asked for, and that are not closed yet. */
#define CLOSING_USER 512
/* Triggers of one user that wait for processes: each looks at all of that user's processes, once a second. */
#define WAITING_USER 64
/* What may wait for all peers of one user that do not read. */
#define QUEUED_USER (32u << 20)
/* The part of memory_user that may be used beside the segments to put records into order, and its maximum. What does not
 * fit goes to the disk. */
#define WORKING_PART 16
#define WORKING_MOST (384u << 20)
/* A user has this much of the loop's time before others have their turn. */
#define TURN_NS 2000000u

static const char ask[] = "ask an administrator for more";

static enum error refuse(char sentence[QUOTA_SENTENCE_BYTES], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static enum error refuse(char sentence[QUOTA_SENTENCE_BYTES], const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, QUOTA_SENTENCE_BYTES, format, arguments);
	va_end(arguments);
	return ERROR_QUOTA;
}

/* --- users --- */

void quota_init(struct server *server)
{
	struct rlimit limit;
	server->quota.turn = 1;
	server->quota.descriptors = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

static bool has_nothing(const struct quota_user *user, uint64_t now)
{
	return user->references == 0 && user->lines.left_out == 0 && now > user->idle_since + MINUTE;
}

static void sweep(struct quota_user **from, uint64_t now)
{
	while (*from) {
		struct quota_user *user = *from;
		if (!has_nothing(user, now)) {
			from = &user->next;
			continue;
		}
		*from = user->next;
		free(user);
	}
}

void quota_tick(struct server *server, uint64_t now)
{
	struct quota *quota = &server->quota;
	if (now < quota->swept_at + MINUTE)
		return;
	quota->swept_at = now;
	for (size_t i = 0; i < QUOTA_BUCKETS; i++)
		sweep(&quota->buckets[i], now);
}

void quota_deinit(struct server *server)
{
	for (size_t i = 0; i < QUOTA_BUCKETS; i++) {
		while (server->quota.buckets[i]) {
			struct quota_user *user = server->quota.buckets[i];
			server->quota.buckets[i] = user->next;
			free(user);
		}
	}
}

struct quota_user *quota_user(struct server *server, uid_t uid)
{
	struct quota_user **bucket = &server->quota.buckets[uid % QUOTA_BUCKETS];
	uint64_t now = clock_monotonic();
	sweep(bucket, now);
	for (struct quota_user *user = *bucket; user; user = user->next)
		if (user->uid == uid)
			return quota_user_ref(user);
	struct quota_user *user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->uid = uid;
	user->exempt = uid == 0 || (server->user && uid == geteuid());
	user->references = 1;
	user->triggers = (double)server->config.triggers_user;
	user->triggers_at = now;
	user->next = *bucket;
	*bucket = user;
	return user;
}

struct quota_user *quota_user_ref(struct quota_user *user)
{
	user->references++;
	return user;
}

void quota_user_unref(struct quota_user *user)
{
	if (user && --user->references == 0)
		user->idle_since = clock_monotonic();
}

/* --- connections --- */

/* The limit for all users together. It is lower where the process may not open so many files. */
static uint64_t connections_most(const struct server *server, bool exempt)
{
	uint64_t descriptors = server->quota.descriptors, most = server->config.connections;
	uint64_t kept = descriptors / 4 < DESCRIPTORS_KEPT ? descriptors / 4 : DESCRIPTORS_KEPT;
	if (most > (descriptors - kept) / DESCRIPTORS_CONNECTION)
		most = (descriptors - kept) / DESCRIPTORS_CONNECTION;
	if (!exempt)
		return most;
	return most + CONNECTIONS_ROOT;
}

enum error quota_connect(struct server *server, struct quota_user *user, char sentence[QUOTA_SENTENCE_BYTES])
{
	uint64_t most = connections_most(server, user->exempt), of_user = server->config.connections_user;
	uint64_t taken = server->conn_count - server->quota.refused;
	if (!quota_descriptors(user))
		return refuse(sentence,
			      "%u descriptors that processes of your user sent to the daemon cannot be closed; end "
			      "what serves these files",
			      user->closing);
	if (!user->exempt && user->connections >= of_user)
		return refuse(sentence,
			      "your user has %u connections to the daemon, and connections_user = %" PRIu64
			      " allows no more; end processes or clients of yours, or %s",
			      user->connections, of_user, ask);
	/* The last eighth is for users who have few connections, so that a few users cannot keep the others out. */
	if (taken >= most || (!user->exempt && taken >= most - most / 8 && user->connections >= of_user / 32 + 4))
		return refuse(sentence,
			      "the daemon has %" PRIu64 " connections, and connections = %" PRIu64
			      " (or its limit of open files) allows no more; try again in a moment, or %s",
			      taken, server->config.connections, ask);
	user->connections++;
	return ERROR_NONE;
}

bool quota_descriptors(const struct quota_user *user)
{
	return user->closing < CLOSING_USER;
}

void quota_disconnect(struct quota_user *user)
{
	user->connections--;
}

bool quota_refuse(struct server *server, struct quota_user *user)
{
	if (server->quota.refused >= REFUSED_ALL || user->refused >= REFUSED_USER)
		return false;
	server->quota.refused++;
	user->refused++;
	return true;
}

void quota_refused(struct server *server, struct quota_user *user)
{
	server->quota.refused--;
	user->refused--;
}

enum error quota_agent(struct server *server, struct quota_user *user, char sentence[QUOTA_SENTENCE_BYTES])
{
	uint64_t most = server->config.connections_user;
	most -= most / 8 < CONNECTIONS_CLIENTS ? most / 8 : CONNECTIONS_CLIENTS;
	if (!user->exempt && user->agents >= most)
		return refuse(sentence,
			      "your user has %u processes at the daemon; connections_user = %" PRIu64
			      " allows no more beside its clients; end some, or %s",
			      user->agents, server->config.connections_user, ask);
	user->agents++;
	return ERROR_NONE;
}

/* --- triggers and captures --- */

enum error quota_trigger_would(struct server *server, struct quota_user *user, bool waits,
			       char sentence[QUOTA_SENTENCE_BYTES])
{
	uint64_t now = clock_monotonic(), most = server->config.triggers_user;
	if (user->exempt)
		return ERROR_NONE;
	user->triggers += (double)(now - user->triggers_at) * (double)most / (double)MINUTE;
	user->triggers_at = now;
	if (user->triggers > (double)most)
		user->triggers = (double)most;
	if (user->triggers < 1)
		return refuse(sentence,
			      "you have triggered so often that triggers_user = %" PRIu64
			      " in a minute is used up; wait %.0f s, or %s",
			      most, (1 - user->triggers) * 60 / (double)most + 0.5, ask);
	if (waits && user->waiting >= WAITING_USER)
		return refuse(
			sentence,
			"%u triggers of yours wait for processes already (--wait-for, or profd run); wait for one, or end one",
			user->waiting);
	return ERROR_NONE;
}

enum error quota_trigger(struct server *server, struct quota_user *user, bool waits,
			 char sentence[QUOTA_SENTENCE_BYTES])
{
	enum error refused = quota_trigger_would(server, user, waits, sentence);
	if (!refused && !user->exempt)
		user->triggers -= 1;
	return refused;
}

enum error quota_capture(struct server *server, const struct quota_user *user, uint64_t bytes,
			 char sentence[QUOTA_SENTENCE_BYTES])
{
	const struct config *config = &server->config;
	if (user->exempt)
		return ERROR_NONE;
	if (user->captures >= config->captures_user)
		return refuse(sentence,
			      "you have %u captures under way, and captures_user = %" PRIu64
			      " allows no more; wait for one, end one with `profd cancel`, or %s",
			      user->captures, config->captures_user, ask);
	uint64_t memory = user->memory + atomic_load_explicit(&user->working.used, memory_order_relaxed);
	if (memory + bytes > config->memory_user)
		return refuse(sentence,
			      "your captures under way may take %" PRIu64 " MiB, this one %" PRIu64
			      " more, and memory_user allows %" PRIu64
			      "; wait for one, give a smaller --max-bytes, or %s",
			      memory >> 20, bytes >> 20, config->memory_user >> 20, ask);
	return ERROR_NONE;
}

void quota_capture_begin(struct server *server, struct quota_user *user, uint64_t bytes)
{
	uint64_t most = server->config.memory_user / WORKING_PART;
	atomic_store_explicit(&user->working.most, most < WORKING_MOST ? most : WORKING_MOST, memory_order_relaxed);
	user->captures++;
	user->memory += bytes;
}

void quota_capture_end(struct quota_user *user, uint64_t bytes)
{
	if (!user)
		return;
	user->captures--;
	user->memory -= bytes;
}

/* --- whose turn it is --- */

bool quota_queue(struct quota_user *user, int64_t bytes)
{
	if (bytes > 0 && user->queued + (size_t)bytes > QUEUED_USER)
		return false;
	user->queued = (size_t)((int64_t)user->queued + bytes);
	return true;
}

bool quota_turn(struct server *server, struct quota_user *user)
{
	if (user->turn != server->quota.turn) {
		user->turn = server->quota.turn;
		user->turn_ns = 0;
	}
	return user->turn_ns < TURN_NS;
}

void quota_spent(struct quota_user *user, uint64_t ns)
{
	user->turn_ns += ns;
}
