/* collector.c - the cupti collector's vtable. The agent's thread. */
#include "../collector.h"

#include "../../proto/events.h"

#include <errno.h>
#include <string.h>

static int cupti_probe(char *sentence, size_t bytes)
{
	static const char none[] = "no CUDA driver in this process";
	size_t n = sizeof none < bytes ? sizeof none : bytes;
	memcpy(sentence, none, n);
	sentence[n - 1] = 0;
	return 0;
}

static int cupti_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	(void)request;
	cupti_probe(sentence, bytes);
	return -ENODEV;
}

const struct collector_ops collector_cupti = {
	.bit = COLLECTOR_CUPTI,
	.extra = 1u << COLLECTOR_MEMORY,
	.probe = cupti_probe,
	.arm = cupti_arm,
};
