/* timeline.c - see timeline.h. */
#include "timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("replay: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

/* Room for one more element behind `count`: grows by doubling. */
static void *grow(void *array, size_t count, size_t size)
{
	if (count & (count - 1))
		return array;
	void *grown = realloc(array, (count ? 2 * count : 1) * size);
	if (!grown)
		fail("out of memory");
	return grown;
}

/* The line that is being read. */
struct line {
	char *at;
	size_t number;
};

static uint64_t number(struct line *line)
{
	char *end;
	errno = 0;
	uint64_t value = strtoull(line->at, &end, 10);
	if (end == line->at || errno || (*end && *end != ' '))
		fail("line %zu: a number is missing at \"%.40s\"", line->number, line->at);
	line->at = *end ? end + 1 : end;
	return value;
}

static uint32_t small(struct line *line)
{
	uint64_t value = number(line);
	if (value > UINT32_MAX)
		fail("line %zu: %" PRIu64 " is too large", line->number, value);
	return (uint32_t)value;
}

static uint32_t below(struct line *line, size_t limit)
{
	uint32_t value = small(line);
	if (value >= limit)
		fail("line %zu: there is no %u", line->number, value);
	return value;
}

/* The rest of the line. */
static char *text(struct line *line)
{
	char *result = strdup(line->at), *to = result;
	if (!result)
		fail("out of memory");
	for (const char *from = result; *from; from++) {
		if (*from == '\\' && from[1]) {
			from++;
			*to++ = (char)(*from == 'n' ? '\n' : *from == 'r' ? '\r' : *from);
		} else {
			*to++ = *from;
		}
	}
	*to = 0;
	return result;
}

static void read_more(struct line *line, struct operation *operation)
{
	while (*line->at) {
		char key = line->at[0];
		char *middle = strchr(line->at, '/'), *end = strchr(line->at, ' ');
		if (line->at[1] != '=')
			fail("line %zu: \"%.40s\" is not understood", line->number, line->at);
		line->at += 2;
		if (key == 'q') {
			operation->queued = number(line);
			continue;
		}
		if ((key != 'g' && key != 'p') || !middle || (end && end < middle))
			fail("line %zu: \"%.40s\" is not understood", line->number, line->at);
		*middle = ' ';
		uint32_t first = small(line);
		uint64_t second = number(line);
		if (key == 'g') {
			operation->is_node = 1;
			operation->graph = first;
			operation->graph_node = second;
		} else {
			operation->is_peer = 1;
			operation->source_device = first;
			operation->target_device = (uint32_t)second;
		}
	}
}

static void read_operation(struct timeline *timeline, struct line *line, char kind)
{
	timeline->operations = grow(timeline->operations, timeline->operation_count, sizeof *timeline->operations);
	struct operation *operation = &timeline->operations[timeline->operation_count++];
	*operation = (struct operation){.kind = kind, .start = number(line), .duration = number(line)};
	if (kind == 'k')
		operation->name = below(line, timeline->string_count);
	operation->stream = below(line, timeline->stream_count);
	if (kind == 'k') {
		for (int i = 0; i < 3; i++)
			operation->grid[i] = small(line);
		for (int i = 0; i < 3; i++)
			operation->block[i] = small(line);
		operation->registers = small(line);
		operation->static_shared = small(line);
		operation->dynamic_shared = small(line);
	} else {
		operation->bytes = number(line);
		if (kind == 'm') {
			operation->copy_kind = (uint8_t)below(line, 256);
			operation->source_kind = (uint8_t)below(line, 256);
		}
		operation->target_kind = (uint8_t)below(line, 256);
	}
	read_more(line, operation);
	if (operation->start + operation->duration > timeline->end)
		timeline->end = operation->start + operation->duration;
}

static void read_item(struct timeline *timeline, struct line *line, char kind, struct thread *thread)
{
	thread->items = grow(thread->items, thread->count, sizeof *thread->items);
	struct item *item = &thread->items[thread->count++];
	*item = (struct item){.kind = kind, .first = timeline->operation_count};
	if (kind == '=') {
		item->name = below(line, timeline->step_count + 1);
		return;
	}
	item->start = item->end = number(line);
	if (kind == 'c' || kind == 'd')
		item->end = number(line);
	if (kind != '-')
		item->name = below(line, timeline->string_count);
	if (kind == 'c' || kind == 'd')
		item->result = (int32_t)number(line);
	if (item->end > timeline->end)
		timeline->end = item->end;
}

