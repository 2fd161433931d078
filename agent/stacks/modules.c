/* modules.c - see modules.h. A module keeps its children in a dict, `_modules`. Those that it calls are mostly there; or below a ModuleList
 * or a Sequential, which run without a frame of their own, so that the tree below is looked through, the nearest first.
 *
 * Another thread may change these dicts meanwhile. The words that lead from the caller to the module are kept: where all of them are as
 * they were, read at once by one call of the system, the module hangs where it hung. That is asked after each search, and again in each
 * step: a module that was put elsewhere, or another one at its address, is looked for anew.
 *
 * Attributes lie in a dict, or without one: from 3.13 on within the object, where the type says that they end there, in 3.11 in a table that
 * the object points to. The layouts are those of CPython 3.11, 3.13 and 3.14 on 64-bit machines. */
#include "modules.h"
#include "interpreter.h"

#include "agent/core/sentence.h"
#include "proto/python/code.h"
#include "proto/python/dict.h"

#include <errno.h>
#include <string.h>

#define TYPE_NAME 24
#define TYPE_SIZE 32
#define TYPE_CACHED_KEYS 880
#define TYPE_CACHED_KEYS_11 872
#define TYPE_HAS_VALUES (1ull << 2)
/* Before the object. */
#define OBJECT_VALUES 32
/* Of a table of values, from 3.13 on: is it in use, and where it begins. */
#define VALUES_VALID 3
#define VALUES_HEAD 8
#define DEPTH 5
#define PROBES 8
#define CLASS_BYTES 256
#define CLASS_PIECE 32u
/* Reads of memory, which the job's thread waits for: some 0.2 us each. Each search may have a few; what it takes beyond that, and all that one
 * takes which finds nothing, is of a thread's share for a step. Where that is used up the search is made in another step. */
#define SEARCH_READS 128
#define STEP_READS 8192
#define CLASS_READS 64
/* A module that was not found is looked for again after so many steps at most. */
#define PATIENCE 64u

int modules_probe(const struct python *python, char *sentence, size_t bytes)
{
	if (python->minor == 11 || python->minor == 13 || python->minor == 14)
		return 0;
	sentence_put(
		sentence, bytes,
		"how this Python keeps the attributes of a module is not known to this release, which knows CPython 3.11, 3.13 and "
		"3.14; "
		"--stacks=operators works without --modules",
		NULL);
	return -ENOTSUP;
}

_Atomic uint64_t modules_calls[MODULES_CALLS];

void modules_begin(void)
{
	for (unsigned i = 0; i < MODULES_CALLS; i++)
		atomic_store_explicit(&modules_calls[i], 0, memory_order_relaxed);
}

enum modules_learned modules_learn(uint64_t key, const char *function, const char *file)
{
	static const char end[] = "torch/nn/modules/module.py";
	size_t length = strlen(file);
	if (strcmp(function, "Module._wrapped_call_impl") != 0 || length < sizeof end - 1 ||
	    strcmp(file + length - (sizeof end - 1), end) != 0)
		return MODULES_NO_CALL;
	for (unsigned i = 0; i < MODULES_CALLS; i++) {
		uint64_t known = 0;
		if (atomic_compare_exchange_strong_explicit(&modules_calls[i], &known, key, memory_order_relaxed,
							    memory_order_relaxed) ||
		    known == key)
			return MODULES_CALL;
	}
	return MODULES_TOO_MANY;
}

static bool word(struct python *python, uint64_t at, uint64_t *ret)
{
	return python_read(&python->memory, at, ret, sizeof *ret);
}

/* As word(), of a word on the way to a module. */
static bool follow(struct python *python, struct modules_node *node, uint64_t at, uint64_t *ret)
{
	if (node->link_count >= sizeof node->links / sizeof *node->links || !word(python, at, ret))
		return false;
	node->links[node->link_count++] = (struct modules_link){at, *ret};
	return true;
}

static bool is_modules_key(struct python *python, uint64_t key)
{
	char text[16];
	uint64_t type;
	return key && python_has_flag(python, key, PYTHON_TYPE_IS_STR, &type) &&
	       python_text(python, key, text, sizeof text) && strcmp(text, "_modules") == 0;
}

/* The place of `_modules` among the keys, -1: it is not there. The key is mostly one and the same object: by its address first. */
static int64_t place_of_modules(struct modules *m, struct python *python, const struct python_keys *keys)
{
	uint64_t block[PYTHON_BLOCK * 3];
	for (int by_text = 0; by_text < 2; by_text++) {
		uint32_t n;
		for (uint32_t first = 0; first < keys->count; first += n) {
			if (!(n = python_keys_block(python, keys, first, block)))
				return -1;
			for (uint32_t i = 0; i < n; i++) {
				uint64_t key = block[(i * keys->size + keys->key) / 8];
				if ((!by_text && key != m->key) || !is_modules_key(python, key))
					continue;
				m->key = key;
				return first + i;
			}
		}
	}
	return -1;
}

