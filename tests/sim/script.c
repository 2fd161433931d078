/* script.c - reads SIMCUDA once and answers questions about it. Any thread; pthread_once is the only lock. */
#include "script.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = 128, TEXT_MAX = 16384 };

static struct {
	const char *key, *value;
} pairs[PAIRS_MAX];
static unsigned pair_count;
static char text[TEXT_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The text of the script, without its comments, into `text`. */
static void load(const char *script)
{
	if (script[0] != '@') {
		snprintf(text, sizeof text, "%s", script);
		return;
	}
	FILE *file = fopen(script + 1, "re");
	if (!file) {
		fprintf(stderr, "SIMCUDA: %s cannot be read\n", script + 1);
		return;
	}
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	for (char *comment = text; (comment = strchr(comment, '#'));)
		while (*comment && *comment != '\n')
			*comment++ = '\n';
}

static void parse(void)
{
	const char *script = getenv("SIMCUDA");
	if (!script)
		return;
	load(script);
	char *rest = text;
	for (char *part; pair_count < PAIRS_MAX && (part = strsep(&rest, ",\n"));) {
		part += strspn(part, " \t\r");
		for (size_t n = strlen(part); n > 0 && strchr(" \t\r", part[n - 1]); n--)
			part[n - 1] = 0;
		if (!*part)
			continue;
		char *value = strchr(part, '=');
		if (value)
			*value++ = 0;
		pairs[pair_count].key = part;
		pairs[pair_count++].value = value ? value : "";
	}
}

const char *script_value(const char *key)
{
	pthread_once(&once, parse);
	for (unsigned i = pair_count; i > 0; i--)
		if (strcmp(pairs[i - 1].key, key) == 0)
			return pairs[i - 1].value;
	return NULL;
}

uint64_t script_number(const char *key, uint64_t otherwise)
{
	const char *value = script_value(key);
	if (!value || value[0] < '0' || value[0] > '9')
		return otherwise;
	char *unit;
	uint64_t number = strtoull(value, &unit, 0);
	switch (*unit) {
	case 'g':
		return number * 1000000000u;
	case 'm':
		return number * 1000000u;
	case 'k':
		return number * 1000u;
	default:
		return number;
	}
}

uint64_t script_time(const char *key, uint64_t otherwise)
{
	const char *value = script_value(key);
	char *unit;
	if (!value || value[0] < '0' || value[0] > '9')
		return otherwise;
	double number = strtod(value, &unit), scale = 1;
	if (strcmp(unit, "us") == 0)
		scale = 1e3;
	else if (strcmp(unit, "ms") == 0)
		scale = 1e6;
	else if (strcmp(unit, "s") == 0)
		scale = 1e9;
	return (uint64_t)(number * scale + 0.5);
}
