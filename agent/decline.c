/* decline.c - see decline.h. */
#include "decline.h"
#include "collectors.h"
#include "core/filter.h"
#include "core/sentence.h"
#include "link.h"
#include "agent/sink/sink.h"
#include "steps/counter.h"
#include "tick.h"
#include "torch/torch.h"

#include "../proto/errors.h"
#include "../proto/filters.h"

#define INSTEAD "; --unit batch --steps N, --step-range GLOB or --duration TIME records instead"
const char decline_blind[] = "its DataLoader's iterators do not tell where a pass begins (_num_yielded)" INSTEAD;
const char decline_over[] = "the schedule has ended";

/* Why the agent cannot see where a pass over a loader begins; NULL: it can. */
static const char *of_epochs(void)
{
	static char sentence[248];
	char why[150];
	if (torch_find_passes(why, sizeof why) == 0)
		return NULL;
	sentence_put(sentence, sizeof sentence, "no epoch can be seen: ", why, INSTEAD, NULL);
	return sentence;
}

/* Why batches cannot be the steps; NULL: they can. */
static const char *of_batches(uint32_t batches)
{
	if (batches >= BATCHES_END)
		return "its agent was started with an earlier release, which does not know such batches";
	/* Torch may have been loaded since the last look, and the last HELLO may have told that. */
	if (torch_watch() < 0)
		return "batches can be counted only with torch's DataLoader, and this process has no torch that the agent knows";
	if (batches == BATCHES_ANY)
		return NULL;
	if (!torch_knows_batches())
		return "its torch does not tell whether a batch trains";
	return batches == BATCHES_EPOCH ? of_epochs() : NULL;
}

/* Why the requested steps cannot be recorded; NULL: they can. */
static const char *of_steps(const struct message_arm *arm, uint32_t *ret_error)
{
	if (arm->batches) {
		*ret_error = ERROR_UNAVAILABLE;
		return of_batches(arm->batches);
	}
	if (arm->duration || *arm->step_range || *arm->step_operator || *arm->step_optimizer)
		return NULL;
	*ret_error = ERROR_NO_STEPS;
	if (steps_source() == STEP_SOURCE_NONE)
		return "it has shown no steps yet";
	*ret_error = ERROR_MISSED_STEP;
	return arm->at_step && !arm->at_multiple && steps_count() + 1 + arm->warmup >= arm->at_step
		       ? "that step has passed, or begins too soon to warm up before it; name a later one"
		       : NULL;
}

const char *decline_arm(const struct message_arm *arm, uint32_t *ret_error)
{
	static char others[248];
	struct schedule s = {arm->skip_first, arm->wait, arm->warmup, arm->active, arm->repeat};
	const char *wrong = arm->duration ? NULL : schedule_check(&s);
	*ret_error = ERROR_BUSY;
	if (atomic_load(&control_phase) != CONTROL_IDLE)
		return "it is being recorded already";
	*ret_error = ERROR_USAGE;
	if (wrong)
		return wrong;
	*ret_error = ERROR_PROFILED;
	if (arm->options & ARM_ALONE && collectors_others(others, sizeof others))
		return others;
	const char *steps = of_steps(arm, ret_error);
	if (steps)
		return steps;
	*ret_error = ERROR_UNAVAILABLE;
	return filter_is_over_a_thread(sink_now(), 1) ? filters_thread_sentence : NULL;
}

const char *decline_switch(const struct message_arm *arm, uint32_t *ret_error)
{
	static char why[248];
	*ret_error = ERROR_CANCELLED;
	if (atomic_load(&control_phase) == CONTROL_IDLE || arm->trigger != control_run.trigger ||
	    control_run.cancelled_all)
		return decline_over;
	*ret_error = ERROR_UNAVAILABLE;
	if (control_run.duration)
		return "a window of time has no step at which collectors could be switched";
	if (atomic_load(&control_run.switch_at))
		return "its collectors are being switched already";
	return collectors_refuse(arm->collectors & ~control_run.wanted, why, sizeof why) ? why : NULL;
}

void decline_send(uint64_t capture, uint32_t error, const char *sentence)
{
	struct message_declined m = MESSAGE_INIT(DECLINED, declined);
	m.capture = capture;
	m.error = error;
	message_text(m.sentence, sizeof m.sentence, sentence);
	link_send(&m, -1);
}
