/* follow_tell.c - see follow_tell.h. */
#include "follow_tell.h"

#include "client/ui/clock.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <string.h>

static void describe(const struct followed *followed, char *text, size_t bytes)
{
	char pid[TEXT_FIGURE_BYTES];
	int n = snprintf(text, bytes, "capture %s (%s", followed->id, text_pid(pid, followed->pid));

	if (followed->rank >= 0 && (size_t)n < bytes)
		n += snprintf(text + n, bytes - (size_t)n, ", rank %lld", (long long)followed->rank);
	if ((size_t)n < bytes)
		snprintf(text + n, bytes - (size_t)n, ")");
}

static void state(const struct followed *followed, char *text, size_t bytes)
{
	char elapsed[TEXT_FIGURE_BYTES];

	if (followed->captured)
		snprintf(text, bytes, "%s", followed->status);
	else if (strcmp(followed->status, "armed") == 0)
		snprintf(text, bytes, followed->window ? "armed" : "armed, waiting for the next step");
	else if (strcmp(followed->status, "warmup") == 0)
		snprintf(text, bytes, "warm-up");
	else if (strcmp(followed->status, "recording") == 0 && followed->of > 0 && !followed->window)
		snprintf(text, bytes, "step %lld of %lld", (long long)followed->step, (long long)followed->of);
	else if (strcmp(followed->status, "recording") == 0)
		snprintf(text, bytes, "recording, %s", text_duration(elapsed, clock_now() - followed->since));
	else
		snprintf(text, bytes, "%s", followed->status);
}

void follow_set_status(struct followed *followed, const char *status)
{
	char who[160], text[64];
	bool changed = strcmp(followed->status, status) != 0;

	snprintf(followed->status, sizeof followed->status, "%s", status);
	if (!changed || progress_live())
		return;
	describe(followed, who, sizeof who);
	if (strcmp(status, "recording") == 0 && followed->window)
		snprintf(text, sizeof text, "recording");
	else if (strcmp(status, "recording") == 0 && followed->of > 0)
		snprintf(text, sizeof text, "recording %lld step%s", (long long)followed->of,
			 followed->of == 1 ? "" : "s");
	else
		state(followed, text, sizeof text);
	note("%s: %s", who, text);
}

/* One line for all captures: the one that is furthest behind tells how long it still takes. */
void follow_draw(const struct follow *follow)
{
	const struct followed *behind = NULL;
	size_t finished = 0;
	char who[160], how[96], text[320];

	if (!progress_live() || !follow->follow)
		return;
	for (size_t i = 0; i < follow->count; i++) {
		const struct followed *one = &follow->captures[i];

		if (one->captured)
			finished++;
		else if (!behind || one->step < behind->step)
			behind = one;
	}
	if (!follow->count) {
		snprintf(text, sizeof text, "waiting for %s", follow->wanted);
	} else if (!behind) {
		snprintf(text, sizeof text, "finished");
	} else {
		describe(behind, who, sizeof who);
		state(behind, how, sizeof how);
		if (follow->count == 1)
			snprintf(text, sizeof text, "%s: %s", who, how);
		else
			snprintf(text, sizeof text, "%zu of %zu captures finished; furthest behind: %s: %s", finished,
				 follow->count, who, how);
	}
	if (follow->cancelled)
		snprintf(how, sizeof how, "cancelling; Ctrl-C again leaves at once. ");
	else
		how[0] = 0;
	memmove(text + strlen(how), text, sizeof text - strlen(how));
	memcpy(text, how, strlen(how));
	text[sizeof text - 1] = 0;
	progress_draw(text);
}
