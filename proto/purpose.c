/* purpose.c - see purpose.h. */
#include "purpose.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *function;
	enum purpose purpose;
} functions[] = {
	{"validate", PURPOSE_VALIDATION},
	{"validation", PURPOSE_VALIDATION},
	{"validation_step", PURPOSE_VALIDATION},
	{"validation_loop", PURPOSE_VALIDATION},
	{"validation_epoch", PURPOSE_VALIDATION},
	{"validate_epoch", PURPOSE_VALIDATION},
	{"validate_one_epoch", PURPOSE_VALIDATION},
	{"val_step", PURPOSE_VALIDATION},
	{"val_loop", PURPOSE_VALIDATION},
	{"val_epoch", PURPOSE_VALIDATION},
	{"test", PURPOSE_TEST},
	{"test_step", PURPOSE_TEST},
	{"test_loop", PURPOSE_TEST},
	{"test_epoch", PURPOSE_TEST},
	{"evaluate", PURPOSE_EVALUATION},
	{"evaluation", PURPOSE_EVALUATION},
	{"evaluation_step", PURPOSE_EVALUATION},
	{"evaluation_loop", PURPOSE_EVALUATION},
	{"evaluate_epoch", PURPOSE_EVALUATION},
	{"eval_step", PURPOSE_EVALUATION},
	{"eval_loop", PURPOSE_EVALUATION},
	{"eval_epoch", PURPOSE_EVALUATION},
	{"predict", PURPOSE_INFERENCE},
	{"predict_step", PURPOSE_INFERENCE},
	{"inference", PURPOSE_INFERENCE},
	{"train", PURPOSE_TRAINING},
	{"train_step", PURPOSE_TRAINING},
	{"train_epoch", PURPOSE_TRAINING},
	{"train_one_epoch", PURPOSE_TRAINING},
	{"training_step", PURPOSE_TRAINING},
	/* Lightning's Trainer: functions that run its loops, also between the steps, and functions of fit() that do not
	 * train. */
	{"_run_sanity_check", PURPOSE_VALIDATION},
	{"on_advance_end", PURPOSE_VALIDATION},
	{"_validate_impl", PURPOSE_VALIDATION},
	{"_test_impl", PURPOSE_TEST},
	{"_predict_impl", PURPOSE_INFERENCE},
	/* Hugging Face's Trainer: evaluates during the training. */
	{"_maybe_log_save_evaluate", PURPOSE_VALIDATION},
};

const char *purpose_word(unsigned purpose)
{
	static const char *const words[PURPOSE_COUNT] = {
		[PURPOSE_VALIDATION] = "validation", [PURPOSE_TEST] = "test",	   [PURPOSE_EVALUATION] = "evaluation",
		[PURPOSE_INFERENCE] = "inference",   [PURPOSE_TRAINING] = "train",
	};
	return purpose < PURPOSE_COUNT ? words[purpose] : NULL;
}

enum purpose purpose_of(const char *function)
{
	const char *dot = strrchr(function, '.'), *name = dot ? dot + 1 : function;
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (strcmp(name, functions[i].function) == 0)
			return functions[i].purpose;
	return PURPOSE_NONE;
}

enum purpose purpose_within(enum purpose own, enum purpose outer)
{
	if (own == PURPOSE_NONE)
		return outer;
	return own == PURPOSE_EVALUATION &&
			       (outer == PURPOSE_VALIDATION || outer == PURPOSE_TEST || outer == PURPOSE_INFERENCE)
		       ? outer
		       : own;
}
