/* derive_collectives.c - see derive_collectives.h.
 *
 * torch asks for one by an operator (c10d::allreduce_). Within it NCCL's is described by another (record_param_comms), launches its
 * kernels, and is marked by a range (nccl:all_reduce). gloo's runs in one of two threads of the process group, in the order in which they were asked for; a range
 * (gloo:all_reduce) tells when, and nothing else connects the two. No locks. */
#include "derive_collectives.h"
#include "collectives.h"
#include "proto/base/numbered.h"
#include "proto/events.h"

#include <cjson/cJSON.h>
#include <string.h>

/* A thread of the library that has nothing else to do begins sooner. */
#define BEGINS_NS 20000000

enum role { ROLE_CALL, ROLE_DESCRIBED, ROLE_RAN_HERE, ROLE_LAUNCHED };

struct call {
	int64_t id, step, thread, start, end;
	int64_t begun, ended; /* in the library's thread; ended 0: not known */
	int64_t in, out;      /* bytes; -1 = not known */
	int64_t record;	      /* rowid in collective_records; 0 = none */
	int64_t size;	      /* processes in the group; 0 = not known */
	bool elsewhere;	      /* not in a thread of a library */
	const char *dtype;    /* torch's name; NULL: not known */
	enum collective collective;
	uint32_t next; /* of those that wait for a range: number + 1 */
};

struct work {
	struct store *store;
	struct call *calls; /* in the order of their start */
	size_t count, room;
	struct numbered last;					 /* thread: its last call's number + 1 */
	uint32_t first[COLLECTIVE_COUNT], end[COLLECTIVE_COUNT]; /* queues of those that no range was found for yet */
	int64_t busy_until; /* when the last of the library's threads was done so far */
	sqlite3_stmt *record;
	bool full;
};

/* ---------------------------------------------------------------- which names */

static bool add_name(struct store *store, sqlite3_stmt *add, int64_t name, enum role role, enum collective collective)
{
	sqlite3_bind_int64(add, 1, name);
	sqlite3_bind_int(add, 2, role);
	sqlite3_bind_int(add, 3, collective);
	store_step(store, add);
	return true;
}

static bool role_of(const char *text, enum role *ret_role, enum collective *ret)
{
	*ret = collective_of_operator(text);
	*ret_role = ROLE_CALL;
	if (*ret)
		return true;
	*ret = collective_of_range(text);
	*ret_role = strncmp(text, "gloo:", 5) == 0 || strncmp(text, "mpi:", 4) == 0 ? ROLE_RAN_HERE : ROLE_LAUNCHED;
	if (*ret)
		return true;
	*ret = COLLECTIVE_OTHER;
	*ret_role = ROLE_DESCRIBED;
	return strcmp(text, "record_param_comms") == 0;
}

/* Mostly there are none, and the table of operators, which may be large, is not gone through. */
static bool find_names(struct store *store)
{
	bool any = false;
	store_run(store,
		  "CREATE TEMP TABLE communicating (name INTEGER PRIMARY KEY, role INTEGER, collective INTEGER)");
	sqlite3_stmt *row = store_prepare(
		store,
		"SELECT id, text FROM strings WHERE (text GLOB 'c10d::*' OR text GLOB '[a-z]*:[a-z]*' OR text = "
		"'record_param_comms') AND id IN (SELECT name FROM operator_totals UNION SELECT name FROM range_totals)");
	sqlite3_stmt *add = store_prepare(store, "INSERT INTO communicating VALUES (?, ?, ?)");
	while (row && add && !store_over(store) && sqlite3_step(row) == SQLITE_ROW) {
		enum role role;
		enum collective collective;
		const char *text = (const char *)sqlite3_column_text(row, 1);
		if (text && role_of(text, &role, &collective))
			any = add_name(store, add, sqlite3_column_int64(row, 0), role, collective);
	}
	sqlite3_finalize(row);
	sqlite3_finalize(add);
	return any;
}

/* ---------------------------------------------------------------- sizes */

/* Elements of a tensor, "[3, 4]", or of a list of them; -1: it has no shape that is known. */
static double elements(const cJSON *dims, int depth)
{
	const cJSON *item;
	double product = 1, sum = 0;
	bool list = cJSON_IsArray(cJSON_GetArrayItem(dims, 0));
	if (!cJSON_IsArray(dims) || depth > 2)
		return -1;
	cJSON_ArrayForEach(item, dims)
	{
		double one = list ? elements(item, depth + 1) : item->valuedouble;
		if (one < 0 || (!list && !cJSON_IsNumber(item)))
			return -1;
		product *= list ? 1 : one;
		sum += list ? one : 0;
	}
	return list ? sum : product;
}

