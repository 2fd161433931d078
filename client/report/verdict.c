/* verdict.c - see verdict.h. */
#include "verdict.h"

#include "query.h"
#include "recorded.h"

#include "store/findings_stored.h"

#include "client/ui/json.h"
#include "client/ui/text.h"
#include "proto/base/facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100
#define INDENT 4

static bool may_go_on(void *context)
{
	return bounds_row(context);
}

/* Ends the program. */
static void give_up(const struct reader *reader, int error)
{
	if (error == SQLITE_NOMEM)
		need(NULL);
	report_damaged(reader);
}

void verdict_forget(struct verdict_kept *kept)
{
	if (kept->computed)
		breakdown_capture_free(&kept->capture);
	kept->computed = false;
}

const struct breakdown_capture *verdict_intervals(const struct reader *reader, const struct report_options *options,
						  struct breakdown_capture *own)
{
	const struct breakdown_watch watch = {.row = may_go_on, .context = reader->bounds};
	struct verdict_kept *kept = options->kept;
	struct breakdown_capture *to = kept ? &kept->capture : own;
	int error = 0;
	*own = (struct breakdown_capture){0};
	if (kept && kept->computed)
		return to;
	if (!breakdown_capture_load(reader->db, &watch, to, &error)) {
		breakdown_capture_free(to);
		give_up(reader, error);
	}
	if (kept)
		kept->computed = true;
	return to;
}

/* Reads the breakdown and the verdict from the file. NULL: an earlier release wrote the file, and there is nothing to
 * free. */
static const struct breakdown_capture *read_stored(const struct reader *reader, struct breakdown_capture *own,
						   struct findings *ret)
{
	const struct breakdown_watch watch = {.row = may_go_on, .context = reader->bounds};
	int error = 0;
	if (findings_read(reader->db, &watch, own, ret, &error))
		return own;
	breakdown_capture_free(own);
	if (error)
		give_up(reader, error);
	return NULL;
}

const struct breakdown_capture *verdict_rows(const struct reader *reader, const struct report_options *options,
					     struct breakdown_capture *own)
{
	struct findings findings;
	const struct breakdown_capture *stored = read_stored(reader, own, &findings);
	return stored ? stored : verdict_intervals(reader, options, own);
}

void verdict_lines(const struct reader *reader, const struct report_options *options,
		   const struct breakdown_capture *capture, struct row_lines *ret)
{
	const struct breakdown_watch watch = {.row = may_go_on, .context = reader->bounds};
	bool is_stored = !capture->breakdown.activity && !options->step && report_has_table(reader, "breakdown_lines");
	struct breakdown_capture own = {0};
	int error = 0;
	bool ok = true;
	*ret = (struct row_lines){0};
	if (is_stored) {
		ok = row_lines_read(reader->db, &watch, &capture->breakdown, ret, &error);
	} else if (row_lines_recorded(reader->db)) {
		if (!capture->breakdown.activity)
			capture = verdict_intervals(reader, options, &own);
		size_t count = capture->breakdown.step_count, first = options->step ? (size_t)(options->step - 1) : 0;
		first = first < count ? first : count;
		ok = row_lines_find(capture, reader->db, &watch, first,
				    options->step && first < count ? first + 1 : count, ret, &error);
	}
	breakdown_capture_free(&own);
	if (!ok)
		give_up(reader, error);
}

const struct row_line *verdict_idle_lines(const struct row_lines *lines, size_t device)
{
	return device < lines->devices ? lines->idle[device] : NULL;
}

void verdict_read(const struct reader *reader, const struct report_options *options, struct findings *ret)
{
	const struct breakdown_watch watch = {.row = may_go_on, .context = reader->bounds};
	struct breakdown_capture own;
	int error = 0;
	if (options->step || !read_stored(reader, &own, ret)) {
		const struct breakdown_capture *capture = verdict_intervals(reader, options, &own);
		size_t step = options->step ? (size_t)(options->step - 1) : SIZE_MAX;
		if (!(step < capture->breakdown.step_count
			      ? findings_make_step(capture, reader->db, &watch, step, ret, &error)
			      : findings_make(capture, reader->db, &watch, ret, &error)))
			give_up(reader, error);
	}
	breakdown_capture_free(&own);
}

/* Prints the words of `text`, indented, in lines of at most `width` columns. The first line begins where the stream
 * is. */
