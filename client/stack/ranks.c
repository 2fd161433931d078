/* ranks.c - see ranks.h. */
#include "ranks.h"
#include "proto/base/array.h"

#include "client/ui/clock.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A rank that works does not stand in one place for so long; one that hangs does. */
#define BETWEEN_NS 200000000ll
/* After that no further one is read with its native frames. */
#define NATIVE_NS 60000000000ll

void stack_ranks_add(struct stack_ranks *ranks, int64_t pid, int rank)
{
	ranks->rows = need(realloc(ranks->rows, (ranks->count + 1) * sizeof *ranks->rows));
	ranks->rows[ranks->count++] = (struct stack_rank){.process = stack_process_new(pid), .rank = rank};
}

static bool process_was_read(const struct stack_process *process)
{
	return !process->error && process->count && process->threads[0].reading != WALK_TORN;
}

static bool was_read(const struct stack_rank *row)
{
	return process_was_read(row->process);
}

static bool same_frame(const struct stack_frame *one, const struct stack_frame *other)
{
	return one->line == other->line && strcmp(one->name, other->name) == 0 && strcmp(one->file, other->file) == 0;
}

/* The frame of Python before this one, towards the innermost; NULL: there is none. */
static const struct stack_frame *before(const struct stack_thread *thread, const struct stack_frame *frame)
{
	while (frame > thread->frames)
		if (!(--frame)->native)
			return frame;
	return NULL;
}

static size_t python_frames(const struct stack_thread *thread)
{
	size_t n = 0;

	for (size_t i = 0; i < thread->count; i++)
		n += !thread->frames[i].native;
	return n;
}

/* How many frames of Python two threads have in common, from the outermost one on. */
static size_t common(const struct stack_thread *one, const struct stack_thread *other)
{
	const struct stack_frame *a = one->frames + one->count, *b = other->frames + other->count;
	size_t n = 0;

	while ((a = before(one, a)) && (b = before(other, b)) && same_frame(a, b))
		n++;
	return n;
}

static bool same_stack(const struct stack_process *one, const struct stack_process *other)
{
	const struct stack_thread *a = &one->threads[0], *b = &other->threads[0];

	return python_frames(a) == python_frames(b) && common(a, b) == python_frames(a);
}

static double alike(const struct stack_process *one, const struct stack_process *other)
{
	const struct stack_thread *a = &one->threads[0], *b = &other->threads[0];
	size_t here = python_frames(a), there = python_frames(b), most = here > there ? here : there;

	return most ? (double)common(a, b) / (double)most : 1;
}

static void compare(struct stack_ranks *ranks)
{
	for (size_t i = 0; i < ranks->count; i++) {
		struct stack_rank *row = &ranks->rows[i];
		size_t others = 0;

		for (size_t j = 0; was_read(row) && j < ranks->count; j++)
			if (j != i && was_read(&ranks->rows[j])) {
				row->alike += alike(row->process, ranks->rows[j].process);
				others++;
			}
		row->alike = others ? row->alike / (double)others : 1;
	}
}

static int by_likeness(const void *a, const void *b)
{
	const struct stack_rank *one = a, *other = b;

	return ORDER(was_read(one), was_read(other)) ?: ORDER(one->alike, other->alike) ?: ORDER(one->rank, other->rank) ?: ORDER(one->process->pid, other->process->pid);
}

/* Rows that stand in one place, one below the other: those of the same likeness may stand in several. */
static void number_places(struct stack_ranks *ranks)
{
	size_t next = 0;

	while (next < ranks->count && !was_read(&ranks->rows[next]))
		next++;
	while (next < ranks->count) {
		struct stack_rank first = ranks->rows[next];

		ranks->places++;
		for (size_t i = next; i < ranks->count; i++)
			if (same_stack(first.process, ranks->rows[i].process)) {
				struct stack_rank row = ranks->rows[i];

				memmove(&ranks->rows[next + 1], &ranks->rows[next], (i - next) * sizeof row);
				row.place = ranks->places;
				ranks->rows[next++] = row;
			}
	}
}

