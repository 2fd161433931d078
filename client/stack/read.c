/* read.c - see read.h. The process runs on while it is read; it may be hostile. A thread of its own reads, since a process can make a
 * read wait for ever (userfaultfd, FUSE): such a read ends only when the program ends. */
#include "read.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"

#include "merge.h"

#include "client/native/unwind.h"
#include "client/process/facts.h"
#include "client/process/interpreter.h"
#include "client/process/memory.h"
#include "client/process/task.h"
#include "client/process/watched.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "proto/python/code.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALL_SECONDS 60 /* of many */
#define THREADS_MOST 8192
#define READS_MOST 2000000     /* some seconds at most */
#define NAMES_MOST (16u << 20) /* bytes of all threads' names: a hostile process has as many as it likes */
#define CODES 4096	       /* names that are kept, a power of two */
/* glibc keeps the kernel's id of a thread in its pthread_t. */
#define PTHREAD_TID 720
#define ODD_TRIES 100 /* with 0.2 ms between them */
#define READ_TRIES 8
/* How old the list of threads may get: for so long a thread's new name is not seen, nor that a thread has ended. */
#define TASKS_NS 1000000000ull
#define STACKS_MOST (256u << 20) /* bytes of all native stacks that are copied */

struct known_code {
	uint64_t code;
	unsigned look; /* in which it was read: its place may hold another one by the next */
	char *name, *file;
};

struct stack_reader {
	struct process_memory process;
	struct python python;
	unsigned look;
	struct process_task *tasks; /* of a look before, where no thread is new */
	size_t task_count;
	uint64_t tasks_at;
	unsigned tasks_of; /* the look in which they were read */
	struct python_thread *found;
	struct known_code *codes;
	struct python_frame *frames, *scratch;
	size_t room; /* bytes of names that may still be kept */
	struct native_maps maps;
	size_t stack_room; /* bytes of native stacks that may still be copied */
};

static int refuse(struct stack_process *ret, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct stack_process *ret, int error, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(ret->sentence, sizeof ret->sentence, format, list);
	va_end(list);
	ret->error = error;
	return -1;
}

static int open_interpreter(struct stack_reader *reader, struct stack_process *ret)
{
	struct process_objects objects;
	struct interpreter found;
	int error = process_objects_read(&objects, ret->pid);
	bool there;

	if (error)
		return refuse(ret, EXIT_NO_TARGET,
			      "process %lld has no memory of its own: it has ended, or is the kernel's",
			      (long long)ret->pid);
	there = interpreter_find(&reader->process.memory, &objects, &found);
	process_objects_free(&objects);
	if (!there)
		return refuse(ret, EXIT_NO_TARGET,
			      "process %lld runs no Python: it has no _PyRuntime, which CPython shows from 3.7 on",
			      (long long)ret->pid);
	switch (python_open(&reader->python, &reader->process.memory, found.runtime, found.minor)) {
	case PYTHON_OK:
		break;
	case PYTHON_UNREADABLE:
		return refuse(ret, EXIT_FAILED,
			      "the memory of process %lld cannot be read: it is ending, or not what it says",
			      (long long)ret->pid);
	case PYTHON_UNKNOWN:
		return refuse(
			ret, EXIT_FAILED,
			"process %lld runs Python 3.%u, which this release does not know; it knows CPython 3.%d to "
			"3.%d",
			(long long)ret->pid, reader->python.minor, PYTHON_MINOR_LEAST, PYTHON_MINOR_MOST);
	case PYTHON_FREE_THREADED:
		return refuse(
			ret, EXIT_FAILED,
			"process %lld runs a free-threaded build of Python: its stacks cannot be read while it runs",
			(long long)ret->pid);
	case PYTHON_NOT_READY:
		return refuse(ret, EXIT_FAILED,
			      "the Python of process %lld has not started yet, or has ended: try again",
			      (long long)ret->pid);
	case PYTHON_FINALIZING:
		return refuse(ret, EXIT_FAILED, "the Python of process %lld is ending", (long long)ret->pid);
	}
	ret->minor = reader->python.minor;
	return 0;
}

