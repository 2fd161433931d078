/* stacks.c - the Python stack of each operator (--stacks=operators): reads it where it is wanted. Operators that run in
 * a node of autograd have no stack of their own: their record names the node, and they get the stack of its forward
 * operator when the capture is finished. */
#include "../core/collector.h"
#include "../core/sentence.h"
#include "../stacks/walk.h"
#include "internal.h"
#include "torch.h"

#include <errno.h>

atomic_uchar torch_stacks_on;

void torch_stack(struct sink_thread *thread, struct sink_frame *frame)
{
	const struct sink_frame *around = frame->below;
	while (around && around->kind != EVENT_OPERATOR)
		around = around->below;
	frame->backward = frame->source == TORCH_SCOPE_BACKWARD ? frame->id
			  : around && around->step		? around->backward
								: 0;
	/* In warm-up, too: so most stacks are known before the recording, and cost it nothing. */
	if (!frame->backward && (frame->step || !sink_record_start()))
		frame->stack = walk_own(thread, EVENT_OPERATOR, &frame->entered);
}

static int stacks_probe(char *sentence, size_t bytes)
{
	if (torch_find() != 1) {
		sentence_put(sentence, bytes, "no torch in this process", NULL);
		return 0;
	}
	if (walk_probe(false, sentence, bytes) < 0)
		return 0;
	sentence_put(sentence, bytes, "the Python stack of each operator", NULL);
	return 1;
}

static int stacks_probe_parts(uint32_t wanted, char *sentence, size_t bytes)
{
	return walk_probe(wanted >> COLLECTOR_MODULES & 1, sentence, bytes);
}

static int stacks_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	return walk_arm(request->wanted >> COLLECTOR_MODULES & 1, sentence, bytes);
}

static int stacks_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	/* The collector of operators comes before this one. */
	if (!torch_is_on()) {
		sentence_put(sentence, bytes, "operators are not recorded", NULL);
		return -ENOENT;
	}
	walk_begin(request->generation);
	atomic_store_explicit(&torch_stacks_on, 1, memory_order_release);
	return 0;
}

static void stacks_stop(void)
{
	atomic_store_explicit(&torch_stacks_on, 0, memory_order_relaxed);
}

const struct collector_ops collector_operator_stacks = {
	.bit = COLLECTOR_OPERATOR_STACKS,
	.probe = stacks_probe,
	.probe_parts = stacks_probe_parts,
	.arm = stacks_arm,
	.start = stacks_start,
	.stop = stacks_stop,
	.bytes = walk_bytes,
	.disarm = walk_disarm,
};
