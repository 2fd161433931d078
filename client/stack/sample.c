/* sample.c - see sample.h. Each process has a thread that reads it, which alone uses its row until it is joined. The first thread looks for
 * children and waits for Ctrl-C. */
#include "sample.h"

#include "client/process/facts.h"
#include "client/process/task.h"
#include "client/process/watched.h"
#include "client/ui/failure.h"
#include "client/ui/interrupt.h"
#include "client/ui/text.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <errno.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A hostile process has as many stacks and names as it likes. */
#define PLACES_MOST 65536
#define STACKS_MOST 65536
#define PROCESSES_MOST 256
/* Between two looks for children. */
#define CHILDREN_NS 500000000
/* Until a process that could not be looked at is opened anew: it may have begun another program, or Python may just be starting. */
#define AGAIN_NS 300000000

struct sampler {
	struct sample_process *row;
	const struct sample_wish *wish;
	uint64_t until;
	atomic_bool *stop, done;
	pthread_t thread;
	bool is_child, kept_waiting;
	struct sampler *next;
};

/* ---------------------------------------------------------------- what was seen */

static int compare_places(const void *a, const void *b)
{
	const struct sample_place *one = a, *other = b;

	return ORDER(one->line, other->line) ?: strcmp(one->name, other->name) ?: strcmp(one->file, other->file);
}

/* NULL: there is no room. */
static const struct sample_place *place_of(struct sample_process *row, const struct stack_frame *frame)
{
	struct sample_place like = {frame->name, frame->file, frame->line}, *place;
	struct sample_place **found = tfind(&like, &row->places, compare_places);

	if (found)
		return *found;
	if (row->place_count >= PLACES_MOST)
		return NULL;
	row->place_count++;
	place = need(malloc(sizeof *place));
	*place = (struct sample_place){need(strdup(frame->name)), need(strdup(frame->file)), frame->line};
	need(tsearch(place, &row->places, compare_places));
	return place;
}

static int compare_stacks(const void *a, const void *b)
{
	const struct sample_stack *one = a, *other = b;

	return ORDER(one->thread, other->thread)
		       ?: ORDER(one->count, other->count)
				  ?: memcmp(one->places, other->places, one->count * sizeof *one->places);
}

static struct sample_stack *stack_of(struct sample_process *row, size_t thread, const struct sample_place **places,
				     size_t count)
{
	struct sample_stack like = {.thread = thread, .count = count, .places = places}, *stack;
	struct sample_stack **found = tfind(&like, &row->known, compare_stacks);

	if (found)
		return *found;
	if (row->stack_count >= STACKS_MOST)
		return NULL;
	stack = need(malloc(sizeof *stack));
	*stack = like;
	stack->places = need(calloc(count + 1, sizeof(const struct sample_place *)));
	memcpy(stack->places, places, count * sizeof *places);
	need(tsearch(stack, &row->known, compare_stacks));
	NEED_ROOM(row->stacks, row->stack_count, row->stack_room);
	row->stacks[row->stack_count++] = stack;
	return stack;
}

/* All threads whose id is not known, as they have ended meanwhile, count as one. */
static size_t thread_of(struct sample_process *row, const struct stack_thread *thread)
{
	size_t i = 0;

	while (i < row->thread_count && row->threads[i].tid != thread->tid)
		i++;
	if (i == row->thread_count) {
		NEED_ROOM(row->threads, row->thread_count, row->thread_room);
		row->threads[row->thread_count++] =
			(struct sample_thread){.tid = thread->tid, .is_main = thread->is_main};
	}
	snprintf(row->threads[i].name, sizeof row->threads[i].name, "%s", thread->name);
	return i;
}

static void take_thread(struct sample_process *row, const struct stack_thread *thread)
{
	const struct sample_place *places[STACK_FRAMES_MOST];
	size_t index = thread_of(row, thread), count = 0;
	bool waits = stack_idle(thread);

	if (thread->reading == WALK_TORN) {
		row->threads[index].unread++;
		return;
	}
	*(waits ? &row->threads[index].waits : &row->threads[index].runs) += 1;
	while (count < thread->count && (places[count] = place_of(row, &thread->frames[count])))
		count++;
	struct sample_stack *stack = count == thread->count ? stack_of(row, index, places, count) : NULL;
	if (stack)
		*(waits ? &stack->waits : &stack->runs) += 1;
	else
		row->unkept++;
}

