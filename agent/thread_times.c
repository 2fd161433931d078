/* thread_times.c - see thread_times.h. A look is one reading of the times. Looks are kept here until the recording is
 * over. When the array is full, every second look is forgotten, and new looks come half as often from then on. */
#include "thread_times.h"
#include "core/keeper.h"
#include "core/sentence.h"
#include "link.h"
#include "agent/sink/control.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often it looks at first, and how many looks are kept: those of some seconds. */
#define EVERY_NS 10000000ull
#define LOOKS 256
/* Looks may take half a percent of a processor at most, as the job's threads may need that processor. The measured cost
 * is only half of the real one, because the wake-up of the thread is not in it. */
#define COST_TIMES 500
/* If the agent's thread had to wait for a processor, other threads need it, and a thousand processes may be recorded:
 * so it looks later. */
#define LATE_TIMES 10
#define PAUSE_MOST_NS 500000000ull
/* How many workers are looked at, at most. */
#define WORKERS 64
/* A look that took longer from start to end cannot be matched to the steps, and is repeated at once. */
#define SLOW_NS 200000ull
#define TRIES 4
/* The first look, the last, and every tenth between also read how often the thread gave its processor up by itself, and
 * how often it had to: that file is long. */
#define TELL_EVERY 10

struct look {
	uint64_t time, cpu, waited;
	uint64_t turns; /* how often the thread got a processor */
	uint32_t voluntary, involuntary;
	bool told; /* the two before are known */
};

/* A thread that is looked at: the process's first thread, or the step's where that is another. */
struct watched {
	uint32_t thread, count;
	uint32_t untold; /* looks since the last with `told` */
	struct look looks[LOOKS];
};

struct worker {
	uint32_t pid;
	uint64_t cpu, waited;
};

static struct {
	struct watched watched[2];
	uint64_t every, next;
	uint64_t cost;	       /* CPU time of a look, an average of the last ones; 0: not known */
	uint64_t workers_from; /* 0: the workers could not be listed */
	uint64_t ended;
	uint32_t ended_of; /* the thread whose looks count */
	struct worker workers[WORKERS];
	uint32_t worker_count;
	int file;	  /* schedstat of file_of, while looks go on; the keeper's, negative: none */
	uint32_t file_of; /* thread */
} times = {.file = -1};

