/* ranks.c - see ranks.h. */
#include "ranks.h"

#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/report/verdict.h"
#include "client/ui/failure.h"
#include "client/ui/figure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include "proto/base/array.h"
#include "store/breakdown/load.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* Less than that of a step is no wait worth a word. */
#define WORTH 0.02
/* One rank keeps the others waiting if it has this part of all waits, in this part of the steps. */
#define MOSTLY 0.5
/* It came last by a margin if another one waited longer than that. Less is how exact a thread is woken. */
#define MARGIN_NS 50000

/* One operation as one rank has it. */
struct call {
	size_t unit, member, capture; /* capture: of the side */
	char *key;		      /* equal for what may be the same operation; owned */
	int64_t ready, ended;
	int64_t start, done; /* the same, by the clock of all members */
	bool timed;	     /* these are known */
	struct ranks_operation like;
	bool known;   /* it is known when it ran */
	int64_t wait; /* for the member `last` */
	size_t last;  /* SIZE_MAX: not compared */
};

struct work {
	struct ranks *ranks;
	struct call *calls;
	size_t count, room;
	double *kept; /* [unit][member]: ns that others waited for it, on average of them */
};

/* Has every rank recorded this step? Of others it is not known who came last. */
static bool counts(const struct ranks *ranks, size_t unit)
{
	return unit != SIZE_MAX && ranks->side->ranks[unit] >= (double)ranks->count;
}

/* ---------------------------------------------------------------- reading */

static char *text_of(sqlite3_stmt *row, int column)
{
	const char *text = (const char *)sqlite3_column_text(row, column);
	return text && *text ? need(strdup(text)) : NULL;
}

static char *key_of(sqlite3_stmt *row)
{
	char *key = NULL;
	const char *group = (const char *)sqlite3_column_text(row, 2),
		   *ranks = (const char *)sqlite3_column_text(row, 3);
	const char *operation = (const char *)sqlite3_column_text(row, 1);
	int n = asprintf(&key, "%s\n%s\n%s", group ? group : "", ranks ? ranks : "", operation ? operation : "");
	return need(n < 0 ? NULL : key);
}

/* Those in which everybody waits for everybody. Who sends a broadcast, or adds to a reduce, goes on before others have come; between two processes alone nobody else
 * waits. */
#define CALLS_SQL                                                                                                                                              \
	"SELECT step, operation, group_name, group_ranks, bytes, dtype, group_size, start, begun, ended, device, nullif(group_description, 'undefined') FROM " \
	"collectives WHERE step IS NOT NULL AND operation IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier') ORDER BY start, id"

static void load_calls(struct work *work, size_t index)
{
	struct side *side = work->ranks->side;
	struct side_capture *capture = &side->captures[index];
	struct ranks_member *one = &work->ranks->members[work->ranks->member_of[index]];
	const struct reader *reader = &capture->capture.reader;
	int64_t later = 0;
	bool timed = side_clock(capture, &side->captures[0], &later);
	if (!report_has_table(reader, "collectives"))
		return;
	sqlite3_stmt *row = report_prepare(reader, CALLS_SQL);
	while (report_next(reader, row)) {
		size_t unit = side_unit(capture, sqlite3_column_int64(row, 0));
		if (!counts(work->ranks, unit))
			continue;
		NEED_ROOM(work->calls, work->count, work->room);
		struct call *call = &work->calls[work->count++];
		bool device = sqlite3_column_int(row, 10);
		*call = (struct call){
			.unit = unit,
			.member = work->ranks->member_of[index],
			.capture = index,
			.key = key_of(row),
			.ready = figure_time(sqlite3_column_int64(row, device ? 8 : 7)),
			.ended = figure_time(sqlite3_column_int64(row, 9)),
			.like = {.operation = text_of(row, 1),
				 .group = text_of(row, sqlite3_column_type(row, 11) != SQLITE_NULL ? 11 : 2),
				 .dtype = text_of(row, 5),
				 .bytes =
					 sqlite3_column_type(row, 4) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, 4),
				 .size = sqlite3_column_int64(row, 6)},
			.last = SIZE_MAX,
		};
		call->known = sqlite3_column_type(row, 9) != SQLITE_NULL && call->ended >= call->ready;
		call->timed = timed && !device && call->known;
		if (call->timed) {
			call->start = later + call->ready;
			call->done = later + call->ended;
		}
		one->device |= device;
	}
}