/* The code's names, kept for the next frame that has it; NULL where it cannot be read. */
static const struct known_code *describe(struct stack_reader *reader, uint64_t code)
{
	size_t at = (size_t)(code >> 4) * 2654435761u & (CODES - 1);
	struct known_code *known = &reader->codes[at];
	struct python_code found;

	if (known->code == code && known->look == reader->look)
		return known;
	if (!python_describe(&reader->python, code, &found))
		return NULL;
	free(known->name);
	free(known->file);
	*known = (struct known_code){code, reader->look, text_utf8(found.name), text_utf8(found.file)};
	return known;
}

static bool describe_frames(struct stack_reader *reader, struct stack_thread *thread)
{
	thread->frames = need(calloc(thread->count ? thread->count : 1, sizeof *thread->frames));
	for (size_t i = 0; i < thread->count; i++) {
		const struct python_frame *frame = &reader->frames[i];
		const struct known_code *code = describe(reader, frame->code);

		if (!code)
			return false;
		size_t taken = strlen(code->name) + strlen(code->file) + sizeof *thread->frames;
		if (taken > reader->room) {
			thread->count = i;
			thread->more = true;
			break;
		}
		reader->room -= taken;
		thread->frames[i].name = need(strdup(code->name));
		thread->frames[i].file = need(strdup(code->file));
		thread->frames[i].entry = frame->entry;
		thread->frames[i].line = python_line(&reader->python, frame->code, frame->instruction);
	}
	return true;
}

static void forget_frames(struct stack_thread *thread)
{
	for (size_t i = 0; i < thread->count && thread->frames; i++) {
		free(thread->frames[i].name);
		free(thread->frames[i].file);
	}
	free(thread->frames);
	thread->frames = NULL;
	thread->count = 0;
}

static void read_tasks(struct stack_reader *reader)
{
	free(reader->tasks);
	reader->tasks = process_tasks(reader->process.pid, &reader->task_count);
	reader->tasks_at = clock_monotonic();
	reader->tasks_of = reader->look;
}

static const struct process_task *find_task(const struct stack_reader *reader, uint32_t native)
{
	for (size_t i = 0; native && i < reader->task_count; i++)
		if (reader->tasks[i].inner == native)
			return &reader->tasks[i];
	return NULL;
}

static const struct process_task *task_of(struct stack_reader *reader, const struct python_thread *thread)
{
	uint32_t native = thread->native;
	const struct process_task *task;

	if (!native && thread->ident) {
		uint64_t word =
			python_word((struct python_memory *)&reader->python.memory, thread->ident + PTHREAD_TID);
		native = (uint32_t)word;
	}
	task = find_task(reader, native);
	if (!task && native && reader->tasks_of != reader->look) {
		read_tasks(reader);
		task = find_task(reader, native);
	}
	return task;
}

static bool runs(const struct stack_reader *reader, const struct process_task *task)
{
	char state = task ? process_task_state(reader->process.pid, task->tid) : '?';

	return state == 'R' || state == '?';
}

/* A thread that was put aside in the middle of a call stays there for some ms. */
static enum python_walk_result walk(struct stack_reader *reader, const struct python_thread *found,
				    const struct process_task *task, struct stack_process *process,
				    struct stack_thread *ret)
{
	const struct timespec moment = {0, 200000};
	enum python_walk_result result = WALK_TORN;
	unsigned torn;

	for (int i = 0; i < ODD_TRIES; i++) {
		bool ran = runs(reader, task);

		result = python_walk(&reader->python, found->state, reader->frames, reader->scratch, STACK_FRAMES_MOST,
				     &ret->count, &ret->more, &torn);
		process->torn += torn;
		if (result != WALK_ODD)
			return result;
		if (!ran && !runs(reader, task))
			return WALK_WHOLE;
		process->torn++;
		nanosleep(&moment, NULL);
	}
	return WALK_MOVING;
}

