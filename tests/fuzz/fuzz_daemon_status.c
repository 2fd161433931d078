/* fuzz_daemon_status.c - a status page of any bytes: what the daemon tells of it is within bounds. */
#include "daemon/capture/registry.h"
#include "daemon/capture/registry_row.h"
#include "proto/limits.h"
#include "proto/status.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct process process;
	struct status_page *page = calloc(1, sizeof *page);
	if (!page)
		return 0;
	/* The whole page: what the input leaves is its repetition. */
	for (size_t i = 0; n && i < sizeof *page; i++)
		((unsigned char *)page)[i] = data[i % n];
	process.page = page;
	process.hello.step_source = (uint16_t)n;
	if (registry_step_ns(&process) >= LIMIT_DURATION_NS)
		abort();
	if (!step_source_word(registry_step_source(&process)))
		abort();
	free(page);
	return 0;
}