/* ---------------------------------------------------------------- which calls are one operation */

static int together(const void *a, const void *b)
{
	const struct call *one = a, *other = b;
	return ORDER(one->unit, other->unit) ?: strcmp(one->key, other->key) ?: ORDER(one->member, other->member) ?: ORDER(one->ready, other->ready);
}

/* Everybody has to have asked before anybody is done: else they are of several groups. */
static bool could_be_one(struct call *const *calls, size_t count)
{
	int64_t latest = INT64_MIN, first = INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		if (!calls[i]->timed)
			return true;
		latest = calls[i]->start > latest ? calls[i]->start : latest;
		first = calls[i]->done < first ? calls[i]->done : first;
	}
	return latest <= first;
}

static void compare(struct work *work, struct call *const *calls, size_t count)
{
	struct ranks *ranks = work->ranks;
	bool known = true;
	for (size_t i = 0; i < count; i++)
		known = known && calls[i]->known;
	if (!known || !could_be_one(calls, count)) {
		*(known ? &ranks->alone : &ranks->unknown) += (double)count;
		return;
	}
	const struct call *last = calls[0];
	for (size_t i = 1; i < count; i++)
		if (calls[i]->ended - calls[i]->ready < last->ended - last->ready)
			last = calls[i];
	int64_t transfer = last->ended - last->ready, most = 0;
	double sum = 0;
	for (size_t i = 0; i < count; i++) {
		calls[i]->wait = calls[i]->ended - calls[i]->ready - transfer;
		calls[i]->last = last->member;
		most = calls[i]->wait > most ? calls[i]->wait : most;
		sum += (double)calls[i]->wait;
		ranks->members[calls[i]->member].calls++;
	}
	ranks->members[last->member].last += most > MARGIN_NS;
	ranks->calls++;
	/* The first one carries the figures of all. */
	calls[0]->like.calls = 1;
	calls[0]->like.transfer = (double)transfer;
	calls[0]->like.wait = sum / (double)count;
	calls[0]->like.most = (double)most;
}

/* Calls [from, to) are of one unit and key, each member's in their order: the n-th of each are one operation. */
static void match(struct work *work, size_t from, size_t to)
{
	size_t members = 0, each = 0, at[SIDE_CAPTURES_MOST];
	bool equal = true;
	for (size_t i = from; i < to;) {
		size_t next = i;
		while (next < to && work->calls[next].member == work->calls[i].member)
			next++;
		equal = equal && (!members || next - i == each);
		each = next - i;
		at[members++] = i;
		i = next;
	}
	/* All who take part have to be there. Where nobody says who does, that is every rank. */
	int64_t size = work->calls[from].like.size;
	bool all = (int64_t)members == (size > 0 ? size : (int64_t)work->ranks->count);
	if (members < 2 || !equal || !all) {
		work->ranks->alone += (double)(to - from);
		return;
	}
	for (size_t n = 0; n < each; n++) {
		struct call *calls[SIDE_CAPTURES_MOST];
		for (size_t m = 0; m < members; m++)
			calls[m] = &work->calls[at[m] + n];
		compare(work, calls, members);
	}
}

/* ---------------------------------------------------------------- what a wait costs */

struct stretch {
	int64_t start, end;
	size_t last; /* of a wait: for whom; of free time: row of the breakdown that it is of */
};

struct free_time {
	struct stretch *items; /* in order, not overlapping */
	size_t count, room;
};

static void add_free(struct free_time *time, int64_t start, int64_t end, size_t row)
{
	if (time->count && time->items[time->count - 1].end >= start && time->items[time->count - 1].last == row) {
		if (end > time->items[time->count - 1].end)
			time->items[time->count - 1].end = end;
		return;
	}
	NEED_ROOM(time->items, time->count, time->room);
	time->items[time->count++] = (struct stretch){start, end, row};
}