static void put_wrapped(FILE *file, const char *text, int width)
{
	int column = INDENT;
	for (const char *at = text; *at;) {
		int n = (int)strcspn(at, " ");
		if (column > INDENT && column + 1 + n > width) {
			fprintf(file, "\n%*s", INDENT, "");
			column = INDENT;
		} else if (column > INDENT) {
			fputc(' ', file);
			column++;
		}
		fprintf(file, "%.*s", n, at);
		column += n;
		at += n;
		at += strspn(at, " ");
	}
	fputc('\n', file);
}

static void put_indented(FILE *file, const char *text, int width)
{
	char *safe = text_safe(text);
	fprintf(file, "%*s", INDENT, "");
	put_wrapped(file, safe, width);
	free(safe);
}

static void put_finding(FILE *file, size_t number, const cJSON *finding, bool window, const char *capture, int width)
{
	double share = json_number(finding, "share", 0) * 100, least = json_number(finding, "min", 0) * 100,
	       most = json_number(finding, "max", 0) * 100, win = json_number(finding, "win", 0) * 100;
	const char *what = json_text(finding, "what"), *evidence = json_text(finding, "evidence"),
		   *advice = json_text(finding, "try");
	bool one_step = json_number(finding, "step", 0) > 0;
	char head[1024], tail[1400];
	if (one_step)
		snprintf(head, sizeof head, "%s: %.0f %% of all the time.", what ? what : "", share);
	else if (most - least >= 1)
		snprintf(head, sizeof head, "%s: %.0f %% of a step (%.0f to %.0f %% in each).", what ? what : "", share,
			 least, most);
	else
		snprintf(head, sizeof head, "%s: %.0f %% of %s.", what ? what : "", share,
			 window ? "the window" : "a step");
	char *safe = text_safe(head);
	fprintf(file, "%3zu ", number);
	put_wrapped(file, safe, width);
	free(safe);
	if (evidence && *evidence)
		put_indented(file, evidence, width);
	if (win > 0)
		snprintf(tail, sizeof tail, "%s At most %.0f %% to win.", advice ? advice : "", win);
	else
		snprintf(tail, sizeof tail, "%s", advice ? advice : "");
	put_indented(file, tail, width);
	if (capture)
		fprintf(file, "%*sevidence: profd show %s --finding %zu\n", INDENT, "", capture, number);
}

/* Says which steps were judged, unless all were. */
static void put_judged(FILE *file, const cJSON *verdict, int width)
{
	int64_t first = (int64_t)json_number(verdict, "first_step", 0),
		last = (int64_t)json_number(verdict, "last_step", 0),
		judged = (int64_t)json_number(verdict, "steps", 0),
		all = (int64_t)json_number(verdict, "steps_recorded", 0);
	int64_t left_out = last - first + 1 - judged;
	char text[160];
	int n = snprintf(text, sizeof text, "Judged: step%s %" PRId64, last > first ? "s" : "", first);
	if (judged < 1 || first < 1 || judged >= all)
		return;
	if (last > first)
		n += snprintf(text + n, sizeof text - (size_t)n, " to %" PRId64, last);
	n += snprintf(text + n, sizeof text - (size_t)n, " of %" PRId64, all);
	if (left_out > 0)
		snprintf(text + n, sizeof text - (size_t)n, ", without %" PRId64 " that %s unlike the others", left_out,
			 left_out == 1 ? "is" : "are");
	text_copy(text + strlen(text), 2, ".");
	put_indented(file, text, width);
}

char *verdict_text(const cJSON *verdict, const char *capture, int width)
{
	char *text = NULL;
	size_t size, number = 0;
	FILE *file = need(open_memstream(&text, &size));
	const cJSON *finding;
	const char *abstains = json_text(verdict, "abstains"), *line = json_text(verdict, "verdict");
	width = width > 0 ? width : WIDTH;
	cJSON_ArrayForEach(finding, cJSON_GetObjectItem(verdict, "findings"))
	{
		put_finding(file, ++number, finding, cJSON_IsTrue(cJSON_GetObjectItem(verdict, "window")), capture,
			    width);
	}
	if (abstains && *abstains)
		put_indented(file, abstains, width);
	else if (!number && line)
		put_indented(file, line, width);
	put_judged(file, verdict, width);
	fclose(file);
	return need(text);
}
