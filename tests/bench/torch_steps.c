/* torch_steps.c - what Optimizer.step and Optimizer.zero_grad cost the thread that trains while nothing is recorded, in instructions:
 * calls the agent's callbacks as torch does, over a stand-in for torch and for Python 3.11. Prints nothing; callgrind counts
 * between its two marks.
 *
 * `torch_steps STEPS [zero]`; the same source with -DTORCH is the stand-in for libtorch_cpu.so, which STAND_IN names. */
#include <stdint.h>

#ifdef TORCH
#include <stdatomic.h>

struct callback {
	void *(*start)(void **to, const void *function);
	void (*end)(const void *function, void *context);
	double sampling;
	uint8_t scopes[10], needs[3];
};
struct callback torch_callback;
_Atomic int torch_watched;
int64_t torch_sequence;

uint64_t add(struct callback callback) __asm__("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
uint64_t add(struct callback callback)
{
	torch_callback = callback;
	atomic_store(&torch_watched, 1);
	return 1;
}
void remove_callback(uint64_t handle) __asm__("_ZN2at14removeCallbackEm");
void remove_callback(uint64_t handle)
{
	(void)handle;
}
const char *name(const void *function) __asm__("_ZNK2at14RecordFunction4nameEv");
const char *name(const void *function)
{
	return *(const char *const *)function;
}
int64_t peek(void) __asm__("_ZN2at15sequence_number4peekEv");
int64_t peek(void)
{
	return torch_sequence;
}
uint8_t profiled(void) __asm__("_ZN5torch8autograd8profiler29isProfilerEnabledInMainThreadEv");
uint8_t profiled(void)
{
	return 0;
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

/* Where Python 3.11 has what the agent reads (agent/torch/which.c). */
unsigned long Py_Version = 0x030b0200;
const void *_PyRuntime[256];
char PyCode_Type[256], PyTuple_Type[256];
static char state[128], enter[128], wrapper[128], enter_code[128], wrapper_code[128], arguments[64], optimizer[64],
	type[256];
#define AT(base, offset) (*(const void **)((base) + (offset)))

const void *PyGILState_GetThisThreadState(void);
const void *PyGILState_GetThisThreadState(void)
{
	return state;
}

static void python(char *c_frame)
{
	_PyRuntime[5] = state; /* an interpreter; _PyRuntime[3], that it ends, is not set */
	AT(state, 56) = c_frame;
	AT(c_frame, 8) = enter;
	AT(enter, 48) = wrapper;
	AT(enter, 32) = enter_code;
	AT(wrapper, 32) = wrapper_code;
	AT(enter_code, 8) = AT(wrapper_code, 8) = PyCode_Type;
	*(int32_t *)(wrapper_code + 48) = 4;
	AT(wrapper, 72) = arguments;
	AT(arguments, 8) = PyTuple_Type;
	*(int64_t *)(arguments + 16) = 1;
	AT(arguments, 24) = optimizer;
	AT(optimizer, 8) = type;
	AT(type, 24) = "AdamW";
}

struct callback {
	void *(*start)(void **to, const void *function);
	void (*end)(const void *function, void *context);
};

int main(int argc, char **argv)
{
	/* As a std::string's are. */
	static _Alignas(16) const char step_name[64] = "Optimizer.step#AdamW.step",
				       zero_name[64] = "Optimizer.zero_grad#AdamW.zero_grad";
	const char *step = step_name, *zero = zero_name;
	long steps = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	char c_frame[64];
	python(c_frame);
	void *torch = dlopen(getenv("STAND_IN"), RTLD_NOW | RTLD_GLOBAL);
	if (!torch)
		return 1;
	const volatile int *watched = dlsym(torch, "torch_watched");
	const struct callback *callback = dlsym(torch, "torch_callback");
	int64_t *sequence = dlsym(torch, "torch_sequence");
	for (int i = 0; i < 3000 && !*watched; i++)
		usleep(10000);
	if (!*watched)
		return 1;
	/* The first ones are taken apart; the second half is counted. */
	for (long i = 0; i < 2 * steps; i++) {
		void *context;
		if (i == steps)
			CALLGRIND_TOGGLE_COLLECT;
		if (argc > 2) {
			callback->start(&context, &zero);
			callback->end(&zero, context);
		}
		*sequence += 40;
		callback->start(&context, &step);
		callback->end(&step, context);
	}
	CALLGRIND_TOGGLE_COLLECT;
	return 0;
}
#endif