/* The n-th number of a text, 0 where there is none. */
static uint64_t number_at(const char *text, unsigned n)
{
	uint64_t value = 0;
	for (; text && n > 0; n--) {
		text = strchr(text, ' ');
		text = text ? text + 1 : NULL;
	}
	for (; text && *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

/* The number after a word of /proc/PID/status. */
static uint32_t number_of(const char *status, const char *word)
{
	const char *at = strstr(status, word);
	at = at ? strchr(at, ':') : NULL;
	return at ? (uint32_t)number_at(at + 1 + strspn(at + 1, " \t"), 0) : 0;
}

/* "/proc/self/task/TID/FILE", or "/proc/PID/FILE". */
static void make_path(char *to, const char *folder, uint32_t number, const char *file)
{
	size_t n = strlen(folder);
	memcpy(to, folder, n);
	n += sentence_decimal(to + n, number);
	memcpy(to + n, file, strlen(file) + 1);
}

#define TASK "/proc/self/task/"
#define PATH 64

/* Reads the CPU clock of a thread. The clock's number is computed from the tid, as pthread_getcpuclockid() does. */
static uint64_t cpu_of(uint32_t thread)
{
	struct timespec t;
	if (clock_gettime((clockid_t)(~(unsigned)thread << 3 | 6), &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t own_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + keeper_cpu();
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct looking {
	uint32_t thread;
	struct look look;
	bool good;
};

/* Opening the file costs more than reading it. If the file cannot be read, the thread has ended, and the path is opened
 * anew. */
static size_t read_schedstat(uint32_t thread, char *text, size_t bytes)
{
	char path[PATH];
	if (times.file >= 0 && times.file_of == thread) {
		size_t n = keeper_read_again(times.file, text, bytes);
		if (n)
			return n;
	}
	keeper_close(times.file);
	make_path(path, TASK, thread, "/schedstat");
	times.file = keeper_open(path);
	times.file_of = thread;
	return times.file < 0 ? keeper_read_file(path, text, bytes) : keeper_read_again(times.file, text, bytes);
}

static long close_file(void *unused)
{
	(void)unused;
	keeper_close(times.file);
	times.file = -1;
	return 0;
}

static long look_at(void *pointer)
{
	struct looking *l = pointer;
	char path[PATH], text[4096];
	size_t n = read_schedstat(l->thread, text, sizeof text);
	l->look.waited = number_at(text, 1);
	l->look.turns = number_at(text, 2);
	if (n && l->look.told) {
		make_path(path, TASK, l->thread, "/status");
		n = keeper_read_file(path, text, sizeof text);
		l->look.voluntary = number_of(text, "\nvoluntary_ctxt_switches");
		l->look.involuntary = number_of(text, "\nnonvoluntary_ctxt_switches");
	}
	uint64_t before;
	for (unsigned tries = 0; tries < TRIES; tries++) {
		before = sink_now();
		l->look.cpu = cpu_of(l->thread);
		l->look.time = sink_now();
		if (l->look.time - before < SLOW_NS)
			break;
	}
	l->good = n && l->look.cpu && l->look.time - before < SLOW_NS;
	return 0;
}

static void forget_every_second(struct watched *watched)
{
	/* The first look stays: all figures count from it. */
	for (uint32_t i = 1; i < LOOKS / 2; i++)
		watched->looks[i] = watched->looks[2 * (size_t)i];
	watched->count = LOOKS / 2;
}

static void take(uint32_t thread, bool last)
{
	struct watched *watched = &times.watched[thread != (uint32_t)getpid()];
	bool first = watched->thread != thread || watched->count == 0;
	struct looking l = {.thread = thread, .look.told = first || last || watched->untold + 1 >= TELL_EVERY};
	keeper_run(look_at, &l);
	if (!l.good)
		return;
	if (watched->thread != thread)
		*watched = (struct watched){.thread = thread};
	if (watched->count == LOOKS) {
		forget_every_second(watched);
		times.every *= 2;
	}
	watched->untold = l.look.told ? 0 : watched->untold + 1;
	if (watched->count) {
		/* The daemon would take a look for broken if a sum went back, so sums never do. */
		const struct look *before = &watched->looks[watched->count - 1];
		l.look.cpu = most(l.look.cpu, before->cpu);
		l.look.waited = most(l.look.waited, before->waited);
	}
	watched->looks[watched->count++] = l.look;
}

/* Part of `whole` that a look between a and b gets: in proportion to how many of the turns between a and b had passed
 * by then. */
static uint32_t share(uint32_t whole, const struct look *a, const struct look *look, const struct look *b)
{
	uint64_t all = b->turns - a->turns, some = look->turns - a->turns;
	return all ? (uint32_t)(whole * some / all) : 0;
}

/* Fills the looks between a and b, which have `told`. */
static void share_out(struct look *a, const struct look *b)
{
	for (struct look *look = a + 1; look < b; look++) {
		look->voluntary = a->voluntary + share(b->voluntary - a->voluntary, a, look, b);
		look->involuntary = a->involuntary + share(b->involuntary - a->involuntary, a, look, b);
	}
}

/* Fills all looks without `told`. Looks after the last one with `told` are forgotten. */
static void complete(struct watched *watched)
{
	uint32_t told = 0;
	for (uint32_t i = 1; i < watched->count; i++) {
		if (!watched->looks[i].told)
			continue;
		share_out(&watched->looks[told], &watched->looks[i]);
		told = i;
	}
	if (watched->count)
		watched->count = told + 1;
}

/* --- workers --- */

/* A forked process has our command line, so it counts as a worker. A process that runs another program is no worker. */
static bool is_worker(uint32_t pid)
{
	static char own[512];
	char path[PATH], other[512];
	size_t n = keeper_read_file("/proc/self/cmdline", own, sizeof own);
	make_path(path, "/proc/", pid, "/cmdline");
	return keeper_read_file(path, other, sizeof other) == n && memcmp(own, other, n) == 0;
}

static bool read_worker(struct worker *worker)
{
	char path[PATH], text[128];
	make_path(path, "/proc/", worker->pid, "/schedstat");
	if (!keeper_read_file(path, text, sizeof text))
		return false;
	worker->cpu = number_at(text, 0);
	worker->waited = number_at(text, 1);
	return true;
}

struct listing {
	struct worker workers[WORKERS];
	uint32_t count;
	bool listed;
};

static void add_children(struct listing *listing, uint32_t thread)
{
	char path[PATH], text[2048];
	make_path(path, TASK, thread, "/children");
	/* A thread without children has an empty file, so access() tells whether the kernel has such files. */
	listing->listed = access(path, R_OK) == 0;
	keeper_read_file(path, text, sizeof text);
	for (const char *at = text; *at >= '0' && *at <= '9' && listing->count < WORKERS;) {
		struct worker *worker = &listing->workers[listing->count];
		worker->pid = (uint32_t)number_at(at, 0);
		listing->count += is_worker(worker->pid) && read_worker(worker);
		at = strchr(at, ' ') ? strchr(at, ' ') + 1 : "";
	}
}

static long list_workers(void *pointer)
{
	struct listing *listing = pointer;
	uint32_t first = (uint32_t)getpid(), other = times.watched[1].thread;
	listing->count = 0;
	add_children(listing, first);
	if (other)
		add_children(listing, other);
	return 0;
}

static struct listing now_listed;

static const struct worker *before(uint32_t pid)
{
	for (uint32_t i = 0; i < times.worker_count; i++)
		if (times.workers[i].pid == pid)
			return &times.workers[i];
	return NULL;
}

/* How long a record waits for room: a daemon that is busy with many captures frees a chunk late. */
struct patience {
	uint64_t capture, deadline;
};

static void write_record(struct sink_thread *own, const void *record, const struct patience *patience)
{
	while (!sink_write_spared(own, record)) {
		if (!link_wait_for_room(patience->capture, patience->deadline)) {
			sink_write(own, record);
			return;
		}
	}
}

/* For a worker that began during the recording, its whole time counts. */
static void write_worker(struct sink_thread *own, const struct worker *worker, uint64_t now,
			 const struct patience *patience)
{
	const struct worker *first = before(worker->pid);
	/* It is another process, which got the pid of a worker that has ended. */
	if (first && (worker->cpu < first->cpu || worker->waited < first->waited))
		first = NULL;
	char path[PATH], name[32];
	make_path(path, "/proc/", worker->pid, "/comm");
	size_t n = keeper_read_file(path, name, sizeof name);
	struct event_worker record = {
		.head = {sizeof record, EVENT_WORKER, 0, 0},
		.start = times.workers_from,
		.duration = now - times.workers_from,
		.cpu = worker->cpu - (first ? first->cpu : 0),
		.waited = worker->waited - (first ? first->waited : 0),
		.pid = worker->pid,
		.name = n > 1 ? sink_string(own, name, n - 1, EVENT_WORKER) : 0,
	};
	write_record(own, &record, patience);
}

static void write_looks(struct sink_thread *own, const struct watched *watched, const struct patience *patience)
{
	const struct look *first = watched->looks;
	for (uint32_t i = 0; i < watched->count; i++) {
		const struct look *look = &watched->looks[i];
		struct event_thread_time record = {
			.head = {sizeof record, EVENT_THREAD_TIME, 0, 0},
			.time = look->time,
			.cpu = look->cpu - first->cpu,
			.waited = look->waited - first->waited,
			.voluntary = look->voluntary - first->voluntary,
			.involuntary = look->involuntary - first->involuntary,
			.thread = watched->thread,
			.children = times.workers_from != 0,
		};
		write_record(own, &record, patience);
	}
}

void thread_times_begin(void)
{
	times.watched[0] = times.watched[1] = (struct watched){0};
	times.every = EVERY_NS;
	times.next = times.cost = 0;
	uint64_t now = sink_now();
	keeper_run(list_workers, &now_listed);
	times.workers_from = now_listed.listed ? now : 0;
	times.worker_count = now_listed.count;
	memcpy(times.workers, now_listed.workers, sizeof times.workers);
	take((uint32_t)getpid(), false);
}

uint64_t thread_times_work(uint64_t now, uint32_t thread)
{
	if (now < times.next)
		return times.next;
	uint64_t due = times.next ? times.next : now, began = own_cpu();
	take(thread ? thread : (uint32_t)getpid(), false);
	uint64_t cost = own_cpu() - began, end = sink_now();
	times.cost = times.cost ? (3 * times.cost + cost) / 4 : cost;
	uint64_t pause = most(times.cost * COST_TIMES, (end - due) * LATE_TIMES);
	times.next = end + most(pause < PAUSE_MOST_NS ? pause : PAUSE_MOST_NS, times.every);
	return times.next;
}

void thread_times_end(uint32_t thread)
{
	times.ended_of = thread ? thread : (uint32_t)getpid();
	take(times.ended_of, true);
	keeper_run(close_file, NULL);
	keeper_run(list_workers, &now_listed);
	times.ended = sink_now();
}

void thread_times_write(uint64_t capture, uint64_t deadline)
{
	struct patience patience = {capture, deadline};
	struct watched *watched = &times.watched[times.ended_of != (uint32_t)getpid()];
	struct sink_thread *own = sink_own();
	if (!own)
		return;
	complete(watched);
	if (watched->thread == times.ended_of)
		write_looks(own, watched, &patience);
	for (uint32_t i = 0; times.workers_from && now_listed.listed && i < now_listed.count; i++)
		write_worker(own, &now_listed.workers[i], times.ended, &patience);
}
