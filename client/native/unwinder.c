/* unwinder.c - see unwinder.h. One thread; what it reads may be hostile: maps, memory, and files that change under its hands. */
#include "unwinder.h"

#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES 4096
#define EVALUATES "_PyEval_EvalFrameDefault"
/* As DWARF numbers it. */
#if defined __x86_64__
#define STACK_REGISTER 7
#else
#define STACK_REGISTER 31
#endif

static struct {
	const struct libdw *dw;
	int64_t pid;
	char root[4096]; /* of the process, as seen from here; empty: the same */
	const struct native_maps *maps;
	struct Dwfl *dwfl;
	const struct native_stand *stand;
	struct unwind_record record;
	size_t frames;
	bool begins;	     /* the frame that came last is the thread's first function */
	const char *stopped; /* why it goes no further */
} state;

static void put(void)
{
	const char *from = (const char *)&state.record;

	for (size_t n = 0; n < sizeof state.record;) {
		ssize_t done = write(CONFINED_TO, from + n, sizeof state.record - n);

		if (done <= 0 && errno != EINTR)
			_exit(1);
		n += done > 0 ? (size_t)done : 0;
	}
}

static const struct native_object *object_at(uint64_t address)
{
	for (size_t i = 0; i < state.maps->object_count; i++)
		if (address >= state.maps->objects[i].begin && address < state.maps->objects[i].end)
			return &state.maps->objects[i];
	return NULL;
}

/* A file can be another one by now (an update, or worse): its head, with the build's id, has to be what the process has mapped. */
static bool is_mapped(int fd, const struct native_object *object)
{
	unsigned char file[HEAD_BYTES], memory[HEAD_BYTES];
	struct stat facts;

	return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && pread(fd, file, sizeof file, 0) == sizeof file &&
	       pread(CONFINED_MEMORY, memory, sizeof memory, (off_t)object->begin) == sizeof memory &&
	       memcmp(file, memory, sizeof file) == 0 && memcmp(file, ELFMAG, SELFMAG) == 0;
}

/* Where a process has changed its root the kernel tells names as they are seen from outside of it. */
static void read_root(void)
{
	char link[64];

	snprintf(link, sizeof link, "/proc/%lld/root", (long long)state.pid);
	ssize_t n = readlink(link, state.root, sizeof state.root - 1);
	state.root[n > 1 ? n : 0] = 0;
}

static const char *below_root(const char *path)
{
	size_t n = strlen(state.root);

	return n && strncmp(path, state.root, n) == 0 && path[n] == '/' ? path + n : path;
}

