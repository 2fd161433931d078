/* breakdown_rows.c - reads timelines from its standard input, a line for each thing, and prints the breakdown of each as a line of JSON: how
 * tests reach store/breakdown/.
 *
 *     thread T OPERATORS      step START END ANNOTATED     span T START END DOING     mark T START END PHASE
 *     call START END T PAGEABLE     op START END DEVICE ROW BEFORE CALL (-1: none)
 *     end
 *
 * It ends with 1 where the pieces that a listener is told of do not add up to the rows.
 *
 * breakdown_rows CAPTURE prints the timeline of a capture file in the same words, with its `known TIME` and `doubt 1` where it has them, and
 * behind `end` its breakdown. It ends with 3 where the file cannot be read. */
#include "store/breakdown/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 200000 /* of each in a timeline */

static struct breakdown_step *steps;
static struct breakdown_call *calls;
static struct breakdown_operation *operations;

static void print_rows(const char *name, const int64_t *values, const struct breakdown_row *rows, size_t count)
{
	const char *comma = "";
	printf("\"%s\": {", name);
	for (size_t i = 0; i < count; i++) {
		if (values[i]) {
			printf("%s\"%s\": %" PRId64, comma, rows[i].word, values[i]);
			comma = ", ";
		}
	}
	printf("}");
}

static void print_device(const struct breakdown_device *device, size_t step)
{
	const struct breakdown_device_step *at = &device->steps[step];
	printf("{\"device\": %" PRId64 ", ", device->device);
	print_rows("rows", at->rows, breakdown_device_rows, DEVICE_ROWS);
	printf(", \"hidden\": [%" PRId64 ", %" PRId64 "], ", at->hidden_communication, at->hidden_copies);
	print_rows("idle", at->idle, breakdown_idle_rows, IDLE_ROWS);
	printf(", \"after_sync\": %" PRId64 "}", at->after_sync);
}

static void print(const struct breakdown *breakdown)
{
	printf("[");
	for (size_t i = 0; i < breakdown->step_count; i++) {
		printf("%s{", i ? ", " : "");
		print_rows("host", breakdown->steps[i].host, breakdown_host_rows, HOST_ROWS);
		printf(", \"devices\": [");
		for (size_t d = 0; d < breakdown->device_count; d++) {
			printf("%s", d ? ", " : "");
			print_device(&breakdown->devices[d], i);
		}
		printf("]}");
	}
	printf("]\n");
}

static struct breakdown_piece *pieces;
static size_t piece_count, piece_room;

static void take_piece(void *context, const struct breakdown_piece *piece)
{
	(void)context;
	if (piece_count == piece_room) {
		piece_room = piece_room ? 2 * piece_room : 1024;
		pieces = realloc(pieces, piece_room * sizeof *pieces);
		if (!pieces)
			exit(1);
	}
	pieces[piece_count++] = *piece;
}

static int64_t part_of(const struct breakdown_piece *piece, const struct breakdown_step *step)
{
	int64_t from = piece->start > step->start ? piece->start : step->start;
	int64_t to = piece->end < step->end ? piece->end : step->end;
	return to > from ? to - from : 0;
}

/* ns of a step in the pieces of one row; idle: -1, or the cause. */
static int64_t told(const struct breakdown_step *step, int64_t device, int row, int idle)
{
	int64_t sum = 0;
	for (size_t i = 0; i < piece_count; i++)
		if (pieces[i].device == device && pieces[i].row == row && (idle < 0 || pieces[i].idle == idle))
			sum += part_of(&pieces[i], step);
	return sum;
}

static bool adds_up(const struct breakdown *breakdown)
{
	for (size_t i = 0; i < breakdown->step_count; i++) {
		const struct breakdown_step *step = &breakdown->steps[i];
		for (int row = 0; row < HOST_ROWS; row++)
			if (told(step, -1, row, -1) != step->host[row])
				return false;
		for (size_t d = 0; d < breakdown->device_count; d++) {
			const struct breakdown_device *device = &breakdown->devices[d];
			for (int row = 0; row < DEVICE_ROWS; row++)
				if (told(step, device->device, row, -1) != device->steps[i].rows[row])
					return false;
			for (int row = 0; row < IDLE_ROWS; row++)
				if (told(step, device->device, DEVICE_IDLE, row) != device->steps[i].idle[row])
					return false;
		}
	}
	return true;
}

