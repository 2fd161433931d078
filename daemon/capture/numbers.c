/* numbers.c - see numbers.h. The thread that writes notes sets numbers aside ahead of need, in portions, so that the
 * loop waits for no disk. The file is not synced: if the machine stops, so do all agents that could still name a
 * number. No locks. */
#include "numbers.h"
#include "live.h"
#include "proto/base/log.h"
#include "daemon/core/server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* After a daemon is killed, usually at most this many numbers are skipped. */
#define PORTION 16u
/* "%020" and a line feed: each number takes the place of the one before. */
#define NUMBER_BYTES 21

static bool write_limit(int fd, uint64_t limit)
{
	char text[NUMBER_BYTES + 1];
	snprintf(text, sizeof text, "%020" PRIu64 "\n", limit);
	return pwrite(fd, text, NUMBER_BYTES, 0) == NUMBER_BYTES;
}

/* 0: the file holds no valid number. */
static uint64_t read_limit(int fd)
{
	char text[NUMBER_BYTES + 1] = "", *end;
	if (pread(fd, text, NUMBER_BYTES, 0) != NUMBER_BYTES)
		return 0;
	unsigned long long limit = strtoull(text, &end, 10);
	return *end == '\n' && limit <= INT64_MAX / 2 ? limit : 0;
}

static int open_file(const struct server *server)
{
	char path[sizeof server->directory + 16];
	struct stat facts;
	snprintf(path, sizeof path, "%s/numbers", server->directory);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd >= 0 && (fstat(fd, &facts) || !S_ISREG(facts.st_mode))) {
		close(fd);
		errno = EEXIST;
		return -1;
	}
	return fd;
}

static int64_t set_aside(struct work *work)
{
	struct numbers *numbers = (struct numbers *)((char *)work - offsetof(struct numbers, work));
	if (!write_limit(numbers->fd, numbers->wanted))
		log_verbose("the file of numbers cannot be written: %s", strerror(errno));
	return WORK_DONE;
}

static void was_set_aside(struct work *work)
{
	struct numbers *numbers = (struct numbers *)((char *)work - offsetof(struct numbers, work));
	numbers->limit = numbers->wanted;
	numbers->writing = false;
}

void numbers_begin(struct server *server)
{
	struct live *live = live_of(server);
	struct numbers *numbers = &live->numbers;
	numbers->fd = open_file(server);
	if (numbers->fd < 0) {
		log_line("%s/numbers cannot be used: %s; two captures may get the same number if this daemon is killed",
			 server->directory, strerror(errno));
		return;
	}
	uint64_t given = read_limit(numbers->fd);
	if (live->next_capture <= given)
		live->next_capture = given + 1;
	numbers->limit = live->next_capture + PORTION - 1;
	write_limit(numbers->fd, numbers->limit);
}

uint64_t numbers_take(struct server *server)
{
	struct live *live = live_of(server);
	struct numbers *numbers = &live->numbers;
	uint64_t number = live->next_capture++;
	if (numbers->fd < 0 || numbers->writing || number + PORTION / 2 < numbers->limit)
		return number;
	/* A trigger of many processes takes more than a portion before the thread has written. */
	numbers->wanted = number + PORTION + (number > numbers->limit ? number - numbers->limit : 0);
	numbers->writing = true;
	numbers->work = (struct work){.run = set_aside, .done = was_set_aside};
	work_submit(&live->note_pool, &numbers->work);
	return number;
}

void numbers_end(struct server *server)
{
	struct numbers *numbers = &live_of(server)->numbers;
	if (numbers->fd < 0)
		return;
	write_limit(numbers->fd, live_of(server)->next_capture - 1);
	close(numbers->fd);
	numbers->fd = -1;
}
