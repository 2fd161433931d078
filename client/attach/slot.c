/* slot.c - see slot.h.
 *
 * What lies in the folder runs as the process. So the folder is ours, and lies where nobody can put another one in its
 * place. Only the process itself can mount something there. So the slot is used only for a process of the caller's own
 * user, who gains nothing by that, and only what was made here is written to and removed. `state` is the process's to
 * write: g (go), then l (it loads) and d1, d0 or f (done, done and idle, failed); x from us tells it not to begin any
 * more. */
#include "slot.h"

#include "client/process/facts.h"
#include "client/process/resolve.h"
#include "client/process/task.h"
#include "client/ui/clock.h"
#include "client/ui/text.h"
#include "halt.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* linux/nsfs.h, which older headers lack. */
#define USERS_OF_NAMESPACE _IO(0xb7, 1)
#define OWNER_OF_USERS _IO(0xb7, 4)
#define THREADS_MOST 4096
#define PLEASE_STOP 0x20 /* in the lowest byte of a thread's eval breaker: look at your slot */
#define AFTER_CANCEL_NS 1000000000ll
#define SETTLE_NS 20000000

/* An exception that is none of its own is a Ctrl-C, which came in here: it is raised again in the program, by a thread, a moment later. */
static const char script[] =
	"def profd(here, socket, entry):\n"
	"    import sys\n"
	"    m = sys.modules\n"
	"    o, raised, said, memory, source = m['posix'], None, b'f', -1, -1\n"
	"    state = o.open(here + '/state', o.O_RDWR | o.O_CLOEXEC)\n"
	"    try:\n"
	"        if o.pread(state, 1, 0) == b'g' and 'ctypes' in m:\n"
	"            o.pwrite(state, b'l', 0)\n"
	"            c = m['_ctypes']\n"
	"            if not entry:\n"
	"                memory = o.memfd_create('profd/libprofd_agent.so', 3)\n"
	"                source = o.open(here + '/agent', o.O_RDONLY | o.O_CLOEXEC)\n"
	"                while o.sendfile(memory, source, None, 1 << 30):\n"
	"                    pass\n"
	"                entry = c.dlsym(c.dlopen('/proc/self/fd/%s%%d' %% memory, 2), 'profd_attach')\n"
	"            said = b'd1' if c.call_function(entry, (socket,)) else b'd0'\n"
	"    except BaseException as error:\n"
	"        if error.__traceback__.tb_next or not isinstance(error, Exception):\n"
	"            raised = error\n"
	"    o.pwrite(state, said, 0)\n"
	"    for fd in (memory, source, state):\n"
	"        if fd >= 0:\n"
	"            o.close(fd)\n"
	"    if raised is not None:\n"
	"        c, t = m['ctypes'], m['_thread']\n"
	"        again = type('again', (type(raised),), {'__new__': lambda *_: raised})\n"
	"        main = c.c_ulong(t.get_ident())\n"
	"        def later():\n"
	"            m['time'].sleep(0.005)\n"
	"            c.pythonapi.PyThreadState_SetAsyncExc(main, c.py_object(again))\n"
	"        t.start_new_thread(later, ())\n"
	"profd('%s', bytes.fromhex('%s'), %llu)\n";

enum file { STATE, AGENT, SCRIPT, FILES };
static const char *const files[FILES] = {"state", "agent", "attach.py"};

struct folder {
	int parent, own; /* descriptors; -1 */
	char name[24];
	char path[48];	       /* as the process sees it */
	int state;	       /* descriptor of that file */
	bool made, has[FILES]; /* by us */
};

static uint64_t main_state(struct target *target, struct python *python, uint64_t *interpreter)
{
	struct python_thread *rows = need(calloc(THREADS_MOST, sizeof *rows));
	int threads = python_threads(python, rows, THREADS_MOST);
	size_t count;
	struct process_task *tasks = process_tasks(target->pid, &count);
	int64_t inner = 0;
	uint64_t state = 0;

	for (size_t i = 0; tasks && i < count; i++)
		if (tasks[i].tid == target->pid)
			inner = tasks[i].inner;
	for (int i = 0; i < threads; i++)
		if (inner && rows[i].native == (uint32_t)inner) {
			state = rows[i].state;
			*interpreter = rows[i].interpreter;
		}
	free(tasks);
	free(rows);
	return state;
}

