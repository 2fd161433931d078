/* chosen.c - see chosen.h. */
#include "chosen.h"

#include "client/ui/failure.h"

#include <string.h>

enum said { SAID_NOTHING, SAID_YES, SAID_NO };

/* What was said of the option that a collector stands at. With one value of an option: another value says no. */
static enum said said(const struct arguments *a, const struct collector_facts *collector)
{
	size_t bytes = strcspn(collector->option, "=");
	const char *value = collector->option[bytes] ? collector->option + bytes + 1 : NULL;
	enum said answer = SAID_NOTHING;

	for (size_t i = 0; i < a->given_count && bytes; i++) {
		const struct given *given = &a->given[i];
		bool fits = !given->off && (!value || (given->text && strcmp(given->text, value) == 0));

		if (strlen(given->row->name) == bytes && strncmp(given->row->name, collector->option, bytes) == 0 &&
		    answer != SAID_YES)
			answer = fits ? SAID_YES : SAID_NO;
	}
	return answer;
}

bool chosen_by_option(const struct arguments *a, const struct collector_facts *collector)
{
	return said(a, collector) == SAID_YES;
}

uint32_t preset_collectors(const char *preset)
{
#define PRESET(word, collectors, sentence)                                                                             \
	if (strcmp(preset, #word) == 0)                                                                                \
		return collectors;
#include "presets.def"
	return 0;
}

/* NULL: it was not given, or this verb does not have it. */
static const char *text_of(const struct arguments *a, const char *name)
{
	return verb_option(a->verb, name) ? arguments_text(a, name, NULL) : NULL;
}

static uint32_t of_device(void)
{
	return 1u << COLLECTOR_CUPTI | collector_parts(COLLECTOR_CUPTI);
}

/* --activities goes before a preset. Steps are recorded always. */
static uint32_t base(const struct arguments *a)
{
	const char *activities = text_of(a, "activities"), *preset = text_of(a, "preset");
	uint32_t bits = preset_collectors(preset ? preset : "default");

	if (!activities)
		return bits;
	bits |= strstr(activities, "gpu") ? 1u << COLLECTOR_CUPTI : 0;
	bits |= strstr(activities, "cpu") ? collectors_asked(ASKED_ALWAYS) : 0;
	return strstr(activities, "cpu") ? bits : bits & (of_device() | 1u << COLLECTOR_STEPS);
}

uint32_t chosen_collectors(const struct arguments *a)
{
	const char *activities = text_of(a, "activities");
	uint32_t bits = base(a);

	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		const struct collector_facts *collector = collector_facts(bit);
		enum said answer = collector ? said(a, collector) : SAID_NOTHING;

		if (!collector || collector->asked == ASKED_NEVER || answer == SAID_NOTHING)
			continue;
		if ((answer == SAID_YES) == (collector->asked != ASKED_UNLESS))
			bits |= 1u << bit;
		else
			bits &= ~(1u << bit);
	}
	if (activities && !strstr(activities, "gpu"))
		bits &= ~(1u << COLLECTOR_CUPTI);
	return collectors_consistent(bits);
}

/* Is this a word for the collector? Its option, whichever value it has, and without its "no-"; else the collector's own. */
static bool is_word(const struct collector_facts *collector, const char *name, bool on)
{
	const char *option = collector->option + (collector->asked == ASKED_UNLESS ? strlen("no-") : 0);
	size_t bare = strcspn(option, "="), n = strlen(name);

	if (!*option)
		return strcmp(collector->word, name) == 0;
	if (strcmp(option, name) == 0)
		return true;
	/* stacks=operators asks for stacks, too; without stacks there are none of operators. */
	return on ? !option[bare] && strncmp(option, name, bare) == 0 && name[bare] == '='
		  : bare == n && strncmp(option, name, n) == 0;
}

/* Its value is one that there is. */
static bool is_option_word(const char *name)
{
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		const struct collector_facts *collector = collector_facts(bit);

		if (collector && bit != COLLECTOR_STEPS && is_word(collector, name, false))
			return true;
	}
	return false;
}

bool chosen_change(const char *word, uint32_t *on, uint32_t *off)
{
	bool plus = word[0] == '+';

	if (!is_option_word(word + 1))
		return false;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		const struct collector_facts *collector = collector_facts(bit);

		if (collector && is_word(collector, word + 1, plus))
			*(plus ? on : off) |= 1u << bit;
	}
	/* Whoever leaves out operators leaves out what is recorded of them. */
	if (!plus && *off >> COLLECTOR_TORCH & 1)
		*off |= collectors_filling(FILLED_BY_OPERATORS);
	return true;
}

/* The device alone: nothing that says how the host is recorded. */
static int check_device_alone(const struct arguments *a)
{
	const char *api = text_of(a, "api");

	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		const struct collector_facts *collector = collector_facts(bit);

		if (collector && bit != COLLECTOR_CUPTI && chosen_by_option(a, collector))
			return fail(EXIT_USAGE, "--activities gpu records the device alone; it does not go with --%s",
				    collector->option);
	}
	if (api && strcmp(api, "all") == 0)
		return fail(EXIT_USAGE, "--activities gpu records the device alone; it does not go with --api all");
	return EXIT_DONE;
}

int chosen_check(const struct arguments *a)
{
	static const char *const device[] = {"graphs", "api"};
	const char *activities = text_of(a, "activities");
	bool left_out = arguments_has(a, "no-gpu"), without = activities && !strstr(activities, "gpu");

	if (left_out && activities && !without)
		return fail(EXIT_USAGE, "--activities %s records the GPU; it does not go with --no-gpu", activities);
	for (size_t i = 0; (left_out || without) && i < sizeof device / sizeof *device; i++)
		if (text_of(a, device[i]))
			return fail(EXIT_USAGE, "%s records nothing of CUDA; it does not go with --%s",
				    without ? "--activities cpu" : "--no-gpu", device[i]);
	return activities && !strstr(activities, "cpu") ? check_device_alone(a) : EXIT_DONE;
}
