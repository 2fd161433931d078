/* interpreter.c - see interpreter.h. */
#include "interpreter.h"
#include "../core/gate.h"
#include "../core/object.h"
#include "../core/peek.h"
#include "../core/sentence.h"

#include "proto/python/profiler.h"
#include "proto/python/proof.h"
#include "proto/python/symbol.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* glibc keeps the kernel's id of a thread in its pthread_t. */
#define PTHREAD_TID 720

static bool read_own(void *context, uint64_t address, void *to, size_t bytes)
{
	(void)context;
	return peek_bytes(address, to, bytes) == (long)bytes;
}

/* The number in "python3.11" in the name of a mapped file: before 3.11 no symbol tells the release. */
static unsigned minor_in(const char *path)
{
	const char *at = path ? strstr(path, "python3.") : NULL;
	unsigned minor = 0;
	for (at = at ? at + 8 : ""; *at >= '0' && *at <= '9' && minor < 100; at++)
		minor = minor * 10 + (unsigned)(*at - '0');
	return minor;
}

static int look_for_minor(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	*(unsigned *)context = minor_in(info->dlpi_name);
	return *(unsigned *)context != 0;
}

static void program_path(char *path, size_t bytes)
{
	ssize_t n = readlink("/proc/self/exe", path, bytes - 1);
	path[n > 0 ? n : 0] = 0;
}

bool interpreter_is_program(void)
{
	char path[512];
	program_path(path, sizeof path);
	const char *name = strrchr(path, '/');
	return name && strncmp(name, "/python", 7) == 0;
}

static unsigned minor_by_names(void)
{
	char path[512];
	program_path(path, sizeof path);
	unsigned minor = minor_in(path);
	if (!minor)
		gate_iterate(look_for_minor, &minor, GATE_OWN_NS);
	return minor;
}

/* The symbol that is looked for in one object after the other, and where it was found. */
struct search {
	const char *name;
	const struct dl_phdr_info *object;
	uint64_t found;
	char path[512];	     /* of the object; "": the program itself, or an object with a longer name */
	uintptr_t there[16]; /* pages that can be read, numbered from 1 */
};

static int is_there(struct search *search, uintptr_t at)
{
	uintptr_t *known = &search->there[(at >> 12) % (sizeof search->there / sizeof *search->there)];
	return peek_is_there_once(known, (const void *)at);
}

static bool read_object(void *context, uint64_t address, void *to, size_t bytes)
{
	struct search *search = context;
	const void *from = (const void *)(uintptr_t)address;
	if (!bytes || !object_has(search->object, from, bytes, PF_R) || !is_there(search, address) ||
	    !is_there(search, address + bytes - 1))
		return false;
	memcpy(to, from, bytes);
	return true;
}

static int look_for_symbol(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;
	struct python_memory memory = {.read = read_object, .context = search, .reads_left = 1000};
	int i = 0;
	(void)size;
	while (i < info->dlpi_phnum && info->dlpi_phdr[i].p_type != PT_LOAD)
		i++;
	if (i == info->dlpi_phnum)
		return 0;
	search->object = info;
	memset(search->there, 0, sizeof search->there);
	search->found = python_symbol(
		&memory, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr - info->dlpi_phdr[i].p_offset, search->name);
	size_t length = info->dlpi_name ? strlen(info->dlpi_name) : 0;
	if (search->found && length < sizeof search->path)
		memcpy(search->path, info->dlpi_name ? info->dlpi_name : "", length + 1);
	return search->found != 0;
}

/* Does not use dlsym. If dlsym finds nothing it allocates memory for its message, which makes a heap for this thread
 * (64 MiB, and locked if the job locks all its memory). And dlsym does not see a Python that was loaded with
 * RTLD_LOCAL. The handle is kept, so that the library stays loaded. */
void *interpreter_symbol(const char *name)
{
	struct search search = {.name = name};
	unsigned place = gate_enter(GATE_OWN_NS);
	if (gate_iterate(look_for_symbol, &search, GATE_OWN_NS) && search.path[0])
		dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
	gate_leave(place);
	return (void *)(uintptr_t)search.found;
}