static bool has_ctypes(const struct target *target)
{
	for (size_t i = 0; i < target->objects.count; i++)
		if (strncmp(process_object_name(&target->objects.rows[i]), "_ctypes.", 8) == 0)
			return true;
	return false;
}

/* CPython prints and drops what a handler raises while a script is read, before the script can do anything about it. Everybody has the
 * handler of Ctrl-C; those of faults, and the C library's own two, are no Python. */
static bool handles_signals(const struct target *target)
{
	static const int harmless[] = {SIGINT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, 32, 33};
	char text[64];
	uint64_t caught = process_status(target->pid, "SigCgt", text, sizeof text) ? strtoull(text, NULL, 16) : ~0ull;

	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
		caught &= ~(1ull << (harmless[i] - 1));
	return caught != 0;
}

/* Are all of its rights those of the caller's user? */
static bool is_ours(const struct target *target)
{
	char text[128], *at = text;

	if (!process_status(target->pid, "Uid", text, sizeof text))
		return false;
	for (int i = 0; i < 4; i++)
		if (strtoull(at, &at, 10) != geteuid())
			return false;
	return true;
}

/* Who owns the user namespace of its mount namespace decides what lies where there. */
static bool is_mounted_by_ours(const struct target *target)
{
	struct stat own, its;
	uid_t owner = (uid_t)-1;
	char path[64];

	snprintf(path, sizeof path, "/proc/%lld/ns/mnt", (long long)target->pid);
	int mounts = open(path, O_RDONLY | O_CLOEXEC), users = -1;
	bool same = mounts >= 0 && stat("/proc/self/ns/mnt", &own) == 0 && fstat(mounts, &its) == 0 &&
		    own.st_dev == its.st_dev && own.st_ino == its.st_ino;
	if (mounts >= 0 && !same)
		users = ioctl(mounts, USERS_OF_NAMESPACE);
	if (users >= 0 && ioctl(users, OWNER_OF_USERS, &owner))
		owner = (uid_t)-1;
	for (int i = 0; i < 2; i++)
		if ((i ? users : mounts) >= 0)
			close(i ? users : mounts);
	return same || !owner || owner == geteuid();
}

void slot_find(struct target *target, struct python *python)
{
	const struct python_offsets *o = &python->offsets;
	struct slot *slot = &target->slot;
	uint64_t interpreter = 0, state;
	int32_t enabled = 0, pending = 1;

	*slot = (struct slot){0};
	if (python->minor < 14 || o->debugger < 0)
		return;
	state = main_state(target, python, &interpreter);
	slot->breaker = state + (uint64_t)o->breaker;
	slot->pending = state + (uint64_t)o->debugger + (uint64_t)o->debugger_pending;
	slot->path = state + (uint64_t)o->debugger + (uint64_t)o->debugger_path;
	slot->path_bytes = (size_t)o->debugger_path_bytes;
	if (!is_ours(target))
		slot->why = "it is another user's, who could put something into the place of the files that it takes";
	else if (!is_mounted_by_ours(target))
		slot->why = "another user decides what is mounted where it lives";
	else if (!state || slot->path_bytes < sizeof((struct folder *)0)->path + 16)
		slot->why = "its main thread has none";
	else if (!python_read(&target->process.memory, interpreter + (uint64_t)o->interpreter_debugger_enabled,
			      &enabled, sizeof enabled) ||
		 enabled != 1)
		slot->why =
			"it does not want it (PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug, or Python was built so)";
	else if (!python_read(&target->process.memory, slot->pending, &pending, sizeof pending) || pending)
		slot->why = "somebody else has a script in it";
	else if (!has_ctypes(target))
		slot->why = "it has not imported ctypes";
	else if (handles_signals(target))
		slot->why = "it handles signals, and what a handler raises meanwhile would be lost";
}