static int by_start(const void *a, const void *b)
{
	const struct stretch *one = a, *other = b;
	return ORDER(one->start, other->start) ?: ORDER(one->end, other->end);
}

/* When a device did nothing but communicate; where none did, when the step's thread was in no operator but those that communicate. */
static struct free_time free_time_of(const struct ranks_member *one, const struct breakdown_capture *breakdown)
{
	struct free_time time = {0};
	const struct breakdown *b = &breakdown->breakdown;
	for (size_t d = 0; one->device && d < b->device_count; d++)
		for (size_t i = 0; i < b->devices[d].stretch_count; i++)
			if (b->devices[d].stretches[i].row == DEVICE_COMMUNICATION)
				add_free(&time, b->devices[d].stretches[i].start,
					 breakdown_stretch_end(&b->devices[d].stretches[i]), HOST_ROWS);
	const struct activity_thread *thread =
		one->device || !b->activity ? NULL : activity_find(b->activity, b->step_thread);
	for (size_t i = 0; thread && i < thread->count; i++) {
		struct activity_segment segment = activity_segment(thread, i);
		if (segment.doing == DOING_OUTSIDE || segment.doing == DOING_COMM)
			add_free(&time, segment.start, segment.end,
				 segment.doing == DOING_OUTSIDE ? HOST_OUTSIDE : HOST_COMM);
	}
	if (one->device && time.count && b->device_count > 1) {
		/* Of several devices one after the other: put in order, and joined. */
		struct free_time joined = {0};
		qsort(time.items, time.count, sizeof *time.items, by_start);
		for (size_t i = 0; i < time.count; i++)
			add_free(&joined, time.items[i].start, time.items[i].end, HOST_ROWS);
		free(time.items);
		time = joined;
	}
	return time;
}

/* What of [start, end) is free. To *outside is added what of that stands in this row of the host. */
static int64_t free_within(const struct free_time *time, int64_t start, int64_t end, double *outside)
{
	int64_t sum = 0;
	for (size_t i = ARRAY_BEFORE(time->count, at, time->items[at].end <= start);
	     i < time->count && time->items[i].start < end; i++) {
		int64_t from = time->items[i].start > start ? time->items[i].start : start;
		int64_t to = time->items[i].end < end ? time->items[i].end : end;
		figure_add(&sum, to - from);
		*outside += time->items[i].last == HOST_OUTSIDE ? (double)(to - from) : 0;
	}
	return sum;
}

/* Those of calls [from, to), in order. Where several are under way, the first one has the time: nothing counts twice. */
static size_t waits_of(const struct work *work, size_t from, size_t to, struct stretch *waits)
{
	size_t count = 0, kept = 0;
	for (size_t i = from; i < to; i++) {
		const struct call *call = &work->calls[i];
		if (call->last != SIZE_MAX && call->last != call->member && call->wait > 0)
			waits[count++] = (struct stretch){call->ready, call->ready + call->wait, call->last};
	}
	qsort(waits, count, sizeof *waits, by_start);
	for (size_t i = 0; i < count; i++) {
		struct stretch wait = waits[i];
		if (kept && wait.start < waits[kept - 1].end)
			wait.start = waits[kept - 1].end;
		if (wait.start < wait.end)
			waits[kept++] = wait;
	}
	return kept;
}

/* A wait is of the step in which it is: a device may do what an earlier step has asked for. */
static void add_waits(struct work *work, size_t index, const struct stretch *waits, size_t count,
		      const struct free_time *time)
{
	struct ranks *ranks = work->ranks;
	const struct side_capture *capture = &ranks->side->captures[index];
	struct ranks_member *one = &ranks->members[ranks->member_of[index]];
	double others = (double)ranks->count - 1;
	int64_t until = INT64_MIN;
	size_t at = 0;
	for (size_t s = 0; s < capture->count; s++) {
		const struct side_step *step = &capture->steps[s];
		int64_t begin = step->start > until ? step->start : until, end = step->start + step->wall;
		until = end > until ? end : until;
		while (at < count && waits[at].end <= begin)
			at++;
		for (size_t i = at; counts(ranks, step->unit) && i < count && waits[i].start < end; i++) {
			int64_t from = waits[i].start > begin ? waits[i].start : begin;
			int64_t to = waits[i].end < end ? waits[i].end : end;
			double ns = (double)free_within(time, from, to, &one->outside);
			one->waits += ns;
			work->kept[step->unit * ranks->count + waits[i].last] += ns / others;
		}
	}
}

