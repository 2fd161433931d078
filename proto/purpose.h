/* purpose.h - what a network is run for, by the name of the Python function that runs it: validate(), Lightning's
 * test_step, the evaluation_loop of Hugging Face's Trainer. Agent and store must agree on it. No state, no locks. */
#ifndef PROFD_PROTO_PURPOSE_H
#define PROFD_PROTO_PURPOSE_H

/* Numbers stay as they are: agents of earlier builds run on. PURPOSE_EVALUATION: validation or test, but the name does
 * not say which. */
enum purpose {
	PURPOSE_NONE,
	PURPOSE_VALIDATION,
	PURPOSE_TEST,
	PURPOSE_EVALUATION,
	PURPOSE_INFERENCE,
	PURPOSE_TRAINING,
	PURPOSE_COUNT
};
/* The purpose's word: "validation"; for PURPOSE_TRAINING "train". NULL: it has none. */
const char *purpose_word(unsigned purpose);

/* The purpose of a function by its whole name, without the class that stands before it from Python 3.11 on: `evaluate`
 * evaluates, but `evaluate_expr` may do anything. */
enum purpose purpose_of(const char *function);
/* The purpose of what a function runs: its `own`, called within work for `outer`. The innermost function decides, so
 * training inside of a test is training. But if a function only evaluates, its caller says what for. */
enum purpose purpose_within(enum purpose own, enum purpose outer);

#endif
