/* merge.c - see merge.h. */
#include "merge.h"

#include "client/ui/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From here on CPython can be built so that its loop is many functions, which jump to each other and have no names in a stripped file. */
#define JUMPS_FROM 14

static void say(struct stack_thread *thread, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct stack_thread *thread, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(thread->native_why, sizeof thread->native_why, format, list);
	va_end(list);
}

static size_t loops(const struct native_stack *native)
{
	size_t n = 0;

	for (size_t i = 0; i < native->count; i++)
		n += native->frames[i].evaluates != 0;
	return n;
}

static size_t entries(const struct stack_thread *thread)
{
	size_t n = 0;

	for (size_t i = 0; i < thread->count; i++)
		n += thread->frames[i].entry;
	return n;
}

/* As many calls of the loop as C has made; where not all of one side are there, no more than those. */
static bool go_together(const struct stack_thread *thread, const struct native_stack *native)
{
	size_t called = loops(native), asked = entries(thread);

	if (native->whole && !thread->more)
		return called == asked;
	return native->whole ? called >= asked : thread->more || called <= asked;
}

static struct stack_frame frame_of(const struct native_frame *native)
{
	return (struct stack_frame){.name = native->symbol[0] ? text_utf8(native->symbol) : NULL,
				    .file = native->object[0] ? text_utf8(native->object) : NULL,
				    .native = true,
				    .address = native->address};
}

/* The frames of Python of one call of the loop, up to the one that C called. */
static size_t move_python(const struct stack_thread *thread, size_t next, struct stack_frame *to, size_t *count)
{
	while (next < thread->count) {
		to[(*count)++] = thread->frames[next];
		if (thread->frames[next++].entry)
			break;
	}
	return next;
}

/* Nobody looks for how one function of Python comes to call another. */
static bool is_aside(const struct native_stack *native, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (native->frames[j].evaluates)
			return strcmp(native->frames[i].object, native->frames[j].object) == 0;
	return false;
}

/* The innermost frames that are certainly below the innermost line of Python, wherever the loop is. */
static size_t before_interpreter(const struct native_stack *native)
{
	size_t n = 0;

	while (n < native->count && !native->frames[n].interprets)
		n++;
	return n < native->count || !native->whole ? n : 0;
}

/* So many of the native frames. */
static void put_together(struct stack_thread *thread, const struct native_stack *native, size_t natives)
{
	struct stack_frame *frames = need(calloc(thread->count + natives + 1, sizeof *frames));
	size_t count = 0, next = 0;

	for (size_t i = 0; i < natives; i++)
		if (native->frames[i].evaluates) {
			next = move_python(thread, next, frames, &count);
		} else {
			frames[count] = frame_of(&native->frames[i]);
			frames[count++].aside = is_aside(native, i);
		}
	while (next < thread->count)
		frames[count++] = thread->frames[next++];
	free(thread->frames);
	thread->frames = frames;
	thread->count = count;
}

void stack_merge(struct stack_thread *thread, const struct native_stand *stand, const struct native_stack *native,
		 unsigned minor)
{
	if (stand->result == STAND_KNOWN)
		thread->call = stand_call_name(stand->number);
	if (!thread->tid)
		say(thread, "its id is not known");
	else if (stand->result == STAND_RUNS)
		say(thread, "it runs, and only a stop would tell where");
	else if (stand->result == STAND_MOVED)
		say(thread, "it ran while it was read");
	else if (stand->result == STAND_HIDDEN)
		say(thread, "the kernel does not say where it stands");
	else if (thread->reading != WALK_WHOLE)
		say(thread, "its frames of Python were not read whole");
	else if (!native->count)
		say(thread, "%s", native->reason);
	else if (!loops(native) && thread->count && (minor >= JUMPS_FROM || !go_together(thread, native))) {
		put_together(thread, native, before_interpreter(native));
		say(thread, "this build of Python does not show where its loop is");
	} else if (!go_together(thread, native))
		say(thread, "they do not fit the stack of Python: they hold %zu calls of its loop, and that stack %zu",
		    loops(native), entries(thread));
	else {
		put_together(thread, native, native->count);
		thread->native_whole = native->whole;
		say(thread, "%s", native->whole ? "" : native->reason);
	}
}
