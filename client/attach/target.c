/* target.c - see target.h. */
#include "target.h"

#include "slot.h"

#include "client/link/presence.h"
#include "client/process/facts.h"
#include "client/process/interpreter.h"
#include "client/process/task.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "client/ui/clock.h"
#include "proto/claim.h"
#include "proto/python/python.h"
#include "proto/python/symbol.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READS_MOST 4000000
#define STATUS_MOST 65536     /* a process may be in thousands of groups */
#define LIBCS_MOST 4	      /* a process has one */
#define CODE_MOST (64u << 20) /* of libc, that is searched */

bool target_ends(const struct target *target)
{
	return !target_same(target) || process_ends(target->pid);
}

int target_told(const struct target *target, int code, char *sentence, size_t bytes)
{
	if (code && target_ends(target))
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "process %lld has ended", (long long)target->pid);
	return code;
}

/* A word of a task's status that is there. */
static bool has_word(int64_t tid, const char *key, const char *word)
{
	char text[256];

	return process_status(tid, key, text, sizeof text) && strstr(text, word);
}

static bool is_filtered(int64_t tid)
{
	char text[32];

	return process_status(tid, "Seccomp", text, sizeof text) && strcmp(text, "0") != 0;
}

/* Of a line of /proc/PID/status that is there: does it have this word in it? */
static bool line_has(const char *status, const char *key, const char *word)
{
	const char *line = strstr(status, key), *end = line ? strchr(line, '\n') : NULL;

	return end && memmem(line, (size_t)(end - line), word, strlen(word));
}

/* By one reading, as a thread stands meanwhile. The program's name, which comes first there, has no line's end in it. What does not fit is not
 * known. */
bool target_shuts(int64_t tid)
{
	size_t bytes;
	char *status = process_file(tid, "status", STATUS_MOST, &bytes);
	bool shuts = status &&
		     (bytes == STATUS_MOST || (strstr(status, "\nSeccomp:") && !strstr(status, "\nSeccomp:\t0\n")) ||
		      line_has(status, "\nx86_Thread_features:", "shstk"));

	free(status);
	return shuts;
}

static int look_at_state(const struct target *target, char *sentence, size_t bytes)
{
	long long pid = target->pid;
	char state = process_task_state(target->pid, target->pid), text[256];

	if (state == 'T' || state == 't')
		return refuse_with(sentence, bytes, EXIT_BUSY,
				   "process %lld is stopped (by a signal, or a debugger): let it go on first", pid);
	if (target_ends(target))
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "process %lld is ending", pid);
	if (process_status(target->pid, "TracerPid", text, sizeof text) && strcmp(text, "0") != 0)
		return refuse_with(sentence, bytes, EXIT_BUSY,
				   "process %lld is traced by process %s (a debugger, strace, ...): end that first",
				   pid, text);
	if (is_filtered(target->pid))
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"process %lld has a filter of system calls (seccomp), which could kill it for what an agent does: "
			"start it with `profd run`, where the agent meets the filter from the start",
			pid);
	if (has_word(target->pid, "x86_Thread_features", "shstk"))
		return refuse_with(sentence, bytes, EXIT_FAILED,
				   "process %lld has shadow stacks: start it with `profd run`", pid);
	return 0;
}

static bool is_agent(const struct process_object *object)
{
	return strncmp(process_object_name(object), "libprofd_agent", 14) == 0;
}

/* The profd_attach() of the copy that has worked in this process; 0: none has, or it does not tell. */
static uint64_t claimed_by(struct target *target)
{
	struct claim claim;

	if (!python_read(&target->process.memory, CLAIM_PLACE, &claim, sizeof claim) || claim.mark != CLAIM_MARK)
		return 0;
	const struct process_object *object = process_object_at(&target->objects, claim.attach);
	return object && is_agent(object) ? claim.attach : 0;
}

/* A library that is there is used again, since each copy takes some of the little thread-local storage that all
 * libraries share. A copy that came along with a fork never works again (agent/claim.c): such a process gets a new
 * one. */
static int look_at_agent(struct target *target, const struct process_object *object, char *sentence, size_t bytes)
{
	enum presence presence = presence_of(target->pid);

	if (presence == PRESENCE_FORKED)
		return 0;
	if (presence == PRESENCE_AWAKE)
		return refuse_with(sentence, bytes, EXIT_BUSY,
				   "process %lld has the agent already; `profd doctor --pid %lld` says how it is",
				   (long long)target->pid, (long long)target->pid);
	target->agent = claimed_by(target);
	if (!target->agent)
		target->agent = python_symbol(&target->process.memory, object->base, "profd_attach");
	if (!target->agent)
		return refuse_with(sentence, bytes, EXIT_FAILED,
				   "process %lld has an agent of another release, which cannot be woken from outside",
				   (long long)target->pid);
	return 0;
}

