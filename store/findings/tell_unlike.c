/* tell_unlike.c - see telling.h. */
#include "telling.h"

#include "store/breakdown/thread_times.h"
#include "figures.h"

/* If it is not known that the extra time is the collection itself, the sentence does not say that the collection is
 * the cause. */
static void tell_collections(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	ADD(finding->evidence,
	    " Python's collector of garbage went through all objects (a full collection) in %lld of them, and in none of the other steps.",
	    (long long)finding->collections);
	bool itself = strcmp(finding->subject, breakdown_host_rows[HOST_GARBAGE].title) == 0;
	ADVICE("Try gc.freeze() once all is set up, so that objects that stay are not looked at again; or gc.disable(), and gc.collect() at steps that you "
	       "choose.%s",
	       itself ? ""
		      : " If these steps do more besides (saving, evaluating, a new input shape), look at that first.");
}

/* A step that waited for a processor is longer because of other work on the machine, whatever the step did
 * meanwhile. */
static void tell_waited(const struct telling *telling, const struct breakdown_step *step)
{
	struct finding *finding = telling->finding;
	struct thread_times times;
	struct thread_use use;
	char text[DURATION_BYTES];
	int64_t longer = step->end - step->start - telling->findings->step_ns;
	/* On a machine that is always full, the other steps wait, too. */
	int64_t usual = figures_waited(telling->findings, telling->claims, telling->processor->waited);
	usual = usual > 0 ? usual / (int64_t)telling->findings->judged : 0;
	bool known = thread_times_load(telling->texts->db, telling->breakdown->step_thread, &times) &&
		     thread_times_between(&times, step->start, step->end, &use);
	thread_times_free(&times);
	if (!known || use.waited - usual < longer / 2)
		return;
	ADD(finding->evidence, " In it the step's thread waited %s for a processor.", duration(text, use.waited));
	ADVICE("This step waited for a processor: see what else ran on the machine then, and which limit the job's container or cgroup "
	       "has. The step's own work is the smaller part of its extra time.");
}

void tell_unlike(const struct telling *telling)
{
	struct finding *finding = telling->finding;
	const struct breakdown_step *step = &telling->breakdown->steps[finding->step - 1];
	char a[DURATION_BYTES], b[DURATION_BYTES], c[DURATION_BYTES];
	const char *it = finding->interval_total > 1 ? "The longest" : "It";
	/* torch may count steps from 0. A window, which has no number, has no other steps. */
	WHAT("Step %lld takes %s, the others %s", (long long)telling->capture->numbers[finding->step - 1],
	     duration(a, step->end - step->start), duration(b, telling->findings->step_ns));
	if (breakdown_evaluates(step))
		EVIDENCE("%llu of %llu steps. %s holds %s of %s.%s%s%s", (unsigned long long)finding->interval_total,
			 (unsigned long long)(telling->findings->last - telling->findings->first), it,
			 breakdown_called(step, 1) ?: "inference without gradient",
			 duration(c, breakdown_evaluates(step)),
			 *finding->subject ? " The row that grew most is \"" : "", finding->subject,
			 *finding->subject ? "\"." : "");
	else if (step->compiled)
		EVIDENCE("%llu of %llu steps. %s holds a compilation by torch.compile of %s.",
			 (unsigned long long)finding->interval_total,
			 (unsigned long long)(telling->findings->last - telling->findings->first), it,
			 duration(c, step->compiled));
	else if (*finding->subject)
		EVIDENCE("%llu of %llu steps. %s is longer by %s of the row \"%s\".",
			 (unsigned long long)finding->interval_total,
			 (unsigned long long)(telling->findings->last - telling->findings->first), it,
			 duration(c, telling->grown), finding->subject);
	else
		EVIDENCE("%llu of %llu steps.", (unsigned long long)finding->interval_total,
			 (unsigned long long)(telling->findings->last - telling->findings->first));
	if (!breakdown_evaluates(step) && !step->compiled)
		tell_waited(telling, step);
	if (finding->collections)
		tell_collections(telling);
}
