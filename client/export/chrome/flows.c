/* flows.c - a hash table of forward/backward pairs. */
#include "flows.h"

#include <errno.h>
#include <stdlib.h>

static struct flow *find(const struct flows *f, uint32_t thread, uint64_t sequence)
{
	size_t at =
		(size_t)((sequence + ((uint64_t)thread << 40)) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (f->size - 1);
	while (f->table[at].forward_thread &&
	       (f->table[at].forward_thread != thread || f->table[at].sequence != sequence))
		at = (at + 1) & (f->size - 1);
	return &f->table[at];
}

static int grow(struct flows *f)
{
	struct flows larger = {.size = f->size ? f->size * 2 : 1024, .used = f->used, .left_out = f->left_out};
	larger.table = calloc(larger.size, sizeof *larger.table);
	if (!larger.table)
		return -ENOMEM;
	for (size_t i = 0; i < f->size; i++)
		if (f->table[i].forward_thread)
			*find(&larger, f->table[i].forward_thread, f->table[i].sequence) = f->table[i];
	free(f->table);
	*f = larger;
	return 0;
}

int flows_put(struct flows *f, uint32_t thread, uint64_t sequence, bool backward, bool is_node, struct flow_end end)
{
	if (f->used * 3 >= f->size * 2 && f->used < FLOWS_MAX) {
		int error = grow(f);
		if (error)
			return error;
	}
	struct flow *flow = find(f, thread, sequence);
	if (!flow->forward_thread) {
		if (f->used >= FLOWS_MAX) {
			f->left_out++;
			return 0;
		}
		*flow = (struct flow){.sequence = sequence, .forward_thread = thread};
		f->used++;
	}
	if (!backward) {
		if (!flow->has_forward || end.start >= flow->forward.start)
			flow->forward = end;
		flow->has_forward = true;
	} else if (!flow->has_backward || (is_node && !flow->is_node) ||
		   (is_node == flow->is_node && end.start < flow->backward.start)) {
		flow->backward = end;
		flow->is_node = is_node;
		flow->has_backward = true;
	}
	return 0;
}

const struct flow *flows_next(const struct flows *f, size_t *at)
{
	while (*at < f->size) {
		const struct flow *flow = &f->table[(*at)++];
		if (flow->has_forward && flow->has_backward && flow->forward.start < flow->backward.start)
			return flow;
	}
	return NULL;
}

void flows_deinit(struct flows *f)
{
	free(f->table);
	*f = (struct flows){0};
}
