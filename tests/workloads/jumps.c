/* jumps.c - a job whose signal handlers leave what they interrupted by siglongjmp, while it is in the recorder.
 *
 *     jumps --mode=push|tick [--steps=N] [--step-ms=T] [--pairs=M]
 *
 * push: in each step a range is pushed whose name cannot be read. Only who records reads it; the handler of SIGSEGV jumps back.
 * tick: once, in a 20th step that is recorded, the memory into which this thread's records go cannot be written while it steps.
 * Each step pushes and pops M ranges "work" besides. Prints {"steps": N}. */
#include "workload.h"

#include "proto/segment.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <nvtx3/nvToolsExt.h>

static sigjmp_buf back;
static void *closed;
static size_t closed_bytes;
static volatile sig_atomic_t jumped;

static void on_segv(int signal)
{
	(void)signal;
	if (closed)
		mprotect(closed, closed_bytes, PROT_READ | PROT_WRITE);
	jumped = 1;
	siglongjmp(back, 1);
}

/* What follows is called from higher up the stack, as in a job that gives up a computation. */
static __attribute__((noinline)) void deep(const char *unreadable)
{
	volatile char frame[4096];
	frame[0] = 0;
	if (unreadable)
		nvtxRangePushA(unreadable);
	else
		step();
	frame[1] = frame[0];
}

/* The chunk of the recorder's segment that this thread writes to; NULL where there is none. */
static void *own_chunk(size_t *ret_bytes)
{
	char line[512];
	void *found = NULL;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && !found && fgets(line, sizeof line, maps)) {
		unsigned long from;
		if (!strstr(line, "profd-segment") || sscanf(line, "%lx-", &from) != 1)
			continue;
		unsigned char *map = (unsigned char *)from;
		struct segment_header *header = (struct segment_header *)map;
		if (header->magic != SEGMENT_MAGIC)
			continue;
		struct segment_chunk *table = (struct segment_chunk *)(map + header->table_at);
		for (uint32_t i = 0; i < header->chunks_ready && !found; i++)
			if (table[i].state == CHUNK_OWNED && table[i].thread == (uint32_t)thread_id())
				found = map + header->chunks_at + (size_t)i * header->chunk_bytes;
		*ret_bytes = header->chunk_bytes;
	}
	if (maps)
		fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	(void)argc;
	int tick = !strcmp(argument(argv, "mode", "push"), "tick");
	long steps = (long)number(argv, "steps", 200), pairs = (long)number(argv, "pairs", 10);
	double step_time = number(argv, "step-ms", 10) * 1e-3;
	const char *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction action = {.sa_handler = on_segv, .sa_flags = SA_NODEFER};
	sigaction(SIGSEGV, &action, NULL);
	for (volatile long n = 0; n < steps || stays(); n++) {
		double until = seconds() + step_time;
		for (long i = 0; i < pairs; i++) {
			nvtxRangePushA("work");
			nvtxRangePop();
		}
		if (tick && !jumped && n % 20 == 19)
			closed = own_chunk(&closed_bytes);
		if (sigsetjmp(back, 1) == 0) {
			if (closed)
				mprotect(closed, closed_bytes, PROT_NONE);
			if (tick)
				deep(NULL);
			else
				deep(unreadable);
		}
		closed = NULL;
		wait_until(until);
		if (!tick)
			step();
	}
	printf("{\"steps\": %ld}\n", steps);
	return 0;
}