/* Its native stack, and its frames of Python, of the same moment. False: it has gone on in between. */
static bool walk_both(struct stack_reader *reader, const struct python_thread *found, const struct process_task *task,
		      struct stack_process *process, struct stack_thread *ret, struct native_stand *stand)
{
	stand_free(stand, &reader->stack_room);
	stand_look(stand, process->pid, task->tid, &reader->process, &reader->maps, &reader->stack_room);
	ret->reading = walk(reader, found, task, process, ret);
	return stand_stood(stand);
}

/* A code object may go away between its frame and its names: that too is a torn reading. `stand` NULL: of Python alone. */
static void read_frames(struct stack_reader *reader, const struct python_thread *found, const struct process_task *task,
			struct stack_process *process, struct stack_thread *ret, struct native_stand *stand)
{
	bool stood = true;

	for (int i = 0; i < READ_TRIES; i++) {
		forget_frames(ret);
		if (stand)
			stood = walk_both(reader, found, task, process, ret, stand);
		else
			ret->reading = walk(reader, found, task, process, ret);
		if (ret->reading == WALK_TORN)
			return;
		if (!describe_frames(reader, ret)) {
			forget_frames(ret);
			ret->reading = WALK_TORN;
			process->torn++;
		} else if (stood) {
			return;
		}
	}
}

static void read_thread(struct stack_reader *reader, const struct python_thread *found, struct stack_process *process,
			struct stack_thread *ret, struct native_stand *stand)
{
	const struct process_task *task = task_of(reader, found);

	bool is_main = task && task->tid == process->pid;

	*ret = (struct stack_thread){.state = '?', .holds_gil = found->holds_gil, .is_main = is_main};
	if (is_main)
		ret->before = process_task_work(process->pid, task->tid);
	read_frames(reader, found, task, process, ret, task ? stand : NULL);
	if (!task)
		return;
	ret->tid = task->tid;
	ret->state = process_task_state(process->pid, task->tid);
	if (is_main)
		ret->after = process_task_work(process->pid, task->tid);
	snprintf(ret->name, sizeof ret->name, "%s", task->name);
}

static void add_native(struct stack_reader *reader, struct stack_process *ret, struct native_stand *stands)
{
	struct native_stack *stacks = need(calloc(ret->count + 1, sizeof *stacks));

	unwind(ret->pid, &reader->maps, &reader->process, stands, stacks, ret->count);
	for (size_t i = 0; i < ret->count; i++) {
		stack_merge(&ret->threads[i], &stands[i], &stacks[i], ret->minor);
		stand_free(&stands[i], &reader->stack_room);
	}
	unwind_free(stacks, ret->count);
	free(stands);
}

static int by_id(const void *a, const void *b)
{
	const struct stack_thread *one = a, *other = b;

	if (one->is_main != other->is_main)
		return one->is_main ? -1 : 1;
	return ORDER(one->tid, other->tid);
}

static void read_threads(struct stack_reader *reader, struct stack_process *ret)
{
	struct python_thread *found = reader->found;
	struct native_stand *stands = NULL;
	int count = python_threads(&reader->python, found, THREADS_MOST);

	if (count <= 0) {
		refuse(ret, EXIT_FAILED, "the Python of process %lld has no threads: it is starting, or ending",
		       (long long)ret->pid);
	} else {
		if (!reader->tasks || clock_monotonic() - reader->tasks_at > TASKS_NS)
			read_tasks(reader);
		ret->threads = need(calloc((size_t)count, sizeof *ret->threads));
		if (ret->native)
			stands = need(calloc((size_t)count, sizeof *stands));
		for (int i = 0; i < count && reader->python.memory.reads_left; i++, ret->count++)
			read_thread(reader, &found[i], ret, &ret->threads[ret->count], stands ? &stands[i] : NULL);
		if (stands)
			add_native(reader, ret, stands);
		ret->cut = !reader->python.memory.reads_left || count == THREADS_MOST;
		qsort(ret->threads, ret->count, sizeof *ret->threads, by_id);
	}
}

