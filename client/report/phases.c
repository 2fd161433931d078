/* phases.c - the phases of the loop: how long the step's thread was in each, which operators ran there, and what they
 * launched. Phases and their times are those of the breakdown (store/breakdown). */
#include "filter.h"
#include "folded.h"
#include "query.h"
#include "recorded.h"
#include "verdict.h"
#include "views.h"

#include "client/ui/figure.h"

#include <sqlite3.h>

enum {
	P_PHASE,
	P_TITLE,
	P_STRETCHES,
	P_TIME,
	P_PERCENT,
	P_OPERATORS,
	P_SELF,
	P_SELF_PERCENT,
	P_DEVICE,
	P_DEVICE_PERCENT
};

static const struct column columns[] = {
	[P_PHASE] = {"phase", "PHASE", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[P_TITLE] = {"", "PHASE", COLUMN_TEXT, COLUMN_TABLE_ONLY},
	[P_STRETCHES] = {"stretches", "STRETCHES", COLUMN_COUNT, COLUMN_SPARE},
	[P_TIME] = {"time_ns", "TIME", COLUMN_DURATION, 0},
	[P_PERCENT] = {"percent", "SHARE", COLUMN_PERCENT, COLUMN_BARRED},
	[P_OPERATORS] = {"operators", "OPERATORS", COLUMN_COUNT, 0},
	[P_SELF] = {"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},
	[P_SELF_PERCENT] = {"self_cpu_percent", "SELF CPU %", COLUMN_PERCENT, COLUMN_SPARE},
	[P_DEVICE] = {"device_ns", "DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL},
	[P_DEVICE_PERCENT] = {"device_percent", "DEVICE %", COLUMN_PERCENT, COLUMN_OPTIONAL},
};

/* Sums of each phase, and of all phases. */
struct sums {
	int64_t stretches[PHASE_COUNT], time[PHASE_COUNT], operators[PHASE_COUNT], self[PHASE_COUNT],
		device[PHASE_COUNT];
	int64_t wall, all_self, all_device;
};

static void add_times(struct sums *sums, const struct breakdown_step *step)
{
	for (size_t phase = 0; phase < PHASE_COUNT; phase++)
		for (size_t doing = 0; doing < DOING_COUNT; doing++)
			figure_add(&sums->time[phase], step->matrix[phase][doing]);
	figure_add(&sums->wall, step->end - step->start);
}

/* A phase that continues after the end of a step is one stretch. */
static void add_stretches(struct sums *sums, const struct breakdown *breakdown, int64_t from, int64_t to)
{
	const struct activity_thread *thread = activity_find(breakdown->activity, breakdown->step_thread);
	int64_t end = INT64_MIN;
	unsigned before = PHASE_NONE;

	for (size_t at = thread ? activity_at(thread, from) : 0; thread && at < thread->count; at++) {
		const struct activity_segment segment = activity_segment(thread, at);

		if (segment.start >= to)
			break;
		sums->stretches[segment.phase] += segment.phase != before || segment.start > end;
		before = segment.phase;
		end = segment.end;
	}
}

/* Operators and launches are added to these. */
struct operators {
	struct sums *sums;
	const struct breakdown_capture *capture;
	const struct report_options *options;
	struct breakdown_asked asked;
};

/* An operator that is one call with its parent counts only with its time. */
static void add_operator(void *context, const struct folded_operator *operator)
{
	struct operators *to = context;

	if (to->options->step && operator->step != to->options->step)
		return;
	enum phase phase = breakdown_phase(to->capture, &to->asked, (uint32_t) operator->thread, operator->start);

	if (!filter_has_phase(to->options->filter, phase))
		return;
	figure_add(&to->sums->self[phase], operator->self);
	figure_add(&to->sums->all_self, operator->self);
	to->sums->operators[phase] += !operator->folded;
}

/* If the call of a launch is missing, its time is not known. */
static void add_launch(void *context, sqlite3_value **row)
{
	struct operators *to = context;
	enum phase phase = sqlite3_value_type(row[1]) == SQLITE_INTEGER
				   ? breakdown_phase(to->capture, &to->asked, (uint32_t)int_of(row[0]), int_of(row[1]))
				   : PHASE_NONE;

	if (!filter_has_phase(to->options->filter, phase))
		return;
	figure_add(&to->sums->device[phase], int_of(row[2]));
	figure_add(&to->sums->all_device, int_of(row[2]));
}

static void set_share(struct table *table, size_t column, int64_t part, int64_t whole)
{
	if (whole > 0)
		table_set_real(table, column, (double)part * 100 / (double)whole);
}

static void add_row(struct table *table, const struct sums *sums, enum phase phase, bool torch, bool gpu)
{
	const struct breakdown_row *row = breakdown_phase_row(phase);

	table_add(table);
	table_set_text(table, P_PHASE, row->word);
	table_set_text(table, P_TITLE, row->title);
	if (phase != PHASE_NONE)
		table_set(table, P_STRETCHES, sums->stretches[phase]);
	table_set(table, P_TIME, sums->time[phase]);
	set_share(table, P_PERCENT, sums->time[phase], sums->wall);
	if (torch) {
		table_set(table, P_OPERATORS, sums->operators[phase]);
		table_set(table, P_SELF, sums->self[phase]);
		set_share(table, P_SELF_PERCENT, sums->self[phase], sums->all_self);
	}
	if (gpu) {
		table_set(table, P_DEVICE, sums->device[phase]);
		set_share(table, P_DEVICE_PERCENT, sums->device[phase], sums->all_device);
	}
}

struct table *report_phases(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	bool torch = report_filled(reader, FILLS_OPERATORS), gpu = report_attributed(reader);
	struct breakdown_capture own;
	const struct breakdown_capture *capture = verdict_intervals(reader, options, &own);
	const struct breakdown *breakdown = &capture->breakdown;
	size_t first = options->step ? (size_t)(options->step - 1) : 0;
	size_t last = options->step && first < breakdown->step_count ? first + 1 : breakdown->step_count;
	struct sums sums = {0};

	for (size_t i = first; i < last; i++)
		add_times(&sums, &breakdown->steps[i]);
	if (first < last)
		add_stretches(&sums, breakdown, breakdown->steps[first].start, breakdown->steps[last - 1].end);
	struct operators operators = {.sums = &sums, .capture = capture, .options = options};
	folded_each(reader, add_operator, &operators);
	if (gpu)
		report_scan(reader,
			    "SELECT count(profd_row(thread, start, device_time)) FROM launches WHERE" REPORT_STEP,
			    options->step, add_launch, &operators);
	for (unsigned i = 1; i <= PHASE_COUNT; i++) {
		/* PHASE_NONE comes last. */
		enum phase phase = i % PHASE_COUNT;

		if (filter_has_phase(options->filter, phase) &&
		    (sums.time[phase] || sums.operators[phase] || sums.device[phase]))
			add_row(table, &sums, phase, torch, gpu);
	}
	breakdown_capture_free(&own);
	return table;
}
