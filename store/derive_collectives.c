/* derive_collectives.c - see derive_collectives.h.
 *
 * An operator of torch (c10d::allreduce_) asks for a collective operation; it is the call here. With NCCL, a second
 * operator inside of the call (record_param_comms) describes the operation, launches its kernels, and has a range
 * (nccl:all_reduce). gloo runs operations on two threads of the process group, in the order of their calls. Only a
 * range (gloo:all_reduce) tells when, and nothing but that order connects it to its call. No locks. */
#include "derive_collectives.h"
#include "collectives.h"
#include "proto/base/numbered.h"
#include "proto/events.h"

#include <cjson/cJSON.h>
#include <string.h>

/* A thread of the library that has nothing else to do begins an operation within this time. */
#define BEGINS_NS 20000000
/* So many calls that wait for a range are searched for one with as many elements as the range. */
#define LOOKED_AT 16
/* A longer description of inputs is not read. The agent's are shorter. */
#define INPUTS_MAX 16384

enum role { ROLE_CALL, ROLE_CALL_DOES_IT, ROLE_DESCRIBED, ROLE_RAN_HERE, ROLE_RAN_SPARSE, ROLE_LAUNCHED };

struct call {
	int64_t id, step, thread, start, end, duration;
	int64_t begun, ended; /* in the library's thread; ended 0: not known */
	int64_t in, out;      /* bytes; -1 = not known */
	double puts, gets;    /* elements, from the operator's inputs; -1 = not known */
	int64_t record;	      /* rowid in collective_records; 0 = none */
	int64_t size;	      /* processes in the group; 0 = not known */
	bool elsewhere;	      /* it waits for no range: it does not run on a thread of a library */
	const char *dtype;    /* torch's name; NULL: not known */
	unsigned dtype_bytes; /* of an element; 0 = not known */
	enum collective collective;
	uint32_t next, before; /* in the queue of calls that wait for a range: number + 1; 0 = none */
};

struct work {
	struct store *store;
	struct call *calls; /* in the order of their start */
	size_t count, room;
	struct numbered last; /* thread: its last call's number + 1 */
	uint32_t scatter;     /* the last reduce_scatter that got a range: number + 1 */
	uint32_t first[COLLECTIVE_COUNT], end[COLLECTIVE_COUNT]; /* queues of calls that wait for a range */
	int64_t busy_until; /* the latest end of ranges on the library's threads so far */
	sqlite3_stmt *record;
	bool full;
};

/* ---------------------------------------------------------------- which names */

static void add_name(struct store *store, sqlite3_stmt *add, int64_t name, enum role role, enum collective collective)
{
	sqlite3_bind_int64(add, 1, name);
	sqlite3_bind_int(add, 2, (int)role);
	sqlite3_bind_int(add, 3, (int)collective);
	store_step(store, add);
}

static bool role_of(const char *text, enum role *ret_role, enum collective *ret)
{
	bool here = strncmp(text, "gloo:", 5) == 0 || strncmp(text, "mpi:", 4) == 0;
	*ret = collective_of_operator(text);
	*ret_role = strcmp(text, "c10d::monitored_barrier_") == 0 ? ROLE_CALL_DOES_IT : ROLE_CALL;
	if (*ret)
		return true;
	*ret = collective_of_range(text);
	*ret_role = !here					  ? ROLE_LAUNCHED
		    : strcmp(text, "gloo:sparse_all_reduce") == 0 ? ROLE_RAN_SPARSE
								  : ROLE_RAN_HERE;
	if (*ret)
		return true;
	*ret = COLLECTIVE_OTHER;
	*ret_role = ROLE_DESCRIBED;
	return strcmp(text, "record_param_comms") == 0;
}

