/* test_agent_room.c - how much of the memory that a process's limits leave free the agent takes. Each limit is set in a child. */
#include "agent/cupti/buffers.h"
#include "agent/core/room.h"
#include "agent/memory/blocks.h"
#include "agent/stacks/known.h"
#include "proto/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define NO_LIMITS 77
#define ROOM (400 * MIB)

/* Bytes by the n-th number of /proc/self/statm. */
static rlim_t in_use(int n)
{
	unsigned long pages[6];
	FILE *file = fopen("/proc/self/statm", "r");
	if (!file ||
	    fscanf(file, "%lu %lu %lu %lu %lu %lu", pages, pages + 1, pages + 2, pages + 3, pages + 4, pages + 5) != 6)
		_exit(100);
	fclose(file);
	return (rlim_t)pages[n] * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void set_limit(int resource, uint64_t room)
{
	struct rlimit limit;
	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		_exit(101);
	rlim_t wanted = limit.rlim_cur = in_use(resource == RLIMIT_AS ? 0 : 5) + room;
	if (setrlimit((__rlimit_resource_t)resource, &limit) < 0)
		_exit(102);
	/* An emulator keeps the limit from the program that it runs. */
	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0 || limit.rlim_cur != wanted)
		_exit(NO_LIMITS);
}

static int about(uint64_t value, uint64_t wanted)
{
	return value > wanted - 4 * MIB && value < wanted + 4 * MIB;
}

/* Runs it in a child; 0 is what it returns where all is well. */
static void in_child(int (*run)(void))
{
	int status;
	pid_t child = fork();
	if (child == 0)
		_exit(run());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_LIMITS)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int address_space(void)
{
	if (room_space() != UINT64_MAX)
		return 1;
	set_limit(RLIMIT_AS, ROOM);
	return about(room_space(), ROOM / 4) ? 0 : 2;
}

static int own_memory(void)
{
	set_limit(RLIMIT_DATA, ROOM);
	return about(room_memory(), ROOM / 4) ? 0 : 1;
}

static void test_limits_of_the_process(void **state)
{
	(void)state;
	in_child(address_space);
	in_child(own_memory);
}

static int fd_of_segment;

/* Bytes of all buffers that can be had. */
static uint64_t take_all(void)
{
	uint64_t sum = 0;
	size_t bytes;
	if (buffers_begin(1) < 0)
		return 0;
	while (buffers_take(&bytes))
		sum += bytes;
	return sum;
}