static int look_at_program(struct target *target, char *sentence, size_t bytes)
{
	long long pid = target->pid;
	struct process_object *program = &target->objects.rows[0];
	Elf64_Ehdr head;

	if (!python_read(&target->process.memory, program->base, &head, sizeof head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return refuse_with(sentence, bytes, EXIT_FAILED, "what process %lld runs cannot be read", pid);
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64)
		return refuse_with(sentence, bytes, EXIT_FAILED, "process %lld runs a program of another architecture",
				   pid);
	for (size_t i = 0; i < target->objects.count; i++) {
		const char *name = process_object_name(&target->objects.rows[i]);

		if (is_agent(&target->objects.rows[i]) && !target->agent) {
			int code = look_at_agent(target, &target->objects.rows[i], sentence, bytes);

			if (code)
				return code;
		}
		/* The second one where ld-musl is a link to it (Debian); glibc's is libc.so.6. */
		if (strncmp(name, "ld-musl", 7) == 0 || strcmp(name, "libc.so") == 0)
			return refuse_with(
				sentence, bytes, EXIT_FAILED,
				"process %lld is built with musl, whose loader cannot be called from outside: start it "
				"with `profd run`",
				pid);
	}
	return 0;
}

static bool is_libc(const char *name)
{
	return strncmp(name, "libc.so.6", 9) == 0 || strncmp(name, "libc-2.", 7) == 0;
}

static bool has_libc_part(const char *name)
{
	return is_libc(name) || strncmp(name, "libdl", 5) == 0 || strncmp(name, "libpthread", 10) == 0;
}

static uint64_t find(struct target *target, const char *symbol)
{
	uint64_t found = 0;

	for (size_t i = 0; i < target->objects.count && !found; i++)
		if (has_libc_part(process_object_name(&target->objects.rows[i])))
			found = python_symbol(&target->process.memory, target->objects.rows[i].base, symbol);
	return found;
}

/* Where libc's signal handlers return to: mov $15, %rax; syscall. */
static uint64_t find_leave(struct target *target)
{
	static const unsigned char wanted[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5};

	for (size_t i = 0, searched = 0; i < target->objects.count && searched < LIBCS_MOST; i++) {
		const struct process_object *object = &target->objects.rows[i];
		size_t size = (size_t)(object->end - object->begin);

		if (!is_libc(process_object_name(object)) || !object->begin || size > CODE_MOST)
			continue;
		searched++;
		unsigned char *code = need(malloc(size)), *at = NULL;
		if (python_read(&target->process.memory, object->begin, code, size))
			at = memmem(code, size, wanted, sizeof wanted);
		uint64_t found = at ? object->begin + (uint64_t)(at - code) : 0;
		free(code);
		if (found)
			return found;
	}
	return 0;
}

static int find_all(struct target *target, char *sentence, size_t bytes)
{
	target->dlopen = find(target, "dlopen");
	target->dlsym = find(target, "dlsym");
	target->close = find(target, "close");
	target->mmap = find(target, "mmap");
	target->mprotect = find(target, "mprotect");
	target->syscall = find(target, "syscall");
	target->pthread_create = find(target, "pthread_create");
	target->pthread_detach = find(target, "pthread_detach");
	target->leave = find_leave(target);
	if (!target->dlopen || !target->dlsym)
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"process %lld has no dlopen (it is linked statically, or loads nothing): start it with `profd run`",
			(long long)target->pid);
	if (!target->close || !target->mmap || !target->mprotect || !target->syscall || !target->leave ||
	    !target->pthread_create || !target->pthread_detach)
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"the C library of process %lld is no glibc that profd knows, or has no threads: start it with `profd run`",
			(long long)target->pid);
	return 0;
}