static int64_t bytes_of(const cJSON *dims, const cJSON *types, int at, const char **ret_dtype)
{
	const cJSON *type = cJSON_GetArrayItem(types, at), *shape = cJSON_GetArrayItem(dims, at);
	unsigned size = 0;
	const char *dtype = cJSON_IsString(type) ? collective_dtype(type->valuestring, &size) : NULL;
	double bytes = dtype ? elements(shape, 0) * size : -1;
	if (bytes < 0 || bytes > 9e15)
		return -1;
	*ret_dtype = dtype;
	return (int64_t)bytes;
}

/* Of an operator: those that take one tensor in and give one out have them in this order. Of a range: all that is put in. */
static void read_inputs(struct call *call, const char *dims_text, const char *types_text, bool range)
{
	cJSON *dims = dims_text ? cJSON_Parse(dims_text) : NULL, *types = types_text ? cJSON_Parse(types_text) : NULL;
	int count = cJSON_GetArraySize(types);
	bool base = call->collective == COLLECTIVE_ALL_GATHER || call->collective == COLLECTIVE_REDUCE_SCATTER ||
		    call->collective == COLLECTIVE_ALL_TO_ALL;
	if (range && call->in < 0 && count > 0 && count <= 64) {
		int64_t sum = 0;
		for (int i = 0; i < count && sum >= 0; i++) {
			int64_t one = bytes_of(dims, types, i, &call->dtype);
			sum = one < 0 ? -1 : sum + one;
		}
		call->in = sum;
	} else if (!range && base) {
		call->out = bytes_of(dims, types, 0, &call->dtype);
		call->in = bytes_of(dims, types, 1, &call->dtype);
	}
	cJSON_Delete(dims);
	cJSON_Delete(types);
}

static const char *text_of(sqlite3_stmt *row, int column)
{
	return (const char *)sqlite3_column_text(row, column);
}

/* ---------------------------------------------------------------- calls, and what belongs to them */

static struct call *last_call(struct work *work, int64_t thread)
{
	uint32_t at = numbered_find(&work->last, thread, 0, 0);
	uint32_t number = at == NUMBERED_NONE ? 0 : *(uint32_t *)numbered_at(&work->last, at);
	return number ? &work->calls[number - 1] : NULL;
}

static struct call *add_call(struct work *work, const struct call *call)
{
	if (work->count == work->room) {
		size_t room = work->room ? work->room * 2 : 256;
		struct call *calls =
			memory_grow(work->store->memory, work->calls, work->room * sizeof *calls, room * sizeof *calls);
		if (!calls) {
			work->full = true;
			return NULL;
		}
		work->calls = calls;
		work->room = room;
	}
	uint32_t *last = numbered_add(&work->last, call->thread, 0, 0);
	if (!last) {
		work->full = true;
		return NULL;
	}
	work->calls[work->count++] = *call;
	*last = (uint32_t)work->count;
	return &work->calls[work->count - 1];
}

static void wait_for_range(struct work *work, struct call *call)
{
	enum collective collective = call->collective;
	uint32_t number = (uint32_t)(call - work->calls) + 1;
	if (work->end[collective])
		work->calls[work->end[collective] - 1].next = number;
	else
		work->first[collective] = number;
	work->end[collective] = number;
}

static struct call *first_waiting(struct work *work, enum collective collective)
{
	return work->first[collective] ? &work->calls[work->first[collective] - 1] : NULL;
}

static void take_waiting(struct work *work, enum collective collective)
{
	work->first[collective] = work->calls[work->first[collective] - 1].next;
	if (!work->first[collective])
		work->end[collective] = 0;
}

/* The one that the range of a library's thread is of: the oldest that waits. Where a later one was asked for long after it while no thread had anything to
 * do, the range of the older one was lost, and is not this one. */
