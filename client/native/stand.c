/* stand.c - see stand.h. */
#include "stand.h"

#include "client/process/facts.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_MOST (2u << 20)	  /* bytes of a stack that are copied */
#define STACK_UNKNOWN (64u << 10) /* of one that was made after the maps were read */
#define STATUS_MOST 32768

/* Those in which threads wait for long, and that programs know by name. */
#define CALLS_EVERYWHERE(CALL)                                                                                         \
	CALL(futex)                                                                                                    \
	CALL(read)                                                                                                     \
	CALL(readv)                                                                                                    \
	CALL(pread64)                                                                                                  \
	CALL(write)                                                                                                    \
	CALL(writev)                                                                                                   \
	CALL(ioctl)                                                                                                    \
	CALL(ppoll)                                                                                                    \
	CALL(pselect6)                                                                                                 \
	CALL(epoll_pwait)                                                                                              \
	CALL(nanosleep)                                                                                                \
	CALL(clock_nanosleep)                                                                                          \
	CALL(sched_yield)                                                                                              \
	CALL(wait4)                                                                                                    \
	CALL(waitid)                                                                                                   \
	CALL(accept)                                                                                                   \
	CALL(accept4)                                                                                                  \
	CALL(connect)                                                                                                  \
	CALL(recvfrom)                                                                                                 \
	CALL(recvmsg)                                                                                                  \
	CALL(sendto)                                                                                                   \
	CALL(sendmsg)                                                                                                  \
	CALL(flock)                                                                                                    \
	CALL(fcntl)                                                                                                    \
	CALL(fsync)                                                                                                    \
	CALL(fdatasync)                                                                                                \
	CALL(openat)                                                                                                   \
	CALL(mmap)                                                                                                     \
	CALL(munmap)                                                                                                   \
	CALL(semtimedop)                                                                                               \
	CALL(rt_sigtimedwait)                                                                                          \
	CALL(rt_sigsuspend)                                                                                            \
	CALL(io_getevents)
#ifdef SYS_poll
#define CALLS_OLD(CALL) CALL(poll) CALL(select) CALL(epoll_wait) CALL(pause)
#else
#define CALLS_OLD(CALL)
#endif

const char *stand_call_name(long number)
{
	static const struct {
		long number;
		const char *name;
	} calls[] = {
#define CALL(name) {SYS_##name, #name},
		CALLS_EVERYWHERE(CALL) CALLS_OLD(CALL)
#undef CALL
	};

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i].number == number)
			return calls[i].name;
	return NULL;
}

static char *task_file(const struct native_stand *stand, const char *name, size_t most)
{
	char path[64];
	size_t n;

	snprintf(path, sizeof path, "task/%lld/%s", (long long)stand->tid, name);
	return process_file(stand->pid, path, most, &n);
}

/* What says whether it has run: the call with its arguments, and how often it was switched. */
static void read_call(const struct native_stand *stand, char *call, size_t bytes)
{
	char *text = task_file(stand, "syscall", bytes), *status = task_file(stand, "status", STATUS_MOST);
	const char *switches = status ? strstr(status, "\nvoluntary_ctxt_switches:") : NULL;

	snprintf(call, bytes, "%s%s", text && switches ? text : "", switches ? switches : "");
	free(text);
	free(status);
}

/* "NUMBER A A A A A A SP PC" in a call, "-1 SP PC" outside of one (a page that is fetched), "running". */
static void parse_call(struct native_stand *ret)
{
	unsigned long long w[8] = {0};
	int words = sscanf(ret->call, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &ret->number, &w[0], &w[1], &w[2],
			   &w[3], &w[4], &w[5], &w[6], &w[7]);

	if (words == 9 || (words == 3 && ret->number == -1)) {
		ret->sp = w[words - 3];
		ret->pc = w[words - 2];
		ret->result = STAND_KNOWN;
	} else {
		ret->result = strncmp(ret->call, "running", 7) == 0 ? STAND_RUNS : STAND_HIDDEN;
	}
}

static void copy_stack(struct native_stand *ret, struct process_memory *memory, const struct native_maps *maps,
		       size_t *room)
{
	uint64_t end = native_maps_end(maps, ret->sp);
	size_t bytes = end ? end - ret->sp : STACK_UNKNOWN, most = STACK_MOST < *room ? STACK_MOST : *room;
	ssize_t n;

	ret->more = bytes > most;
	bytes = ret->more ? most : bytes;
	ret->stack = need(malloc(bytes + 1));
	n = pread(memory->fd, ret->stack, bytes, (off_t)ret->sp);
	ret->bytes = n > 0 ? (size_t)n : 0;
	*room -= ret->bytes;
}

void stand_look(struct native_stand *ret, int64_t pid, int64_t tid, struct process_memory *memory,
		const struct native_maps *maps, size_t *room)
{
	*ret = (struct native_stand){.pid = pid, .tid = tid, .number = -1};
	read_call(ret, ret->call, sizeof ret->call);
	parse_call(ret);
	if (ret->result == STAND_KNOWN)
		copy_stack(ret, memory, maps, room);
}

bool stand_stood(struct native_stand *stand)
{
	char call[sizeof stand->call];

	if (stand->result != STAND_KNOWN)
		return true;
	read_call(stand, call, sizeof call);
	if (strcmp(stand->call, call) != 0)
		stand->result = STAND_MOVED;
	return stand->result == STAND_KNOWN;
}

void stand_free(struct native_stand *stand, size_t *room)
{
	*room += stand->bytes;
	free(stand->stack);
	stand->stack = NULL;
	stand->bytes = 0;
}
