/* export_part.c - see export_part.h. */
#include "export_part.h"

#include "client/ui/failure.h"
#include "proto/quantity.h"

#include <stdio.h>
#include <string.h>

/* One of a pair, text[0..n): it is copied, so that it ends. */
typedef bool read_one(const char *text, int64_t *ret);

static bool read_piece(const char *text, size_t n, read_one *read, int64_t *ret)
{
	char piece[64];
	if (!n || n >= sizeof piece)
		return false;
	memcpy(piece, text, n);
	piece[n] = '\0';
	return read(piece, ret);
}

/* "4" or "4-6" */
static bool read_pair(const char *text, read_one *read, int64_t *first, int64_t *last)
{
	size_t n = strcspn(text, "-");
	if (!read_piece(text, n, read, first))
		return false;
	*last = *first;
	return !text[n] || (read_piece(text + n + 1, strlen(text + n + 1), read, last) && *last >= *first);
}

/* 0 stands for the beginning of the recording, and needs no unit. */
static bool read_time(const char *text, int64_t *ret)
{
	*ret = 0;
	return strcmp(text, "0") == 0 || quantity_duration(text, ret);
}

static bool read_devices(const char *text, struct export_options *options, uint32_t devices[EXPORT_PART_DEVICES])
{
	size_t count = 0;
	for (const char *at = text;; at++) {
		size_t n = strcspn(at, ",");
		int64_t device;
		if (count == EXPORT_PART_DEVICES || !read_piece(at, n, quantity_number, &device) || device < 0 ||
		    device > UINT32_MAX)
			return false;
		devices[count++] = (uint32_t)device;
		at += n;
		if (!*at)
			break;
	}
	options->devices = devices;
	options->device_count = count;
	return true;
}

int export_part(const struct arguments *arguments, struct export_options *options,
		uint32_t devices[EXPORT_PART_DEVICES])
{
	const char *step = arguments_text(arguments, "step", NULL), *time = arguments_text(arguments, "time", NULL),
		   *device = arguments_text(arguments, "device", NULL);
	options->range = arguments_text(arguments, "range", NULL);
	if (step &&
	    (!read_pair(step, quantity_number, &options->first_step, &options->last_step) || options->first_step < 1))
		return fail(EXIT_USAGE, "--step %.80s: a step is wanted, such as 2, or the first and the last, 2-4",
			    step);
	if (time && (!strchr(time, '-') || !read_pair(time, read_time, &options->begin, &options->end) ||
		     options->end == options->begin))
		return fail(
			EXIT_USAGE,
			"--time %.80s: two times after the beginning of the recording are wanted, such as 10ms-25ms",
			time);
	if (device && !read_devices(device, options, devices))
		return fail(EXIT_USAGE, "--device %.80s: numbers of devices are wanted, such as 0 or 0,1 (at most %d)",
			    device, EXPORT_PART_DEVICES);
	return EXIT_DONE;
}
