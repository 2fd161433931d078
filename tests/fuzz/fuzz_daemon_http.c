/* fuzz_daemon_http.c - the head of an HTTP request, hostile, whole and in pieces. */
#include "daemon/metrics/http.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request request, part;
	if (size > HTTP_HEAD_BYTES + 1)
		size = HTTP_HEAD_BYTES + 1;
	/* Of its own, so that a read beyond the end is seen. */
	char *copy = malloc(size ? size : 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	int status = http_parse(copy, size, &request);
	if (status == 200 && (!request.metrics || request.bytes > size || request.bytes < 18))
		abort();
	if (status && strcmp(http_reason(status), "Internal Server Error") == 0)
		abort();
	/* What follows the head changes nothing, and what is cut has either the same verdict or none. */
	if (status == 200 && http_parse(copy, request.bytes, &part) != 200)
		abort();
	int early = http_parse(copy, size / 2, &part);
	if (early && early != status)
		abort();
	free(copy);
	return 0;
}
