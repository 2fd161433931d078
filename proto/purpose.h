/* purpose.h - what a network is run for, by the name of the function of Python that runs it: validate(), Lightning's test_step, the
 * evaluation_loop of Hugging Face's Trainer. Agent and store must agree on it. No state, no locks. */
#ifndef PROFD_PROTO_PURPOSE_H
#define PROFD_PROTO_PURPOSE_H

/* Numbers stay as they are: agents of earlier builds run on. PURPOSE_EVALUATION: validation or test, and the name does not say which. */
enum purpose {
	PURPOSE_NONE,
	PURPOSE_VALIDATION,
	PURPOSE_TEST,
	PURPOSE_EVALUATION,
	PURPOSE_INFERENCE,
	PURPOSE_TRAINING,
	PURPOSE_COUNT
};
/* "validation"; that of PURPOSE_TRAINING is "train". NULL: it has none. */
const char *purpose_word(unsigned purpose);

/* A function's name counts as a whole, without its class, which stands before it from Python 3.11 on: `evaluate` evaluates, `evaluate_expr` may
 * do anything. */
enum purpose purpose_of(const char *function);
/* The purpose of what a function runs: its `own`, called within work for `outer`. The innermost function decides, so
 * training inside of a test is training. But of a function that only evaluates its caller says what for. */
enum purpose purpose_within(enum purpose own, enum purpose outer);

#endif
