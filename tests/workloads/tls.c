/* tls.c - has 480 KB in static thread-local storage; GLIBC_TUNABLES=glibc.rtld.optional_static_tls=N adds N bytes.
 *
 *     tls [--after=N] [--step-ms=T]
 *
 * Fills it, steps, and looks whether it is as it was. Prints one line of JSON: steps, wrong (bytes). */
#include "workload.h"

#define BYTES (480 << 10)
static __thread volatile unsigned char storage[BYTES];

int main(int argc, char **argv)
{
	(void)argc;
	long steps = (long)number(argv, "after", 20), wrong = 0;
	double step_time = number(argv, "step-ms", 5) * 1e-3, next = seconds();
	for (long i = 0; i < BYTES; i++)
		storage[i] = (unsigned char)(i * 7);
	for (long i = 0; i < steps; i++) {
		pace(&next, step_time);
		step();
	}
	for (long i = 0; i < BYTES; i++)
		wrong += storage[i] != (unsigned char)(i * 7);
	printf("{\"steps\": %ld, \"wrong\": %ld}\n", steps, wrong);
	return 0;
}