static void add_rows(const struct ranks *ranks, size_t index, const struct breakdown_capture *breakdown)
{
	const struct side_capture *capture = &ranks->side->captures[index];
	struct ranks_member *one = &ranks->members[ranks->member_of[index]];
	const struct breakdown *b = &breakdown->breakdown;
	one->has_host |= breakdown->host;
	one->has_devices |= b->device_count > 0;
	for (size_t i = 0; i < capture->count && i < b->step_count; i++) {
		if (!counts(ranks, capture->steps[i].unit))
			continue;
		one->units++;
		one->wall += (double)capture->steps[i].wall;
		for (size_t row = 0; row < HOST_ROWS; row++)
			one->host[row] += (double)b->steps[i].host[row];
		for (size_t row = 0; row < DEVICE_ROWS && b->device_count; row++)
			one->devices[row] += (double)b->devices[0].steps[i].rows[row];
	}
}

static int by_capture(const void *a, const void *b)
{
	const struct call *one = a, *other = b;
	return ORDER(one->capture, other->capture);
}

static void add_members(struct work *work)
{
	const struct side *side = work->ranks->side;
	struct stretch *waits = need(malloc((work->count + 1) * sizeof *waits));
	if (work->count)
		qsort(work->calls, work->count, sizeof *work->calls, by_capture);
	for (size_t c = 0, from = 0, to; c < side->count; c++, from = to) {
		struct breakdown_capture own;
		for (to = from; to < work->count && work->calls[to].capture == c;)
			to++;
		const struct breakdown_capture *breakdown =
			verdict_intervals(&side->captures[c].capture.reader, &(struct report_options){0}, &own);
		struct free_time time = free_time_of(&work->ranks->members[work->ranks->member_of[c]], breakdown);
		add_waits(work, c, waits, waits_of(work, from, to, waits), &time);
		add_rows(work->ranks, c, breakdown);
		free(time.items);
		breakdown_capture_free(&own);
	}
	free(waits);
}

/* ---------------------------------------------------------------- operations that are alike */

static int alike(const struct ranks_operation *one, const struct ranks_operation *other)
{
	return strcmp(one->operation ? one->operation : "", other->operation ? other->operation : "") ?:
	       strcmp(one->group ? one->group : "", other->group ? other->group : "") ?:
	       strcmp(one->dtype ? one->dtype : "", other->dtype ? other->dtype : "") ?:
	       ORDER(one->bytes, other->bytes) ?: ORDER(one->size, other->size);
}

static int by_likeness(const void *a, const void *b)
{
	const struct call *one = a, *other = b;
	return alike(&one->like, &other->like);
}

static int by_wait(const void *a, const void *b)
{
	const struct ranks_operation *one = a, *other = b;
	return ORDER(other->wait, one->wait) ?: ORDER(other->transfer, one->transfer) ?: alike(one, other);
}

static void add_operations(struct work *work)
{
	struct ranks *ranks = work->ranks;
	size_t room = 0;
	if (work->count)
		qsort(work->calls, work->count, sizeof *work->calls, by_likeness);
	for (size_t i = 0; i < work->count; i++) {
		struct ranks_operation *like = &work->calls[i].like,
				       *last = ranks->operation_count ? &ranks->operations[ranks->operation_count - 1]
								      : NULL;
		if (like->calls <= 0)
			continue;
		if (last && alike(last, like) == 0) {
			last->calls += like->calls;
			last->transfer += like->transfer;
			last->wait += like->wait;
			last->most = fmax(last->most, like->most);
			continue;
		}
		NEED_ROOM(ranks->operations, ranks->operation_count, room);
		ranks->operations[ranks->operation_count++] = *like;
		*like = (struct ranks_operation){0};
	}
	if (ranks->operation_count)
		qsort(ranks->operations, ranks->operation_count, sizeof *ranks->operations, by_wait);
}

