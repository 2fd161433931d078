/* unwind.c - see unwind.h. */
#include "unwind.h"
#include "proto/base/array.h"

#include "unwinder.h"

#include "client/ui/clock.h"
#include "client/ui/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALL_FRAMES_MOST 65536 /* of all threads: what unwinds them may send as many as it likes */
#define REAP_TRIES 100	      /* with 10 ms between them */

enum reading { RECORD, ENDED, LATE, FULL };

static enum reading read_record(int from, struct unwind_record *ret, int64_t deadline)
{
	size_t n = 0;

	while (n < sizeof *ret) {
		struct pollfd readable = {from, POLLIN, 0};
		int64_t left = deadline - clock_now();

		if (left <= 0)
			return LATE;
		if (poll(&readable, 1, (int)(left / 1000000) + 1) <= 0)
			continue;
		ssize_t got = read(from, (char *)ret + n, sizeof *ret - n);
		if (got <= 0)
			return ENDED;
		n += (size_t)got;
	}
	return RECORD;
}

/* The process that wrote the record may have been taken over by what it reads, so its texts are ended here, and the
 * rest is only shown. False: there is no room. */
static bool take_record(struct native_stack *stack, struct unwind_record *record, size_t *room)
{
	record->frame.symbol[sizeof record->frame.symbol - 1] = 0;
	record->frame.object[sizeof record->frame.object - 1] = 0;
	record->reason[sizeof record->reason - 1] = 0;
	if (record->is_end) {
		stack->whole = record->whole != 0;
		memcpy(stack->reason, record->reason, sizeof stack->reason);
		return true;
	}
	if (stack->count == UNWIND_FRAMES_MOST || !*room)
		return false;
	--*room;
	NEED_ROOM(stack->frames, stack->count, stack->room);
	stack->frames[stack->count++] = record->frame;
	return true;
}

static enum reading collect(int from, struct native_stack *ret, size_t count)
{
	int64_t deadline = clock_now() + UNWIND_SECONDS * 1000000000ll;
	size_t room = ALL_FRAMES_MOST;
	struct unwind_record record;
	enum reading reading;

	while ((reading = read_record(from, &record, deadline)) == RECORD)
		if (record.thread < count && !take_record(&ret[record.thread], &record, &room))
			return FULL;
	return reading;
}

/* Those that have no end yet get this one. */
static void tell(struct native_stack *ret, size_t count, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void tell(struct native_stack *ret, size_t count, const char *format, ...)
{
	for (size_t i = 0; i < count; i++)
		if (!ret[i].whole && !ret[i].reason[0]) {
			va_list list;

			va_start(list, format);
			vsnprintf(ret[i].reason, sizeof ret[i].reason, format, list);
			va_end(list);
		}
}

/* A process that a file keeps waiting (FUSE, a server that is away) cannot be killed before the file answers: it is
 * left behind. */
static bool reap(pid_t child, int *status)
{
	const struct timespec moment = {0, 10000000};

	kill(child, SIGKILL);
	for (int i = 0; i < REAP_TRIES; i++) {
		pid_t ended = waitpid(child, status, WNOHANG);

		if (ended == child)
			return true;
		if (ended < 0 && errno != EINTR)
			return false;
		nanosleep(&moment, NULL);
	}
	return false;
}

static void read_all(int from, pid_t child, struct native_stack *ret, size_t count)
{
	enum reading reading = collect(from, ret, count);
	int status = 0;

	bool ended = reap(child, &status);
	if (reading == FULL)
		tell(ret, count, "of all threads no more than %d are read", ALL_FRAMES_MOST);
	else if (!ended || reading == LATE)
		tell(ret, count, "what reads them was kept waiting by a file, or was too slow: it was ended after %d s",
		     UNWIND_SECONDS);
	else if (WIFSIGNALED(status))
		tell(ret, count, "what reads them was ended by signal %d (%s): a file of theirs may be damaged",
		     WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		tell(ret, count, "what reads them has ended too early");
}

static void run_child(const struct libdw *libdw, int to, int64_t pid, const struct native_maps *maps,
		      const struct process_memory *memory, const struct native_stand *stands, size_t count)
{
	unwinder(libdw, to, pid, maps, memory, stands, count);
	_exit(0);
}

void unwind(int64_t pid, const struct native_maps *maps, const struct process_memory *memory,
	    const struct native_stand *stands, struct native_stack *ret, size_t count)
{
	const struct libdw *libdw = libdw_load();
	int ends[2];

	if (!libdw) {
		tell(ret, count, "they are read with " LIBDW_WANTED ", which is not there");
		return;
	}
	if (pipe2(ends, O_CLOEXEC)) {
		tell(ret, count, "no pipe for what reads them: %s", strerror(errno));
		return;
	}
	pid_t child = fork();
	if (!child)
		run_child(libdw, ends[1], pid, maps, memory, stands, count);
	if (child < 0)
		tell(ret, count, "no process for what reads them: %s", strerror(errno));
	close(ends[1]);
	if (child > 0)
		read_all(ends[0], child, ret, count);
	close(ends[0]);
}

void unwind_free(struct native_stack *stacks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(stacks[i].frames);
	free(stacks);
}