/* False: the capture has no collective operation. Then the table of operators, which may be large, is not read. */
static bool find_names(struct store *store)
{
	bool any = false;
	store_run(store,
		  "CREATE TEMP TABLE communicating (name INTEGER PRIMARY KEY, role INTEGER, collective INTEGER)");
	sqlite3_stmt *row = store_prepare(
		store,
		"SELECT id, text FROM strings WHERE id IN (SELECT name FROM operator_totals UNION SELECT name FROM range_totals)");
	sqlite3_stmt *add = store_prepare(store, "INSERT INTO communicating VALUES (?, ?, ?)");
	while (row && add && !store_over(store) && sqlite3_step(row) == SQLITE_ROW) {
		enum role role;
		enum collective collective;
		const char *text = (const char *)sqlite3_column_text(row, 1);
		if (!text || !role_of(text, &role, &collective))
			continue;
		add_name(store, add, sqlite3_column_int64(row, 0), role, collective);
		any = true;
	}
	sqlite3_finalize(row);
	sqlite3_finalize(add);
	return any;
}

/* ---------------------------------------------------------------- sizes */

/* Elements of a tensor, "[3, 4]", or of a list of tensors; -1: the shape is not known. */
static double elements(const cJSON *dims, bool list)
{
	const cJSON *item;
	double product = 1, sum = 0;
	if (!cJSON_IsArray(dims))
		return -1;
	cJSON_ArrayForEach(item, dims)
	{
		double one = list ? elements(item, false) : cJSON_IsNumber(item) ? item->valuedouble : -1;
		if (!(one >= 0))
			return -1;
		product *= list ? 1 : one;
		sum += one;
	}
	return list ? sum : product;
}

static int64_t bytes_of_elements(double count, unsigned size)
{
	double bytes = count * size;
	return size == 0 || !(count >= 0) || bytes > 9e15 ? -1 : (int64_t)bytes;
}

struct inputs {
	cJSON *dims, *types;
	int count;
};

static const char *text_of(sqlite3_stmt *row, int column)
{
	return (const char *)sqlite3_column_text(row, column);
}

/* Reads columns 8 and 9 of ROWS_SQL. */
static struct inputs inputs_of(sqlite3_stmt *row)
{
	struct inputs inputs = {0};
	const char *dims = text_of(row, 8), *types = text_of(row, 9);
	if (!dims || !types || sqlite3_column_bytes(row, 8) > INPUTS_MAX || sqlite3_column_bytes(row, 9) > INPUTS_MAX)
		return inputs;
	inputs.dims = cJSON_Parse(dims);
	inputs.types = cJSON_Parse(types);
	inputs.count = cJSON_GetArraySize(inputs.types);
	return inputs;
}

static void put_inputs(struct inputs *inputs)
{
	cJSON_Delete(inputs->dims);
	cJSON_Delete(inputs->types);
}

/* The number of elements of one argument of an operator; -1 = not known. The argument is a tensor, or a list of
 * tensors, whose type is not told. */
static double argument(struct call *call, const struct inputs *inputs, int at)
{
	const cJSON *type = cJSON_GetArrayItem(inputs->types, at), *shape = cJSON_GetArrayItem(inputs->dims, at);
	if (!cJSON_IsString(type))
		return -1;
	bool list = strcmp(type->valuestring, "TensorList") == 0;
	unsigned size = 0;
	const char *dtype = list ? NULL : collective_dtype(type->valuestring, &size);
	if (!list && !dtype)
		return -1;
	/* If a list is too long, only its type was recorded. */
	if (list && cJSON_GetArraySize(shape) == 0)
		return -1;
	if (dtype) {
		call->dtype = dtype;
		call->dtype_bytes = size;
	}
	return elements(shape, list);
}

/* Operators with two lists of tensors have the receiving list first. */
static void read_operator(struct call *call, sqlite3_stmt *row)
{
	struct inputs inputs = inputs_of(row);
	switch (call->collective) {
	case COLLECTIVE_BARRIER:
		break;
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_ALL_TO_ALL:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_SCATTER:
		call->gets = argument(call, &inputs, 0);
		call->puts = argument(call, &inputs, 1);
		break;
	case COLLECTIVE_RECV:
		call->gets = argument(call, &inputs, 0);
		break;
	default:
		call->puts = argument(call, &inputs, 0);
	}
	put_inputs(&inputs);
}

