/* names.c - see names.h. Thread: one of the finish pool; several at a time, each with a reader of its own. No locks. */
#include "names.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "names_reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A reader gives a name up by its own clock long before this; a reader that does not answer is stopped or broken. */
#define ANSWER_MS 2000
/* Readers that one capture may use up. */
#define READERS_MAX 8
/* Wall-clock time for all names of a capture, as a machine may have no processor to spare. */
#define ALL_NS 10000000000u

void names_begin(struct names *names)
{
	memset(names, 0, sizeof *names);
	names->socket = -1;
}

/* Ends the reader, whatever it is doing. */
static void end_reader(struct names *names)
{
	if (names->socket < 0)
		return;
	close(names->socket);
	names->socket = -1;
	kill(names->reader, SIGKILL);
	while (waitpid(names->reader, NULL, 0) < 0 && errno == EINTR)
		;
}

void names_end(struct names *names)
{
	end_reader(names);
}

/* A new program, not a fork, so that its memory holds nothing of the daemon's. */
static int spawn_reader(int end, pid_t *ret)
{
	char program[] = "/proc/self/exe", argument[] = NAMES_READER_ARGUMENT;
	char *arguments[] = {program, argument, NULL}, libraries[4096] = "", *environment[] = {NULL, NULL};
	const char *path = getenv("LD_LIBRARY_PATH");
	if (path && snprintf(libraries, sizeof libraries, "LD_LIBRARY_PATH=%s", path) < (int)sizeof libraries)
		environment[0] = libraries;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&actions, end, 0);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int error = posix_spawn(ret, program, &actions, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

static bool begin_reader(struct names *names)
{
	int ends[2];
	if (names->socket >= 0)
		return true;
	if (names->readers == READERS_MAX)
		return false;
	names->readers++;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		log_line("names of kernels stay mangled: %s", strerror(errno));
		return false;
	}
	int error = spawn_reader(ends[1], &names->reader);
	close(ends[1]);
	if (error) {
		close(ends[0]);
		log_line("names of kernels stay mangled: the process that reads them cannot be started: %s",
			 strerror(error));
		names->readers = READERS_MAX;
		return false;
	}
	names->socket = ends[0];
	return true;
}

/* Gets the reader's answer to one name. False: there is no answer, and the reader has been ended. */
static bool ask(struct names *names, const char *mangled, size_t n, struct names_answer *answer)
{
	struct pollfd readable = {names->socket, POLLIN, 0};
	ssize_t got = -1;
	if (send(names->socket, mangled, n, MSG_NOSIGNAL) == (ssize_t)n && poll(&readable, 1, ANSWER_MS) == 1)
		got = recv(names->socket, answer, sizeof *answer, MSG_DONTWAIT);
	if (got >= (ssize_t)offsetof(struct names_answer, text) &&
	    answer->n == (size_t)got - offsetof(struct names_answer, text))
		return true;
	end_reader(names);
	return false;
}

static bool has_time(struct names *names, uint64_t now)
{
	if (!names->until)
		names->until = now + ALL_NS;
	return names->spent_ns < NAMES_BUDGET_NS && now < names->until;
}

bool names_demangle(struct names *names, const char *mangled, struct names_text *ret)
{
	struct names_answer *answer = &names->answer;
	size_t n = strnlen(mangled, NAMES_MANGLED_BYTES + 1);
	if (n < 3 || memcmp(mangled, "_Z", 2) != 0)
		return false;
	if (n > NAMES_MANGLED_BYTES || !has_time(names, clock_monotonic()) || !begin_reader(names) ||
	    !ask(names, mangled, n, answer)) {
		names->refused++;
		return false;
	}
	names->spent_ns += answer->spent_ns;
	names->refused += answer->verdict == NAMES_REFUSED;
	if (answer->verdict != NAMES_READ || answer->n == 0)
		return false;
	memcpy(ret->text, answer->text, answer->n);
	ret->n = answer->n;
	return true;
}

/* --- for the store --- */

_Static_assert(NAMES_TEXT_BYTES <= STORE_NAME_BYTES, "what is read fits");

static void *begin(void)
{
	struct names *names = malloc(sizeof *names);
	if (names)
		names_begin(names);
	return names;
}

static bool read_one(void *names, const char *mangled, char text[STORE_NAME_BYTES], size_t *ret_n)
{
	struct names_text *read = malloc(sizeof *read);
	bool readable = read && names_demangle(names, mangled, read);
	if (readable) {
		memcpy(text, read->text, read->n);
		*ret_n = read->n;
	}
	free(read);
	return readable;
}

static uint64_t end(void *names)
{
	uint64_t refused = ((struct names *)names)->refused;
	names_end(names);
	free(names);
	return refused;
}

const struct store_demangler names_demangler = {begin, read_one, end};
