/* recompile.c - see recompile.h. The words of torch's own reason decide what to try (torch 2.7 to 2.15). */
#include "recompile.h"

#include "proto/events.h"
#include "store/breakdown/compilations.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_BYTES 200

static bool counts(const struct compilation *item)
{
	return item->of_step_thread && item->again;
}

static bool within(const struct breakdown *breakdown, size_t first, size_t last, const struct compilation *item)
{
	return last > first && item->start < breakdown->steps[last - 1].end &&
	       item->end > breakdown->steps[first].start;
}

/* The part of the compilation in a step after `after`: earlier compilations have covered the time up to there. */
static int64_t part_in(const struct breakdown_step *step, const struct compilation *item, int64_t after)
{
	int64_t from = item->start > step->start ? item->start : step->start;
	int64_t to = item->end < step->end ? item->end : step->end;
	from = from > after ? from : after;
	return to > from ? to - from : 0;
}

int64_t *recompile_times(const struct breakdown_capture *capture)
{
	const struct breakdown *breakdown = &capture->breakdown;
	const struct compilations *all = capture->compilations;
	int64_t *times = calloc(breakdown->step_count + 1, sizeof *times), covered = INT64_MIN;
	for (size_t i = 0; times && all && i < all->count; i++) {
		const struct compilation *item = &all->items[i];
		if (!counts(item))
			continue;
		for (size_t s = 0; s < breakdown->step_count; s++)
			times[s] += part_in(&breakdown->steps[s], item, covered);
		covered = item->end > covered ? item->end : covered;
	}
	/* Time that the row lacks, such as time within input, is not lost to compiling. */
	for (size_t s = 0; times && s < breakdown->step_count; s++)
		if (times[s] > breakdown->steps[s].compiled)
			times[s] = breakdown->steps[s].compiled;
	return times;
}

size_t recompile_count(const struct breakdown_capture *capture, size_t first, size_t last)
{
	const struct compilations *all = capture->compilations;
	size_t count = 0;
	for (size_t i = 0; all && i < all->count; i++)
		count += counts(&all->items[i]) && all->items[i].part == COMPILE_FORWARD &&
			 within(&capture->breakdown, first, last, &all->items[i]);
	return count;
}

void recompile_intervals(const struct breakdown_capture *capture, size_t first, size_t last, struct finding *finding)
{
	const struct breakdown *breakdown = &capture->breakdown;
	const struct compilations *all = capture->compilations;
	finding->interval_count = 0;
	finding->interval_total = 0;
	for (size_t i = 0; all && i < all->count; i++) {
		const struct compilation *item = &all->items[i];
		size_t step = first;
		if (!counts(item) || !within(breakdown, first, last, item))
			continue;
		while (step + 1 < last && breakdown->steps[step].end <= item->start)
			step++;
		finding->interval_total++;
		/* The longest ones are kept. */
		size_t at = finding->interval_count;
		if (at == FINDING_INTERVALS) {
			at = 0;
			for (size_t j = 1; j < FINDING_INTERVALS; j++)
				if (finding->intervals[j].end - finding->intervals[j].start <
				    finding->intervals[at].end - finding->intervals[at].start)
					at = j;
			if (finding->intervals[at].end - finding->intervals[at].start >= item->end - item->start)
				continue;
		} else {
			finding->interval_count++;
		}
		finding->intervals[at] = (struct finding_interval){.start = item->start,
								   .end = item->end,
								   .step = (int64_t)step + 1,
								   .thread = breakdown->step_thread,
								   .name = item->function};
	}
}

/* The function that took most of the time. */
static const struct compilation *worst(const struct breakdown_capture *capture, const struct findings *findings)
{
	const struct compilations *all = capture->compilations;
	const struct compilation *found = NULL;
	int64_t most = 0;
	for (size_t i = 0; all && i < all->count; i++) {
		const struct compilation *item = &all->items[i];
		int64_t sum = 0;
		if (!counts(item) || item->part != COMPILE_FORWARD ||
		    !within(&capture->breakdown, findings->first, findings->last, item))
			continue;
		for (size_t j = 0; j < all->count; j++)
			if (counts(&all->items[j]) && all->items[j].function == item->function &&
			    within(&capture->breakdown, findings->first, findings->last, &all->items[j]))
				sum += all->items[j].end - all->items[j].start;
		if (sum > most) {
			most = sum;
			found = item;
		}
	}
	return found;
}