/* One line of the timeline. False: it is none. */
static bool take(struct breakdown *breakdown, struct activity *activity, const char *line)
{
	char word[16];
	int64_t a, b, c, d, e, f;
	int n = sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, word, &a, &b,
		       &c, &d, &e, &f);
	if (n == 3 && strcmp(word, "thread") == 0) {
		breakdown->step_thread = (uint32_t)a;
		breakdown->has_operators = b != 0;
	} else if (n == 4 && strcmp(word, "step") == 0 && breakdown->step_count < MOST) {
		steps[breakdown->step_count++] = (struct breakdown_step){.start = a, .end = b, .annotated = c};
	} else if (n == 5 && strcmp(word, "span") == 0 && d >= 0 && d < DOING_COUNT) {
		activity_add(activity, (uint32_t)a, b, c, (enum doing)d);
	} else if (n == 5 && strcmp(word, "mark") == 0 && d >= 0 && d < PHASE_COUNT) {
		activity_mark(activity, (uint32_t)a, b, c, (enum phase)d);
	} else if (n == 5 && strcmp(word, "call") == 0 && breakdown->call_count < MOST) {
		calls[breakdown->call_count++] =
			(struct breakdown_call){.start = a, .end = b, .thread = (uint32_t)c, .pageable = d != 0};
	} else if (n == 7 && strcmp(word, "op") == 0 && d >= 0 && d < DEVICE_IDLE &&
		   breakdown->operation_count < MOST) {
		operations[breakdown->operation_count++] =
			(struct breakdown_operation){.start = a,
						     .end = b,
						     .device = c,
						     .row = (uint8_t)d,
						     .before = e != 0,
						     .call = f < 0 ? BREAKDOWN_NO_CALL : (size_t)f};
	} else {
		return false;
	}
	return true;
}

static bool finish(struct breakdown *breakdown, struct activity *activity)
{
	const struct breakdown_listener listener = {take_piece, NULL};
	piece_count = 0;
	breakdown->listener = &listener;
	bool ok = activity_build(activity) && breakdown_make(breakdown);
	if (ok && !adds_up(breakdown)) {
		fprintf(stderr, "breakdown_rows: the pieces do not add up to the rows\n");
		ok = false;
	}
	if (ok)
		print(breakdown);
	breakdown_free(breakdown);
	activity_free(activity);
	breakdown->step_count = breakdown->call_count = breakdown->operation_count = 0;
	return ok;
}

static void print_spans(const char *word, const struct activity_spans *spans)
{
	for (size_t i = 0; i < spans->count; i++)
		printf("%s %u %" PRId64 " %" PRId64 " %u\n", word, spans->items[i].thread, spans->items[i].start,
		       spans->items[i].end, spans->items[i].what);
}

static void print_timeline(const struct breakdown_capture *capture)
{
	const struct breakdown *breakdown = &capture->breakdown;
	printf("thread %u %d\n", breakdown->step_thread, breakdown->has_operators);
	printf("known %" PRId64 "\ndoubt %d\n", breakdown->known_from, capture->doubt[0] != 0);
	for (size_t i = 0; i < breakdown->step_count; i++)
		printf("step %" PRId64 " %" PRId64 " %" PRId64 "\n", breakdown->steps[i].start, breakdown->steps[i].end,
		       breakdown->steps[i].annotated);
	for (size_t i = 0; i < capture->activity.count; i++)
		print_spans("span", &capture->activity.threads[i].spans);
	print_spans("mark", &capture->activity.marks);
	for (size_t i = 0; i < breakdown->call_count; i++)
		printf("call %" PRId64 " %" PRId64 " %u %d\n", breakdown->calls[i].start, breakdown->calls[i].end,
		       breakdown->calls[i].thread, breakdown->calls[i].pageable);
	for (size_t i = 0; i < breakdown->operation_count; i++) {
		const struct breakdown_operation *at = &breakdown->operations[i];
		printf("op %" PRId64 " %" PRId64 " %" PRId64 " %d %d %" PRId64 "\n", at->start, at->end, at->device,
		       at->row, at->before, at->call < breakdown->call_count ? (int64_t)at->call : -1);
	}
	printf("end\n");
}

static int of_capture(const char *path)
{
	sqlite3 *db = NULL;
	struct breakdown_capture capture;
	int error = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), result = 3;
	if (!error && breakdown_capture_load(db, NULL, &capture, &error)) {
		print_timeline(&capture);
		print(&capture.breakdown);
		result = 0;
	}
	if (error)
		fprintf(stderr, "breakdown_rows: %s: %s\n", path, sqlite3_errstr(error));
	else
		breakdown_capture_free(&capture);
	sqlite3_close(db);
	return result;
}

int main(int count, char **arguments)
{
	if (count > 1)
		return of_capture(arguments[1]);
	struct activity activity = {0};
	char line[256];
	steps = calloc(MOST, sizeof *steps);
	calls = calloc(MOST, sizeof *calls);
	operations = calloc(MOST, sizeof *operations);
	if (!steps || !calls || !operations)
		return 1;
	struct breakdown breakdown = {.steps = steps, .calls = calls, .operations = operations, .activity = &activity};
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "end\n") == 0) {
			if (!finish(&breakdown, &activity))
				return 1;
		} else if (!take(&breakdown, &activity, line)) {
			fprintf(stderr, "breakdown_rows: not a line of a timeline: %s", line);
			return 2;
		}
	}
	free(pieces);
	free(steps);
	free(calls);
	free(operations);
	return 0;
}
