/* listed.c - see listed.h. The list is a deque, which counts its changes. If the count is the same before and after
 * reading, the list has not changed meanwhile. An entry is complete when it is added, and is not changed afterwards. */
#include "listed.h"

#include "agent/core/sentence.h"
#include "proto/events.h"
#include "proto/python/dict.h"

#include <string.h>

#define DEQUE_SIZE 16
#define DEQUE_RIGHT_BLOCK 32
#define DEQUE_RIGHT_INDEX 48
#define DEQUE_CHANGES 56
#define DEQUE_MOST 64
#define BLOCK_ITEMS 64
#define BLOCK_FIRST 8
#define ITEMS_MOST 4096
#define TYPE_DICT 264
#define TRIES 5

/* Where python_dict_find() found each key last. Only the agent's thread uses them. */
static struct {
	uint32_t module, list, type, field;
	uint32_t id, function, file, line, start, end, reason, failure_type, failure, forward, at_run_time, operators;
} place;

/* A deque, and the place of the item that is read next: from the newest to the oldest. */
struct deque {
	uint64_t address, type, size, most, changes;
	uint64_t block, index, left;
};

static bool open_deque(struct python *python, uint64_t address, struct deque *ret)
{
	uint64_t words[9]; /* of the object, from its beginning */
	if (!python_is_a(python, address, "collections.deque") ||
	    !python_read(&python->memory, address, words, sizeof words))
		return false;
	*ret = (struct deque){.address = address,
			      .size = words[DEQUE_SIZE / 8],
			      .block = words[DEQUE_RIGHT_BLOCK / 8],
			      .index = words[DEQUE_RIGHT_INDEX / 8],
			      .changes = words[DEQUE_CHANGES / 8],
			      .most = words[DEQUE_MOST / 8],
			      .left = words[DEQUE_SIZE / 8]};
	return ret->size <= ITEMS_MOST && ret->index < BLOCK_ITEMS;
}

static bool is_unchanged(struct python *python, const struct deque *deque)
{
	return python_word(&python->memory, deque->address + DEQUE_CHANGES) == deque->changes &&
	       python_word(&python->memory, deque->address + DEQUE_SIZE) == deque->size;
}

/* The next older item; 0: there is none, or it cannot be read. */
static uint64_t next_item(struct python *python, struct deque *deque)
{
	if (!deque->left)
		return 0;
	uint64_t item = python_word(&python->memory, deque->block + BLOCK_FIRST + deque->index * 8);
	deque->left--;
	if (deque->index-- == 0) {
		deque->index = BLOCK_ITEMS - 1;
		deque->block = python_word(&python->memory, deque->block);
	}
	return item;
}

static bool text(struct python *python, const struct python_items *of, const char *key, uint32_t *at, char *to,
		 size_t bytes)
{
	uint64_t type, value = python_items_find(python, of, key, at);
	*to = 0;
	return value && python_has_flag(python, value, PYTHON_TYPE_IS_STR, &type) &&
	       python_text(python, value, to, bytes);
}

static bool number(struct python *python, const struct python_items *of, const char *key, uint32_t *at, uint64_t *ret)
{
	uint64_t value = python_items_find(python, of, key, at);
	*ret = 0;
	return value && python_number(python, value, ret);
}

static void read_what(struct python *python, const struct python_items *of, struct listed_compilation *to)
{
	text(python, of, "co_name", &place.function, to->function, sizeof to->function);
	text(python, of, "co_filename", &place.file, to->file, sizeof to->file);
	number(python, of, "co_firstlineno", &place.line, &to->line);
}

static void read_rest(struct python *python, const struct python_items *of, struct listed_compilation *to)
{
	char type[64], why[PYTHON_NAME_BYTES];
	uint64_t flag;
	read_what(python, of, to);
	number(python, of, "graph_op_count", &place.operators, &to->operators);
	text(python, of, "recompile_reason", &place.reason, to->reason, sizeof to->reason);
	text(python, of, "fail_type", &place.failure_type, type, sizeof type);
	text(python, of, "fail_reason", &place.failure, why, sizeof why);
	*to->failure = 0;
	if (*type)
		sentence_put(to->failure, sizeof to->failure, type, *why ? ": " : "", why, NULL);
	to->part = COMPILE_FORWARD;
	if (number(python, of, "is_forward", &place.forward, &flag) && !flag)
		to->part = COMPILE_BACKWARD;
	if (number(python, of, "is_runtime", &place.at_run_time, &flag) && flag)
		to->part = COMPILE_AT_RUN_TIME;
}

/* For a backward graph torch lists only the id; the entry of the forward graph with this id says what was compiled.
 * Older entries are searched, too. */
static void complete(struct python *python, const struct deque *whole, struct listed_compilation *item)
{
	struct deque deque = *whole;
	char id[sizeof item->id];
	for (uint64_t at; !*item->file && *item->id && (at = next_item(python, &deque));) {
		struct python_items other;
		if (python_attributes_open(python, at, &other) &&
		    text(python, &other, "compile_id", &place.id, id, sizeof id) && strcmp(id, item->id) == 0)
			read_what(python, &other, item);
	}
}

static bool read_items(struct python *python, const struct deque *whole, uint64_t since, struct listed *ret)
{
	struct deque deque = *whole;
	ret->count = 0;
	ret->older = false;
	while (deque.left) {
		struct python_items of;
		struct listed_compilation *to = &ret->items[ret->count];
		uint64_t start, end;
		if (!python_attributes_open(python, next_item(python, &deque), &of) ||
		    !number(python, &of, "start_time_us", &place.start, &start) ||
		    !number(python, &of, "end_time_us", &place.end, &end) || end < start)
			return false;
		if (end <= since)
			return true;
		ret->older = ret->count == LISTED_MOST;
		if (ret->older)
			return true;
		to->start = start;
		to->end = end;
		text(python, &of, "compile_id", &place.id, to->id, sizeof to->id);
		read_rest(python, &of, to);
		if (!*to->file)
			complete(python, whole, to);
		ret->count++;
	}
	ret->older = ret->full;
	return true;
}

/* Do the entries have the times of torch 2.6 and newer? A field with a default is an attribute of the class. */
static bool has_times(struct python *python, uint64_t module)
{
	uint64_t type = python_dict_find(python, module, "CompilationMetrics", &place.type);
	uint64_t dict = type ? python_word(&python->memory, type + TYPE_DICT) : 0;
	return dict && python_dict_find(python, dict, "end_time_us", &place.field);
}

enum listed_result listed_read(struct python *python, uint64_t since, struct listed *ret)
{
	ret->list = ret->changes = 0;
	ret->count = 0;
	ret->older = false;
	uint64_t module = python_module(python, "torch._dynamo.utils", &place.module);
	if (!module)
		return LISTED_ABSENT;
	/* While the module is being imported, its last names are missing. */
	uint64_t list = python_dict_find(python, module, "_compilation_metrics", &place.list);
	if (!list || !has_times(python, module))
		return LISTED_OTHER;
	for (int i = 0; i < TRIES && python->memory.reads_left; i++) {
		struct deque deque;
		if (!open_deque(python, list, &deque))
			return LISTED_OTHER;
		ret->list = list;
		ret->changes = deque.changes;
		ret->full = deque.size >= deque.most;
		if (since == UINT64_MAX || (read_items(python, &deque, since, ret) && is_unchanged(python, &deque)))
			return LISTED_OK;
	}
	return LISTED_TORN;
}
