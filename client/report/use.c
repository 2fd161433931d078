/* use.c - see use.h. */
#include "use.h"
#include "query.h"
#include "recorded.h"

#include "client/ui/text.h"

#include "store/breakdown/thread_times.h"

#include <math.h>
#include <sqlite3.h>

#define NONE_RECORDED "how much the step's thread ran, and workers of a loader, was not recorded"

/* What the thread did in so many steps, which took `wall` in all. */
struct steps_use {
	struct thread_use use;
	int64_t wall, steps;
	bool together; /* the steps are too short to be told apart */
};

static void note_thread(struct table *table, const struct steps_use *of)
{
	const struct thread_use *use = &of->use;
	int64_t wall = of->wall, steps = of->steps;
	char ran[TEXT_FIGURE_BYTES], waited[TEXT_FIGURE_BYTES], slept[TEXT_FIGURE_BYTES], error[TEXT_FIGURE_BYTES];

	table_note(
		table,
		"a step's thread ran %s (%.0f %%, exact to %s), slept %s, waited %s for a processor; it went to sleep %.1f "
		"times, and lost its processor %.1f times%s",
		text_duration(ran, use->ran / steps), (double)use->ran * 100 / (double)wall,
		text_duration(error, use->error / steps), text_duration(slept, (wall - use->ran - use->waited) / steps),
		text_duration(waited, use->waited / steps), (double)use->voluntary / (double)steps,
		(double)use->involuntary / (double)steps, of->together ? " (all steps taken together)" : "");
}

static void note_workers(struct table *table, const struct reader *reader)
{
	sqlite3_stmt *statement = report_prepare(
		reader,
		"SELECT count(*), min(cpu * 100.0 / duration), max(cpu * 100.0 / duration) FROM workers WHERE duration > 0");

	while (report_next(reader, statement)) {
		long long count = (long long)sqlite3_column_int64(statement, 0);
		double least = sqlite3_column_double(statement, 1), most = sqlite3_column_double(statement, 2);
		char range[32] = "";

		if (lrint(least) != lrint(most))
			snprintf(range, sizeof range, "%.0f to ", least);
		if (count > 0)
			table_note(table, "%lld %s ran %s%.0f %% of the time: --by workers", count,
				   count == 1 ? "worker (a process that it forked)"
					      : "workers (processes that it forked)",
				   range, most);
	}
}

/* As in the finding `processor`: each step is told by itself; if fewer than half can be, all are told together. */
static struct steps_use steps_use(const struct thread_times *times, const struct breakdown *breakdown, size_t first,
				  size_t last)
{
	struct steps_use of = {.together = last - first > 1};

	for (size_t i = first; i < last; i++) {
		const struct breakdown_step *step = &breakdown->steps[i];
		struct thread_use use;

		if (!thread_times_between(times, step->start, step->end, &use))
			continue;
		thread_times_add(times, step->start, step->end, &of.use);
		of.wall += step->end - step->start;
		of.steps++;
	}
	if ((size_t)of.steps * 2 >= last - first) {
		of.together = false;
		return of;
	}
	of.steps = 0;
	if (thread_times_between(times, breakdown->steps[first].start, breakdown->steps[last - 1].end, &of.use)) {
		of.steps = (int64_t)(last - first);
		of.wall = breakdown->steps[last - 1].end - breakdown->steps[first].start;
	}
	return of;
}

static void note_use(struct table *table, const struct steps_use *of)
{
	if (of->steps && of->wall > 0)
		note_thread(table, of);
	else
		table_note(
			table,
			"how much the step's thread ran is not known: the agent looked at it too seldom for such short steps");
}

void report_note_use(struct table *table, const struct reader *reader, const struct breakdown *breakdown, size_t first,
		     size_t last, bool alone)
{
	struct thread_times times;

	if (!thread_times_load(reader->db, breakdown->step_thread, &times))
		report_damaged(reader);
	if (times.count && first < last) {
		const struct steps_use of = steps_use(&times, breakdown, first, last);

		note_use(table, &of);
	} else if (alone) {
		table_note(table, "%s", NONE_RECORDED);
	}
	if (report_looked(reader))
		note_workers(table, reader);
	thread_times_free(&times);
}