/* In the process's own root: it may live in a container. */
static int open_mapped(const struct native_object *object)
{
	char path[5000], again[64];
	struct stat facts;
	int place, fd = -1;

	if (snprintf(path, sizeof path, "/proc/%lld/root%s", (long long)state.pid, below_root(object->path)) >=
	    (int)sizeof path)
		return -1;
	/* What is no file is not opened: to open a device can do something. */
	place = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (place < 0)
		return -1;
	snprintf(again, sizeof again, "/proc/self/fd/%d", place);
	if (fstat(place, &facts) == 0 && S_ISREG(facts.st_mode))
		fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	close(place);
	if (fd >= 0 && is_mapped(fd, object))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int find_elf(struct Dwfl_Module *module, void **user, const char *name, uint64_t base, char **file,
		    struct Elf **elf)
{
	const struct native_object *object = object_at(base);
	int fd = object ? open_mapped(object) : -1;

	(void)module, (void)user, (void)name, (void)file;
	if (fd < 0)
		return -1;
	/* Mapped to be read alone, so that a large library is no memory of ours. */
	*elf = state.dw->elf_begin(fd, LIBDW_READ_MMAP, NULL);
	return *elf ? fd : -1;
}

/* Never asked for: what unwinding and names need is in the files themselves, and libdw might ask a server. */
static int find_debuginfo(struct Dwfl_Module *module, void **user, const char *name, uint64_t base, const char *file,
			  const char *link, uint32_t crc, char **found)
{
	(void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)found;
	return -1;
}

static pid_t next_thread(struct Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl, (void)arg, (void)thread_arg;
	return 0;
}

static bool get_thread(struct Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl, (void)tid;
	*thread_arg = arg;
	return true;
}

static bool memory_read(struct Dwfl *dwfl, uint64_t address, uint64_t *word, void *arg)
{
	const struct native_stand *stand = state.stand;
	uint64_t at = address - stand->sp;

	(void)dwfl, (void)arg;
	if (address < stand->sp || stand->bytes < sizeof *word || at > stand->bytes - sizeof *word) {
		state.stopped = stand->more ? "of a stack so large only the innermost part is read"
					    : "their place is not in the stack";
		return false;
	}
	memcpy(word, stand->stack + at, sizeof *word);
	return true;
}

static bool set_registers(struct Dwfl_Thread *thread, void *arg)
{
	const struct native_stand *stand = state.stand;

	(void)arg;
	state.dw->dwfl_thread_state_register_pc(thread, stand->pc);
	return state.dw->dwfl_thread_state_registers(thread, STACK_REGISTER, 1, &stand->sp);
}

static void take_part(const char *part, size_t n, void *context)
{
	size_t *at = context, room = sizeof state.record.frame.symbol - 1 - *at;

	n = n < room ? n : room;
	memcpy(state.record.frame.symbol + *at, part, n);
	*at += n;
}

/* The function's name alone: with the types of its arguments names of C++ are longer than a line. */
static void set_symbol(const char *name)
{
	struct native_frame *frame = &state.record.frame;
	size_t n = 0, whole = strlen(EVALUATES);

	frame->evaluates = strncmp(name, EVALUATES, whole) == 0 && (!name[whole] || name[whole] == '.');
	if (!cplus_demangle_v3_callback(name, DMGL_ANSI, take_part, &n) || !n) {
		snprintf(frame->symbol, sizeof frame->symbol, "%s", name);
		return;
	}
	frame->symbol[n] = 0;
}

static void describe(uint64_t address)
{
	const struct native_object *object = object_at(address);
	struct Dwfl_Module *module = state.dw->dwfl_addrmodule(state.dwfl, address);
	uint64_t offset = 0, bias = 0;
	struct Elf *elf;
	Elf64_Sym symbol = {0};

	state.record = (struct unwind_record){.thread = state.record.thread, .frame.address = address};
	if (object) {
		state.record.frame.interprets = object == object_at(state.maps->interpreter);
		size_t n = strlen(object->path), room = sizeof state.record.frame.object - 1;

		memcpy(state.record.frame.object, n > room ? object->path + n - room : object->path,
		       n > room ? room : n);
		state.record.frame.address = address - object->begin;
	}
	const char *name =
		module ? state.dw->dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, &elf, &bias) : NULL;
	/* Behind a function that has a symbol lie others that have none. */
	if (name && offset < symbol.st_size)
		set_symbol(name);
	if (name)
		state.record.frame.address = address - bias;
}

/* Does the table say that nobody has called this, so that the thread begins here? */
static bool begins_here(struct Dwarf_Frame *frame)
{
	struct libdw_operation room[3], *operations;
	uint64_t begin, end;
	size_t count;
	bool is_signal;
	int back = state.dw->dwarf_frame_info(frame, &begin, &end, &is_signal);

	return back >= 0 && state.dw->dwarf_frame_register(frame, back, room, &operations, &count) == 0 && !count &&
	       operations == room;
}

