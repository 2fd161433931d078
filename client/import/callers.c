/* callers.c - see callers.h. torch.profiler names a call by the function's file, the line of its definition and its name, or by the module; where
 * the caller stood comes with the call ("CallFrom", in newer releases of torch). So the line of a frame is known by what it called. */
#include "callers.h"

#include "number.h"

#include "proto/base/array.h"
#include "proto/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SORTER_BYTES (24u << 20)
/* As in nest.c: times may have been rounded to whole microseconds. */
#define ROUNDED_NS 1000

struct call {
	int64_t start, end;
	uint32_t thread, order, function, place;
};

struct caller_function {
	uint32_t name, file, line;
	uint32_t module, class; /* of a call of an nn.Module; else 0 */
};

struct caller_place {
	uint32_t file, line;
};

static int by_thread(const void *a, const void *b)
{
	const struct call *x = a, *y = b;
	return ORDER(x->thread, y->thread) ?: ORDER(x->start, y->start) ?: ORDER(y->end, x->end) ?: ORDER(x->order, y->order);
}

int callers_init(struct callers *callers, struct strings *strings, int folder)
{
	*callers = (struct callers){.strings = strings};
	sorter_init(&callers->calls, folder, NULL, sizeof(struct call), SORTER_BYTES, by_thread);
	/* Number 0. */
	if (!ARRAY_GROW(callers->functions, callers->function_count, callers->function_room) ||
	    !ARRAY_GROW(callers->places, callers->place_count, callers->place_room))
		return -ENOMEM;
	callers->functions[callers->function_count++] = (struct caller_function){0};
	callers->places[callers->place_count++] = (struct caller_place){0};
	return 0;
}

void callers_deinit(struct callers *callers)
{
	sorter_deinit(&callers->calls);
	intern_free(&callers->function_ids);
	intern_free(&callers->place_ids);
	intern_free(&callers->stack_ids);
	free(callers->functions);
	free(callers->places);
}

/* --- names --- */

/* The number that ends before `end`, and where it begins; NULL: there is none. */
static const char *number_before(const char *text, const char *end, uint32_t *ret)
{
	const char *at = end;
	while (at > text && at[-1] >= '0' && at[-1] <= '9')
		at--;
	*ret = 0;
	for (const char *digit = at; digit < end; digit++)
		*ret = *ret < 100000000 ? *ret * 10 + (uint32_t)(*digit - '0') : 0;
	return at < end ? at : NULL;
}

/* "torch/nn/modules/linear.py(130): forward" */
static bool parse_function(struct callers *callers, const struct kineto_text *name, struct caller_function *ret)
{
	const char *text = name->text, *behind = text + name->n, *close = text;
	while ((close = memmem(close, (size_t)(behind - close), "): ", 3))) {
		const char *digits = number_before(text, close, &ret->line);
		if (digits && digits > text + 1 && digits[-1] == '(') {
			ret->file = strings_id(callers->strings, text, (size_t)(digits - 1 - text));
			ret->name = strings_id(callers->strings, close + 3, (size_t)(behind - close - 3));
			return ret->file && ret->name;
		}
		close++;
	}
	return false;
}

/* "nn.Module: Linear_0": a class, and a number that no other module of it has. */
static bool parse_module(struct callers *callers, const struct kineto_text *name, struct caller_function *ret)
{
	static const char word[] = "nn.Module: ";
	uint32_t number;
	if (name->n < sizeof word || memcmp(name->text, word, sizeof word - 1) != 0)
		return false;
	const char *module = name->text + sizeof word - 1, *behind = name->text + name->n;
	const char *digits = number_before(module, behind, &number);
	bool numbered = digits && digits > module + 1 && digits[-1] == '_';
	ret->name = strings_id(callers->strings, name->text, name->n);
	ret->module = strings_id(callers->strings, module, (size_t)(behind - module));
	ret->class = strings_id(callers->strings, module, (size_t)((numbered ? digits - 1 : behind) - module));
	callers->modules = true;
	return true;
}

static uint32_t number_of(struct intern *ids, const struct kineto_text *text, bool *ret_new)
{
	return intern_id(ids, intern_key((struct intern_key){0}, text->text, text->n), ret_new);
}

/* 0: one of C. Their names hold addresses, so that there is no end of them. */
static int function_of(struct callers *callers, const struct kineto_text *name, uint32_t *ret)
{
	static const char builtin[] = "<built-in ";
	bool is_new;
	*ret = 0;
	if (!name->n || strncmp(name->text, builtin, sizeof builtin - 1) == 0)
		return 0;
	*ret = number_of(&callers->function_ids, name, &is_new);
	if (!*ret || !ARRAY_GROW(callers->functions, callers->function_count, callers->function_room))
		return -ENOMEM;
	if (is_new) {
		struct caller_function *function = &callers->functions[callers->function_count++];
		*function = (struct caller_function){0};
		if (!parse_module(callers, name, function) && !parse_function(callers, name, function))
			*function = (struct caller_function){0};
	}
	return 0;
}

