/* tell_garbage.c - see telling.h. */
#include "telling.h"

#include "figures.h"

#include "proto/events.h"

/* The collections that were seen in the judged steps, from the first to the last. */
struct seen {
	unsigned long long times, steps, full, unknown;
	int64_t longest;
};

static struct seen look(const struct telling *telling)
{
	const struct collections *collections = &telling->capture->collections;
	const struct breakdown_step *steps = telling->breakdown->steps;
	struct seen seen = {0};
	size_t step = telling->findings->first, last = SIZE_MAX;
	for (size_t i = 0; i < collections->count; i++) {
		const struct collection *item = &collections->items[i];
		while (step < telling->findings->last && steps[step].end <= item->start)
			step++;
		if (step == telling->findings->last || item->start < steps[step].start)
			continue;
		seen.times++;
		seen.steps += step != last;
		seen.full += item->generation == GARBAGE_ALL;
		seen.unknown += item->generation == GARBAGE_GENERATION_UNKNOWN;
		seen.longest = item->end - item->start > seen.longest ? item->end - item->start : seen.longest;
		last = step;
	}
	return seen;
}

/* Full collections of these steps, by Python's own count; -1: not known. */
static int64_t counted_full(const struct telling *telling)
{
	const struct breakdown_step *steps = telling->breakdown->steps;
	int64_t sum = 0;
	for (size_t i = telling->findings->first; i < telling->findings->last && sum >= 0; i++)
		sum = steps[i].collections < 0 ? -1 : sum + steps[i].collections;
	return sum;
}

void tell_garbage(const struct telling *telling)
{
	const struct findings *findings = telling->findings;
	struct finding *finding = telling->finding;
	const struct seen seen = look(telling);
	int64_t told = counted_full(telling);
	char text[DURATION_BYTES], count[COUNTED_BYTES];
	WHAT("%s Python collects garbage", finding->device >= 0 ? "The device waits while" : "In the step");
	/* A collection that began before the first of these steps has a part in them. */
	if (!seen.times) {
		EVIDENCE("%s%s, the longest %s.",
			 counted(count, figures_mean(findings, finding->interval_total), "stretch", "stretches"),
			 findings_per(findings), duration(text, figures_longest(telling->claims, finding->kind)));
		return;
	}
	unsigned long long steps = findings->last - findings->first;
	EVIDENCE("Seen %llu time%s", seen.times, seen.times == 1 ? "" : "s");
	if (findings->window)
		ADD(finding->evidence, " in the window");
	else
		ADD(finding->evidence, " in %llu of %llu step%s", seen.steps, steps, steps == 1 ? "" : "s");
	ADD(finding->evidence, "; the longest took %s.", duration(text, seen.longest));
	if (seen.unknown)
		return;
	ADD(finding->evidence, " %llu time%s Python went through all objects (a full collection).", seen.full,
	    seen.full == 1 ? "" : "s");
	if (told > (int64_t)seen.full)
		ADD(finding->evidence,
		    " Python counted %lld full collections: the time of those that were not seen is in other rows.",
		    (long long)told);
}