/* Where the attributes of a module lie. */
struct attributes {
	uint64_t keys, values; /* values 0: they lie with the keys */
};

/* Those of an object whose dict has not been made. */
static bool open_own_values(struct python *python, struct modules_node *node, uint64_t type, struct attributes *ret)
{
	uint64_t flags, size;
	unsigned char head[VALUES_HEAD];
	if (python->minor == 11)
		return follow(python, node, node->object - OBJECT_VALUES, &ret->values) && ret->values &&
		       word(python, type + TYPE_CACHED_KEYS_11, &ret->keys);
	if (!word(python, type + PYTHON_TYPE_FLAGS, &flags) || !(flags & TYPE_HAS_VALUES) ||
	    !word(python, type + TYPE_SIZE, &size) || size > 1u << 20 ||
	    !python_read(&python->memory, node->object + size, head, sizeof head) || head[VALUES_VALID] != 1)
		return false;
	ret->values = node->object + size + VALUES_HEAD;
	return word(python, type + TYPE_CACHED_KEYS, &ret->keys);
}

static bool open_attributes(struct python *python, struct modules_node *node, struct attributes *ret)
{
	uint64_t type, dict;
	if (!python_has_flag(python, node->object, PYTHON_TYPE_OWNS_DICT, &type) ||
	    !follow(python, node, node->object - PYTHON_OBJECT_DICT, &dict))
		return false;
	if (!dict)
		return open_own_values(python, node, type, ret);
	if (!follow(python, node, dict + PYTHON_DICT_KEYS, &ret->keys) ||
	    !follow(python, node, dict + PYTHON_DICT_VALUES, &ret->values))
		return false;
	if (ret->values && python->minor > 11)
		ret->values += VALUES_HEAD;
	return true;
}

/* The keys of what the module has in `_modules`; its words are added to those of the node. */
static bool open_children(struct modules *m, struct python *python, struct modules_node *node, struct python_keys *ret)
{
	uint64_t type, at, values, children;
	struct attributes own;
	struct python_keys keys;
	if (!open_attributes(python, node, &own) || !python_keys_open(python, own.keys, &keys))
		return false;
	int64_t place = place_of_modules(m, python, &keys);
	if (place < 0)
		return false;
	uint64_t slot = own.values ? own.values + (uint64_t)place * 8
				   : keys.entries + (uint64_t)place * keys.size + keys.key + 8;
	if (!follow(python, node, slot, &children) || !python_has_flag(python, children, PYTHON_TYPE_IS_DICT, &type) ||
	    !follow(python, node, children + PYTHON_DICT_KEYS, &at) ||
	    !word(python, children + PYTHON_DICT_VALUES, &values) || values)
		return false;
	return python_keys_open(python, at, ret);
}

/* The number of the child's node, 0: it was not found. */
static uint32_t search(struct modules *m, struct python *python, uint64_t parent, uint64_t child)
{
	uint64_t block[PYTHON_BLOCK * 3];
	m->node_count = 1;
	m->nodes[0] = (struct modules_node){.object = parent};
	for (uint32_t i = 0; i < m->node_count; i++) {
		struct python_keys keys;
		uint32_t n;
		if (!open_children(m, python, &m->nodes[i], &keys))
			continue;
		for (uint32_t first = 0; first < keys.count; first += n) {
			if (!(n = python_keys_block(python, &keys, first, block)))
				break;
			for (uint32_t k = 0; k < n; k++) {
				uint32_t at = (k * keys.size + keys.key) / 8;
				uint64_t where = keys.entries + (uint64_t)(first + k) * keys.size + keys.key;
				if (!block[at + 1] || (m->node_count == MODULES_NODES && block[at + 1] != child))
					continue;
				m->nodes[m->node_count] = (struct modules_node){
					.object = block[at + 1],
					.key = block[at],
					.from = i,
					.link_count = 2,
					.links = {{where, block[at]}, {where + 8, block[at + 1]}},
				};
				if (block[at + 1] == child)
					return m->node_count;
				m->node_count++;
			}
		}
	}
	return 0;
}

/* Fills the pair's words, and m->path with the names from the outermost on. False where that is more than is kept, or no text. */
static bool trace(struct modules *m, struct python *python, uint32_t found, struct modules_pair *pair)
{
	uint32_t way[DEPTH], depth = 0;
	size_t length = 0;
	for (uint32_t at = found; at; at = m->nodes[at].from) {
		if (depth == DEPTH)
			return false;
		way[depth++] = at;
	}
	pair->link_count = 0;
	for (uint32_t i = 0; i <= depth; i++) {
		/* The caller itself comes last. */
		const struct modules_node *node = &m->nodes[i < depth ? way[i] : 0];
		uint32_t count = node->object == pair->child ? 2 : node->link_count;
		if (pair->link_count + count > MODULES_LINKS)
			return false;
		memcpy(pair->links + pair->link_count, node->links, count * sizeof *node->links);
		pair->link_count += count;
	}
	while (depth--) {
		uint64_t type, key = m->nodes[way[depth]].key;
		size_t room = sizeof m->path - length - 1;
		if (room < 2 || !python_has_flag(python, key, PYTHON_TYPE_IS_STR, &type) ||
		    !python_text(python, key, m->path + length, room))
			return false;
		length += strlen(m->path + length);
		if (depth)
			m->path[length++] = '.';
	}
	m->path[length] = 0;
	return length > 0;
}

