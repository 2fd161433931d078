/* tracks.c - the timeline of the page: a track for each device and one for the thread that steps, with the names of what took
 * longest on them. */
#include "names.h"
#include "proto/base/array.h"
#include "parts.h"
#include "steps.h"
#include "strip.h"

#include "client/report/query.h"
#include "client/ui/figure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Over all tracks: what a page can hold, and a browser can draw while somebody drags it. */
#define MOST_PIECES 60000
#define MOST_LABELS 12000
#define MOST_LANES 12

#define GATHERED "Sums are exact at any zoom; pieces too fine for this page are gathered with their neighbours. "

struct label {
	int64_t start, length;
	int64_t name; /* id in strings; negative: of no kernel */
	unsigned lane;
};

struct tracks {
	const struct page_time *time;
	const struct reader *reader;
	struct page_names names;
};

static int by_start(const void *a, const void *b)
{
	const struct label *x = a, *y = b;
	return ORDER(x->start, y->start) ?: ORDER(y->length, x->length);
}

/* Each label takes the first lane that is free: what is nested stands below what it is in. */
static void set_lanes(struct label *labels, size_t count)
{
	int64_t ends[MOST_LANES];
	for (size_t i = 0; i < MOST_LANES; i++)
		ends[i] = INT64_MIN;
	if (count)
		qsort(labels, count, sizeof *labels, by_start);
	for (size_t i = 0; i < count; i++) {
		unsigned lane = 0;
		while (lane < MOST_LANES && ends[lane] > labels[i].start)
			lane++;
		labels[i].lane = lane;
		if (lane < MOST_LANES)
			ends[lane] = labels[i].start + labels[i].length;
	}
}

/* The longest of what `sql` finds, with its parameters 1 (whose) and 2 (how many). */
static cJSON *labels_of(struct tracks *tracks, const char *sql, int64_t whose, size_t most)
{
	struct label *labels = need(calloc(most, sizeof *labels));
	cJSON *array = need(cJSON_CreateArray());
	size_t count = 0;
	sqlite3_stmt *statement = report_prepare(tracks->reader, sql);
	sqlite3_bind_int64(statement, 1, whose);
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)most);
	while (report_next(tracks->reader, statement)) {
		if (count < most)
			labels[count++] = (struct label){figure_time(sqlite3_column_int64(statement, 0)),
							 figure_length(sqlite3_column_int64(statement, 1)),
							 sqlite3_column_int64(statement, 2), 0};
	}
	set_lanes(labels, count);
	for (size_t i = 0; i < count; i++) {
		if (labels[i].lane >= MOST_LANES)
			continue;
		const double values[] = {(double)(labels[i].start - tracks->time->base), (double)labels[i].length,
					 (double)page_name(&tracks->names, labels[i].name), (double)labels[i].lane};
		cJSON_AddItemToArray(array, need(cJSON_CreateDoubleArray(values, 4)));
	}
	free(labels);
	return array;
}

static void add_track(struct tracks *tracks, cJSON *to, const char *title, int64_t device, size_t most, cJSON *labels)
{
	int64_t start, gathered;
	char *pieces = strip_text(tracks->time->strip, device, most, &start, &gathered);
	if (!pieces) {
		cJSON_Delete(labels);
		return;
	}
	cJSON *track = need(cJSON_CreateObject());
	json_add_text(track, "title", title);
	need(cJSON_AddNumberToObject(track, "start", (double)(start - tracks->time->base)));
	json_add_text(track, "pieces", pieces);
	need(cJSON_AddNumberToObject(track, "gathered", (double)gathered));
	cJSON *words = need(cJSON_AddArrayToObject(track, "rows_of")),
	      *titles = need(cJSON_AddArrayToObject(track, "titles"));
	bool doubt = tracks->time->kept.capture.doubt[0];
	size_t count = device < 0 ? (size_t)HOST_ROWS : (size_t)DEVICE_IDLE + IDLE_ROWS;
	for (size_t i = 0; i < count; i++) {
		bool idle = device >= 0 && i >= DEVICE_IDLE;
		size_t cause = doubt ? IDLE_UNKNOWN : i - DEVICE_IDLE;
		const struct breakdown_row *row = device < 0 ? &breakdown_host_rows[i]
						  : idle     ? &breakdown_idle_rows[cause]
							     : &breakdown_device_rows[i];
		char word[64], text[128];
		snprintf(word, sizeof word, "%s%s", idle ? "idle " : "", row->word);
		snprintf(text, sizeof text, "%s%s", idle ? "idle: " : "", row->title);
		cJSON_AddItemToArray(words, need(cJSON_CreateString(word)));
		cJSON_AddItemToArray(titles, need(cJSON_CreateString(text)));
	}
	cJSON_AddItemToObject(track, "labels", labels);
	cJSON_AddItemToArray(to, track);
	free(pieces);
}

cJSON *page_strip(const struct page_time *time, const struct reader *reader)
{
	const struct breakdown *breakdown = &time->kept.capture.breakdown;
	size_t devices = time->kept.capture.device ? breakdown->device_count : 0;
	struct tracks tracks = {.time = time, .reader = reader};
	cJSON *strip = need(cJSON_CreateObject()), *to = need(cJSON_AddArrayToObject(strip, "tracks"));
	size_t most = MOST_PIECES / (devices + 1), most_labels = MOST_LABELS / (devices + 1);
	int64_t start = 0, end = 0;
	page_names_init(&tracks.names, reader);
	strip_bounds(time->strip, &start, &end);
	most_labels = most_labels < 3000 ? most_labels + 1 : 3000;
	for (size_t d = 0; d < devices; d++) {
		char title[40];
		snprintf(title, sizeof title, "device %" PRId64, breakdown->devices[d].device);
		add_track(
			&tracks, to, title, breakdown->devices[d].device, most,
			labels_of(
				&tracks,
				"SELECT start, duration, coalesce(short_name, name) FROM kernels WHERE device = ?1 AND "
				"duration > 0 ORDER BY duration DESC LIMIT ?2",
				breakdown->devices[d].device, most_labels));
	}
	if (breakdown->step_count)
		add_track(
			&tracks, to, "host", -1, most,
			labels_of(
				&tracks,
				"SELECT start, duration, name FROM (SELECT start, duration, name FROM operators WHERE "
				"thread = ?1 UNION ALL SELECT start, duration, name FROM ranges WHERE thread = ?1) "
				"ORDER BY duration DESC LIMIT ?2",
				breakdown->step_thread, most_labels));
	need(cJSON_AddNumberToObject(strip, "start", (double)(start - time->base)));
	need(cJSON_AddNumberToObject(strip, "end", (double)(end - time->base)));
	cJSON_AddItemToObject(strip, "names", page_names_array(&tracks.names));
	json_add_text(
		strip, "sentence",
		tracks.names.shortened ? GATHERED
			"Names are those of the longest kernels, operators and ranges, and long ones are shortened."
				       : GATHERED "Names are those of the longest kernels, operators and ranges.");
	page_names_deinit(&tracks.names);
	return strip;
}