struct put_in {
	double elements; /* -1 = not known */
	int64_t bytes;	 /* the same */
	const char *dtype;
	unsigned dtype_bytes;
};

/* Adds up all tensors of a range. */
static struct put_in read_range(sqlite3_stmt *row)
{
	struct put_in all = {.elements = 0, .bytes = 0};
	struct inputs inputs = inputs_of(row);
	const cJSON *type, *shape = inputs.dims ? inputs.dims->child : NULL;
	bool first = true;
	cJSON_ArrayForEach(type, inputs.types)
	{
		unsigned size = 0;
		const char *dtype = cJSON_IsString(type) ? collective_dtype(type->valuestring, &size) : NULL;
		double count = shape ? elements(shape, false) : -1;
		int64_t bytes = bytes_of_elements(count, size);
		if (!shape || !dtype || bytes < 0 || all.bytes > INT64_MAX - bytes) {
			inputs.count = 0;
			break;
		}
		all.elements += count;
		all.bytes += bytes;
		all.dtype = first || all.dtype == dtype ? dtype : NULL;
		first = false;
		all.dtype_bytes = size;
		shape = shape->next;
	}
	put_inputs(&inputs);
	return inputs.count > 0 ? all : (struct put_in){.elements = -1, .bytes = -1};
}

static void add_range_inputs(struct call *call, const struct put_in *in)
{
	if (call->collective == COLLECTIVE_BARRIER || in->bytes < 0)
		return;
	if (!call->dtype && in->dtype) {
		call->dtype = in->dtype;
		call->dtype_bytes = in->dtype_bytes;
	}
	if (call->in < 0)
		call->in = in->bytes;
	else if (call->collective == COLLECTIVE_REDUCE_SCATTER && !call->record)
		call->in += in->bytes < INT64_MAX - call->in ? in->bytes : 0;
}

/* ---------------------------------------------------------------- calls, and what belongs to them */

/* 0: there is none. */
static struct call *numbered_call(struct work *work, uint32_t number)
{
	return number ? &work->calls[number - 1] : NULL;
}

static struct call *last_call(struct work *work, int64_t thread)
{
	uint32_t at = numbered_find(&work->last, thread, 0, 0);
	return at == NUMBERED_NONE ? NULL : numbered_call(work, *(uint32_t *)numbered_at(&work->last, at));
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
	uint32_t number = (uint32_t)(call - work->calls) + 1, before = work->end[collective];
	call->before = before;
	if (before)
		work->calls[before - 1].next = number;
	else
		work->first[collective] = number;
	work->end[collective] = number;
}

static void waits_no_more(struct work *work, struct call *call)
{
	enum collective collective = call->collective;
	if (call->before)
		work->calls[call->before - 1].next = call->next;
	else
		work->first[collective] = call->next;
	if (call->next)
		work->calls[call->next - 1].before = call->before;
	else
		work->end[collective] = call->before;
}

/* Has the range of `call` been lost? The next call came much later, and the library's threads had nothing to do
 * before it: so they had begun `call` long before. */
static bool range_lost(const struct work *work, const struct call *call, const struct call *next, int64_t at)
{
	return next && next->start <= at && work->busy_until < next->start &&
	       (uint64_t)next->start - (uint64_t)call->start > BEGINS_NS;
}

/* The call to which a range of a library's thread belongs: the oldest one that waits and has as many elements. Where
 * elements are not known any call fits. */
static struct call *oldest(struct work *work, enum collective collective, int64_t at, const struct put_in *in)
{
	struct call *call, *next;
	while ((call = numbered_call(work, work->first[collective])) && call->start <= at) {
		if (!call->elsewhere && !range_lost(work, call, numbered_call(work, call->next), at))
			break;
		waits_no_more(work, call);
	}
	for (int i = 0; i < LOOKED_AT && call && call->start <= at; i++, call = next) {
		next = numbered_call(work, call->next);
		if (call->elsewhere)
			waits_no_more(work, call);
		else if (in->elements < 0 || call->puts < 0 || call->puts == in->elements ||
			 collective == COLLECTIVE_REDUCE_SCATTER)
			return call;
	}
	return NULL;
}