struct stack_reader *stack_reader_open(int64_t pid, struct stack_process *ret)
{
	struct stack_reader *reader = need(calloc(1, sizeof *reader));
	int error = process_memory_open(&reader->process, pid, READS_MOST, O_RDONLY);

	if (error) {
		process_refusal(pid, -error, ret->sentence, sizeof ret->sentence);
		ret->error = error == -EACCES || error == -EPERM ? EXIT_NOT_PERMITTED : EXIT_NO_TARGET;
		free(reader);
		return NULL;
	}
	process_command(pid, ret->command, sizeof ret->command);
	if (open_interpreter(reader, ret) < 0) {
		process_memory_close(&reader->process);
		free(reader);
		return NULL;
	}
	reader->codes = need(calloc(CODES, sizeof *reader->codes));
	reader->found = need(calloc(THREADS_MOST, sizeof *reader->found));
	reader->frames = need(calloc(STACK_FRAMES_MOST, sizeof *reader->frames));
	reader->scratch = need(calloc(STACK_FRAMES_MOST, sizeof *reader->scratch));
	return reader;
}

void stack_reader_look(struct stack_reader *reader, struct stack_process *ret)
{
	reader->look++;
	reader->room = NAMES_MOST;
	reader->stack_room = STACKS_MOST;
	reader->python.memory.reads_left = READS_MOST;
	if (ret->native) {
		native_maps_read(&reader->maps, ret->pid);
		reader->maps.interpreter = reader->python.runtime;
	}
	read_threads(reader, ret);
	native_maps_free(&reader->maps);
}

void stack_reader_close(struct stack_reader *reader)
{
	for (size_t i = 0; i < CODES; i++) {
		free(reader->codes[i].name);
		free(reader->codes[i].file);
	}
	free(reader->codes);
	free(reader->found);
	free(reader->frames);
	free(reader->scratch);
	free(reader->tasks);
	process_memory_close(&reader->process);
	free(reader);
}

static void read_process(void *pointer)
{
	struct stack_process *ret = pointer;
	struct stack_reader *reader = stack_reader_open(ret->pid, ret);

	if (!reader)
		return;
	stack_reader_look(reader, ret);
	stack_reader_close(reader);
}

struct stack_process *stack_process_new(int64_t pid)
{
	struct stack_process *process = need(calloc(1, sizeof *process));

	process->pid = pid;
	return process;
}

/* Its reader still has the other one. */
static struct stack_process *kept_waiting(int64_t pid)
{
	struct stack_process *process = stack_process_new(pid);

	refuse(process, EXIT_TIMED_OUT, WATCHED_SENTENCE, (long long)pid);
	return process;
}

void stack_read_all_in_time(struct stack_process **processes, size_t count)
{
	bool *came = need(calloc(count + 1, sizeof *came));

	watched_run_all(read_process, (void *const *)processes, came, count, WATCHED_SECONDS, ALL_SECONDS);
	for (size_t i = 0; i < count; i++)
		if (!came[i])
			processes[i] = kept_waiting(processes[i]->pid);
	free(came);
}

struct stack_process *stack_read_in_time(int64_t pid, bool native)
{
	struct stack_process *process = stack_process_new(pid);

	process->native = native;
	if (watched_run(read_process, process, WATCHED_SECONDS + (native ? UNWIND_SECONDS : 0)))
		return process;
	return kept_waiting(pid);
}

void stack_process_forget(struct stack_process *process)
{
	for (size_t i = 0; i < process->count; i++)
		forget_frames(&process->threads[i]);
	free(process->threads);
	process->threads = NULL;
	process->count = 0;
}

void stack_process_free(struct stack_process *process)
{
	stack_process_forget(process);
	free(process);
}

bool stack_idle(const struct stack_thread *thread)
{
	return thread->state != 'R' && thread->state != '?';
}
