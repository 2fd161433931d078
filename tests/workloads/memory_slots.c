/* memory_slots.c - a job whose allocators tell of their blocks through slots (libc10.c, libc10_cuda.c), and that does to the slots, or
 * with them, what torch does not.
 *
 *     memory_slots --caller=FILE [--mode=M] [--steps=N] [--step-ms=T] [--blocks=K] [--threads=T] [--tell=FILE] [--go=FILE] [--forbid=1]
 *                  [--other=FILE]
 *
 * forbid: from its start on a seccomp filter lets nobody open a single page to writers, so that the caller's slot stays as it is.
 * FILE caller is the libc10_cuda that it loads. Each step, each thread takes K blocks of the CPU and of a device, and gives them back.
 * M, done once when FILE go is there:
 *   plain    nothing                            reload   the caller is unloaded, and loaded again
 *   before   at the start: another function is put into the caller's slot, and stays; it calls libc10's
 *   own      the same with a function that lies in the caller itself
 *   during   the same when FILE go is there; it calls what was there
 *   handler  a signal comes 2,000 times a second, whose handler takes a block and gives it back, in whatever it interrupts
 *   churn    a thread loads and unloads FILE other, another libc10_cuda, without a pause
 *   small    blocks are taken by a thread with the smallest stack, a new one each step
 *   fork, vfork, exec, exit, _exit, abort, signal: at the end
 * FILE tell gets how often an allocator told of a block that the agent can see, by step, as 32-bit words from step 1 on. Prints one line of
 * JSON: missed: calls that did not arrive in libc10; slots: whether they hold what they held at the start (or what was put there). */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define NEW "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm"
#define DELETE "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv"
#define STEPS_MOST (1u << 20)
#define THREADS_MOST 64

typedef void report_function(void *block, int64_t bytes, uint64_t total, uint64_t reserved, uint16_t device);

extern char **environ;
static void *c10, *caller;
static void *(*cpu_take)(uint64_t), (*cpu_give_back)(void *), (*cpu_tell)(void *, uint64_t);
static void *(*cuda_take)(uint64_t, int, int), (*cuda_give_back)(void *), (*cuda_tell)(void *, int64_t, int);
static uint64_t (*c10_told)(void);
static const char *caller_file, *other_file;
static _Atomic uint32_t *tell;
static _Atomic uint64_t made;
static _Atomic long now_step = 1;
static _Atomic(report_function *) next_report;
static bool unseen; /* the caller's slot is not the agent's to take */
static long blocks;

/* ---------------------------------------------------------------- slots */

struct slot {
	void **at, *held;
};
static struct slot slots[3];

static void *look_up(void *handle, const char *name)
{
	void *found = dlsym(handle, name);
	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

static struct slot slot_of(void *handle, const char *name)
{
	struct link_map *map;
	const ElfW(Rela) *relocations = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	size_t count = 0;
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
		exit(1);
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_JMPREL)
			relocations = (const void *)d->d_un.d_ptr;
		if (d->d_tag == DT_PLTRELSZ)
			count = d->d_un.d_val / sizeof *relocations;
		if (d->d_tag == DT_SYMTAB)
			symbols = (const void *)d->d_un.d_ptr;
		if (d->d_tag == DT_STRTAB)
			names = (const void *)d->d_un.d_ptr;
	}
	for (size_t i = 0; i < count; i++) {
		void **at = (void **)(map->l_addr + relocations[i].r_offset);
		if (!strcmp(names + symbols[relocations[i].r_info >> 32].st_name, name))
			return (struct slot){at, *at};
	}
	fprintf(stderr, "no slot for %s\n", name);
	exit(1);
}

static bool is_as_before(const struct slot *slot, const char *name)
{
	return *slot->at == slot->held || *slot->at == look_up(c10, name);
}

static void write_slot(void **at, void *value)
{
	long page = sysconf(_SC_PAGESIZE);
	void *start = (void *)((uintptr_t)at & ~(uintptr_t)(page - 1));
	mprotect(start, (size_t)page, PROT_READ | PROT_WRITE);
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}