static struct call *take_oldest(struct work *work, enum collective collective, int64_t at)
{
	struct call *call;
	while ((call = first_waiting(work, collective)) && call->start <= at) {
		const struct call *next = call->next ? &work->calls[call->next - 1] : NULL;
		bool lost = next && next->start <= at && work->busy_until < next->start &&
			    next->start - call->start > BEGINS_NS;
		if (!lost && !call->elsewhere)
			return call;
		take_waiting(work, collective);
	}
	return NULL;
}

/* gloo makes a reduce_scatter of another operation. */
static void put_range(struct work *work, enum collective collective, int64_t start, int64_t end, sqlite3_stmt *row)
{
	enum collective of = collective;
	struct call *call = take_oldest(work, collective, start);
	struct call *scatter = take_oldest(work, COLLECTIVE_REDUCE_SCATTER, start);
	if (scatter && (!call || scatter->start < call->start)) {
		call = scatter;
		of = COLLECTIVE_REDUCE_SCATTER;
	}
	if (call) {
		take_waiting(work, of);
		call->begun = start;
		call->ended = end;
		read_inputs(call, text_of(row, 8), text_of(row, 9), true);
	}
	if (end > work->busy_until)
		work->busy_until = end;
}

static int64_t bytes_of_elements(int64_t count, unsigned size)
{
	int64_t bytes;
	return size == 0 || count < 0 || __builtin_mul_overflow(count, (int64_t)size, &bytes) ? -1 : bytes;
}

/* What torch says of the one that this operator describes. False: it is none, or nothing is known. */
static bool read_record(struct work *work, struct call *one)
{
	sqlite3_stmt *record = work->record;
	bool found = false;
	sqlite3_bind_int64(record, 1, one->id);
	if (sqlite3_step(record) == SQLITE_ROW && text_of(record, 1)) {
		unsigned size = 0;
		one->dtype = text_of(record, 4) ? collective_dtype(text_of(record, 4), &size) : NULL;
		one->collective = collective_of_record(text_of(record, 1));
		one->record = sqlite3_column_int64(record, 0);
		one->in = bytes_of_elements(sqlite3_column_int64(record, 2), size);
		one->out = bytes_of_elements(sqlite3_column_int64(record, 3), size);
		one->size = sqlite3_column_int64(record, 5);
		one->elsewhere = true;
		found = one->collective != COLLECTIVE_NONE;
	}
	sqlite3_reset(record);
	return found;
}

/* It is within a call that is not described yet. */
static void describe(struct call *call, const struct call *by)
{
	call->elsewhere = true;
	if (call->record)
		return;
	call->record = by->record;
	call->dtype = by->dtype;
	call->size = by->size;
	call->in = by->in;
	call->out = by->out;
}

/* Columns of ROWS_SQL. */
static void put_row(struct work *work, sqlite3_stmt *row)
{
	struct call one = {
		.id = sqlite3_column_int64(row, 0),
		.step = sqlite3_column_int64(row, 1),
		.thread = sqlite3_column_int64(row, 2),
		.start = sqlite3_column_int64(row, 3),
		.end = sqlite3_column_int64(row, 4),
		.collective = (enum collective)sqlite3_column_int(row, 6),
		.in = -1,
		.out = -1,
	};
	enum role role = (enum role)sqlite3_column_int(row, 5);
	struct call *around = last_call(work, one.thread);
	if (around && one.start >= around->end)
		around = NULL;
	if (role == ROLE_CALL && !around) {
		read_inputs(&one, text_of(row, 8), text_of(row, 9), false);
		struct call *call = add_call(work, &one);
		if (call)
			wait_for_range(work, call);
	} else if (role == ROLE_DESCRIBED) {
		if (!read_record(work, &one))
			return;
		if (around)
			describe(around, &one);
		else
			add_call(work, &one);
	} else if (role == ROLE_RAN_HERE && !around) {
		put_range(work, one.collective, one.start, one.end, row);
	} else if (role == ROLE_RAN_HERE && !around->ended) {
		/* In the thread that asked: sending, and receiving. */
		around->elsewhere = true;
		around->begun = one.start;
		around->ended = one.end;
		read_inputs(around, text_of(row, 8), text_of(row, 9), true);
	} else if (role == ROLE_LAUNCHED && around) {
		around->elsewhere = true;
		read_inputs(around, text_of(row, 8), text_of(row, 9), true);
	}
}

