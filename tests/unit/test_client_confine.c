/* test_client_confine.c - what the process that reads foreign files can still do, and what not. */
#include "client/native/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WRITTEN "/dev/shm/profd_test_confine"

static bool refused(long result)
{
	return result < 0 && errno == EPERM;
}

static bool reads(void)
{
	char bytes[4] = {0};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat facts;
	bool there = fd >= 0 && fstat(fd, &facts) == 0 && fcntl(fd, F_GETFD) >= 0 &&
		     mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED &&
		     pread(fd, bytes, sizeof bytes, 0) == sizeof bytes && memcmp(bytes, "\177ELF", sizeof bytes) == 0;
	void *memory = malloc(1 << 20);

	there = there && memory && pread(CONFINED_MEMORY, bytes, 1, 0) == 1;
	free(memory);
	close(fd);
	return there;
}

static bool has_no_descriptor_more(void)
{
	for (int fd = CONFINED_MEMORY + 1; fd < 256; fd++)
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			return false;
	return true;
}

static bool writes_nowhere_else(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	return refused(write(fd, "x", 1)) && refused(open(WRITTEN, O_WRONLY | O_CREAT, 0600)) &&
	       refused(open(WRITTEN, O_RDWR)) && refused(open(WRITTEN, O_RDONLY | O_CREAT, 0600)) &&
	       refused(unlink(WRITTEN)) && refused(ftruncate(CONFINED_TO, 0)) &&
	       refused(pwrite(CONFINED_MEMORY, "x", 1, 0));
}

static bool reaches_nobody(void)
{
	char *const command[] = {"true", NULL};

	return refused(socket(AF_UNIX, SOCK_STREAM, 0)) && refused(kill(getppid(), 0)) && refused(fork()) &&
	       refused(execv("/bin/true", command)) && refused(fcntl(CONFINED_TO, F_SETOWN, 1)) &&
	       refused(fcntl(CONFINED_TO, F_SETFL, O_ASYNC));
}

static bool runs_nothing_new(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
	       errno == EPERM;
}

/* It has nothing but the pipe to tell what it finds. */
static void child(int to, int memory)
{
	static bool (*const findings[])(void) = {reads, has_no_descriptor_more, writes_nowhere_else, reaches_nobody,
						 runs_nothing_new};
	char marks[sizeof findings / sizeof *findings + 1] = {0};

	if (confine_descriptors(to, memory) || confine_calls())
		_exit(1);
	for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
		marks[i] = findings[i]() ? 'y' : 'n';
	_exit(write(CONFINED_TO, marks, sizeof marks) != sizeof marks);
}

static void test_what_is_left(void **state)
{
	char marks[64] = {0};
	int ends[2], memory = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), kept = open("/dev/null", O_RDWR), status;

	(void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	skip(); /* a sanitizer makes calls of its own, which are not refused */
#endif
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (!pid)
		child(ends[1], memory);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(read(ends[0], marks, sizeof marks) > 0);
	assert_string_equal(marks, "yyyyy");
	assert_int_equal(access(WRITTEN, F_OK), -1);
	close(kept);
	close(memory);
	close(ends[0]);
	close(ends[1]);
}

/* Nobody waits for it any more. */
static void test_it_ends_with_its_parent(void **state)
{
	int ends[2], ready[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(ready), 0);
	pid_t parent = fork();
	if (!parent) {
		if (fork() == 0) {
			if (confine_descriptors(ready[1], ends[1]) == 0 && write(CONFINED_TO, "x", 1) == 1)
				pause();
			_exit(1);
		}
		if (read(ready[0], &byte, 1) == 1)
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	/* The last end of the pipe is the grandchild's. */
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_left),
		cmocka_unit_test(test_it_ends_with_its_parent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