static void load_caller(void)
{
	caller = dlopen(caller_file, RTLD_LAZY | RTLD_LOCAL);
	if (!caller) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&cuda_take = look_up(caller, "cuda_take");
	*(void **)&cuda_give_back = look_up(caller, "cuda_give_back");
	*(void **)&cuda_tell = look_up(caller, "cuda_tell");
	slots[0] = slot_of(caller, REPORT);
}

static void load(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
	char *name = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
	if (!name)
		exit(1);
	snprintf(name, 32, "/libc10.so");
	c10 = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
	snprintf(name, 32, "/libtorch_cpu.so");
	if (!c10 || !dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&c10_told = look_up(c10, "c10_told");
	*(void **)&cpu_take = look_up(c10, "cpu_take");
	*(void **)&cpu_give_back = look_up(c10, "cpu_give_back");
	*(void **)&cpu_tell = look_up(c10, "cpu_tell");
	slots[1] = slot_of(c10, NEW);
	slots[2] = slot_of(c10, DELETE);
	load_caller();
}

/* ---------------------------------------------------------------- what is done */

static void another_report(void *block, int64_t bytes, uint64_t total, uint64_t reserved, uint16_t device)
{
	atomic_load (&next_report)(block, bytes, total, reserved, device);
}

static void put_another(void *function)
{
	slots[0].held = function;
	write_slot(slots[0].at, function);
}

/* The blocks of a device are told of unseen where another function holds the slot. */
static void count(uint32_t cpu, uint32_t device)
{
	atomic_fetch_add(&made, cpu + device);
	if (tell)
		atomic_fetch_add(&tell[atomic_load(&now_step)], unseen ? cpu : cpu + device);
}

static void take_and_give_back(void)
{
	void *taken[2][16];
	for (long left = blocks; left > 0; left -= 16) {
		long n = left < 16 ? left : 16;
		for (long i = 0; i < n; i++) {
			taken[0][i] = cpu_take(64 + (uint64_t)i);
			taken[1][i] = cuda_take(64, (int)(i & 1), 0);
		}
		for (long i = n; i-- > 0;) {
			cuda_give_back(taken[1][i]);
			cpu_give_back(taken[0][i]);
		}
		count(2 * (uint32_t)n, 2 * (uint32_t)n);
	}
}

static void *thread_takes(void *unused)
{
	take_and_give_back();
	return unused;
}

static void in_threads(long threads, size_t stack)
{
	pthread_t all[THREADS_MOST];
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&all[i], &attributes, thread_takes, NULL) != 0)
			exit(1);
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	pthread_attr_destroy(&attributes);
}

static void on_signal(int signal)
{
	long block;
	(void)signal;
	cpu_tell(&block, sizeof block);
	cuda_tell(&block, 512, 0);
	cuda_tell(&block, -512, 0);
	cpu_tell(&block, 0);
	count(2, 2);
}