/* ---------------------------------------------------------------- who it is */

/* ns of a step in a row of the breakdown, host's rows first, without waits for other ranks. NaN: nobody knows, or it is such a wait. */
static double row_of(const struct ranks_member *one, size_t row)
{
	if (one->units <= 0)
		return NAN;
	if (row >= HOST_ROWS)
		return row == HOST_ROWS + DEVICE_COMMUNICATION || !one->has_devices
			       ? NAN
			       : one->devices[row - HOST_ROWS] / one->units;
	/* What a device does is told by its own rows. */
	if (row == HOST_COMM || !one->has_host || one->has_devices)
		return NAN;
	return (one->host[row] - (row == HOST_OUTSIDE ? one->outside : 0)) / one->units;
}

/* What the rank does longer than the others do, on average: the row that differs most. */
static void find_row(struct ranks *ranks)
{
	double most = ranks->members[ranks->last].keeps / ranks->units / 4;
	for (size_t row = 0; row < HOST_ROWS + DEVICE_ROWS; row++) {
		double own = row_of(&ranks->members[ranks->last], row), others = 0, count = 0;
		for (size_t m = 0; m < ranks->count; m++) {
			double other = m == ranks->last ? NAN : row_of(&ranks->members[m], row);
			others += isnan(other) ? 0 : other;
			count += !isnan(other);
		}
		if (isnan(own) || count <= 0 || own - others / count <= most)
			continue;
		most = own - others / count;
		ranks->row =
			row < HOST_ROWS ? breakdown_host_rows[row].title : breakdown_device_rows[row - HOST_ROWS].title;
		ranks->row_own = own;
		ranks->row_others = others / count;
	}
}

static void find_last(struct work *work)
{
	struct ranks *ranks = work->ranks;
	const struct side *side = ranks->side;
	double all = 0, wall = ranks->wall, *wins = need(calloc(ranks->count + 1, sizeof *wins));
	size_t last = 0;
	for (size_t unit = 0; unit < side->units; unit++) {
		size_t first = SIZE_MAX;
		for (size_t m = 0; m < ranks->count; m++) {
			double kept = work->kept[unit * ranks->count + m];
			ranks->members[m].keeps += kept;
			all += kept;
			if (kept > 0 && (first == SIZE_MAX || kept > work->kept[unit * ranks->count + first]))
				first = m;
		}
		if (first != SIZE_MAX)
			wins[first]++;
	}
	for (size_t m = 1; m < ranks->count; m++)
		if (ranks->members[m].keeps > ranks->members[last].keeps)
			last = m;
	double units = ranks->units, mean = ranks->members[last].keeps / units;
	ranks->in_turn = all / units >= WORTH * wall;
	if (mean >= WORTH * wall && ranks->members[last].keeps >= MOSTLY * all && wins[last] > MOSTLY * units) {
		ranks->last = last;
		ranks->in_turn = false;
		ranks->least = INFINITY;
		for (size_t unit = 0; unit < side->units; unit++) {
			double part = work->kept[unit * ranks->count + last] / fmax(side->walls[unit], 1);
			if (!counts(ranks, unit))
				continue;
			ranks->least = fmin(ranks->least, part);
			ranks->most = fmax(ranks->most, part);
		}
		find_row(ranks);
	}
	free(wins);
}

/* ---------------------------------------------------------------- the whole */

static int by_rank(const void *a, const void *b)
{
	const struct ranks_member *one = a, *other = b;
	return ORDER(one->rank, other->rank);
}

