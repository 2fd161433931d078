/* collectives.c - see collectives.h. The words and their order are those of torch's saveNcclMeta. */
#include "collectives.h"

#include "event.h"
#include "proto/base/array.h"
#include "proto/events.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

/* Of longer lists torch writes as many members, and "...". */
#define LIST_MAX 30

static int compare(const void *left, const void *right)
{
	const struct collective *a = left, *b = right;
	return ORDER(a->operator, b->operator);
}

static void take(sqlite3_stmt *row, struct collective *ret)
{
	int64_t *const members[] = {
		&ret->operator, & ret->in_elements, &ret->out_elements, &ret->sequence, &ret->name, &ret->group_name, &ret->description, &ret->ranks, &ret->dtype, &ret->in_split, &ret->out_split, &ret->group_size, &ret->rank};
	const int count = sizeof members / sizeof *members;
	for (int i = 0; i < count; i++)
		*members[i] = sqlite3_column_int64(row, i);
	ret->asynchronous = (unsigned)sqlite3_column_int(row, count);
	ret->unknown = (unsigned)sqlite3_column_int(row, count + 1);
}

int collectives_find(struct collectives *c, const struct reader *r)
{
	size_t room = 0;
	int result;
	sqlite3_stmt *row;
	*c = (struct collectives){0};
	if (reader_count(r, "SELECT EXISTS (SELECT 1 FROM collective_records)", 0) == 0)
		return 0;
	if (sqlite3_prepare_v2(r->db,
			       "SELECT operator, in_elements, out_elements, sequence, name, group_name, "
			       "group_description, group_ranks, dtype, in_split, out_split, group_size, rank, "
			       "asynchronous, unknown FROM collective_records WHERE operator IS NOT NULL",
			       -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	while ((result = sqlite3_step(row)) == SQLITE_ROW) {
		if (!ARRAY_GROW(c->all, c->count, room)) {
			sqlite3_finalize(row);
			return -ENOMEM;
		}
		take(row, &c->all[c->count++]);
	}
	sqlite3_finalize(row);
	qsort(c->all, c->count, sizeof *c->all, compare);
	return result == SQLITE_DONE ? 0 : -EIO;
}

void collectives_deinit(struct collectives *c)
{
	free(c->all);
	*c = (struct collectives){0};
}

const struct collective *collectives_of(const struct collectives *c, int64_t id)
{
	const struct collective key = {.operator= id };
	return c->count ? bsearch(&key, c->all, c->count, sizeof *c->all, compare) : NULL;
}

/* --- what is written --- */

static void put_text(const struct names *names, struct buffer *b, const char *key, int64_t id)
{
	if (!id)
		return;
	BUFFER_PUT(b, ",\"");
	buffer_put(b, key, strlen(key));
	BUFFER_PUT(b, "\":\"");
	names_put(names, b, id);
	BUFFER_PUT(b, "\"");
}

/* A list, which a capture has as JSON. */
struct list {
	const char *text;
	size_t bytes;
	int64_t count, first, stride; /* stride 0: they are not evenly spaced */
};

/* The next whole number; NULL: there is none. */
static const char *next_number(const char *at, const char *end, int64_t *ret)
{
	uint64_t value = 0;
	while (at < end && (*at < '0' || *at > '9'))
		at++;
	if (at == end)
		return NULL;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (uint64_t)(*at - '0');
	*ret = (int64_t)(value & INT32_MAX);
	return at;
}

static struct list list_of(const struct names *names, int64_t id)
{
	struct list ret = {.stride = 1};
	int64_t value, last = 0;
	ret.text = names_text(names, id, &ret.bytes);
	const char *at = ret.text, *end = ret.text + ret.bytes;
	while ((at = next_number(at, end, &value))) {
		if (ret.count == 0)
			ret.first = value;
		else if (ret.count == 1)
			ret.stride = value > last ? value - last : 0;
		else if (value - last != ret.stride)
			ret.stride = 0;
		last = value;
		ret.count++;
	}
	if (memchr(ret.text, '-', ret.bytes))
		ret.stride = 0;
	return ret;
}

static void put_list(const struct names *names, struct buffer *b, const char *key, int64_t id, int64_t group_size)
{
	struct list list = list_of(names, id);
	if (list.bytes < 2)
		return;
	BUFFER_PUT(b, ",\"");
	buffer_put(b, key, strlen(key));
	BUFFER_PUT(b, "\":\"");
	buffer_put(b, list.text, list.bytes - 1);
	if (list.count == LIST_MAX && group_size > LIST_MAX)
		BUFFER_PUT(b, ", ...");
	BUFFER_PUT(b, "]\"");
}

/* With whom: of the members torch lists those that are evenly spaced, and so the first and the stride tell any of them. */
static void put_peer(const struct collective *of, const struct names *names, struct buffer *b, const struct list *ranks)
{
	if (of->rank < 0 || of->rank >= of->group_size || !ranks->count || !ranks->stride)
		return;
	int64_t peer = ranks->first + of->rank * ranks->stride;
	size_t bytes;
	const char *name = names_text(names, of->name, &bytes);
	if (bytes == 4 && memcmp(name, "send", 4) == 0)
		EVENT_PUT_INT(b, "Dst Rank", peer);
	else if (bytes == 4 && memcmp(name, "recv", 4) == 0)
		EVENT_PUT_INT(b, "Src Rank", peer);
}

void collective_put(const struct collective *of, const struct names *names, struct buffer *b, bool kernel)
{
	struct list ranks = list_of(names, of->ranks);
	put_text(names, b, "Collective name", of->name);
	put_text(names, b, "dtype", of->dtype);
	if (!(of->unknown & COLLECTIVE_UNKNOWN_IN))
		EVENT_PUT_INT(b, "In msg nelems", of->in_elements);
	if (!(of->unknown & COLLECTIVE_UNKNOWN_OUT))
		EVENT_PUT_INT(b, "Out msg nelems", of->out_elements);
	put_list(names, b, "In split size", of->in_split, of->group_size);
	put_list(names, b, "Out split size", of->out_split, of->group_size);
	if (!kernel && ranks.count && ranks.stride) {
		EVENT_PUT_INT(b, "Global rank start", ranks.first);
		EVENT_PUT_INT(b, "Global rank stride", ranks.stride);
	}
	if (of->group_size)
		EVENT_PUT_INT(b, "Group size", of->group_size);
	put_text(names, b, "Process Group Name", of->group_name);
	put_text(names, b, "Process Group Description", of->description);
	put_list(names, b, "Process Group Ranks", of->ranks, of->group_size);
	if (!(of->unknown & COLLECTIVE_UNKNOWN_RANK)) {
		EVENT_PUT_INT(b, "Rank", of->rank);
		put_peer(of, names, b, &ranks);
	}
	if (of->sequence >= 0)
		EVENT_PUT_INT(b, "Seq", of->sequence);
	if (!kernel && of->asynchronous)
		EVENT_PUT_INT(b, "Is asynchronized op", of->asynchronous == COLLECTIVE_IS_ASYNCHRONOUS);
}