static void send_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, 500}, {0, 500}};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Until the agent has found the slots of what was loaded, where one records. */
static void reload(void)
{
	if (dlclose(caller) != 0)
		exit(1);
	/* Something else comes to lie where it was. */
	char *room = mmap(NULL, 1u << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	load_caller();
	munmap(room, 1u << 20);
	for (double until = seconds() + 2; *slots[0].at == slots[0].held && seconds() < until;)
		wait_until(seconds() + 1e-3);
}

static void act(const char *mode)
{
	if (!strcmp(mode, "reload"))
		reload();
	if (!strcmp(mode, "during")) {
		*(void **)&next_report = *slots[0].at;
		put_another((void *)(uintptr_t)another_report);
	}
}

static void *loads_and_unloads(void *file)
{
	for (;;) {
		void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
		if (library)
			dlclose(library);
	}
	return NULL;
}

static void begin(const char *mode)
{
	if (!strcmp(mode, "before") || !strcmp(mode, "own")) {
		void *report = look_up(c10, REPORT), *(*own)(void *);
		*(void **)&own = look_up(caller, "cuda_own_function");
		*(void **)&next_report = report;
		unseen = true;
		put_another(mode[0] == 'o' ? own(report) : (void *)(uintptr_t)another_report);
	}
	if (!strcmp(mode, "handler"))
		send_signals();
	pthread_t thread;
	if (!strcmp(mode, "churn") &&
	    pthread_create(&thread, NULL, loads_and_unloads, (void *)(uintptr_t)other_file) != 0)
		exit(1);
}

/* ---------------------------------------------------------------- the end */

static int child_status(pid_t pid)
{
	int status = -1;
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

static int child_of(const char *mode)
{
	char *arguments[] = {(char *)(uintptr_t) "true", NULL};
	pid_t pid = -1;
	if (!strcmp(mode, "fork") && (pid = fork()) == 0) {
		unseen = true;
		for (int i = 0; i < 20; i++)
			take_and_give_back();
		_exit(c10_told() == atomic_load(&made) ? 9 : 8);
	}
	if (!strcmp(mode, "vfork") && posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) != 0)
		return -1;
	return pid > 0 ? child_status(pid) : 0;
}

/* Does it end, or go on as another process, in mid-capture? */
static bool in_mid_capture(const char *mode)
{
	return strstr("exit _exit abort signal exec fork vfork", mode) != NULL;
}

static void end(const char *mode, long steps)
{
	bool same = is_as_before(&slots[0], REPORT) && is_as_before(&slots[1], NEW) && is_as_before(&slots[2], DELETE);
	int child = child_of(mode);
	bool ends = in_mid_capture(mode);
	printf("{\"mode\": \"%s\", \"steps\": %ld, \"missed\": %ld, \"slots\": \"%s\", \"child\": %d}\n", mode, steps,
	       (long)(atomic_load(&made) - c10_told()), ends || same ? "as before" : "CHANGED", child);
	fflush(stdout);
	if (!strcmp(mode, "_exit"))
		_exit(7);
	if (!strcmp(mode, "abort"))
		abort();
	if (!strcmp(mode, "signal"))
		raise(SIGTERM);
	if (!strcmp(mode, "exec"))
		execl("/bin/echo", "echo", "another program", (char *)NULL);
	exit(!strcmp(mode, "exit") ? 7 : 0);
}

/* Under a filter that lets nobody open one page to writers; it was there before the program began. */
static void forbid_mprotect(char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4096, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	if (getenv("MPROTECT_FORBIDDEN"))
		return;
	setenv("MPROTECT_FORBIDDEN", "1", 1);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		exit(1);
	execv("/proc/self/exe", argv);
	exit(1);
}

static void open_tell(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)(STEPS_MOST * sizeof(uint32_t))) != 0)
		exit(1);
	void *map = mmap(NULL, STEPS_MOST * sizeof *tell, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		exit(1);
	tell = map;
	close(fd);
}

int main(int argc, char **argv)
{
	(void)argc;
	const char *mode = argument(argv, "mode", "plain"), *go = argument(argv, "go", "/nonexistent");
	const char *file = argument(argv, "tell", NULL);
	long steps = (long)number(argv, "steps", 100), threads = (long)number(argv, "threads", 0);
	double step_time = number(argv, "step-ms", 5) * 1e-3, next = seconds();
	bool ends = in_mid_capture(mode), acted = false;
	sigset_t alarm;
	if (number(argv, "forbid", 0) > 0)
		forbid_mprotect(argv);
	unseen = number(argv, "forbid", 0) > 0;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	caller_file = argument(argv, "caller", "");
	other_file = argument(argv, "other", "");
	blocks = (long)number(argv, "blocks", 8);
	if (file)
		open_tell(file);
	load();
	begin(mode);
	for (long n = 0; n < steps || (!ends && stays()); n++) {
		if (ends && n == HELD)
			hold();
		if (threads || !strcmp(mode, "small"))
			in_threads(threads ? threads : 1, threads ? 0 : (size_t)PTHREAD_STACK_MIN);
		else
			take_and_give_back();
		pace(&next, step_time);
		/* What a handler does there may lie in either step. */
		pthread_sigmask(SIG_BLOCK, &alarm, NULL);
		if (!acted && access(go, F_OK) == 0) {
			act(mode);
			acted = true;
		}
		step();
		atomic_fetch_add(&now_step, 1);
		pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	}
	signal(SIGALRM, SIG_IGN);
	end(mode, steps);
}