/* Nobody but root and us, who are the process's user, may put something else into the place of what we make there. */
static bool is_safe(int folder)
{
	struct stat facts;

	return fstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) &&
	       (!(facts.st_mode & (S_IWGRP | S_IWOTH)) || facts.st_mode & S_ISVTX) &&
	       (!facts.st_uid || facts.st_uid == geteuid());
}

/* Links are not followed: they would lead out of its root. */
static int open_below(const struct target *target, const char *place)
{
	char path[64];
	int root, found = -1;

	snprintf(path, sizeof path, "/proc/%lld/root", (long long)target->pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Of the process that was looked at, and not of whoever has its number by now. */
	if (root >= 0 && target_same(target) && is_ours(target) && is_mounted_by_ours(target))
		found = resolve(root, place, O_PATH | O_DIRECTORY | O_CLOEXEC,
				RESOLVE_ONLY_BELOW | RESOLVE_SYMLINKS_NOT);
	if (root >= 0)
		close(root);
	return found;
}

/* Readable by the caller's user alone, which is the process's. */
static bool make_file(struct folder *folder, enum file file, const void *bytes, size_t size, int *ret)
{
	int fd = openat(folder->own, files[file], O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool fine;

	folder->has[file] = fd >= 0;
	fine = fd >= 0 && write(fd, bytes, size) == (ssize_t)size;
	if (ret)
		*ret = fd;
	else if (fd >= 0)
		close(fd);
	return fine;
}

static void remove_folder(struct folder *folder)
{
	for (size_t i = 0; i < FILES; i++)
		if (folder->has[i])
			unlinkat(folder->own, files[i], 0);
	if (folder->made)
		unlinkat(folder->parent, folder->name, AT_REMOVEDIR);
	const int open_ones[] = {folder->state, folder->own, folder->parent};
	for (size_t i = 0; i < sizeof open_ones / sizeof *open_ones; i++)
		if (open_ones[i] >= 0)
			close(open_ones[i]);
	*folder = (struct folder){.parent = -1, .own = -1, .state = -1};
}

static bool is_empty(int folder)
{
	int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = again >= 0 ? fdopendir(again) : NULL;
	size_t entries = 0;

	if (!list) {
		if (again >= 0)
			close(again);
		return false;
	}
	while (readdir(list))
		entries++;
	closedir(list);
	return entries == 2;
}

/* Is what was opened the folder that was made, and not one that was mounted there or put into its place? */
static bool is_made_here(const struct folder *folder)
{
	struct stat parent, own;

	return fstat(folder->parent, &parent) == 0 && fstat(folder->own, &own) == 0 && own.st_dev == parent.st_dev &&
	       own.st_uid == geteuid() && (own.st_mode & 077) == 0 && is_empty(folder->own);
}

static bool make_folder(struct folder *ret, const struct target *target, const char *place)
{
	unsigned char random[8];

	*ret = (struct folder){.parent = open_below(target, place), .own = -1, .state = -1};
	if (ret->parent >= 0 && is_safe(ret->parent) && getrandom(random, sizeof random, 0) == sizeof random) {
		size_t n = (size_t)snprintf(ret->name, sizeof ret->name, "profd-");

		for (size_t i = 0; i < sizeof random; i++)
			n += (size_t)snprintf(ret->name + n, sizeof ret->name - n, "%02x", random[i]);
		snprintf(ret->path, sizeof ret->path, "/%s/%s", place, ret->name);
		ret->made = mkdirat(ret->parent, ret->name, 0700) == 0;
	}
	if (ret->made)
		ret->own = resolve(ret->parent, ret->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				   RESOLVE_MOUNTS_NOT | RESOLVE_SYMLINKS_NOT | RESOLVE_ONLY_BELOW);
	if (ret->own >= 0 && is_made_here(ret))
		return true;
	remove_folder(ret);
	return false;
}

static bool fill_folder(struct folder *folder, const struct target *target, const void *library, size_t bytes,
			const char *socket)
{
	char text[sizeof script + 1024], hex[512], spelling[TARGET_SPELLING_BYTES];
	size_t n = strlen(socket) + 1;

	if (2 * n >= sizeof hex)
		return false;
	for (size_t i = 0; i < n; i++)
		snprintf(hex + 2 * i, sizeof hex - 2 * i, "%02x", (unsigned char)socket[i]);
	target_spell(spelling);
	int size = snprintf(text, sizeof text, script, spelling, folder->path, hex, (unsigned long long)target->agent);
	return size > 0 && (size_t)size < sizeof text && make_file(folder, STATE, "g", 1, &folder->state) &&
	       make_file(folder, AGENT, library, bytes, NULL) && make_file(folder, SCRIPT, text, (size_t)size, NULL);
}

static bool make_place(struct folder *folder, const struct target *target, const void *library, size_t bytes,
		       const char *socket)
{
	static const char *const places[] = {"tmp", "dev/shm"};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (!make_folder(folder, target, places[i]))
			continue;
		if (fill_folder(folder, target, library, bytes, socket))
			return true;
		remove_folder(folder);
	}
	return false;
}

/* The lowest byte alone: the others are a version, which the process itself changes. *named: the slot has the script, which may be run also where the rest
 * fails. */
static bool ask(struct target *target, const struct folder *folder, bool *named)
{
	const struct slot *slot = &target->slot;
	const int32_t yes = 1;
	unsigned char events;
	char path[64];
	size_t n = (size_t)snprintf(path, sizeof path, "%s/attach.py", folder->path) + 1;

	if (!target_same(target) || !target_python_runs(target) ||
	    !process_memory_write(&target->process, slot->path, path, n))
		return false;
	*named = process_memory_write(&target->process, slot->pending, &yes, sizeof yes);
	if (!*named || !python_read(&target->process.memory, slot->breaker, &events, sizeof events))
		return false;
	events |= PLEASE_STOP;
	return process_memory_write(&target->process, slot->breaker, &events, sizeof events);
}

static char state_of(const struct folder *folder, char *second)
{
	char text[2] = "";

	*second = pread(folder->state, text, sizeof text, 0) == sizeof text ? text[1] : 0;
	return text[0];
}

/* Until the script has said its end, for so long at most; one that has not begun is not waited for once we are asked to halt. */
static char await(const struct target *target, const struct folder *folder, int64_t most, char *second)
{
	const struct timespec nap = {0, 200000};
	int64_t began = clock_now();
	char state;

	while ((state = state_of(folder, second)) != 'd' && state != 'f' && clock_now() - began < most &&
	       !(state == 'g' && halt_asked()) && target_same(target))
		nanosleep(&nap, NULL);
	return state;
}

/* Nobody is to run the script any more. False: it has begun. */
static bool undo(struct target *target, const struct folder *folder)
{
	const struct timespec settle = {0, SETTLE_NS};
	const int32_t no = 0;
	char second;

	if (state_of(folder, &second) != 'g' || pwrite(folder->state, "x", 1, 0) != 1)
		return false;
	if (target_python_runs(target))
		process_memory_write(&target->process, target->slot.pending, &no, sizeof no);
	/* It may have looked at the slot just before. */
	nanosleep(&settle, NULL);
	return state_of(folder, &second) == 'x' || second == 0;
}

enum slot_result slot_attach(struct target *target, const void *library, size_t bytes, const char *socket,
			     int64_t patience)
{
	struct folder folder = {.parent = -1, .own = -1, .state = -1};
	char state = 'f', second = 0;
	bool named = false;

	if (!target->slot.pending || target->slot.why || !make_place(&folder, target, library, bytes, socket))
		return SLOT_NOT;
	bool asked = ask(target, &folder, &named);
	if (named) {
		state = asked ? await(target, &folder, patience, &second) : state_of(&folder, &second);
		if (state == 'g' && undo(target, &folder))
			state = 'f';
		else if (state != 'd' && state != 'f')
			state = await(target, &folder, AFTER_CANCEL_NS, &second);
	}
	remove_folder(&folder);
	if (state == 'd')
		return second == '1' ? SLOT_DONE : SLOT_IDLE;
	return state == 'l' ? SLOT_LOADING : SLOT_NOT;
}
