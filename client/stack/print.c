/* print.c - see print.h. */
#include "print.h"

#include "client/ui/json.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const reading_words[] = {
	[WALK_WHOLE] = "whole", [WALK_ODD] = "moving", [WALK_MOVING] = "moving", [WALK_TORN] = "torn"};

static const char *state_word(const struct stack_thread *thread)
{
	return thread->state == '?' ? "state not known" : stack_idle(thread) ? "waits" : "runs";
}

/* As Python's own tracebacks name a file, by its last part. */
static const char *short_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash && slash[1] ? slash + 1 : file;
}

static void print_frame(const struct stack_frame *frame)
{
	char *name = text_safe(frame->name), *file = text_safe(short_name(frame->file));

	if (frame->line > 0)
		printf("    %s (%s:%d)\n", name, file, frame->line);
	else
		printf("    %s (%s)\n", name, file);
	free(name);
	free(file);
}

static void print_thread(const struct stack_thread *thread)
{
	char *name = text_safe(thread->name);

	if (thread->tid)
		printf("\nthread %lld \"%s\" %s", (long long)thread->tid, name, state_word(thread));
	else
		printf("\nthread whose id is not known");
	puts(thread->holds_gil ? ", holds the GIL" : "");
	free(name);
	if (thread->reading == WALK_TORN)
		puts("    (could not be read: it changed faster than it was read)");
	else if (!thread->count)
		puts("    (no Python frame)");
	for (size_t i = 0; i < thread->count; i++)
		print_frame(&thread->frames[i]);
	if (thread->more)
		printf("    (and more: only the innermost %d are shown)\n", STACK_FRAMES_MOST);
	if (thread->reading == WALK_MOVING)
		puts("    (it changed while it was read: the innermost frames may be of two moments)");
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

static cJSON *thread_json(const struct stack_thread *thread)
{
	cJSON *object = need(cJSON_CreateObject());
	cJSON *frames = cJSON_AddArrayToObject(object, "frames");

	if (thread->tid)
		cJSON_AddNumberToObject(object, "tid", (double)thread->tid);
	else
		cJSON_AddNullToObject(object, "tid");
	json_add_text(object, "name", thread->tid ? thread->name : NULL);
	if (thread->state == '?')
		cJSON_AddNullToObject(object, "idle");
	else
		cJSON_AddBoolToObject(object, "idle", stack_idle(thread));
	cJSON_AddBoolToObject(object, "holds_gil", thread->holds_gil);
	json_add_text(object, "reading", reading_words[thread->reading]);
	cJSON_AddBoolToObject(object, "more_frames", thread->more);
	for (size_t i = 0; i < thread->count; i++) {
		cJSON *frame = need(cJSON_CreateObject());

		json_add_text(frame, "name", thread->frames[i].name);
		json_add_text(frame, "file", thread->frames[i].file);
		if (thread->frames[i].line > 0)
			cJSON_AddNumberToObject(frame, "line", thread->frames[i].line);
		else
			cJSON_AddNullToObject(frame, "line");
		cJSON_AddItemToArray(need(frames), frame);
	}
	return object;
}

cJSON *stack_json(const struct stack_process *process)
{
	cJSON *object = need(cJSON_CreateObject());
	cJSON *threads;
	char version[16];

	snprintf(version, sizeof version, "3.%u", process->minor);
	json_add_pid(object, process->pid);
	json_add_text(object, "error", process->error ? process->sentence : NULL);
	json_add_text(object, "command", process->command);
	json_add_text(object, "python", process->error ? NULL : version);
	cJSON_AddNumberToObject(object, "torn_readings", process->torn);
	cJSON_AddBoolToObject(object, "more_threads", process->cut);
	threads = need(cJSON_AddArrayToObject(object, "threads"));
	for (size_t i = 0; i < process->count; i++)
		cJSON_AddItemToArray(threads, thread_json(&process->threads[i]));
	return object;
}
