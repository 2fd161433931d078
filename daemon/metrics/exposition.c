/* exposition.c - see exposition.h. Any thread; no locks. */
#include "exposition.h"
#include "daemon/core/histogram.h"
#include "proto/base/facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000u
/* Longest label value; a job's name has 128 bytes. */
#define VALUE_BYTES 512

void exposition_init(struct exposition *exposition)
{
	*exposition = (struct exposition){0};
}

void exposition_deinit(struct exposition *exposition)
{
	free(exposition->text);
	*exposition = (struct exposition){0};
}

static void put_bytes(struct exposition *exposition, const char *bytes, size_t n)
{
	if (exposition->failed)
		return;
	if (exposition->room - exposition->n < n) {
		size_t room = exposition->room * 2 + n + 4096;
		char *grown = realloc(exposition->text, room);
		if (!grown) {
			exposition->failed = true;
			return;
		}
		exposition->text = grown;
		exposition->room = room;
	}
	memcpy(exposition->text + exposition->n, bytes, n);
	exposition->n += n;
}

static void put(struct exposition *exposition, const char *text)
{
	put_bytes(exposition, text, strlen(text));
}

void exposition_family(struct exposition *exposition, const char *name, const char *type, const char *help)
{
	exposition->name = name;
	exposition->type = type;
	exposition->help = help;
	exposition->announced = false;
}

static void announce(struct exposition *exposition)
{
	if (exposition->announced)
		return;
	exposition->announced = true;
	put(exposition, "# HELP ");
	put(exposition, exposition->name);
	put(exposition, " ");
	put(exposition, exposition->help);
	put(exposition, "\n# TYPE ");
	put(exposition, exposition->name);
	put(exposition, " ");
	put(exposition, exposition->type);
	put(exposition, "\n");
}

static void put_label(struct exposition *exposition, const char *name, const char *value)
{
	char clean[VALUE_BYTES];
	text_copy(clean, sizeof clean, value);
	text_clean(clean, strlen(clean));
	put(exposition, name);
	put(exposition, "=\"");
	for (const char *p = clean; *p; p++) {
		if (*p == '\\')
			put(exposition, "\\\\");
		else if (*p == '"')
			put(exposition, "\\\"");
		else if (*p == '\n')
			put(exposition, "\\n");
		else
			put_bytes(exposition, p, 1);
	}
	put(exposition, "\"");
}

static void put_sample(struct exposition *exposition, const char *value, va_list labels)
{
	bool any = false;
	announce(exposition);
	put(exposition, exposition->name);
	for (const char *name; (name = va_arg(labels, const char *)); any = true) {
		put(exposition, any ? "," : "{");
		put_label(exposition, name, va_arg(labels, const char *));
	}
	put(exposition, any ? "} " : " ");
	put(exposition, value);
	put(exposition, "\n");
}

static void seconds_text(uint64_t ns, char ret[32])
{
	snprintf(ret, 32, "%" PRIu64 ".%09u", ns / SECOND, (unsigned)(ns % SECOND));
	/* 0.500000000 is 0.5. */
	char *end = ret + strlen(ret);
	while (end[-1] == '0')
		*--end = 0;
	if (end[-1] == '.')
		*--end = 0;
}

void exposition_count(struct exposition *exposition, uint64_t value, ...)
{
	char text[32];
	va_list labels;
	snprintf(text, sizeof text, "%" PRIu64, value);
	va_start(labels, value);
	put_sample(exposition, text, labels);
	va_end(labels);
}

void exposition_seconds(struct exposition *exposition, uint64_t ns, ...)
{
	char text[32];
	va_list labels;
	seconds_text(ns, text);
	va_start(labels, ns);
	put_sample(exposition, text, labels);
	va_end(labels);
}

void exposition_histogram(struct exposition *exposition, const struct histogram *histogram)
{
	char line[160], text[32];
	uint64_t sum = 0;
	announce(exposition);
	for (unsigned i = 0; i <= histogram->bound_count; i++) {
		sum += histogram->counts[i];
		if (i < histogram->bound_count)
			seconds_text(histogram->bounds[i], text);
		else
			snprintf(text, sizeof text, "+Inf");
		snprintf(line, sizeof line, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", exposition->name, text, sum);
		put(exposition, line);
	}
	seconds_text(histogram->sum, text);
	snprintf(line, sizeof line, "%s_sum %s\n%s_count %" PRIu64 "\n", exposition->name, text, exposition->name, sum);
	put(exposition, line);
}