/* Keeps the first line of torch's reason, without the compilation's id before it and the line of code after it. */
static void shorten(char *reason)
{
	char *end = strpbrk(reason, "\r\n"), *code = strstr(reason, "  #"), *from = reason;
	if (end)
		*end = '\0';
	if (code)
		*code = '\0';
	while (isdigit((unsigned char)*from) || *from == '/' || *from == '_')
		from++;
	if (from > reason && from[0] == ':' && from[1] == ' ')
		memmove(reason, from + 2, strlen(from + 2) + 1);
	for (size_t n = strlen(reason); n && strchr(" .;", reason[n - 1]);)
		reason[--n] = '\0';
}

static const struct {
	const char *words[4];
	const char *advice;
} advices[] = {
	{{"size mismatch", "stride mismatch", ".size()", ".shape["},
	 "A shape changes: say that it does by torch._dynamo.mark_dynamic(tensor, dim) or torch.compile(dynamic=True), or keep to a few sizes by padding "
	 "(and drop_last=True for a last batch that is smaller)."},
	{{"rank mismatch"},
	 "The number of dimensions changes: give it the same ones each time, or compile a function for each."},
	{{"dtype mismatch", "device mismatch"},
	 "Tensors of another type or device arrive: convert them before the compiled function."},
	{{"requires_grad", "grad_mode", "GRAD_MODE", "global_state"},
	 "Gradient, autocast or another state of torch is switched between calls: keep it the same, or compile a function for each state."},
	{{"obj_id", "type_id", "object mismatch"},
	 "Another object arrives each time: keep the same one, or pass only what is needed of it, as tensors."},
	{{"len("}, "The length of a list or dict changes: keep it, or pass one tensor instead."},
	{{" == "},
	 "A number or a text of Python is part of the compiled code: pass it as a tensor, or keep it out of the compiled function."},
};

static const char *advice_for(const char *reason)
{
	for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
		for (size_t w = 0; w < 4 && advices[i].words[w]; w++)
			if (strstr(reason, advices[i].words[w]))
				return advices[i].advice;
	return NULL;
}

/* Looks up a compilation: its file, as name:line, and the reason for which it was compiled again. */
static void look_up(const struct texts *texts, int64_t row, char *place, size_t place_bytes, char *reason)
{
	sqlite3_stmt *statement = NULL;
	char file[FINDING_NAME_BYTES];
	*place = *reason = '\0';
	if (sqlite3_prepare_v2(texts->db, "SELECT file, line, reason FROM compile_events WHERE rowid = ?1", -1,
			       &statement, NULL))
		return;
	sqlite3_bind_int64(statement, 1, row);
	if (sqlite3_step(statement) == SQLITE_ROW) {
		texts_get(texts, (uint32_t)sqlite3_column_int64(statement, 0), file, sizeof file);
		const char *name = strrchr(file, '/');
		if (*file)
			snprintf(place, place_bytes, " (%s:%lld)", name ? name + 1 : file,
				 (long long)sqlite3_column_int64(statement, 1));
		texts_get(texts, (uint32_t)sqlite3_column_int64(statement, 2), reason, REASON_BYTES);
		shorten(reason);
	}
	sqlite3_finalize(statement);
}

void recompile_tell(const struct texts *texts, const struct breakdown_capture *capture, const struct findings *findings,
		    struct finding *finding)
{
	const struct compilation *item = worst(capture, findings);
	char place[FINDING_NAME_BYTES + 24] = "", reason[REASON_BYTES] = "";
	int64_t *times = recompile_times(capture), all = 0;
	size_t steps = 0, count = 0;
	for (size_t i = findings->first; times && i < findings->last; i++) {
		steps += times[i] > 0;
		all += times[i];
	}
	free(times);
	if (item) {
		texts_get(texts, item->function, finding->subject, sizeof finding->subject);
		look_up(texts, item->row, place, sizeof place, reason);
		for (size_t i = 0; i < capture->compilations->count; i++) {
			const struct compilation *other = &capture->compilations->items[i];
			count += counts(other) && other->part == COMPILE_FORWARD && other->function == item->function &&
				 within(&capture->breakdown, findings->first, findings->last, other);
		}
	}
	snprintf(finding->what, sizeof finding->what, "torch.compile compiles again in %zu of %zu steps%s%s", steps,
		 findings->last - findings->first, *finding->subject ? ": " : "", finding->subject);
	snprintf(finding->evidence, sizeof finding->evidence, "%.*f ms in all; %s%s %zu time%s.%s%s%s",
		 all < 10000000 ? 2 : 0, (double)all / 1e6, *finding->subject ? finding->subject : "a function", place,
		 count, count == 1 ? "" : "s", *reason ? " Why, in torch's words: " : "", reason, *reason ? "." : "");
	const char *advice = advice_for(reason);
	if (advice)
		snprintf(finding->advice, sizeof finding->advice, "%s", advice);
}