/* The planner would make an index of the large table. */
#define PART_SQL(table)                                                                                                                          \
	"SELECT t.id, t.step, t.thread, t.start, t.start + t.duration AS \"end\", c.role, c.collective, t.duration, i.dims, i.types FROM " table \
	" t CROSS "                                                                                                                              \
	"JOIN communicating c ON c.name = t.name LEFT JOIN inputs i ON i.id = t.inputs"
#define ROWS_SQL PART_SQL("operators") " UNION ALL " PART_SQL("ranges") " ORDER BY 4, 8 DESC, 1"

#define DESCRIBED_SQL                                                                                                                                                       \
	"CREATE TEMP TABLE described (operator INTEGER PRIMARY KEY, record INTEGER, name TEXT, in_elements INTEGER, out_elements INTEGER, dtype TEXT, group_size INTEGER);" \
	"INSERT OR IGNORE INTO described SELECT r.operator, r.rowid, n.text, r.in_elements, r.out_elements, d.text, r.group_size FROM collective_records r JOIN "           \
	"strings n ON n.id = r.name LEFT JOIN strings d ON d.id = r.dtype WHERE r.operator IS NOT NULL"

static void read_rows(struct work *work)
{
	store_run(work->store, DESCRIBED_SQL);
	sqlite3_stmt *row = store_prepare(work->store, ROWS_SQL);
	work->record = store_prepare(
		work->store,
		"SELECT record, name, in_elements, out_elements, dtype, group_size FROM described WHERE operator = ?");
	while (row && work->record && !work->full && !store_over(work->store) && sqlite3_step(row) == SQLITE_ROW)
		put_row(work, row);
	sqlite3_finalize(work->record);
	sqlite3_finalize(row);
}

/* ---------------------------------------------------------------- writing */

#define ADD_SQL                                                                                                                                                                               \
	"INSERT OR IGNORE INTO collectives SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, g.text, e.text, m.text, nullif(?9, 0), nullif(r.sequence, -1), "                                            \
	"coalesce(?10, v.first), coalesce(?11, v.last), CASE WHEN ?11 IS NOT NULL THEN 0 WHEN v.last IS NOT NULL THEN 1 END FROM (SELECT 1) LEFT JOIN collective_records r ON r.rowid = ?12 " \
	"LEFT JOIN strings g ON g.id = r.group_name LEFT JOIN strings e ON e.id = r.group_description LEFT JOIN strings m ON "                                                                \
	"m.id = r.group_ranks LEFT JOIN range_devices v ON v.id = ?1"

static void bind_known(sqlite3_stmt *add, int column, bool known, int64_t value)
{
	if (known)
		sqlite3_bind_int64(add, column, value);
	else
		sqlite3_bind_null(add, column);
}

static void write_calls(struct work *work)
{
	sqlite3_stmt *add = store_prepare(work->store, ADD_SQL);
	for (size_t i = 0; add && i < work->count && !store_over(work->store); i++) {
		const struct call *call = &work->calls[i];
		int64_t bytes = collective_bytes(call->collective, call->in, call->out, call->size);
		sqlite3_bind_int64(add, 1, call->id);
		bind_known(add, 2, call->step > 0, call->step);
		sqlite3_bind_int64(add, 3, call->thread);
		sqlite3_bind_int64(add, 4, call->start);
		sqlite3_bind_int64(add, 5, call->end - call->start);
		sqlite3_bind_text(add, 6, collective_word(call->collective), -1, SQLITE_STATIC);
		bind_known(add, 7, bytes >= 0, bytes);
		sqlite3_bind_text(add, 8, call->dtype, -1, SQLITE_STATIC); /* NULL where there is none */
		sqlite3_bind_int64(add, 9, call->size);
		bind_known(add, 10, call->ended != 0, call->begun);
		bind_known(add, 11, call->ended != 0, call->ended);
		sqlite3_bind_int64(add, 12, call->record);
		store_step(work->store, add);
	}
	sqlite3_finalize(add);
}

bool derive_collectives(struct store *store)
{
	struct work work = {.store = store, .last = {.bytes = sizeof(uint32_t), .memory = store->memory}};
	if (store->error)
		return true;
	store_doing(store, "listing collective operations");
	if (find_names(store)) {
		read_rows(&work);
		if (!work.full)
			write_calls(&work);
		store_run(store, "DROP TABLE described");
	}
	store_run(store, "DROP TABLE communicating");
	memory_put(store->memory, work.calls, work.room * sizeof *work.calls);
	numbered_deinit(&work.last);
	return !work.full;
}