static int look_at_python(struct target *target, char *sentence, size_t bytes)
{
	struct interpreter found;
	struct python python;
	long long pid = target->pid;

	if (!interpreter_find(&target->process.memory, &target->objects, &found))
		return 0;
	switch (python_open(&python, &target->process.memory, found.runtime, found.minor)) {
	case PYTHON_OK:
		break;
	case PYTHON_FINALIZING:
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "the Python of process %lld is ending", pid);
	case PYTHON_NOT_READY:
		return refuse_with(sentence, bytes, EXIT_FAILED,
				   "the Python of process %lld has not started yet, or has ended", pid);
	case PYTHON_UNREADABLE:
	case PYTHON_UNKNOWN:
	case PYTHON_FREE_THREADED:
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"process %lld runs a Python that is not known (CPython 3.%d to 3.%d with the GIL): start it with "
			"`profd run`",
			pid, PYTHON_MINOR_LEAST, PYTHON_MINOR_MOST);
	}
	target->python = true;
	target->runtime = found.runtime;
	target->minor = found.minor;
	target->add_pending_call = python_symbol(&target->process.memory, found.object->base, "Py_AddPendingCall");
	if (!target->add_pending_call)
		return refuse_with(sentence, bytes, EXIT_FAILED, "the Python of process %lld has no Py_AddPendingCall",
				   pid);
	slot_find(target, &python);
	return 0;
}

bool target_python_runs(struct target *target)
{
	struct python python;

	return python_open(&python, &target->process.memory, target->runtime, target->minor) == PYTHON_OK;
}

const char *target_way(const struct target *target, const char **why_no_slot)
{
	*why_no_slot = target->slot.why;
	if (target->slot.path_bytes && !target->slot.why)
		return "by its Python's own slot for that (PEP 768), which stops nothing";
	if (target->python)
		return "by a call that its Python makes between two bytecodes; a thread is stopped for a moment to ask for it";
	return "by a new thread; another one is stopped for a moment to start it";
}

/* Does /proc number processes as the system calls do? */
static bool proc_is_ours(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof text - 1);

	text[n > 0 ? n : 0] = 0;
	return strtoll(text, NULL, 10) == getpid();
}

int target_open(struct target *ret, int64_t pid, char *sentence, size_t bytes)
{
	int error, code;

	*ret = (struct target){.pid = pid, .process.fd = -1};
#if !defined(__x86_64__)
	return refuse_with(sentence, bytes, EXIT_FAILED,
			   "attaching works on x86-64 alone: start process %lld with `profd run`", (long long)pid);
#endif
	if (!proc_is_ours())
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"/proc here is that of another pid namespace: process %lld is another one for the kernel than there; mount "
			"this namespace's own /proc, or attach from outside",
			(long long)pid);
	error = process_memory_open(&ret->process, pid, READS_MOST, O_RDWR);
	if (error) {
		process_refusal(pid, -error, sentence, bytes);
		return error == -EACCES || error == -EPERM ? EXIT_NOT_PERMITTED : EXIT_NO_TARGET;
	}
	ret->born = process_number(pid, PROCESS_START);
	if (process_objects_read(&ret->objects, pid))
		return refuse_with(sentence, bytes, EXIT_NO_TARGET,
				   "process %lld has no memory of its own: it has ended, or is the kernel's",
				   (long long)pid);
	code = look_at_state(ret, sentence, bytes);
	if (code)
		return code;
	code = look_at_program(ret, sentence, bytes);
	code = code ? code : find_all(ret, sentence, bytes);
	code = code ? code : look_at_python(ret, sentence, bytes);
	return target_told(ret, code, sentence, bytes);
}

void target_close(struct target *target)
{
	process_objects_free(&target->objects);
	process_memory_close(&target->process);
}

void target_spell(char ret[TARGET_SPELLING_BYTES])
{
	uint64_t bits = (uint64_t)clock_now() / 1000;

	for (size_t i = 0; i + 2 < TARGET_SPELLING_BYTES; i += 2, bits >>= 1) {
		ret[i] = bits & 1 ? '.' : '/';
		ret[i + 1] = '/';
	}
	ret[TARGET_SPELLING_BYTES - 1] = 0;
}

bool target_same(const struct target *target)
{
	return target->born && process_number(target->pid, PROCESS_START) == target->born;
}

bool target_is_loader(const struct target *target, uint64_t address)
{
	const struct process_object *object = process_object_at(&target->objects, address);
	const char *name = object ? process_object_name(object) : "";

	return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld-2.", 5) == 0;
}

bool target_clean(const struct target *target, uint64_t address)
{
	const struct process_object *object = process_object_at(&target->objects, address);
	const char *name = object ? process_object_name(object) : NULL;

	return name && object->path[0] == '/' && !has_libc_part(name) && !target_is_loader(target, address) &&
	       strncmp(name, "libstdc++", 9) != 0 && strncmp(name, "libgcc_s", 8) != 0 && !strstr(name, "malloc");
}
