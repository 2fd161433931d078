/* fuzz_daemon_request.c - the parser of clients' requests against hostile bytes. */
#include "daemon/ops/request.h"
#include "proto/limits.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct request request;
	char sentence[512] = "";
	if (size > LIMIT_PACKET_BYTES)
		return 0;
	enum error error = request_parse(&request, (const char *)data, size, sentence, sizeof sentence);
	/* An error always has its sentence, and what is accepted is within the bounds that the daemon counts on. */
	if (error ? !*sentence
		  : !request.op || request.trigger.pid_count > LIMIT_TARGETS || request.id_count > LIMIT_TARGETS)
		abort();
	if (!error && request.trigger.collectors && schedule_check(&request.trigger.schedule))
		abort();
	request_deinit(&request);
	return 0;
}