static void ran(struct call *call, int64_t start, int64_t end, const struct put_in *in)
{
	call->begun = start;
	call->ended = end;
	add_range_inputs(call, in);
}

/* gloo runs a reduce_scatter as one all_reduce for each tensor. Returns the reduce_scatter to which an all_reduce at
 * `start` belongs; NULL: it belongs to none. */
static struct call *scatters(struct work *work, int64_t start)
{
	struct call *call = numbered_call(work, work->scatter);
	return call && (start <= call->ended || (uint64_t)start - (uint64_t)call->ended < BEGINS_NS) ? call : NULL;
}

static void put_range(struct work *work, const struct call *one, enum role role, sqlite3_stmt *row)
{
	enum collective collective = one->collective;
	int64_t start = one->start, end = one->end;
	struct put_in in = read_range(row);
	struct call *call = oldest(work, collective, start, &in), *scatter = NULL;
	if (collective == COLLECTIVE_ALL_REDUCE) {
		scatter = oldest(work, COLLECTIVE_REDUCE_SCATTER, start, &in);
		if (scatter && (!call || scatter->start < call->start))
			call = scatter;
	}
	if (call) {
		waits_no_more(work, call);
		ran(call, start, end, &in);
		/* The shape of a sparse tensor does not tell how much is in it. */
		if (role == ROLE_RAN_SPARSE) {
			call->in = -1;
			call->puts = -1;
		}
		if (call == scatter)
			work->scatter = (uint32_t)(call - work->calls) + 1;
	} else if (collective == COLLECTIVE_ALL_REDUCE && (call = scatters(work, start))) {
		ran(call, call->begun, end > call->ended ? end : call->ended, &in);
	}
	if (end > work->busy_until)
		work->busy_until = end;
}

/* Fills *one with what torch recorded of the operation that this operator describes. False: there is no record, or
 * its name is not known. */
static bool read_record(struct work *work, struct call *one)
{
	sqlite3_stmt *record = work->record;
	bool found = false;
	sqlite3_bind_int64(record, 1, one->id);
	if (sqlite3_step(record) == SQLITE_ROW && text_of(record, 1)) {
		unsigned size = 0;
		one->dtype = text_of(record, 4) ? collective_dtype(text_of(record, 4), &size) : NULL;
		one->dtype_bytes = size;
		one->collective = collective_of_record(text_of(record, 1));
		one->record = sqlite3_column_int64(record, 0);
		one->in = bytes_of_elements(sqlite3_column_double(record, 2), size);
		one->out = bytes_of_elements(sqlite3_column_double(record, 3), size);
		one->size = sqlite3_column_int64(record, 5);
		one->elsewhere = true;
		found = one->collective != COLLECTIVE_NONE;
	}
	sqlite3_reset(record);
	return found;
}

/* `by` lies within the call. The first description of a call counts. */
static void describe(struct call *call, const struct call *by)
{
	call->elsewhere = true;
	if (call->record)
		return;
	call->record = by->record;
	call->dtype = by->dtype;
	call->dtype_bytes = by->dtype_bytes;
	call->size = by->size;
	call->in = by->in;
	call->out = by->out;
}

static void put_call(struct work *work, struct call *one, enum role role, sqlite3_stmt *row)
{
	read_operator(one, row);
	if (role == ROLE_CALL_DOES_IT) {
		one->elsewhere = true;
		one->begun = one->start;
		one->ended = one->end;
	}
	struct call *call = add_call(work, one);
	if (call && !call->elsewhere)
		wait_for_range(work, call);
}

static void put_description(struct work *work, struct call *one, struct call *around)
{
	if (!read_record(work, one))
		return;
	if (around)
		describe(around, one);
	else
		add_call(work, one);
}