/* Facts of the file as a whole: lines that begin with a word. */
static void read_head(struct timeline *timeline, struct line *line, const char *word)
{
	if (strcmp(word, "stream") == 0) {
		if (small(line) != timeline->stream_count)
			fail("line %zu: streams are not in order", line->number);
		timeline->streams = grow(timeline->streams, timeline->stream_count, sizeof *timeline->streams);
		timeline->streams[timeline->stream_count++] =
			(struct stream){.device = small(line), .context = small(line), .id = small(line)};
	} else if (strcmp(word, "thread") == 0) {
		if (small(line) != timeline->thread_count)
			fail("line %zu: threads are not in order", line->number);
		timeline->threads = grow(timeline->threads, timeline->thread_count, sizeof *timeline->threads);
		timeline->threads[timeline->thread_count++] =
			(struct thread){.recorded_id = (uint32_t)strtoll(line->at, &line->at, 10),
					.name = text(&(struct line){line->at + (*line->at == ' '), line->number})};
	} else if (strcmp(word, "step") == 0) {
		if (small(line) != timeline->step_count + 1)
			fail("line %zu: steps are not in order", line->number);
		timeline->steps = grow(timeline->steps, timeline->step_count, sizeof *timeline->steps);
		struct step *step = &timeline->steps[timeline->step_count++];
		*step = (struct step){.end = number(line), .number = strtol(line->at, &line->at, 10)};
		step->name = text(&(struct line){line->at + (*line->at == ' '), line->number});
	} else if (strcmp(word, "stepper") == 0) {
		timeline->stepper = below(line, timeline->thread_count);
	} else if (strcmp(word, "s") == 0) {
		if (small(line) != timeline->string_count)
			fail("line %zu: texts are not in order", line->number);
		timeline->strings = grow(timeline->strings, timeline->string_count, sizeof *timeline->strings);
		timeline->strings[timeline->string_count++] = text(line);
	} else if (strcmp(word, "origin") != 0 && strcmp(word, "left") != 0 && strcmp(word, "device") != 0) {
		fail("line %zu: \"%s\" is not understood", line->number, word);
	}
}

static int compare_busy(const void *a, const void *b)
{
	const struct busy *x = a, *y = b;
	return (x->start > y->start) - (x->start < y->start);
}

static void find_busy(struct timeline *timeline)
{
	struct busy *busy = calloc(timeline->operation_count + 1, sizeof *busy);
	if (!busy)
		fail("out of memory");
	for (size_t i = 0; i < timeline->operation_count; i++) {
		const struct operation *operation = &timeline->operations[i];
		busy[i] = (struct busy){operation->start, operation->start + operation->duration, 0};
	}
	qsort(busy, timeline->operation_count, sizeof *busy, compare_busy);
	size_t n = 0;
	for (size_t i = 0; i < timeline->operation_count; i++) {
		if (n && busy[i].start <= busy[n - 1].end) {
			if (busy[i].end > busy[n - 1].end)
				busy[n - 1].end = busy[i].end;
			continue;
		}
		busy[n] = busy[i];
		busy[n].before = n ? busy[n - 1].before + busy[n - 1].end - busy[n - 1].start : 0;
		n++;
	}
	timeline->busy = busy;
	timeline->busy_count = n;
}

void timeline_read(struct timeline *timeline, const char *path)
{
	FILE *file = fopen(path, "re");
	char *buffer = NULL, *words;
	size_t size = 0;
	ssize_t length;
	struct line line = {0};
	struct thread *thread = NULL;
	if (!file)
		fail("%s: %s", path, strerror(errno));
	*timeline = (struct timeline){.stepper = 1};
	/* Numbers in the file begin with 1. */
	timeline->strings = grow(NULL, 0, sizeof *timeline->strings);
	timeline->strings[timeline->string_count++] = strdup("");
	timeline->streams = grow(NULL, 0, sizeof *timeline->streams);
	timeline->streams[timeline->stream_count++] = (struct stream){0};
	timeline->threads = grow(NULL, 0, sizeof *timeline->threads);
	timeline->threads[timeline->thread_count++] = (struct thread){0};
	while ((length = getline(&buffer, &size, file)) >= 0) {
		if (length && buffer[length - 1] == '\n')
			buffer[length - 1] = 0;
		if (++line.number == 1) {
			if (strcmp(buffer, "profd timeline 1") != 0)
				fail("%s is no timeline", path);
			continue;
		}
		if (buffer[0] == '#' || !buffer[0])
			continue;
		words = strchr(buffer, ' ');
		if (!words)
			fail("line %zu is cut off", line.number);
		*words = 0;
		line.at = words + 1;
		char kind = buffer[1] ? 0 : buffer[0];
		if (kind == '@')
			thread = &timeline->threads[below(&line, timeline->thread_count)];
		else if (kind && strchr("kmz", kind) && thread && thread->count)
			read_operation(timeline, &line, kind), thread->items[thread->count - 1].count++;
		else if (kind && strchr("+o-i=cd", kind) && thread)
			read_item(timeline, &line, kind, thread);
		else
			read_head(timeline, &line, buffer);
	}
	free(buffer);
	fclose(file);
	if (timeline->thread_count == 1)
		fail("%s has no threads", path);
	find_busy(timeline);
}

uint64_t timeline_warp(const struct timeline *timeline, uint64_t time, double speed)
{
	if (speed == 1)
		return time;
	size_t low = 0, high = timeline->busy_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (timeline->busy[middle].start <= time)
			low = middle + 1;
		else
			high = middle;
	}
	uint64_t worked = 0, idle_until = time;
	if (low) {
		const struct busy *last = &timeline->busy[low - 1];
		worked = last->before + (time < last->end ? time : last->end) - last->start;
		idle_until = time - worked;
	}
	return worked + (uint64_t)((double)idle_until / speed);
}
