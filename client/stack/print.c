/* print.c - see print.h. */
#include "print.h"

#include "client/ui/json.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MOST 8 /* processes in a headline */
#define NAME_LONG 64

static const char *const reading_words[] = {
	[WALK_WHOLE] = "whole", [WALK_ODD] = "moving", [WALK_MOVING] = "moving", [WALK_TORN] = "torn"};

static const char *state_word(const struct stack_thread *thread)
{
	return thread->state == '?' ? "state not known" : stack_idle(thread) ? "waits" : "runs";
}

/* A name of C++ that is longer than a line, without the arguments of its templates. */
static void leave_out_templates(char *name)
{
	size_t n = 0, depth = 0;

	if (strlen(name) <= NAME_LONG)
		return;
	for (const char *from = name; *from; from++) {
		bool is_operator = from - name >= 8 && strncmp(from - 8, "operator", 8) == 0;

		if (*from == '<' && !is_operator && !depth++)
			name[n++] = '<';
		else if (*from == '>' && depth && !--depth)
			name[n++] = '>';
		else if (!depth)
			name[n++] = *from;
	}
	/* One that was cut in the middle of them. */
	if (depth)
		name[n++] = '>';
	name[n] = 0;
}

static void print_native(const struct stack_frame *frame)
{
	char *name = text_safe(frame->name ? frame->name : "?"),
	     *file = text_safe(text_base_name(frame->file ? frame->file : "?"));

	leave_out_templates(name);
	if (frame->name)
		printf("    %s (%s)\n", name, file);
	else
		printf("    ? (%s+0x%llx)\n", file, (unsigned long long)frame->address);
	free(name);
	free(file);
}

static void print_frame(const struct stack_frame *frame)
{
	char *name = text_safe(frame->name), *file = text_safe(text_base_name(frame->file));

	if (frame->line > 0)
		printf("    %s (%s:%d)\n", name, file, frame->line);
	else
		printf("    %s (%s)\n", name, file);
	free(name);
	free(file);
}

static bool has_native(const struct stack_thread *thread)
{
	for (size_t i = 0; i < thread->count; i++)
		if (thread->frames[i].native)
			return true;
	return false;
}

static void print_frames(const struct stack_thread *thread)
{
	if (thread->reading == WALK_TORN)
		puts("    (could not be read: it changed faster than it was read)");
	else if (!thread->count)
		puts("    (no Python frame)");
	for (size_t i = 0; i < thread->count; i++)
		if (thread->frames[i].native && !thread->frames[i].aside)
			print_native(&thread->frames[i]);
		else if (!thread->frames[i].native)
			print_frame(&thread->frames[i]);
	if (thread->more)
		printf("    (and more: only the innermost %d are shown)\n", STACK_FRAMES_MOST);
	if (thread->reading == WALK_MOVING)
		puts("    (it changed while it was read: the innermost frames may be of two moments)");
	if (thread->native_why[0])
		printf("    (%snative frames: %s)\n", has_native(thread) ? "no more " : "no ", thread->native_why);
}

static void print_thread(const struct stack_thread *thread)
{
	char *name = text_safe(thread->name);

	if (thread->tid)
		printf("\nthread %lld \"%s\" %s%s%s", (long long)thread->tid, name, state_word(thread),
		       thread->call ? " in " : "", thread->call ? thread->call : "");
	else
		printf("\nthread whose id is not known");
	puts(thread->holds_gil ? ", holds the GIL" : "");
	free(name);
	print_frames(thread);
}

void stack_print(const struct stack_process *process)
{
	char *command = text_safe(process->command);

	printf("process %lld: %s\n", (long long)process->pid, command);
	printf("Python 3.%u\n", process->minor);
	free(command);
	for (size_t i = 0; i < process->count; i++)
		print_thread(&process->threads[i]);
	if (process->cut)
		puts("\nThere is more: it was too much to read.");
}

/* How many of so many: "all", "some" or none. */
static const char *share(size_t some, size_t all, const char *every, const char *several, const char *none)
{
	return some == all ? every : some ? several : none;
}

/* "ranks 0, 1, 3 (pids 17, 18, 20)" */
static void print_names(const struct stack_rank *rows, size_t count)
{
	size_t named = count < NAMED_MOST ? count : NAMED_MOST;
	const char *more = count > named ? ", ..." : "", *s = count == 1 ? "" : "s";

	if (rows[0].rank < 0) {
		printf("process%s ", count == 1 ? "" : "es");
	} else {
		printf("rank%s ", s);
		for (size_t i = 0; i < named; i++)
			printf(rows[i].rank < 0 ? "%s?" : "%s%d", i ? ", " : "", rows[i].rank);
		printf("%s (pid%s ", more, s);
	}
	for (size_t i = 0; i < named; i++)
		printf("%s%lld", i ? ", " : "", (long long)rows[i].process->pid);
	printf("%s%s", more, rows[0].rank < 0 ? "" : ")");
}

/* How long they stand there, as far as two looks can tell. */
static void print_moves(const struct stack_rank *rows, size_t count, int64_t ns)
{
	size_t elsewhere = 0, moved = 0, unknown = 0;
	char between[TEXT_FIGURE_BYTES];
	bool one = count == 1;

	text_duration(between, ns);
	for (size_t i = 0; i < count; i++) {
		elsewhere += rows[i].elsewhere > 0;
		moved += rows[i].moved > 0;
		unknown += rows[i].moved < 0;
	}
	if (elsewhere)
		printf("%s a moment before",
		       share(elsewhere, count, "stood elsewhere", "some of them stood elsewhere", ""));
	else if (moved)
		printf("stood here %s before, too, but %s in between", between,
		       share(moved, count, one ? "has run" : "have run", "some of them have run", ""));
	else if (unknown)
		printf("%s not known to have moved", one ? "is" : share(unknown, count, "are", "some of them are", ""));
	else
		printf("%s not moved for %s", one ? "has" : "have", between);
}

