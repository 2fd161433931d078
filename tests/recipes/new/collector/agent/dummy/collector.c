/* collector.c - a collector that has nothing to switch on, and whose events come when it is drained. The test of the recipes. */
#include "agent/core/collector.h"
#include "agent/sink/sink.h"
#include "proto/events.h"

static int dummy_probe(char *sentence, size_t bytes)
{
	if (bytes)
		*sentence = 0;
	return 1;
}

static int dummy_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	(void)request, (void)sentence, (void)bytes;
	return 0;
}

static void dummy_stop(void)
{
}

static void dummy_drain(uint64_t deadline)
{
	struct sink_thread *sink = sink_enter_pop();
	(void)deadline;
	if (!sink)
		return;
	sink_leave(sink);
}

const struct collector_ops collector_dummy = {
	.bit = COLLECTOR_DUMMY,
	.probe = dummy_probe,
	.start = dummy_start,
	.stop = dummy_stop,
	.drain = dummy_drain,
};
