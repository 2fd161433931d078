/* seen.c - what a real GPU was seen to do and no page of its maker says, where the script asks for it (script.h). The program's
 * threads and the client's; simcupti.h says of each function whether sim_lock is held. */
#include "simcupti.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { GRAPHS_MAX = 65536 };

static atomic_bool ever_on;			/* a kind has been enabled */
static uint64_t traced_graphs[GRAPHS_MAX / 64]; /* made while GRAPH_TRACE was on: a bit each, by id */

static void pause_for(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	nanosleep(&time, NULL);
}

void seen_register(void)
{
	static atomic_bool before;
	if (!script_value("first_call") || atomic_exchange(&before, true))
		return;
	void *found = sim_driver_function("simcuda_drain");
	simcuda_drain_fn *drain;
	memcpy(&drain, &found, sizeof drain);
	if (drain)
		drain();
	pause_for(script_time("first_call", 0));
}

void seen_disable(uint32_t kind)
{
	uint64_t time = kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER ? script_time("unified_off", 0) : 0;
	if (time)
		pause_for(time);
}

static bool launches_kernel(const char *name)
{
	return strncmp(name, "cuLaunchKernel", 14) == 0 || strcmp(name, "cuLaunchCooperativeKernel") == 0;
}

void seen_launch(const char *name)
{
	if (!atomic_load_explicit(&ever_on, memory_order_relaxed) ||
	    !(launches_kernel(name) || strcmp(name, "cuGraphLaunch") == 0))
		return;
	uint64_t time = script_time("after", 0);
	for (uint64_t until = time ? sim_monotonic() + time : 0; time && sim_monotonic() < until;)
		;
}

bool seen_marked(void)
{
	return script_number("marked", SIM_RELEASE_NUMBER >= 1300) != 0;
}

void seen_enter(struct thread *thread, const struct sim_call *call)
{
	thread->launching += call->domain == SIM_DRIVER && launches_kernel(call->name);
}

void seen_leave(struct thread *thread, const struct sim_call *call)
{
	thread->launching -= call->domain == SIM_DRIVER && launches_kernel(call->name) && thread->launching > 0;
}

void seen_switched(uint32_t kind, bool on)
{
	if (on)
		atomic_store(&ever_on, true);
	bool counts = kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
		      kind == CUPTI_ACTIVITY_KIND_DRIVER || kind == CUPTI_ACTIVITY_KIND_RUNTIME;
	if (!counts || !script_number("toggle_mid_launch", 0))
		return;
	for (struct thread *t = sim_threads; t; t = t->next)
		if (t->launching)
			t->unbalanced += on ? -1 : 1;
}

bool seen_silent(const struct thread *thread, const struct sim_operation *operation)
{
	return operation->kind == SIM_KERNEL && thread->unbalanced < 0;
}

static bool crashes(void)
{
	const char *value = script_value("graph_trace_late");
	return value && strcmp(value, "crash") == 0;
}

void seen_graph_made(uint32_t id)
{
	for (const struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
		if (client_wants(c, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0))
			traced_graphs[id % GRAPHS_MAX / 64] |= (uint64_t)1 << id % 64;
}

void seen_graph_launched(const struct sim_operation *node)
{
	if (crashes() && !(traced_graphs[node->graph % GRAPHS_MAX / 64] >> node->graph % 64 & 1))
		sim_crash();
}

void seen_forget(void)
{
	atomic_store(&ever_on, false);
	for (struct thread *t = sim_threads; t; t = t->next)
		t->unbalanced = 0;
}
