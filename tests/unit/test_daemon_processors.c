/* test_daemon_processors.c - limits of a process's processors, from files as the kernel writes them: cgroup v2, v1, both, and none. */
#include "daemon/capture/process_stat.h"
#include "daemon/capture/processors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/profd-processors-XXXXXX";

/* Writes a file below the folder, with the folders on its way. */
static void put(const char *name, const char *text)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(path, 0700);
		*at = '/';
	}
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct store_processors look(const char *groups)
{
	struct store_processors found = {0};
	char proc[64], cgroups[64];
	put("proc/7/cgroup", groups);
	snprintf(proc, sizeof proc, "%s/proc", folder);
	snprintf(cgroups, sizeof cgroups, "%s/cgroup", folder);
	processors_read_cgroup(proc, cgroups, 7, &found);
	return found;
}

/* The quota that is found, with its periods and in how many it was used up. */
static void is(const char *groups, uint64_t limit, uint64_t periods, uint64_t stopped)
{
	struct store_processors found = look(groups);
	assert_int_equal(found.limit, limit);
	assert_int_equal(found.periods, periods);
	assert_int_equal(found.stopped, stopped);
}

static void test_v2(void **state)
{
	(void)state;
	put("cgroup/a/cpu.max", "max 100000\n");
	put("cgroup/a/b/cpu.max", "250000 100000\n");
	put("cgroup/a/b/cpu.stat", "usage_usec 5\nnr_periods 90\nnr_throttled 40\nthrottled_usec 12345\nnr_bursts 0\n");
	put("cgroup/a/b/c/cpu.max", "800000 200000\n");
	put("cgroup/a/b/c/cpu.stat", "nr_periods 1\nnr_throttled 1\n");
	is("0::/a/b/c\n", 2500, 90, 40);
	is("0::/a\n", 0, 0, 0);
	is("0::/\n", 0, 0, 0);
	/* A container that sees its own group as the root. */
	put("cgroup/cpu.max", "50000 100000\n");
	is("0::/\n", 500, 0, 0);
}

static void test_v1(void **state)
{
	(void)state;
	put("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
	put("cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
	is("4:memory:/x\n3:cpu,cpuacct:/x\n", 0, 0, 0);
	put("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
	put("cgroup/cpu,cpuacct/x/cpu.stat", "nr_periods 10\nnr_throttled 3\nthrottled_time 99\n");
	is("4:memory:/x\n3:cpu,cpuacct:/x\n1:name=systemd:/x\n", 4000, 10, 3);
	is("4:memory:/x\n3:cpuset:/x\n2:cpuacct:/x\n", 0, 0, 0);
}

static void test_what_is_odd(void **state)
{
	(void)state;
	put("cgroup/cpu.max", "max 100000\n");
	put("secret/cpu.max", "1000 100000\n");
	is("0::/../secret\n", 0, 0, 0);
	is("0::/a/../../secret\n", 0, 0, 0);
	is("", 0, 0, 0);
	is("0\n::\n0::\n:::::\n0:cpu\n0:cpu:relative\n", 0, 0, 0);
	put("cgroup/odd/cpu.max", "1e300 0\n");
	is("0::/odd\n", 0, 0, 0);
	put("cgroup/odd/cpu.max", "nan nan\n");
	is("0::/odd\n", 0, 0, 0);
	put("cgroup/odd/cpu.max", "inf inf\n");
	is("0::/odd\n", 0, 0, 0);
	put("cgroup/odd/cpu.max", "");
	is("0::/odd\n", 0, 0, 0);
	put("cgroup/odd/cpu.max", "1 1000000\n");
	is("0::/odd\n", 1, 0, 0);
	struct store_processors found = {0};
	processors_read_cgroup("/nowhere", "/nowhere", 7, &found);
	assert_int_equal(found.limit, 0);
}

static void test_between(void **state)
{
	(void)state;
	struct store_processors before = {8, 4, 2000, 100, 10}, after = {8, 4, 2000, 150, 40},
				other = {8, 4, 1000, 5, 5}, gone = {0};
	struct store_processors between = processors_between(&before, &after);
	assert_int_equal(between.periods, 50);
	assert_int_equal(between.stopped, 30);
	/* Another quota, or another group, counts from elsewhere. */
	assert_int_equal(processors_between(&before, &other).periods, 0);
	assert_int_equal(processors_between(&before, &other).limit, 1000);
	assert_int_equal(processors_between(&before, &gone).allowed, 4);
	assert_int_equal(processors_between(&before, &gone).periods, 0);
}

static void test_this_process(void **state)
{
	(void)state;
	struct store_processors found;
	uint64_t start = process_start_time(getpid());
	processors_read(getpid(), start, &found);
	assert_true(found.machine > 0 && found.allowed > 0);
	/* The number is another process's now. */
	processors_read(getpid(), start + 1, &found);
	assert_true(found.machine == 0 && found.allowed == 0 && found.limit == 0);
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	char line[128];
	(void)state;
	snprintf(line, sizeof line, "rm -rf %s", folder);
	return system(
		line); /* NOLINT(cert-env33-c,concurrency-mt-unsafe): a path of our own, in a test of one thread */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_v2),	cmocka_unit_test(test_v1),	     cmocka_unit_test(test_what_is_odd),
		cmocka_unit_test(test_between), cmocka_unit_test(test_this_process),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