/* The range lies within its call, on the same thread: that is so for NCCL, and for sending and receiving. */
static void put_range_within(struct call *around, const struct call *one, enum role role, sqlite3_stmt *row)
{
	struct put_in in = read_range(row);
	around->elsewhere = true;
	if (role == ROLE_LAUNCHED)
		add_range_inputs(around, &in);
	else if (!around->ended)
		ran(around, one->start, one->end, &in);
}

/* Takes a row of ROWS_SQL. */
static void put_row(struct work *work, sqlite3_stmt *row)
{
	struct call one = {
		.id = sqlite3_column_int64(row, 0),
		.step = sqlite3_column_int64(row, 1),
		.thread = sqlite3_column_int64(row, 2),
		.start = sqlite3_column_int64(row, 3),
		.end = sqlite3_column_int64(row, 4),
		.duration = sqlite3_column_int64(row, 7),
		.collective = (enum collective)sqlite3_column_int(row, 6),
		.in = -1,
		.out = -1,
		.puts = -1,
		.gets = -1,
	};
	enum role role = (enum role)sqlite3_column_int(row, 5);
	struct call *around = last_call(work, one.thread);
	if (around && one.start >= around->end)
		around = NULL;
	if (role == ROLE_DESCRIBED)
		put_description(work, &one, around);
	else if (role == ROLE_CALL || role == ROLE_CALL_DOES_IT) {
		if (!around)
			put_call(work, &one, role, row);
	} else if (around)
		put_range_within(around, &one, role, row);
	else if (role != ROLE_LAUNCHED)
		put_range(work, &one, role, row);
}

/* CROSS JOIN keeps SQLite from building an index of the large table. */
#define PART_SQL(table)                                                                                                                          \
	"SELECT t.id, t.step, t.thread, t.start, t.start + t.duration AS \"end\", c.role, c.collective, t.duration, i.dims, i.types FROM " table \
	" t CROSS "                                                                                                                              \
	"JOIN communicating c ON c.name = t.name LEFT JOIN inputs i ON i.id = t.inputs"
#define ROWS_SQL PART_SQL("operators") " UNION ALL " PART_SQL("ranges") " ORDER BY 4, 8 DESC, 1"

#define DESCRIBED_SQL                                                                                                                                                                                             \
	"CREATE TEMP TABLE described (operator INTEGER PRIMARY KEY, record INTEGER, name TEXT, in_elements INTEGER, out_elements INTEGER, dtype TEXT, group_size INTEGER);"                                       \
	"INSERT OR IGNORE INTO described SELECT r.operator, r.rowid, n.text, iif(r.unknown & 1, -1, r.in_elements), iif(r.unknown & 2, -1, r.out_elements), d.text, r.group_size FROM collective_records r JOIN " \
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

static int64_t bytes_of_call(const struct call *call)
{
	int64_t put = bytes_of_elements(call->puts, call->dtype_bytes);
	int64_t got = bytes_of_elements(call->gets, call->dtype_bytes);
	int64_t in = call->in, out = call->out < 0 ? got : call->out;
	if (put >= 0 && !(call->record && in >= 0))
		in = put;
	else if (call->collective == COLLECTIVE_REDUCE_SCATTER && !call->record && in <= out)
		in = -1; /* not all of gloo's ranges were found */
	return collective_bytes(call->collective, in, out, call->size);
}

static void write_calls(struct work *work)
{
	sqlite3_stmt *add = store_prepare(work->store, ADD_SQL);
	for (size_t i = 0; add && i < work->count && !store_over(work->store); i++) {
		const struct call *call = &work->calls[i];
		int64_t bytes = bytes_of_call(call);
		sqlite3_bind_int64(add, 1, call->id);
		bind_known(add, 2, call->step > 0, call->step);
		sqlite3_bind_int64(add, 3, call->thread);
		sqlite3_bind_int64(add, 4, call->start);
		sqlite3_bind_int64(add, 5, call->duration);
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
