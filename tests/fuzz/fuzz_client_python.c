/* fuzz_client_python.c - the memory of a hostile process that says that it runs Python, as `profd stack` and the agent read it: symbols,
 * interpreters, threads, frames, names and lines. See memory.h. */
#include "proto/python/code.h"
#include "proto/python/python.h"
#include "proto/python/symbol.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define THREADS 8
#define FRAMES 32
#define READS 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_thread(struct python *python, uint64_t state)
{
	static struct python_frame frames[FRAMES], scratch[FRAMES];
	struct python_code code;
	size_t count;
	bool more;
	unsigned torn;

	python_walk(python, state, frames, scratch, FRAMES, &count, &more, &torn);
	if (count > FRAMES)
		abort();
	for (size_t i = 0; i < count; i++) {
		if (python_describe(python, frames[i].code, &code) &&
		    (strnlen(code.name, sizeof code.name) == sizeof code.name ||
		     strnlen(code.file, sizeof code.file) == sizeof code.file))
			abort();
		python_line(python, frames[i].code, frames[i].instruction);
		python_code_print(python, frames[i].code);
	}
}

static void read_symbols(struct python_memory *memory)
{
	python_symbol(memory, 4096, "_PyRuntime");
	python_symbol(memory, 4096, "Py_AddPendingCall");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct python python;
	struct python_thread threads[THREADS];

	if (n < 16)
		return 0;
	/* The first byte says which release it is; 0: it says so itself. Nothing is read below the first page. */
	struct input input = {data + 1, n - 1};
	struct python_memory memory = {read_input, &input, READS};
	if (data[0] == 255)
		read_symbols(&memory);
	else if (python_open(&python, &memory, 2 * input.size * 4096, data[0] % 16) == PYTHON_OK) {
		int count = python_threads(&python, threads, THREADS);

		if (count > THREADS)
			abort();
		for (int i = 0; i < count; i++)
			read_thread(&python, threads[i].state);
	}
	return 0;
}