static int buffers_by_space(void)
{
	set_limit(RLIMIT_AS, ROOM);
	uint64_t taken = take_all();
	if (taken < ROOM / 16 || taken > ROOM / 8)
		return 1;
	/* What the job may still map. */
	return mmap(NULL, ROOM / 8 * 7 - 8 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static int buffers_by_memory(void)
{
	set_limit(RLIMIT_DATA, ROOM);
	uint64_t taken = take_all();
	if (taken < ROOM / 16 || taken > ROOM / 8)
		return 1;
	return mmap(NULL, ROOM / 8 * 7 - 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	       MAP_FAILED;
}

static int no_buffers(void)
{
	set_limit(RLIMIT_DATA, MIB / 2);
	return buffers_begin(1) == -ENOMEM ? 0 : 1;
}

/* All that asks, one after another: the job is left three quarters, and nobody nothing. */
static int one_share(void)
{
	struct segment first, next;
	set_limit(RLIMIT_AS, ROOM);
	room_begin();
	if (segment_map(&first, fd_of_segment, room_segments() / 2) < 0)
		return 1;
	room_count((int64_t)first.map_bytes, 0);
	room_spare(first.map_bytes);
	uint64_t taken = take_all();
	if (taken < ROOM / 32 || taken > ROOM / 16)
		return 2;
	if (blocks_take_room() < 0 || blocks_bytes() < 4 * MIB || known_take() < 0)
		return 3;
	/* The job takes what it needs, and gives it back. The share stays what it was. */
	void *job = mmap(NULL, ROOM / 2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t rest = room_segments();
	munmap(job, ROOM / 2);
	if (job == MAP_FAILED || rest < first.map_bytes || rest > first.map_bytes + ROOM / 16)
		return 4;
	if (segment_map(&next, fd_of_segment, room_segments()) < 0 || next.map_bytes < first.map_bytes / 2)
		return 5;
	return mmap(NULL, ROOM / 4 * 3 - 8 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 6 : 0;
}

/* What was kept is a part of the next capture's quarter. */
static int kept_is_ours(void)
{
	set_limit(RLIMIT_AS, ROOM);
	room_begin();
	uint64_t kept = take_all();
	room_begin();
	if (!about(room_space(), ROOM / 4 - kept))
		return 1;
	/* A job that has grown is not asked for what was kept before. */
	void *job = mmap(NULL, ROOM / 2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	room_begin();
	if (job == MAP_FAILED || !about(room_space(), (ROOM / 2 - kept) / 4))
		return 2;
	/* Nor does one that is small again bring more. */
	munmap(job, ROOM / 2);
	room_begin();
	return about(room_space(), ROOM / 4 - kept) ? 0 : 3;
}

static int no_room_for_tables(void)
{
	set_limit(RLIMIT_AS, MIB / 4);
	room_begin();
	return blocks_take_room() == -ENOMEM && known_take() == -ENOMEM && !room_try(MIB / 8) ? 0 : 1;
}

static void test_activity_buffers(void **state)
{
	(void)state;
	in_child(buffers_by_space);
	in_child(buffers_by_memory);
	in_child(no_buffers);
}

static int segment_in_part(void)
{
	struct segment part;
	set_limit(RLIMIT_AS, 64 * MIB);
	if (segment_map(&part, fd_of_segment, room_space()) < 0)
		return 1;
	if (part.map_bytes > 16 * MIB || part.chunk_count < 100 || part.strings_bytes < MIB)
		return 2;
	/* The last chunk that is mapped is the segment's own of that number. */
	memcpy(part.chunks + (size_t)(part.chunk_count - 1) * part.chunk_bytes, "chunk", 5);
	memcpy(part.strings + part.strings_bytes - 8, "string", 6);
	uint32_t chunks = part.chunk_count, strings = part.strings_bytes;
	struct segment whole;
	struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	if (setrlimit(RLIMIT_AS, &none) < 0 || segment_map(&whole, dup(fd_of_segment), UINT64_MAX) < 0)
		return 3;
	return memcmp(whole.chunks + (size_t)(chunks - 1) * whole.chunk_bytes, "chunk", 5) != 0 ||
	       memcmp(whole.strings + strings - 8, "string", 6) != 0;
}

/* Nor does making it take more than it was given. */
static int segment_in_all_of_it(void)
{
	struct segment part;
	set_limit(RLIMIT_AS, 17 * MIB);
	return segment_map(&part, fd_of_segment, 16 * MIB) < 0;
}

static int segment_not_at_all(void)
{
	struct segment part;
	set_limit(RLIMIT_AS, 4 * MIB);
	return segment_map(&part, fd_of_segment, room_space()) == -ENOMEM ? 0 : 1;
}

static void test_segment_in_part(void **state)
{
	(void)state;
	struct segment whole;
	assert_int_equal(segment_create(&whole, 1, 256 * MIB, 65536), 0);
	fd_of_segment = whole.fd;
	in_child(segment_in_part);
	in_child(segment_in_all_of_it);
	in_child(segment_not_at_all);
	in_child(one_share);
	in_child(kept_is_ours);
	in_child(no_room_for_tables);
	segment_deinit(&whole);
}

/* ---------------------------------------------------------------- cgroups */

static char group[128];

static int write_to(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", group, name);
	int fd = open(path, O_WRONLY);
	ssize_t n = fd >= 0 ? write(fd, text, strlen(text)) : -1;
	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text);
}

static int below_the_group(void)
{
	char pid[32];
	snprintf(pid, sizeof pid, "%d", getpid());
	if (!write_to("cgroup.procs", pid))
		return 1;
	/* Memory of its own counts, what the kernel keeps of files does not. */
	void *own = mmap(NULL, 80 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return own != MAP_FAILED && about(room_memory(), (400 - 80) * MIB / 4) ? 0 : 2;
}

static void test_memory_cgroup(void **state)
{
	(void)state;
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory"};
	static const char *const limits[] = {"memory.max", "memory.limit_in_bytes"};
	int made = 0;
	for (int i = 0; i < 2 && !made; i++) {
		snprintf(group, sizeof group, "%s/profd-test-%d", mounts[i], getpid());
		if (mkdir(group, 0700) < 0)
			continue;
		made = write_to(limits[i], "419430400");
		if (!made)
			rmdir(group);
	}
	if (!made)
		skip(); /* only who may make one can try */
	in_child(below_the_group);
	rmdir(group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits_of_the_process),
		cmocka_unit_test(test_activity_buffers),
		cmocka_unit_test(test_segment_in_part),
		cmocka_unit_test(test_memory_cgroup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