static int refuse(enum python_result result, unsigned minor, char *sentence, size_t bytes)
{
	char number[24];
	number[sentence_decimal(number, minor)] = 0;
	switch (result) {
	case PYTHON_OK:
		return 0;
	case PYTHON_UNREADABLE:
		sentence_put(sentence, bytes,
			     "process_vm_readv cannot read this process's own memory: a seccomp filter forbids it",
			     NULL);
		return -EPERM;
	case PYTHON_UNKNOWN:
		sentence_put(sentence, bytes, "how Python ", minor ? "3." : "", minor ? number : "of this process",
			     " keeps its frames is not known to this release, which knows CPython 3.9 to 3.14", NULL);
		return -ENOTSUP;
	case PYTHON_FREE_THREADED:
		sentence_put(sentence, bytes,
			     "this is a free-threaded build of Python: its frames cannot be read while it runs", NULL);
		return -ENOTSUP;
	case PYTHON_NOT_READY:
	case PYTHON_FINALIZING:
		break;
	}
	sentence_put(sentence, bytes,
		     result == PYTHON_NOT_READY ? "its Python has not started yet" : "its Python is ending", NULL);
	return -EAGAIN;
}

int interpreter_find(struct python *ret, char *sentence, size_t bytes)
{
	const struct python_memory memory = {.read = read_own, .reads_left = 1000};
	const unsigned long *version = interpreter_symbol("Py_Version");
	const void *runtime = interpreter_symbol("_PyRuntime");
	if (!runtime) {
		sentence_put(sentence, bytes, "no Python in this process", NULL);
		return -ENOENT;
	}
	unsigned minor = version ? (unsigned)(*version >> 16 & 0xff) : minor_by_names();
	enum python_result result = python_open(ret, &memory, (uint64_t)(uintptr_t)runtime, minor);
	return refuse(result, ret->minor, sentence, bytes);
}

static bool read_mapped(void *context, uint64_t address, void *to, size_t bytes)
{
	(void)context;
	memcpy(to, (const void *)(uintptr_t)address, bytes);
	return true;
}

bool interpreter_layout(struct python *ret)
{
	const struct python_memory memory = {.read = read_mapped, .reads_left = 1000};
	const void *runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
	const unsigned long *version = runtime ? dlsym(RTLD_DEFAULT, "Py_Version") : NULL;
	unsigned minor = version ? (unsigned)(*version >> 16 & 0xff) : 0;
	if (runtime && !minor)
		minor = minor_by_names();
	return runtime && python_open(ret, &memory, (uint64_t)(uintptr_t)runtime, minor) == PYTHON_OK;
}

int interpreter_prove(struct python *python, char *sentence, size_t bytes)
{
	static bool proved; /* once proved, it stays proved */
	const char *missing = proved ? NULL : python_disproved(python);
	char minor[24];
	proved = !missing;
	if (proved)
		return 0;
	minor[sentence_decimal(minor, python->minor)] = 0;
	sentence_put(sentence, bytes, "this process does not have ", missing, " where CPython 3.", minor,
		     " has it, so that Python's objects are not read", NULL);
	return -ENOTSUP;
}

int interpreter_find_proved(struct python *ret, char *sentence, size_t bytes)
{
	int error = interpreter_find(ret, sentence, bytes);
	return error < 0 ? error : interpreter_prove(ret, sentence, bytes);
}

bool interpreter_is_ending(struct python *python)
{
	return python_word(&python->memory, python->runtime + (uint64_t)python->offsets.runtime_finalizing) != 0;
}

uint32_t interpreter_tid(struct python *python, const struct python_thread *thread)
{
	if (thread->native || !thread->ident)
		return thread->native;
	return (uint32_t)python_word(&python->memory, thread->ident + PTHREAD_TID);
}

bool interpreter_profiles(void)
{
	struct python python;
	char sentence[248];
	return interpreter_find_proved(&python, sentence, sizeof sentence) == 0 && python_torch_profiles(&python);
}
