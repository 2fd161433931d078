/* failure.c - see failure.h. */
#include "failure.h"

#include "progress.h"
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *format, va_list list)
{
	char sentence[2 * FAILURE_TEXT_BYTES];
	char *safe;

	vsnprintf(sentence, sizeof sentence, format, list);
	safe = text_safe(sentence);
	progress_clear();
	fflush(stdout);
	fprintf(stderr, "profd: %s\n", safe);
	free(safe);
}

int refuse_with(char *sentence, size_t bytes, int code, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(sentence, bytes, format, list);
	va_end(list);
	return code;
}

int fail(int code, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say(format, list);
	va_end(list);
	return code;
}

void note(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say(format, list);
	va_end(list);
}

void failure_set(struct failure *failure, enum error error, const char *detail)
{
	const char *sentence = error_sentence(error);
	size_t n = 0;

	failure->error = error;
	failure->pid = 0;
	snprintf(failure->word, sizeof failure->word, "%s", error_word(error));
	/* The sentences hold "%s" once or twice and no other conversion. */
	for (; *sentence && n + 1 < sizeof failure->message; sentence++) {
		if (sentence[0] == '%' && sentence[1] == 's') {
			int added = snprintf(failure->message + n, sizeof failure->message - n, "%s", detail);

			n += (size_t)added < sizeof failure->message - n ? (size_t)added
									 : sizeof failure->message - n - 1;
			sentence++;
			continue;
		}
		failure->message[n++] = *sentence;
	}
	failure->message[n] = 0;
}

int exit_worse(int one, int other)
{
	static const int order[] = {EXIT_CANCELLED,	EXIT_FAILED,   EXIT_TIMED_OUT, EXIT_INCOMPLETE,
				    EXIT_NOT_PERMITTED, EXIT_NO_STEPS, EXIT_BUSY,      EXIT_NO_TARGET};

	for (size_t i = 0; i < sizeof order / sizeof *order; i++)
		if (one == order[i] || other == order[i])
			return order[i];
	return one ? one : other;
}

int failure_print(const struct failure *failure)
{
	return fail(error_exit_code(failure->error), "%s", failure->message);
}

/* How much an answer says about the thing that was asked for. */
static int weight(const struct failure *failure)
{
	switch (failure->error) {
	case ERROR_NONE:
		return 0;
	case ERROR_NO_TARGET:
	case ERROR_NO_PROCESS:
	case ERROR_NO_CAPTURE:
		return 1;
	case ERROR_NO_AGENT:
	case ERROR_NOTHING_YET:
	case ERROR_NOT_REGISTERED:
		return 2;
	case ERROR_GONE:
		return 3;
	case ERROR_NOT_YOURS:
		return 4;
	default:
		return 5;
	}
}

void failure_merge(struct failure *best, const struct failure *other)
{
	if (weight(other) > weight(best))
		*best = *other;
}