/* Those that stand in the place of the first one. */
static void print_place(const struct stack_ranks *ranks, const struct stack_rank *rows, size_t count)
{
	const char *s = count == 1 ? "s" : "";
	size_t idle = 0;

	for (size_t i = 0; i < count; i++)
		idle += stack_idle(&rows[i].process->threads[0]);
	putchar('\n');
	print_names(rows, count);
	printf(" %s%s, ", share(idle, count, "wait", "wait or run", "run"), idle && idle < count ? "" : s);
	print_moves(rows, count, ranks->between);
	puts(":");
	print_frames(&rows[0].process->threads[0]);
}

static void print_unread(const struct stack_rank *row)
{
	putchar('\n');
	print_names(row, 1);
	puts(":");
	if (row->process->count)
		print_frames(&row->process->threads[0]);
}

void stack_print_ranks(const struct stack_ranks *ranks, const char *whose)
{
	char *safe = text_safe(whose);
	size_t read = 0, next;

	for (size_t i = 0; i < ranks->count; i++)
		read += ranks->rows[i].place > 0;
	if (read == 1)
		printf("%s: 1 process\n", safe);
	else if (read)
		printf("%s: %zu processes, whose main threads stand in %zu place%s%s\n", safe, read, ranks->places,
		       ranks->places == 1 ? "" : "s",
		       ranks->places == 1 ? "" : "; what differs most from the others first");
	free(safe);
	for (size_t i = 0; i < ranks->count - read; i++)
		if (!ranks->rows[i].process->error)
			print_unread(&ranks->rows[i]);
	for (size_t i = ranks->count - read; i < ranks->count; i = next) {
		next = i;
		while (next < ranks->count && ranks->rows[next].place == ranks->rows[i].place)
			next++;
		print_place(ranks, &ranks->rows[i], next - i);
	}
	if (ranks->count)
		puts("\nOther threads: `profd stack --pid PID`.");
}

static cJSON *thread_json(const struct stack_thread *thread, bool native)
{
	cJSON *object = need(cJSON_CreateObject());
	cJSON *frames = cJSON_AddArrayToObject(object, "frames");

	json_add_number(object, "tid", thread->tid != 0, (double)thread->tid);
	json_add_text(object, "name", thread->tid ? thread->name : NULL);
	if (thread->state == '?')
		cJSON_AddNullToObject(object, "idle");
	else
		cJSON_AddBoolToObject(object, "idle", stack_idle(thread));
	cJSON_AddBoolToObject(object, "holds_gil", thread->holds_gil);
	json_add_text(object, "reading", reading_words[thread->reading]);
	cJSON_AddBoolToObject(object, "more_frames", thread->more);
	json_add_text(object, "call", thread->call);
	if (native)
		cJSON_AddBoolToObject(object, "native_whole", thread->native_whole);
	else
		cJSON_AddNullToObject(object, "native_whole");
	json_add_text(object, "native_why", thread->native_why[0] ? thread->native_why : NULL);
	for (size_t i = 0; i < thread->count; i++) {
		cJSON *frame = need(cJSON_CreateObject());

		json_add_text(frame, "name", thread->frames[i].name);
		json_add_text(frame, "file", thread->frames[i].file);
		cJSON_AddBoolToObject(frame, "native", thread->frames[i].native);
		if (thread->frames[i].native)
			cJSON_AddNumberToObject(frame, "address", (double)thread->frames[i].address);
		json_add_number(frame, "line", thread->frames[i].line > 0, thread->frames[i].line);
		cJSON_AddItemToArray(need(frames), frame);
	}
	return object;
}

static void add_comparison(cJSON *object, const struct stack_rank *rank)
{
	json_add_number(object, "rank", rank && rank->rank >= 0, rank ? rank->rank : -1);
	json_add_number(object, "place", rank && rank->place, rank ? (double)rank->place : 0);
	if (rank && rank->moved >= 0)
		cJSON_AddBoolToObject(object, "moved", rank->moved);
	else
		cJSON_AddNullToObject(object, "moved");
	if (rank && rank->elsewhere >= 0)
		cJSON_AddBoolToObject(object, "same_lines", !rank->elsewhere);
	else
		cJSON_AddNullToObject(object, "same_lines");
}

cJSON *stack_json(const struct stack_process *process, const struct stack_rank *rank)
{
	cJSON *object = need(cJSON_CreateObject());
	cJSON *threads;
	char version[16];

	snprintf(version, sizeof version, "3.%u", process->minor);
	json_add_pid(object, process->pid);
	add_comparison(object, rank);
	json_add_text(object, "error", process->error ? process->sentence : NULL);
	json_add_text(object, "command", process->command);
	json_add_text(object, "python", process->error ? NULL : version);
	cJSON_AddNumberToObject(object, "torn_readings", process->torn);
	cJSON_AddBoolToObject(object, "more_threads", process->cut);
	threads = need(cJSON_AddArrayToObject(object, "threads"));
	for (size_t i = 0; i < process->count; i++)
		cJSON_AddItemToArray(threads, thread_json(&process->threads[i], process->native));
	return object;
}
