/* symbols.c - finds libtorch in this process, binds what the collector calls, reads its version, and keeps forks of the
 * job apart from our calls into it. Agent's thread only, but for the fork handler, which runs in the thread that forks. */
#include "internal.h"
#include "torch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct torch_symbols torch_symbols;

static int found; /* what torch_find has found: 0 not yet, 1, or a negative errno */

struct search {
	const char *part; /* of the path */
	char path[512];
};

static int search_one(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;
	(void)size;
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	size_t bytes = strlen(path);
	if (!strstr(path, search->part) || bytes >= sizeof search->path)
		return 0;
	memcpy(search->path, path, bytes + 1);
	return 1;
}

static void *open_library(const char *part)
{
	struct search search = {.part = part};
	if (!dl_iterate_phdr(search_one, &search))
		return NULL;
	return dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
}

static int bind(void)
{
	void *cpu = open_library("/libtorch_cpu.so");
	if (!cpu)
		return 0;
	void *c10 = open_library("/libc10.so");
	const struct {
		void *to;
		const char *name;
	} wanted[] = {
		{&torch_symbols.add_global, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"},
		{&torch_symbols.remove, "_ZN2at14removeCallbackEm"},
		{&torch_symbols.name, "_ZNK2at14RecordFunction4nameEv"},
		{&torch_symbols.profiler_enabled, "_ZN5torch8profiler4impl15profilerEnabledEv"},
		{&torch_symbols.profiler_anywhere, "_ZN5torch8autograd8profiler29isProfilerEnabledInMainThreadEv"},
		{&torch_symbols.add_local, "_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE"},
		{&torch_symbols.thread_id, "_ZN2at14RecordFunction15currentThreadIdEv"},
		{&torch_symbols.sequence_next, "_ZN2at15sequence_number17get_and_incrementEv"},
		{&torch_symbols.sequence_peek, "_ZN2at15sequence_number4peekEv"},
		{&torch_symbols.empty_strided, "aoti_torch_empty_strided"},
		{&torch_symbols.convolution, "aoti_torch_convolution"},
		{&torch_symbols.addmm_out, "aoti_torch_addmm_out"},
		{&torch_symbols.delete_tensor, "aoti_torch_delete_tensor_object"},
		{&torch_symbols.get_sizes, "aoti_torch_get_sizes"},
		{&torch_symbols.get_strides, "aoti_torch_get_strides"},
		{&torch_symbols.dtype_float64, "aoti_torch_dtype_float64"},
		{&torch_symbols.device_type_cpu, "aoti_torch_device_type_cpu"},
		{&torch_symbols.int_type, "_ZN3c107IntType3getEv"},
		{&torch_symbols.tensor_type, "_ZN3c1010TensorType3getEv"},
		{&torch_symbols.int_type_vtable, "_ZTVN3c107IntTypeE"},
		{&torch_symbols.tensor_type_vtable, "_ZTVN3c1010TensorTypeE"},
	};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		void *symbol = dlsym(cpu, wanted[i].name);
		memcpy(wanted[i].to, &symbol, sizeof symbol);
	}
	torch_symbols.undefined_tensor = c10 ? dlsym(c10, "_ZN3c1019UndefinedTensorImpl10_singletonE") : NULL;
	return torch_symbols.add_global && torch_symbols.remove && torch_symbols.name ? 1 : -ENOSYS;
}

int torch_find(void)
{
	if (!found)
		found = bind();
	return found;
}

/* ---------------------------------------------------------------- version */

/* Reads `__version__ = '2.15.0+cpu'` out of version.py in the folder `path` (which is cut at its last slash). */
static int read_version(char *path, size_t path_bytes, char *to, size_t bytes)
{
	static const char file[] = "/version.py";
	char text[2048];
	char *slash = strrchr(path, '/');
	if (!slash || (size_t)(slash - path) + sizeof file > path_bytes)
		return 0;
	memcpy(slash, file, sizeof file);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	*slash = 0;
	if (fd < 0)
		return 0;
	ssize_t n = syscall(SYS_read, fd, text, sizeof text - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = 0;
	/* At the beginning of a line; __all__ names it too. */
	const char *at = strncmp(text, "__version__", 11) == 0 ? text : strstr(text, "\n__version__");
	const char *first = at ? strpbrk(at + 1, "'\"\n") : NULL;
	const char *last = first && *first != '\n' ? strpbrk(first + 1, "'\"\n") : NULL;
	if (!last || (size_t)(last - first) > bytes)
		return 0;
	size_t length = (size_t)(last - first - 1);
	memcpy(to, first + 1, length);
	to[length] = 0;
	return length != 0;
}

void torch_version(char *to, size_t bytes)
{
	int saved = errno;
	to[0] = 0;
	/* A wheel has torch/version.py, torch/_C.*.so and torch/lib/libtorch_cpu.so; a distribution's library may lie
	 * elsewhere, its _C.*.so does not. */
	struct search search = {.part = "/torch/_C."};
	if (dl_iterate_phdr(search_one, &search))
		read_version(search.path, sizeof search.path, to, bytes);
	search.part = "/libtorch_cpu.so";
	if (!to[0] && dl_iterate_phdr(search_one, &search)) {
		char *lib = strrchr(search.path, '/');
		if (lib)
			*lib = 0;
		read_version(search.path, sizeof search.path, to, bytes);
	}
	errno = saved;
}

/* ---------------------------------------------------------------- forks */

/* A child that is forked while we are inside torch would find torch's locks taken for ever. So the forking thread waits for
 * us: microseconds for a callback, a millisecond for the calibration; bounded, in case we hang there. */
#define FORK_WAIT_NS 50000000u

static uint32_t inside; /* atomic */

static void before_fork(void)
{
	if (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
		return;
	int saved = errno;
	uint64_t deadline = sink_now() + FORK_WAIT_NS;
	while (__atomic_load_n(&inside, __ATOMIC_ACQUIRE) && sink_now() < deadline) {
		struct timespec nap = {0, 20000};
		nanosleep(&nap, NULL);
	}
	errno = saved;
}

static void after_fork_in_child(void)
{
	__atomic_store_n(&inside, 0, __ATOMIC_RELAXED);
}

void torch_fork_hold(void)
{
	static int registered;
	if (!registered) {
		/* By name: glibc has it in a static library only, and calls it otherwise inside. */
		int (*add)(void (*)(void), void (*)(void), void (*)(void), void *);
		*(void **)&add = dlsym(RTLD_DEFAULT, "__register_atfork");
		registered = add && add(before_fork, NULL, after_fork_in_child, NULL) == 0;
	}
	__atomic_store_n(&inside, 1, __ATOMIC_SEQ_CST);
}

void torch_fork_allow(void)
{
	__atomic_store_n(&inside, 0, __ATOMIC_RELEASE);
}

uint64_t torch_add_callback(const struct torch_callback *callback)
{
	torch_fork_hold();
	uint64_t handle = torch_symbols.add_global(*callback);
	torch_fork_allow();
	return handle;
}

void torch_remove_callback(uint64_t handle)
{
	torch_fork_hold();
	torch_symbols.remove(handle);
	torch_fork_allow();
}

/* ---------------------------------------------------------------- text */

void torch_join(char *to, size_t bytes, ...)
{
	va_list parts;
	size_t n = 0;
	if (!bytes)
		return;
	va_start(parts, bytes);
	for (const char *part; (part = va_arg(parts, const char *)) != NULL;)
		while (*part && n + 1 < bytes)
			to[n++] = *part++;
	va_end(parts);
	to[n] = 0;
}
