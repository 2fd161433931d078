/* telling.h - shared by the files that tell findings: tell.c, tell_garbage.c, tell_unlike.c. */
#ifndef PROFD_STORE_FINDINGS_TELLING_H
#define PROFD_STORE_FINDINGS_TELLING_H

#include "tell.h"

#include <stdio.h>
#include <string.h>

#define DURATION_BYTES 32

/* The division is made here, so that the result is rounded once. */
static inline const char *mean(char text[DURATION_BYTES], int64_t ns, int64_t of)
{
	double value = (double)ns / (double)of;
	if (value < 1e3)
		snprintf(text, DURATION_BYTES, "%.0f ns", value);
	else if (value < 1e6)
		snprintf(text, DURATION_BYTES, "%.1f us", value / 1e3);
	else if (value < 1e9)
		snprintf(text, DURATION_BYTES, "%.1f ms", value / 1e6);
	else
		snprintf(text, DURATION_BYTES, "%.2f s", value / 1e9);
	return text;
}

static inline const char *duration(char text[DURATION_BYTES], int64_t ns)
{
	return mean(text, ns, 1);
}

#define COUNTED_BYTES 48

/* "1 wait", "2 waits", "1.5 waits": a mean is not rounded to a whole number. */
static inline const char *counted(char text[COUNTED_BYTES], double mean, const char *one, const char *more)
{
	bool whole = mean == (double)(long long)mean || mean >= 100;
	snprintf(text, COUNTED_BYTES, "%.*f %s", whole ? 0 : 1, mean, mean == 1 ? one : more);
	return text;
}

struct telling {
	const struct texts *texts;
	const struct breakdown_capture *capture;
	const struct breakdown *breakdown;
	const struct findings *findings;
	const struct claims *claims;
	const struct processor *processor;
	int64_t grown;
	struct finding *finding;
};

#define WHAT(...) (void)snprintf(telling->finding->what, sizeof telling->finding->what, __VA_ARGS__)
#define EVIDENCE(...) (void)snprintf(telling->finding->evidence, sizeof telling->finding->evidence, __VA_ARGS__)
#define ADVICE(...) (void)snprintf(telling->finding->advice, sizeof telling->finding->advice, __VA_ARGS__)
/* Appends to a text. */
#define ADD(text, ...) (void)snprintf((text) + strlen(text), sizeof(text) - strlen(text), __VA_ARGS__)

/* A step that takes longer than the others: by how much, and for what. */
void tell_unlike(const struct telling *telling);
/* Collections of Python's garbage: how often, how long, and how many were full ones. */
void tell_garbage(const struct telling *telling);

#endif