/* "train.py:25" */
static int place_of(struct callers *callers, const struct kineto_text *from, uint32_t *ret)
{
	bool is_new;
	uint32_t line;
	*ret = 0;
	if (!from->text || !from->n)
		return 0;
	*ret = number_of(&callers->place_ids, from, &is_new);
	if (!*ret || !ARRAY_GROW(callers->places, callers->place_count, callers->place_room))
		return -ENOMEM;
	if (is_new) {
		const char *digits = number_before(from->text, from->text + from->n, &line);
		bool known = digits && digits > from->text + 1 && digits[-1] == ':';
		callers->places[callers->place_count++] = (struct caller_place){
			known ? strings_id(callers->strings, from->text, (size_t)(digits - 1 - from->text)) : 0,
			known ? line : 0};
	}
	return 0;
}

int callers_add(struct callers *callers, const struct kineto_event *event, bool *ret_kept)
{
	struct call call = {.start = event->start,
			    .end = event->start + event->duration,
			    .thread = thread_id(event->thread),
			    .order = callers->order++};
	int error = function_of(callers, &event->name, &call.function);
	error = error ? error : place_of(callers, &event->from, &call.place);
	*ret_kept = !error && callers->functions[call.function].name != 0;
	return error ? error : sorter_add(&callers->calls, &call);
}

/* --- stacks --- */

int callers_rewind(struct callers *callers)
{
	int error = sorter_rewind(&callers->calls);
	callers->next = error ? NULL : sorter_next(&callers->calls);
	return error ? error : callers->calls.error;
}

static void pop(struct callers *callers)
{
	callers->depth--;
	if (callers->resolved > callers->depth)
		callers->resolved = callers->depth;
}

static void push(struct callers *callers, const struct call *call)
{
	if (call->thread != callers->thread)
		callers->depth = callers->resolved = 0;
	callers->thread = call->thread;
	while (callers->depth) {
		int64_t end = callers->open[callers->depth - 1].end;
		if (end > call->start && end + ROUNDED_NS >= call->end)
			break;
		pop(callers);
	}
	if (callers->depth < CALLERS_DEPTH)
		callers->open[callers->depth++] =
			(struct caller){.end = call->end, .function = call->function, .place = call->place};
}

/* All calls that begin by then, but for those that have ended. One that begins together with the operator is around it. */
static int go_to(struct callers *callers, uint32_t thread, int64_t time)
{
	const struct call *next;
	while ((next = callers->next) && (next->thread < thread || (next->thread == thread && next->start <= time))) {
		if (next->thread == thread)
			push(callers, next);
		callers->next = sorter_next(&callers->calls);
	}
	if (callers->thread != thread)
		callers->depth = callers->resolved = 0;
	callers->thread = thread;
	while (callers->depth && callers->open[callers->depth - 1].end <= time)
		pop(callers);
	return callers->calls.error;
}

/* The stack whose innermost frame is this call's function, at the place where it called the next one. Of a function of C it is its callers'. */
static int stack_below(struct callers *callers, const struct caller *caller, const struct caller_place *at,
		       uint32_t *ret)
{
	const struct caller_function *function = &callers->functions[caller->function];
	uint32_t file = function->class ? at->file : function->file, line = at->file == file ? at->line : 0;
	const uint32_t what[] = {caller->stack, caller->function, file, line};
	bool is_new;
	*ret = caller->stack;
	if (!function->name)
		return 0;
	*ret = intern_id(&callers->stack_ids, intern_key((struct intern_key){0}, what, sizeof what), &is_new);
	if (!*ret)
		return -ENOMEM;
	if (!is_new || *ret > LIMIT_STACKS)
		return 0;
	union event_any event = {.stack = {.head = {.kind = EVENT_STACK},
					   .id = *ret,
					   .parent = caller->stack,
					   .function = function->name,
					   .file = file,
					   .line = line,
					   .first_line = function->line,
					   .module = function->module,
					   .class = function->class}};
	return callers->found(callers->context, &event) ? 0 : -ECANCELED;
}

static int resolve(struct callers *callers)
{
	int error = 0;
	for (; !error && callers->resolved < callers->depth; callers->resolved++) {
		struct caller *caller = &callers->open[callers->resolved];
		caller->stack = 0;
		if (callers->resolved)
			error = stack_below(callers, caller - 1, &callers->places[caller->place], &caller->stack);
	}
	return error;
}

/* If an operator is the first in a module's call, it is also the first in the module calls between the two. */
static uint8_t enter(struct callers *callers)
{
	unsigned entered = 0;
	for (size_t i = callers->depth; i > 0; i--) {
		struct caller *caller = &callers->open[i - 1];
		if (caller->is_entered)
			break;
		caller->is_entered = true;
		entered += callers->functions[caller->function].class != 0;
	}
	return entered < UINT8_MAX ? (uint8_t)entered : UINT8_MAX;
}

int callers_of(struct callers *callers, uint32_t thread, int64_t start, uint32_t *ret_stack, uint8_t *ret_entered,
	       bool *ret_lost)
{
	static const struct caller_place nowhere;
	int error = go_to(callers, thread, start);
	*ret_stack = 0;
	*ret_entered = 0;
	*ret_lost = false;
	error = error ? error : resolve(callers);
	if (error || !callers->depth)
		return error;
	error = stack_below(callers, &callers->open[callers->depth - 1], &nowhere, ret_stack);
	*ret_entered = enter(callers);
	if (*ret_stack <= LIMIT_STACKS)
		return error;
	*ret_lost = true;
	*ret_stack = 0;
	return error;
}
