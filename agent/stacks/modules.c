/* modules.c - see modules.h. A module keeps its children in a dict, `_modules`. The modules that it calls are mostly
 * there, or below a ModuleList or a Sequential, which run without a frame. So the whole tree below is searched, the
 * nearest first.
 *
 * Another thread may change these dicts meanwhile. All words of memory that lead from the caller to the module are
 * kept, and are read again by one system call. If none has changed, the module still has the same place. That is
 * checked after each search and once in each step. If a module has moved, or another one has its address, it is
 * searched again. */
#include "modules.h"
#include "interpreter.h"

#include "../core/peek.h"

#include "proto/python/code.h"
#include "proto/python/dict.h"

#include <errno.h>
#include <string.h>

#define TYPE_NAME 24
#define DEPTH 5
#define PROBES 8
#define CLASS_BYTES 256
#define CLASS_PIECE 32u
/* The job's thread waits for reads of memory, some 0.2 us each. A search that succeeds has SEARCH_READS reads free. Its
 * further reads, and all reads of a search that fails, count against the thread's STEP_READS for a step. If these are
 * used up the search is made in another step. */
#define SEARCH_READS 128
#define STEP_READS 8192
#define CLASS_READS 64
/* A module that was not found is searched again after so many steps at most. */
#define PATIENCE 64u

_Atomic uint64_t modules_calls[MODULES_CALLS];

void modules_begin(void)
{
	for (unsigned i = 0; i < MODULES_CALLS; i++)
		atomic_store_explicit(&modules_calls[i], 0, memory_order_relaxed);
}

enum modules_learned modules_learn(struct python *python, uint64_t code, uint64_t key,
				   const struct python_code *function)
{
	static const char end[] = "torch/nn/modules/module.py";
	size_t length = strlen(function->file);
	const char *name = strrchr(function->name, '.');
	/* From 3.11 on the name has its class before it. The file and the arguments must fit, too, because another
	 * function of this name has other values in its frame. */
	if (strcmp(name ? name + 1 : function->name, "_wrapped_call_impl") != 0 || length < sizeof end - 1 ||
	    strcmp(function->file + length - (sizeof end - 1), end) != 0 || !python_takes_all(python, code))
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

/* As word(), and keeps the word as one that leads to a module. */
static bool follow(struct python *python, struct modules_node *node, uint64_t at, uint64_t *ret)
{
	if (node->link_count >= sizeof node->links / sizeof *node->links || !word(python, at, ret))
		return false;
	node->links[node->link_count++] = (struct python_link){at, *ret};
	return true;
}

static bool is_modules_key(struct python *python, uint64_t key)
{
	char text[16];
	uint64_t type;
	return key && python_has_flag(python, key, PYTHON_TYPE_IS_STR, &type) &&
	       python_text(python, key, text, sizeof text) && strcmp(text, "_modules") == 0;
}

/* The index of `_modules` among the keys; -1: it is not there. The key is mostly the same object, so it is looked for
 * by its address first. */
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

static bool follow_all(struct modules_node *node, const struct python_items *items)
{
	if (node->link_count + items->link_count > sizeof node->links / sizeof *node->links)
		return false;
	for (uint32_t i = 0; i < items->link_count; i++)
		node->links[node->link_count++] = items->links[i];
	return true;
}

/* Opens the module's dict `_modules`; the words that lead there are added to the node's. */
static bool open_children(struct modules *m, struct python *python, struct modules_node *node, struct python_items *ret)
{
	uint64_t children;
	struct python_items own;
	if (!python_attributes_open(python, node->object, &own) || !follow_all(node, &own))
		return false;
	int64_t place = place_of_modules(m, python, &own.keys);
	/* `_modules` must be a dict that has its values beside the keys. */
	return place >= 0 && follow(python, node, python_items_slot(&own, (uint32_t)place), &children) &&
	       python_dict_open(python, children, ret) && !ret->values && follow_all(node, ret);
}

/* The number of the child's node; 0: it was not found. */
static uint32_t search(struct modules *m, struct python *python, uint64_t parent, uint64_t child)
{
	uint64_t block[PYTHON_BLOCK * 3];
	m->node_count = 1;
	m->nodes[0] = (struct modules_node){.object = parent};
	for (uint32_t i = 0; i < m->node_count; i++) {
		struct python_items items;
		uint32_t n;
		if (!open_children(m, python, &m->nodes[i], &items))
			continue;
		const struct python_keys *keys = &items.keys;
		for (uint32_t first = 0; first < keys->count; first += n) {
			if (!(n = python_keys_block(python, keys, first, block)))
				break;
			for (uint32_t k = 0; k < n; k++) {
				uint32_t at = (k * keys->size + keys->key) / 8;
				uint64_t where = keys->entries + (uint64_t)(first + k) * keys->size + keys->key;
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

/* Fills the pair's words, and m->path with the names, the outermost first. False where there are too many, or a name is
 * no text. */
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

/* Are all words still the same? */
static bool holds(const struct modules_pair *pair)
{
	uint64_t at[MODULES_LINKS], words[MODULES_LINKS];
	for (uint32_t i = 0; i < pair->link_count; i++)
		at[i] = pair->links[i].at;
	if (peek_pieces(at, words, sizeof *words, pair->link_count) != pair->link_count)
		return false;
	for (uint32_t i = 0; i < pair->link_count; i++)
		if (words[i] != pair->links[i].word)
			return false;
	return true;
}

static uint32_t class_of(struct python *python, struct sink_thread *thread, uint64_t type)
{
	char text[CLASS_BYTES + 1];
	uint64_t at, kind;
	size_t length = 0;
	if (!python_has_flag(python, type, PYTHON_TYPE_IS_TYPE, &kind) || !word(python, type + TYPE_NAME, &at))
		return 0;
	/* Reads piece by piece, and no piece crosses the end of a page: the memory may end after a short name. */
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

/* Puts the path to the pair's child into m->path, and its words into the pair; false where it was not found. */
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
	/* A search that fails costs most, so the pauses between searches double. */
	pair->missed = step;
	pair->again = step + (waited ? (waited < PATIENCE ? 2 * waited : PATIENCE) : 1);
	return again || (known && pair->name == name && pair->class == class);
}
