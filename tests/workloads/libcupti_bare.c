/* libcupti_bare.c - CUPTI with nothing around it: what a launch costs the job at the least, where its activity is recorded at all.
 * The driver loads it by CUDA_INJECTION64_PATH; it enables kinds, hands buffers out and takes them back unread.
 *
 *   CUPTI_BARE_LIBRARY=PATH   libcupti
 *   CUPTI_BARE_KINDS=10,1,2   numbers of CUpti_ActivityKind (10)
 *   CUPTI_BARE_REPORT=FILE    JSON, written anew ten times a second: version, kinds with what enabling answered and took (ns),
 *                             buffers, and of each kind the records that came and the bytes from one to the next
 *
 * Records are walked for the report alone. A thread of its own flushes; callbacks run in threads of the job and of CUPTI. */
#include "tests/workloads/cuda/cupti.h"
#include "workload.h"

#include <pthread.h>
#include <stdatomic.h>

enum { BUFFER = 4 << 20, MOST_KINDS = 128 };

static struct {
	int kind, result;
	uint64_t ns;
} enabled[MOST_KINDS];
static int enabled_count;
static uint32_t version;
static _Atomic uint64_t requests, completions, records[MOST_KINDS], least[MOST_KINDS], most[MOST_KINDS];
static const char *report_path;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	cupti_take(buffer, bytes, most_records, BUFFER);
	atomic_fetch_add(&requests, 1);
}

static void count(uint8_t *buffer, size_t valid)
{
	uint32_t *record = NULL, *before = NULL;
	while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
		uint32_t kind = *record < MOST_KINDS ? *record : 0;
		atomic_fetch_add(&records[kind], 1);
		if (before && *before < MOST_KINDS) {
			uint64_t bytes = (uint64_t)((uint8_t *)record - (uint8_t *)before);
			if (!least[*before] || bytes < least[*before])
				least[*before] = bytes;
			if (bytes > most[*before])
				most[*before] = bytes;
		}
		before = record;
	}
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	(void)context;
	(void)stream;
	(void)bytes;
	if (report_path && valid)
		count(buffer, valid);
	atomic_fetch_add(&completions, 1);
	cupti_give_back(buffer);
}

static void write_report(void)
{
	char name[4096];
	snprintf(name, sizeof name, "%s.part", report_path);
	FILE *file = fopen(name, "w");
	if (!file)
		return;
	fprintf(file, "{\"version\": %u, \"requested\": %llu, \"completed\": %llu, \"enabled\": {", version,
		(unsigned long long)requests, (unsigned long long)completions);
	for (int i = 0; i < enabled_count; i++)
		fprintf(file, "%s\"%d\": {\"result\": %d, \"ns\": %llu}", i ? ", " : "", enabled[i].kind,
			enabled[i].result, (unsigned long long)enabled[i].ns);
	fprintf(file, "}, \"records\": {");
	for (int k = 0, n = 0; k < MOST_KINDS; k++)
		if (records[k])
			fprintf(file, "%s\"%d\": {\"count\": %llu, \"least_bytes\": %llu, \"most_bytes\": %llu}",
				n++ ? ", " : "", k, (unsigned long long)records[k], (unsigned long long)least[k],
				(unsigned long long)most[k]);
	fprintf(file, "}}\n");
	if (fclose(file) == 0)
		rename(name, report_path);
}

static void *flusher(void *unused)
{
	for (;;) {
		nanosleep(&(struct timespec){0, 100000000}, NULL);
		cupti.cuptiActivityFlushAll(0);
		if (report_path)
			write_report();
	}
	return unused;
}

static int load(void)
{
	const char *path = getenv("CUPTI_BARE_LIBRARY");
	const char *wrong = path ? cupti_load(path) : "CUPTI_BARE_LIBRARY is not set";
	if (wrong)
		fprintf(stderr, "libcupti_bare: %s\n", wrong);
	return !wrong;
}

/* Called by the driver in cuInit; 0 is a failure. */
int InitializeInjection(void)
{
	const char *kinds = getenv("CUPTI_BARE_KINDS");
	pthread_t thread;
	if (!load())
		return 0;
	report_path = getenv("CUPTI_BARE_REPORT");
	cupti.cuptiGetVersion(&version);
	if (cupti.cuptiActivityRegisterCallbacks(requested, completed))
		return 0;
	for (const char *at = kinds ? kinds : "10"; *at && enabled_count < MOST_KINDS;) {
		char *end;
		uint64_t start = now();
		int kind = (int)strtol(at, &end, 10), result = cupti.cuptiActivityEnable(kind);
		enabled[enabled_count].kind = kind;
		enabled[enabled_count].result = result;
		enabled[enabled_count++].ns = now() - start;
		at = *end ? end + 1 : end;
	}
	return pthread_create(&thread, NULL, flusher, NULL) == 0;
}