/* Captures of one rank are one member; one of which the rank is not known is one by itself. */
static void find_members(struct ranks *ranks)
{
	struct side *side = ranks->side;
	ranks->members = need(calloc(side->count + 1, sizeof *ranks->members));
	ranks->member_of = need(calloc(side->count + 1, sizeof *ranks->member_of));
	for (size_t c = 0; c < side->count; c++) {
		struct side_capture *capture = &side->captures[c];
		int64_t rank = side_rank(capture),
			world_size = reader_meta_int(&capture->capture.reader, "world_size", 0);
		bool known = false;
		for (size_t m = 0; rank >= 0 && m < ranks->count && !known; m++)
			known = ranks->members[m].rank == rank;
		if (!known)
			ranks->members[ranks->count++] = (struct ranks_member){.capture = capture, .rank = rank};
		ranks->world_size = world_size > ranks->world_size ? world_size : ranks->world_size;
	}
	qsort(ranks->members, ranks->count, sizeof *ranks->members, by_rank);
	for (size_t c = 0; c < side->count; c++)
		for (size_t m = 0; m < ranks->count; m++)
			if (ranks->members[m].capture == &side->captures[c] ||
			    (ranks->members[m].rank >= 0 && ranks->members[m].rank == side_rank(&side->captures[c])))
				ranks->member_of[c] = m;
}

/* Why there is nothing to be compared. */
static int refuse(const struct ranks *ranks)
{
	static const char how[] = "`profd trigger --job JOB` or --name GLOB records the ranks of a job together";
	size_t nameless = 0;
	for (size_t m = 0; m < ranks->count; m++)
		nameless += ranks->members[m].rank < 0;
	if (ranks->count < 2)
		return fail(EXIT_NO_TARGET, "%s is of one rank alone; %s", ranks->side->word, how);
	if (nameless)
		return fail(EXIT_NO_TARGET, "%s: of %zu of %zu captures it is not known which rank they are of; %s",
			    ranks->side->word, nameless, ranks->count, how);
	return fail(EXIT_NO_TARGET, "%s: these %zu ranks have recorded no step together; %s", ranks->side->word,
		    ranks->count, how);
}

static int add_ranks(struct ranks *ranks)
{
	const struct side *side = ranks->side;
	find_members(ranks);
	for (size_t unit = 0; unit < side->units; unit++) {
		ranks->units += counts(ranks, unit);
		ranks->left_out += !counts(ranks, unit);
		ranks->wall += counts(ranks, unit) ? side->walls[unit] : 0;
	}
	ranks->wall /= fmax(ranks->units, 1);
	return ranks->count < 2 || ranks->units <= 0 ? refuse(ranks) : EXIT_DONE;
}

static void free_operation(struct ranks_operation *operation)
{
	free(operation->operation);
	free(operation->group);
	free(operation->dtype);
}

int ranks_compare(struct side *side, struct ranks *ret)
{
	struct work work = {.ranks = ret};
	*ret = (struct ranks){.side = side, .last = SIZE_MAX};
	int code = add_ranks(ret);
	if (code)
		return code;
	work.kept = need(calloc(side->units * ret->count + 1, sizeof *work.kept));
	for (size_t c = 0; c < side->count; c++)
		load_calls(&work, c);
	if (work.count)
		qsort(work.calls, work.count, sizeof *work.calls, together);
	for (size_t from = 0, to; from < work.count; from = to) {
		for (to = from + 1; to < work.count && work.calls[to].unit == work.calls[from].unit &&
				    strcmp(work.calls[to].key, work.calls[from].key) == 0;)
			to++;
		match(&work, from, to);
	}
	add_members(&work);
	find_last(&work);
	add_operations(&work);
	for (size_t i = 0; i < work.count; i++) {
		free(work.calls[i].key);
		free_operation(&work.calls[i].like);
	}
	free(work.calls);
	free(work.kept);
	return EXIT_DONE;
}

void ranks_free(struct ranks *ranks)
{
	for (size_t i = 0; i < ranks->operation_count; i++)
		free_operation(&ranks->operations[i]);
	free(ranks->operations);
	free(ranks->members);
	free(ranks->member_of);
	*ranks = (struct ranks){0};
}
