/* cuda_injection.c - a library for CUDA_INJECTION64_PATH that says how often it was initialised: test_sim_cuda.c. */
#include <stdlib.h>

__attribute__((visibility("default"))) int InitializeInjection(void)
{
	const char *before = getenv("INJECTED");
	setenv("INJECTED", before ? "twice" : "once", 1);
	return 1;
}