/* Has the main thread had a processor between two looks at it? -1: not known. */
static int has_worked(const struct stack_process *earlier, const struct stack_process *later)
{
	const struct process_work *from = &earlier->threads[0].before, *to = &later->threads[0].after;

	if (!earlier->threads[0].is_main || !later->threads[0].is_main || !from->known || !to->known)
		return -1;
	return from->switches != to->switches || from->ns != to->ns || later->threads[0].state == 'R';
}

static void tell_moves(struct stack_rank *row, const struct stack_process *earlier)
{
	row->elsewhere = row->moved = -1;
	if (!was_read(row) || !process_was_read(earlier))
		return;
	row->elsewhere = !same_stack(earlier, row->process);
	row->moved = row->elsewhere ? 1 : has_worked(earlier, row->process);
}

static void read_first(struct stack_ranks *ranks)
{
	struct stack_process **processes = need(calloc(ranks->count + 1, sizeof *processes));

	for (size_t i = 0; i < ranks->count; i++)
		processes[i] = ranks->rows[i].process;
	stack_read_all_in_time(processes, ranks->count);
	for (size_t i = 0; i < ranks->count; i++)
		ranks->rows[i].process = processes[i];
	free(processes);
}

/* Native frames are read of one process after the other: a process that keeps this waiting takes the others' time. */
static struct stack_process *read_native(int64_t pid, int64_t began)
{
	if (clock_now() - began < NATIVE_NS)
		return stack_read_in_time(pid, true);
	struct stack_process *process = stack_process_new(pid);
	process->error = EXIT_TIMED_OUT;
	snprintf(process->sentence, sizeof process->sentence,
		 "process %lld was not read: those before it took too long; `profd stack --pid %lld --native` reads it",
		 (long long)pid, (long long)pid);
	return process;
}

/* Those that kept the first look waiting are not asked again. */
static void read_again(struct stack_ranks *ranks, bool native)
{
	struct stack_process **processes = need(calloc(ranks->count + 1, sizeof *processes));
	size_t *of = need(calloc(ranks->count + 1, sizeof *of)), count = 0;
	int64_t began = clock_now();

	for (size_t i = 0; i < ranks->count; i++) {
		ranks->rows[i].elsewhere = ranks->rows[i].moved = -1;
		if (ranks->rows[i].process->error == EXIT_TIMED_OUT)
			continue;
		of[count] = i;
		processes[count++] = native ? read_native(ranks->rows[i].process->pid, began)
					    : stack_process_new(ranks->rows[i].process->pid);
	}
	if (!native)
		stack_read_all_in_time(processes, count);
	for (size_t i = 0; i < count; i++) {
		struct stack_rank *row = &ranks->rows[of[i]];
		struct stack_process *earlier = row->process;

		row->process = processes[i];
		tell_moves(row, earlier);
		stack_process_free(earlier);
	}
	free(processes);
	free(of);
}

void stack_ranks_read(struct stack_ranks *ranks, bool native)
{
	int64_t began = clock_now();
	struct timespec pause = {0};

	read_first(ranks);
	if (clock_now() - began < BETWEEN_NS)
		pause.tv_nsec = (long)(BETWEEN_NS - (clock_now() - began));
	nanosleep(&pause, NULL);
	ranks->between = clock_now() - began;
	read_again(ranks, native);
	compare(ranks);
	qsort(ranks->rows, ranks->count, sizeof *ranks->rows, by_likeness);
	number_places(ranks);
}

void stack_ranks_free(struct stack_ranks *ranks)
{
	for (size_t i = 0; i < ranks->count; i++)
		stack_process_free(ranks->rows[i].process);
	free(ranks->rows);
	*ranks = (struct stack_ranks){0};
}