/* ---------------------------------------------------------------- one process */

static void sleep_until(uint64_t at)
{
	struct timespec time = {(time_t)(at / 1000000000), (long)(at % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

/* False: it could not be done. An error stays where no look has been done so far. */
static bool look(struct stack_reader *reader, struct sample_process *row)
{
	struct stack_process *about = row->about;
	bool done;

	about->error = 0;
	stack_reader_look(reader, about);
	done = !about->error;
	row->torn += about->torn;
	row->cut |= about->cut;
	about->torn = 0;
	row->looks += done;
	for (size_t i = 0; i < about->count && done; i++)
		take_thread(row, &about->threads[i]);
	stack_process_forget(about);
	return done;
}

static bool has_ended(const struct sample_process *row)
{
	return process_ends(row->pid) || process_number(row->pid, PROCESS_START) != row->start;
}

/* One look in each period, at a moment of it that is drawn by lot: what recurs as often as we look is not missed, and not seen too often. */
static void sample_one(void *pointer)
{
	struct sampler *sampler = pointer;
	struct sample_process *row = sampler->row;
	struct stack_reader *reader = stack_reader_open(row->pid, row->about);
	uint64_t period = 1000000000 / sampler->wish->rate, start = clock_monotonic(), again = start + AGAIN_NS;
	unsigned seed = (unsigned)(start ^ (uint64_t)row->pid);

	if (!reader && !sampler->is_child)
		return;
	row->start = process_number(row->pid, PROCESS_START);
	for (uint64_t slot = 0; !atomic_load(sampler->stop); slot++) {
		uint64_t past = (clock_monotonic() - start) / period, at;

		if (past > slot) {
			row->late += past - slot;
			slot = past;
		}
		at = start + slot * period + (uint64_t)rand_r(&seed) % period;
		if (at >= sampler->until)
			break;
		sleep_until(at);
		if (atomic_load(sampler->stop))
			break;
		if (!reader && at >= again) {
			reader = stack_reader_open(row->pid, row->about);
			again = at + AGAIN_NS;
		}
		if (reader && look(reader, row))
			continue;
		if (reader)
			stack_reader_close(reader);
		reader = NULL;
		row->ended = has_ended(row);
		if (row->ended)
			break;
	}
	row->ns = (int64_t)(clock_monotonic() - start);
	if (row->looks)
		row->about->error = 0;
	if (reader)
		stack_reader_close(reader);
}

static void *run(void *pointer)
{
	struct sampler *sampler = pointer;
	unsigned seconds = (unsigned)(sampler->wish->ns / 1000000000) + 1;

	sampler->kept_waiting = !watched_run(sample_one, sampler, seconds + WATCHED_SECONDS);
	atomic_store(&sampler->done, true);
	return sampler;
}

static void free_place(void *pointer)
{
	struct sample_place *place = pointer;

	free(place->name);
	free(place->file);
	free(place);
}

static void free_stack(void *pointer)
{
	struct sample_stack *stack = pointer;

	free(stack->places);
	free(stack);
}

static void free_row(struct sample_process *row)
{
	tdestroy(row->known, free_stack);
	tdestroy(row->places, free_place);
	stack_process_free(row->about);
	free(row->stacks);
	free(row->threads);
	free(row);
}

void sample_free(struct samples *samples)
{
	for (size_t i = 0; i < samples->count; i++)
		free_row(samples->rows[i]);
	free(samples->rows);
	*samples = (struct samples){0};
}

static struct sample_process *row_new(int64_t pid)
{
	struct sample_process *row = need(calloc(1, sizeof *row));

	row->pid = pid;
	row->about = stack_process_new(pid);
	return row;
}

static void begin(struct sampler **list, int64_t pid, const struct sampler *like, bool is_child)
{
	struct sampler *sampler = need(malloc(sizeof *sampler));

	*sampler = *like;
	sampler->row = row_new(pid);
	sampler->is_child = is_child;
	sampler->next = *list;
	if (pthread_create(&sampler->thread, NULL, run, sampler)) {
		sampler->thread = pthread_self();
		run(sampler);
	}
	*list = sampler;
}

/* ---------------------------------------------------------------- all of them */

static bool is_there(const struct sampler *list, int64_t pid)
{
	for (; list; list = list->next)
		if (list->row->pid == pid)
			return true;
	return false;
}

static size_t count_of(const struct sampler *list)
{
	size_t count = 0;

	for (; list; list = list->next)
		count++;
	return count;
}

/* Finds what these processes have started, or what those have started; children of a new child are found the next
 * time. */
static void find_children(struct sampler **list, const struct sampler *like)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;

	while (folder && (entry = readdir(folder)) && count_of(*list) < PROCESSES_MOST) {
		int64_t pid = strtoll(entry->d_name, NULL, 10);

		if (pid > 0 && !is_there(*list, pid) && is_there(*list, (int64_t)process_number(pid, PROCESS_PARENT)))
			begin(list, pid, like, true);
	}
	if (folder)
		closedir(folder);
}

static bool all_done(const struct sampler *list)
{
	for (; list; list = list->next)
		if (!atomic_load(&list->done))
			return false;
	return true;
}

static void wait_for_them(struct sampler **list, const struct sampler *like)
{
	struct interrupt interrupt;
	int before = interrupt_count();
	uint64_t children_at = 0;

	interrupt_begin(&interrupt);
	for (uint64_t now; (now = clock_monotonic()) < like->until && !all_done(*list);) {
		const struct timespec moment = {0, 50000000};

		if (like->wish->children && now >= children_at) {
			find_children(list, like);
			children_at = now + CHILDREN_NS;
		}
		ppoll(NULL, 0, &moment, &interrupt.waiting);
		if (interrupt_count() != before)
			break;
	}
	atomic_store(like->stop, true);
	interrupt_end(&interrupt);
}

static int by_pid(const void *a, const void *b)
{
	const struct sample_process *one = *(struct sample_process *const *)a,
				    *other = *(struct sample_process *const *)b;

	return ORDER(one->pid, other->pid);
}

void sample(struct samples *samples, const int64_t *pids, size_t count, const struct sample_wish *wish)
{
	/* What is kept waiting for ever uses it still. */
	atomic_bool *stop = need(calloc(1, sizeof *stop));
	struct sample_wish *own = need(malloc(sizeof *own));
	*own = *wish;
	struct sampler like = {.wish = own, .until = clock_monotonic() + (uint64_t)wish->ns, .stop = stop},
		       *list = NULL;
	bool left = false;

	*samples = (struct samples){0};
	for (size_t i = 0; i < count; i++)
		if (!is_there(list, pids[i]))
			begin(&list, pids[i], &like, false);
	wait_for_them(&list, &like);
	for (struct sampler *next; list; list = next) {
		struct sample_process *row = list->row;

		next = list->next;
		if (!pthread_equal(list->thread, pthread_self()))
			pthread_join(list->thread, NULL);
		if (list->kept_waiting) {
			left = true;
			row = row_new(row->pid);
			row->about->error = EXIT_TIMED_OUT;
			snprintf(row->about->sentence, sizeof row->about->sentence, WATCHED_SENTENCE,
				 (long long)row->pid);
		}
		if (list->is_child && row->about->error == EXIT_NO_TARGET) {
			free_row(row);
		} else {
			NEED_ROOM(samples->rows, samples->count, samples->room);
			samples->rows[samples->count++] = row;
		}
		if (!list->kept_waiting)
			free(list);
	}
	if (samples->count)
		qsort(samples->rows, samples->count, sizeof(struct sample_process *), by_pid);
	if (!left) {
		free(stop);
		free(own);
	}
}
