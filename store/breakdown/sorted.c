/* sorted.c - see sorted.h. A merge sort of the runs that are there already, or nearly. Of two runs only the parts
 * that overlap are moved. */
#include "sorted.h"

#include "proto/base/large.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* An item joins a run if its place is at most so many items before the run's end. Operators come in the order of
 * their ends: so such an operator has at most that many others inside of it. All runs but the last are longer than
 * that. */
#define REACH 16
/* So much is copied before the sort looks again at how much is in memory. */
#define COPY_BYTES ((size_t)1 << 20)

struct sort {
	char *items, *spare; /* spare: room for all items and one more */
	size_t size;
	int (*order)(const void *, const void *);
	size_t *starts; /* of the runs; after the last one the count */
	size_t runs;
};

/* Copies one item. If its size is whole words, no function is called. */
static void copy(char *to, const char *from, size_t size)
{
	if (size % sizeof(uint64_t)) {
		memcpy(to, from, size);
		return;
	}
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t word;
		memcpy(&word, from + i, sizeof word);
		memcpy(to + i, &word, sizeof word);
	}
}

/* Copies any number of items. */
static void copy_all(char *to, const char *from, size_t bytes)
{
	for (size_t part; bytes; to += part, from += part, bytes -= part) {
		part = bytes < COPY_BYTES ? bytes : COPY_BYTES;
		memcpy(to, from, part);
		large_go(2 * part);
	}
}

static char *at(const struct sort *sort, size_t i)
{
	return sort->items + i * sort->size;
}

static bool in_order(const struct sort *sort, size_t i, size_t j)
{
	return sort->order(at(sort, i), at(sort, j)) <= 0;
}

/* Puts item `i` into the run [from, i). False: its place is too far back. */
static bool insert(struct sort *sort, size_t from, size_t i)
{
	size_t to = i;
	if (in_order(sort, i - 1, i))
		return true;
	copy(sort->spare, at(sort, i), sort->size);
	while (to > from && sort->order(at(sort, to - 1), sort->spare) > 0) {
		if (i - to == REACH)
			return false;
		to--;
	}
	memmove(at(sort, to + 1), at(sort, to), (i - to) * sort->size);
	copy(at(sort, to), sort->spare, sort->size);
	return true;
}

/* Finds the runs. The first `sorted` items are a run, or the beginning of one. */
static void find_runs(struct sort *sort, size_t sorted, size_t count)
{
	for (size_t from = 0, i = sorted; from < count; from = i++) {
		for (; i < count && insert(sort, from, i); i++)
			large_go(sort->size);
		sort->starts[sort->runs++] = from;
	}
	sort->starts[sort->runs] = count;
}

/* The first item of [low, high) that comes after `item`; with `equal`, the first that does not come before it. */
static size_t first_after(const struct sort *sort, size_t low, size_t high, const char *item, bool equal)
{
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = sort->order(at(sort, middle), item);
		if (order < 0 || (order == 0 && !equal))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* [from, middle) and [middle, to) become one run, written from its first item on. The left part is copied away
 * meanwhile. */
static void merge_left(struct sort *sort, size_t from, size_t middle, size_t to)
{
	size_t size = sort->size;
	char *left = sort->spare, *left_end = left + (middle - from) * size, *right = at(sort, middle),
	     *right_end = at(sort, to), *out = at(sort, from);
	copy_all(left, out, (middle - from) * size);
	for (; left < left_end && right < right_end; out += size) {
		bool first = sort->order(left, right) <= 0;
		copy(out, first ? left : right, size);
		left += first ? size : 0;
		right += first ? 0 : size;
		large_go(2 * size);
	}
	/* The rest of the right part is in its place already. */
	copy_all(out, left, (size_t)(left_end - left));
}

/* The same, written from the last item on. The right part is copied away. */
static void merge_right(struct sort *sort, size_t from, size_t middle, size_t to)
{
	size_t size = sort->size, left = middle - from, right = to - middle;
	const char *first = at(sort, from);
	char *out = at(sort, to);
	copy_all(sort->spare, at(sort, middle), right * size);
	while (left && right) {
		const char *a = first + (left - 1) * size, *b = sort->spare + (right - 1) * size;
		bool last = sort->order(a, b) > 0;
		out -= size;
		copy(out, last ? a : b, size);
		left -= last;
		right -= !last;
		large_go(2 * size);
	}
	copy_all(at(sort, from + left), sort->spare, right * size);
}

/* [from, middle) and [middle, to) become one run. The shorter part is copied away: that needs less memory. */
static void merge(struct sort *sort, size_t from, size_t middle, size_t to)
{
	if (in_order(sort, middle - 1, middle))
		return;
	from = first_after(sort, from, middle, at(sort, middle), false);
	to = first_after(sort, middle, to, at(sort, middle - 1), true);
	(middle - from <= to - middle ? merge_left : merge_right)(sort, from, middle, to);
}

static void merge_runs(struct sort *sort)
{
	while (sort->runs > 1) {
		size_t kept = 0, i = 0;
		for (; i + 1 < sort->runs; i += 2) {
			merge(sort, sort->starts[i], sort->starts[i + 1], sort->starts[i + 2]);
			sort->starts[kept++] = sort->starts[i];
		}
		if (i < sort->runs)
			sort->starts[kept++] = sort->starts[i];
		sort->starts[kept] = sort->starts[sort->runs];
		sort->runs = kept;
	}
}

/* How many items from the first on are in order. */
static size_t sorted_at_first(const struct sort *sort, size_t count)
{
	size_t i = 1;
	for (; i < count && in_order(sort, i - 1, i); i++)
		large_go(sort->size);
	return i;
}

void sort_if_needed(void *items, size_t count, size_t size, int (*order)(const void *, const void *))
{
	struct sort sort = {.items = items, .size = size, .order = order};
	size_t sorted = sorted_at_first(&sort, count);
	if (sorted >= count)
		return;
	sort.spare = large_get(count + 1, size);
	sort.starts = large_get(count / REACH + 2, sizeof *sort.starts);
	if (sort.spare && sort.starts) {
		find_runs(&sort, sorted, count);
		merge_runs(&sort);
	} else {
		qsort(items, count, size, order);
	}
	large_free(sort.spare);
	large_free(sort.starts);
}
