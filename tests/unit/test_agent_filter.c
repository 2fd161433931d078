/* test_agent_filter.c - a process takes system calls from itself: the agent's threads learn of it, also where the main thread has
 * ended. Each case in a process of its own, since a filter stays. */
#include "agent/core/filter.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOTHING_NEW = 10, NEW, NO_SECCOMP };

/* A filter that forbids nothing: only that there is one counts. */
static int confine(unsigned flags)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {1, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static int main_thread_has_ended(void)
{
	char text[512] = "";
	FILE *file = fopen("/proc/self/stat", "r");
	if (!file)
		return 0;
	size_t n = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[n] = 0;
	const char *name_ends = strrchr(text, ')');
	return name_ends && name_ends[2] == 'Z';
}

static uint64_t turn;

/* Far enough from the last one that it looks. */
static int is_new(void)
{
	return filter_is_new_by(turn += 1000000000);
}

static _Atomic int stage;

static void reach(int next)
{
	while (stage < next)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* The agent's thread: ends the process with what it sees. */
static void *look(void *unused)
{
	if (is_new())
		_exit(EXIT_FAILURE);
	stage = 1;
	reach(2);
	_exit(is_new() ? NEW : NOTHING_NEW);
	return unused;
}

static void *confine_all(void *unused)
{
	reach(1);
	while (!main_thread_has_ended())
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	if (confine(SECCOMP_FILTER_FLAG_TSYNC) != 0)
		_exit(NO_SECCOMP);
	stage = 2;
	return unused;
}

static void *only_end(void *unused)
{
	reach(1);
	while (!main_thread_has_ended())
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	stage = 2;
	return unused;
}

static int run(void *(*other)(void *), int main_flags)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		pthread_t thread;
		filter_remember();
		if (pthread_create(&thread, NULL, look, NULL) != 0)
			_exit(EXIT_FAILURE);
		if (other) {
			if (pthread_create(&thread, NULL, other, NULL) != 0)
				_exit(EXIT_FAILURE);
			pthread_exit(NULL);
		}
		reach(1);
		if (main_flags >= 0 && confine((unsigned)main_flags) != 0)
			_exit(NO_SECCOMP);
		stage = 2;
		for (;;)
			pause();
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_SECCOMP)
		skip();
	return WEXITSTATUS(status);
}

static void test_none(void **state)
{
	(void)state;
	assert_int_equal(run(NULL, -1), NOTHING_NEW);
}

static void test_over_all_threads(void **state)
{
	(void)state;
	assert_int_equal(run(NULL, SECCOMP_FILTER_FLAG_TSYNC), NEW);
}

static void test_over_the_main_thread(void **state)
{
	(void)state;
	assert_int_equal(run(NULL, 0), NEW);
}

static void test_the_main_thread_has_ended(void **state)
{
	(void)state;
	assert_int_equal(run(only_end, -1), NOTHING_NEW);
	assert_int_equal(run(confine_all, -1), NEW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_over_all_threads),
		cmocka_unit_test(test_over_the_main_thread),
		cmocka_unit_test(test_the_main_thread_has_ended),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
