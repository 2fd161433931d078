/* life.c - see life.h. */
#include "life.h"
#include "keeper.h"
#include "sentence.h"

#include "../../proto/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct life *life_words;
static _Atomic uint32_t woken; /* bit set of enum life_wake; the futex that the agent's thread sleeps on */
static char debug_path[256];
static void (*at_exit)(void);

void life_begin(void (*exiting)(void), const char *debug)
{
	if (debug && strlen(debug) < sizeof debug_path)
		memcpy(debug_path, debug, strlen(debug) + 1);
	at_exit = exiting;
}

struct line {
	const char *text;
	size_t bytes;
};

static long write_line(void *pointer)
{
	const struct line *line = pointer;
	struct small_file file;
	if (small_file_open(&file, debug_path, O_WRONLY | O_APPEND | O_CREAT) == 0) {
		if (small_file_is(&file))
			syscall(SYS_write, file.fd, line->text, line->bytes);
		small_file_close(&file);
	}
	return 0;
}

void life_debug(const char *what, const char *detail)
{
	char line[512] = "profd[";
	if (!debug_path[0])
		return;
	int saved = errno;
	size_t n = strlen(line);
	n += sentence_decimal(line + n, (uint64_t)getpid());
	const char *parts[] = {"]: ", what, detail && *detail ? ": " : "", detail ? detail : ""};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		for (const char *p = parts[i]; *p && n < sizeof line - 1; p++)
			line[n++] = *p;
	line[n++] = '\n';
	keeper_run(write_line, &(struct line){line, n});
	errno = saved;
}

void life_wake_for(uint32_t why)
{
	/* The agent's thread needs no second call if it was woken and has not looked yet. */
	if (atomic_fetch_or(&woken, why))
		return;
	int saved = errno;
	syscall(SYS_futex, &woken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}

void life_wake(void)
{
	life_wake_for(WAKE_CALL);
}

uint32_t life_wait(uint64_t ns)
{
	struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	uint32_t why = atomic_exchange(&woken, 0);
	if (why || !ns)
		return why;
	syscall(SYS_futex, &woken, FUTEX_WAIT_PRIVATE, 0, ns == UINT64_MAX ? NULL : &time, NULL, 0);
	return atomic_exchange(&woken, 0);
}

void life_stop(void)
{
	static uint32_t never;
	for (;;)
		syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

void life_watch_exit(unsigned *watched)
{
	unsigned place = gate_enter(GATE_OWN_NS);
	if (!*watched)
		*watched = atexit(at_exit) == 0;
	gate_leave(place);
}