/* Are all words as they were? */
static bool holds(const struct modules_pair *pair)
{
	uint64_t at[MODULES_LINKS], words[MODULES_LINKS];
	for (uint32_t i = 0; i < pair->link_count; i++)
		at[i] = pair->links[i].at;
	if (!interpreter_words(at, words, pair->link_count))
		return false;
	for (uint32_t i = 0; i < pair->link_count; i++)
		if (words[i] != pair->links[i].word)
			return false;
	return true;
}

static uint32_t class_of(struct python *python, struct sink_thread *thread, uint64_t type)
{
	char text[CLASS_BYTES + 1];
	uint64_t at;
	size_t length = 0;
	if (!word(python, type + TYPE_NAME, &at))
		return 0;
	/* Piece by piece, none of which reaches over a page's end: memory may end behind a short name. */
	while (length < CLASS_BYTES) {
		size_t piece = CLASS_PIECE - (at + length) % CLASS_PIECE;
		if (piece > CLASS_BYTES - length)
			piece = CLASS_BYTES - length;
		if (!python_read(&python->memory, at + length, text + length, piece))
			break;
		size_t found = strnlen(text + length, piece);
		length += found;
		if (found < piece)
			break;
	}
	text[length] = 0;
	const char *dot = strrchr(text, '.');
	dot = dot ? dot + 1 : text;
	return sink_string(thread, dot, strlen(dot), EVENT_STACK);
}

/* The way to the pair's child is in m->path, and its words in the pair; false where it was not found. */
static bool find_name(struct modules *m, struct python *python, struct modules_pair *pair)
{
	uint32_t recording = sink_recording(), step = sink_step();
	if (m->recording != recording || m->step != step) {
		m->recording = recording;
		m->step = step;
		m->reads = STEP_READS;
	}
	if (!m->reads)
		return false;
	uint64_t allowed = SEARCH_READS + m->reads;
	python->memory.reads_left = allowed;
	uint32_t number = search(m, python, pair->parent, pair->child);
	bool found = number && trace(m, python, number, pair) && holds(pair);
	uint64_t taken = allowed - python->memory.reads_left, free = found ? SEARCH_READS : 0;
	taken = taken > free ? taken - free : 0;
	m->reads -= taken < m->reads ? taken : m->reads;
	return found;
}

static void describe(struct modules *m, struct python *python, struct sink_thread *thread, struct modules_pair *pair)
{
	uint64_t reads = python->memory.reads_left;
	python->memory.reads_left = CLASS_READS;
	pair->class = class_of(python, thread, pair->type);
	pair->name = 0;
	if (pair->parent && find_name(m, python, pair))
		pair->name = sink_string(thread, m->path, strlen(m->path), EVENT_STACK);
	python->memory.reads_left = reads;
}

static struct modules_pair *place_of(struct modules *m, uint64_t parent, uint64_t child, uint32_t generation)
{
	uint64_t hash = (parent * 0x9e3779b97f4a7c15u ^ child) * 0xa0761d6478bd642fu;
	struct modules_pair *first = NULL;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct modules_pair *pair = &m->pairs[((hash >> 40) + i) & (MODULES_PAIRS - 1)];
		if (pair->generation == generation && pair->parent == parent && pair->child == child)
			return pair;
		if (pair->generation != generation)
			return first = pair;
		if (!first || pair->seen < first->seen)
			first = pair;
	}
	return first;
}

bool modules_find(struct modules *m, struct python *python, struct sink_thread *thread, uint64_t parent, uint64_t child,
		  uint64_t type, bool again, const struct modules_pair **ret)
{
	uint32_t generation = sink_recording(), step = sink_step();
	struct modules_pair *pair = place_of(m, parent, child, generation);
	bool known =
		pair->generation == generation && pair->parent == parent && pair->child == child && pair->type == type;
	*ret = pair;
	if (known && (pair->seen == step || !parent || (pair->name ? holds(pair) : step < pair->again))) {
		pair->seen = step;
		return true;
	}
	uint32_t name = pair->name, class = pair->class, waited = known && !name ? pair->again - pair->missed : 0;
	pair->generation = generation;
	pair->parent = parent;
	pair->child = child;
	pair->type = type;
	pair->seen = step;
	describe(m, python, thread, pair);
	/* To look for what is not there costs most. */
	pair->missed = step;
	pair->again = step + (waited ? (waited < PATIENCE ? 2 * waited : PATIENCE) : 1);
	return again || (known && pair->name == name && pair->class == class);
}
