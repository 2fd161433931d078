/* record_walk.c - see record_walk.h. */
#include "record_walk.h"

static int next_record(const struct record_walk *walk, uint8_t *data, size_t valid, void **record)
{
	return walk->subscriber ? cupti_api.next_record_v2(walk->subscriber, data, valid, record)
				: cupti_api.next_record(data, valid, record);
}

/* As next_record, but by the layout's size where that is known. */
static int step_over(const struct record_walk *walk, uint8_t *data, size_t valid, void **record)
{
	size_t size = cupti_layout_size(walk->layout, cupti_record_kind(*record));
	size_t at = (size_t)((uint8_t *)*record - data) + size;
	if (!size)
		return next_record(walk, data, valid, record);
	if (at == valid)
		return CUPTI_RESULT_NO_MORE;
	if (at > valid || valid - at < sizeof(uint64_t) || !cupti_record_kind(data + at))
		return CUPTI_RESULT_INVALID_KIND;
	*record = data + at;
	return 0;
}

/* Is there a record at `at`? Yes if several records follow each other from there, or if they end exactly with the
 * buffer: both do not happen by chance. */
static int is_record(const struct record_walk *walk, uint8_t *at, uint8_t *data, size_t valid)
{
	enum { SURE = 4 };
	void *record = at;
	if (!cupti_layout_size(walk->layout, cupti_record_kind(at)))
		return 0;
	for (unsigned n = 1; n < SURE; n++) {
		int result = step_over(walk, data, valid, &record);
		if (result)
			return result == CUPTI_RESULT_NO_MORE && (n > 1 || at == data);
	}
	return 1;
}

/* CUPTI itself neither steps onto a marked record nor past one. So next to a marked record, what lies at the next
 * record's place counts as a record. */
static int is_beside_mark(const struct record_walk *walk, const uint8_t *last, const uint8_t *at, const uint8_t *end)
{
	if (end - at < (ptrdiff_t)sizeof(uint64_t) ||
	    !(cupti_record_is_marked(at) || (last && cupti_record_is_marked(last))))
		return 0;
	size_t size = cupti_layout_size(walk->layout, cupti_record_kind(at));
	return size && size <= (size_t)(end - at);
}

/* Finds the next readable record from `at` on, after one that cannot be read. NULL: there is none. */
static uint8_t *find_record(const struct record_walk *walk, uint8_t *at, uint8_t *data, size_t valid)
{
	enum { FAR = 1024 };
	uint8_t *end = data + valid;
	for (uint8_t *far = at + FAR; at < far && end - at >= (ptrdiff_t)sizeof(uint64_t); at += sizeof(uint64_t))
		if (is_record(walk, at, data, valid))
			return at;
	return NULL;
}

uint64_t record_walk(struct record_walk *walk, uint8_t *data, size_t valid)
{
	uint64_t n = 0;
	void *record = NULL, *last = NULL;
	for (;; last = record) {
		int result = next_record(walk, data, valid, &record);
		if (result) {
			/* The library's answer differs between releases. The layout mostly knows where the last record
			 * ended. */
			size_t size = last ? cupti_layout_size(walk->layout, cupti_record_kind(last)) : 0;
			uint8_t *at = last ? (uint8_t *)last + (size ? size : sizeof(uint64_t)) : data;
			if (result == CUPTI_RESULT_NO_MORE || at >= data + valid)
				break;
			record = is_beside_mark(walk, last, at, data + valid) ? at : find_record(walk, at, data, valid);
			/* CUPTI may still be writing to this buffer. Then only zeros follow its last record, and
			 * nothing is lost. */
			int nothing = !record && !cupti_record_kind(at);
			walk->gaps += record != at && !nothing;
			if (!record)
				break;
		}
		size_t at = (size_t)((uint8_t *)record - data);
		size_t size = cupti_layout_size(walk->layout, cupti_record_kind(record));
		if ((uint8_t *)record < data || at >= valid || size > valid - at)
			break;
		n++;
		if (walk->each && size)
			walk->each(walk->user, record);
	}
	return n;
}
