/* fuzz_words.c - numbers, durations, sizes and schedules as people write them: what is accepted is within the bounds that its
 * readers count on. */
#include "proto/quantity.h"
#include "proto/schedule.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void words(const char *text, const char *other)
{
	int64_t value = 0;
	if ((quantity_number(text, &value) || quantity_duration(text, &value) || quantity_size(text, &value)) &&
	    (value < 0 || !strchr("0123456789.", text[0])))
		abort();
	unsigned there = word_distance(text, other, 3), back = word_distance(other, text, 3);
	if (there != back || there > 4 || (there == 0) != (strcmp(text, other) == 0))
		abort();
}

static void schedules(const uint8_t *data, size_t n)
{
	struct schedule schedule = {0};
	uint64_t position = 0, cycle = 0;
	memcpy(&schedule, data, n < sizeof schedule ? n : sizeof schedule);
	if (n >= sizeof schedule + sizeof position)
		memcpy(&position, data + sizeof schedule, sizeof position);
	const char *sentence = schedule_check(&schedule);
	if (sentence) {
		if (!*sentence)
			abort();
		return;
	}
	if (!schedule_state_name(schedule_state(&schedule, position, &cycle)))
		abort();
	/* No schedule is longer than what 2^40 steps hold. */
	cycle &= (1u << 20) - 1;
	if (schedule.repeat && cycle > schedule.repeat)
		cycle = schedule.repeat;
	uint64_t warmup = schedule_warmup_at(&schedule, cycle), record = schedule_record_at(&schedule, cycle);
	if (schedule_period(&schedule) < schedule.active || warmup > record)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n > 64)
		n = 64;
	char *text = malloc(n + 2), *other;
	if (!text)
		return 0;
	memcpy(text, data, n);
	text[n] = text[n + 1] = 0;
	other = text + strlen(text) + 1;
	words(text, other <= text + n ? other : "");
	schedules(data, n);
	free(text);
	return 0;
}
