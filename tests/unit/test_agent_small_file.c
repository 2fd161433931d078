/* test_agent_small_file.c - a job that closes descriptors that it does not know, and opens its own, in the middle of the agent's reading
 * of a small file: between its system calls. The job's file is neither read nor closed. Plays syscall(), by which the agent makes
 * all of these calls. */
#include "agent/core/keeper.h"
#include "agent/core/room.h"
#include "proto/filters.h"
#include "proto/small_file.h"
#include "proto/socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define JOBS_TEXT "the job's own"

static const char *jobs_file; /* what it opens in its place; NULL: a file of its own with JOBS_TEXT; "": nothing */
static long act_after;	      /* the system call after which the job acts; -1: none */
static int times;	      /* how often yet */
static int acted;
static int opened;    /* the agent's number, as the last openat gave it; -1: closed by now */
static int jobs = -1; /* the number under which the job's file lies */
static dev_t jobs_device;
static ino_t jobs_inode;

/* The job closes what it does not know, and the next thing that it opens gets the number. */
static void act(void)
{
	times--;
	acted++;
	assert_int_equal(close(opened), 0);
	if (jobs_file && !*jobs_file)
		return;
	int fd = jobs_file ? open(jobs_file, O_RDONLY) : memfd_create("job", 0);
	assert_true(fd >= 0);
	if (!jobs_file) {
		assert_int_equal(write(fd, JOBS_TEXT, strlen(JOBS_TEXT)), strlen(JOBS_TEXT));
		lseek(fd, 0, SEEK_SET);
	}
	if (fd != opened) {
		assert_int_equal(dup2(fd, opened), opened);
		close(fd);
	}
	struct stat facts;
	assert_int_equal(fstat(opened, &facts), 0);
	jobs = opened;
	jobs_device = facts.st_dev;
	jobs_inode = facts.st_ino;
}

long syscall(long number, ...)
{
	static long (*kernel)(long, ...);
	long a[6];
	va_list arguments;
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (!kernel)
		*(void **)&kernel = dlsym(RTLD_NEXT, "syscall");
	long r = kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	int saved = errno;
	if (number == SYS_openat)
		opened = (int)r;
	if (number == act_after && times > 0 && opened >= 0)
		act();
	errno = saved;
	return r;
}

static void begin(long after, int how_often, const char *file)
{
	jobs_file = file;
	act_after = after;
	times = how_often;
	acted = 0;
	opened = jobs = -1;
}

/* Nothing of the job's was touched. */
static void unharmed(void)
{
	struct stat facts;
	act_after = -1;
	assert_true(acted > 0);
	if (jobs < 0)
		return;
	assert_int_equal(fstat(jobs, &facts), 0);
	assert_true(facts.st_dev == jobs_device && facts.st_ino == jobs_inode);
	assert_int_equal(lseek(jobs, 0, SEEK_CUR), 0);
	close(jobs);
}

static const long calls[] = {SYS_openat, SYS_newfstatat, SYS_read};
/* The last is of the same file system, as another of /proc is. */
static const char *const files[] = {NULL, "", "/proc/self/stat"};

/* Once: it is read anew. */
static void test_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
			char text[4096];
			/* Before anything is known of it a file of the same kind cannot be told from ours. */
			if (files[k] && *files[k] && calls[i] == SYS_openat)
				continue;
			begin(calls[i], 1, files[k]);
			assert_true(small_file_read("/proc/self/status", text, sizeof text) > 0);
			assert_memory_equal(text, "Name:", 5);
			assert_null(strstr(text, JOBS_TEXT));
			unharmed();
		}
}

/* Each time: it is given up, and what the job's file holds is not taken for an answer. */
static void test_each_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		char text[4096] = "before";
		begin(calls[i], 1000, NULL);
		assert_int_equal(small_file_read("/proc/self/status", text, sizeof text), -EBADF);
		assert_string_equal(text, "");
		unharmed();
	}
}

/* One that is held open over many reads. */
static void test_held(void **state)
{
	(void)state;
	struct small_file file;
	char text[4096];
	begin(SYS_pread64, 0, NULL);
	assert_int_equal(small_file_open(&file, "/proc/self/status", O_RDONLY), 0);
	for (int i = 0; i < 3; i++)
		assert_true(small_file_once(&file, text, sizeof text) > 0);
	times = 1;
	assert_int_equal(small_file_once(&file, text, sizeof text), -EBADF);
	assert_string_equal(text, "");
	assert_int_equal(small_file_once(&file, text, sizeof text), -EBADF);
	assert_false(small_file_is(&file));
	small_file_close(&file);
	unharmed();
}

/* Whatever of the agent reads a file. */
static void test_all_readers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		char text[512];
		begin(calls[i], 1000, NULL);
		assert_int_equal(keeper_read_file("/proc/self/cmdline", text, sizeof text), 0);
		unharmed();
		begin(calls[i], 1, NULL);
		assert_true(filters_of("/proc/self/status") >= 0);
		unharmed();
		begin(calls[i], 1, NULL);
		room_memory();
		unharmed();
	}
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char folder[] = "/tmp/profd-small-XXXXXX";
	assert_non_null(mkdtemp(folder));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	begin(SYS_read, 1, NULL);
	assert_int_equal(socket_trusted(address.sun_path), 0);
	unharmed();
	close(fd);
	unlink(address.sun_path);
	rmdir(folder);
}

/* What is not there, or cannot be opened, says so and leaves nothing open. */
static void test_errors(void **state)
{
	(void)state;
	char text[64] = "before";
	int next = dup(0);
	assert_true(next >= 0);
	close(next);
	errno = 5;
	assert_int_equal(small_file_read("/proc/self/nothing", text, sizeof text), -ENOENT);
	assert_string_equal(text, "");
	assert_true(small_file_read("/proc/self", text, sizeof text) < 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(small_file_read("/proc/self/status", text, sizeof text), sizeof text - 1);
	assert_int_equal(errno, 5);
	int now = dup(0);
	assert_int_equal(now, next);
	close(now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),	    cmocka_unit_test(test_each_time), cmocka_unit_test(test_held),
		cmocka_unit_test(test_all_readers), cmocka_unit_test(test_errors),
	};
	act_after = -1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