/* Without a table libdw would guess. */
static bool has_table(uint64_t address)
{
	struct Dwfl_Module *module = state.dw->dwfl_addrmodule(state.dwfl, address);
	struct Dwarf_Frame *frame = NULL;
	uint64_t bias = 0;
	struct Dwarf_CFI *cfi = module ? state.dw->dwfl_module_eh_cfi(module, &bias) : NULL;
	bool found = cfi && state.dw->dwarf_cfi_addrframe(cfi, address - bias, &frame) == 0;

	state.begins = found && begins_here(frame);
	free(frame);
	if (!object_at(address))
		state.stopped = "the code there is of no file";
	else if (!cfi)
		state.stopped = "a file of theirs has been replaced, or has no unwind tables";
	else if (!found)
		state.stopped = "the code there has no unwind table";
	return found;
}

static int take_frame(struct Dwfl_Frame *frame, void *arg)
{
	uint64_t pc;
	bool is_activation;

	(void)arg;
	if (state.frames++ == UNWIND_FRAMES_MOST || !state.dw->dwfl_frame_pc(frame, &pc, &is_activation)) {
		state.stopped = "only the innermost are shown";
		return LIBDW_STOP;
	}
	/* A caller stands behind its call. */
	pc -= !is_activation;
	describe(pc);
	put();
	return has_table(pc) ? LIBDW_OK : LIBDW_STOP;
}

/* `reason` NULL: the stack is whole. */
static void put_end(uint32_t thread, const char *reason)
{
	state.record = (struct unwind_record){.thread = thread, .is_end = 1, .whole = !reason};
	snprintf(state.record.reason, sizeof state.record.reason, "%s", reason ? reason : "");
	put();
}

static void unwind_one(uint32_t thread, const struct native_stand *stand)
{
	state.stand = stand;
	state.frames = 0;
	state.stopped = NULL;
	state.record = (struct unwind_record){.thread = thread};
	/* Where a register is not known libdw says that this was all. */
	bool whole =
		state.dw->dwfl_getthread_frames(state.dwfl, (pid_t)stand->tid, take_frame, NULL) == 0 && state.begins;
	put_end(thread, whole ? NULL : state.stopped ?: "that takes registers which only a stopped thread shows");
}

static bool report(void)
{
	static const struct dwfl_callbacks files = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};
	static const struct dwfl_thread_callbacks threads = {.next_thread = next_thread,
							     .get_thread = get_thread,
							     .memory_read = memory_read,
							     .set_initial_registers = set_registers};
	/* Says for which kind of processor, and is nothing else. */
	int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	state.dw->elf_version(EV_CURRENT);
	state.dwfl = state.dw->dwfl_begin(&files);
	if (!state.dwfl)
		return false;
	state.dw->dwfl_report_begin(state.dwfl);
	for (size_t i = 0; i < state.maps->object_count; i++) {
		const struct native_object *object = &state.maps->objects[i];

		state.dw->dwfl_report_module(state.dwfl, object->path, object->begin, object->end);
	}
	state.dw->dwfl_report_end(state.dwfl, NULL, NULL);
	struct Elf *elf = own < 0 ? NULL : state.dw->elf_begin(own, LIBDW_READ_MMAP, NULL);
	return elf && state.dw->dwfl_attach_state(state.dwfl, elf, (pid_t)state.pid, &threads, &state);
}

void unwinder(const struct libdw *libdw, int to, int64_t pid, const struct native_maps *maps,
	      const struct process_memory *memory, const struct native_stand *stands, size_t count)
{
	const char *reason = NULL;

	state.dw = libdw;
	state.pid = pid;
	state.maps = maps;
	read_root();
	if (confine_descriptors(to, memory->fd))
		return;
	if (confine_calls())
		reason = "this kernel has no seccomp filters, without which nothing foreign is read";
	else if (!report())
		reason = "libdw knows nothing of this processor";
	for (size_t i = 0; i < count; i++)
		if (reason)
			put_end((uint32_t)i, reason);
		else if (stands[i].result == STAND_KNOWN)
			unwind_one((uint32_t)i, &stands[i]);
}
