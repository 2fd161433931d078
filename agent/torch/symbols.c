/* symbols.c - finds libtorch in this process, looks up the functions that the collector calls, reads its version.
 * Agent's thread only. */
#include "../core/gate.h"
#include "../core/keeper.h"
#include "internal.h"
#include "torch.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
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
	if (!gate_iterate(search_one, &search, GATE_OWN_NS))
		return NULL;
	return dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
}

/* Parts of the mangled names of constructors of torch::ParamCommsDebugInfo: with std::string in both of its forms, with
 * numbers of elements of 8 and of 4 bytes, and with a bool at the end. */
#define COMMS "_ZN5torch19ParamCommsDebugInfoC1ESt5tuple"
#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define TYPE "N3c1010ScalarTypeESt6vectorIlSaIlEE"

static void bind_core(void *c10)
{
	const struct {
		void *to;
		const char *name;
	} wanted[] = {
		{&torch_symbols.undefined_tensor, "_ZN3c1019UndefinedTensorImpl10_singletonE"},
		{&torch_symbols.gradients_enabled, "_ZN3c108GradMode10is_enabledEv"},
		{&torch_symbols.debug_info, "_ZN3c1020ThreadLocalDebugInfo3getENS_13DebugInfoKindE"},
		{&torch_symbols.comms_kind, "_ZN3c1013DebugInfoKind16PARAM_COMMS_INFOE"},
	};
	for (size_t i = 0; c10 && i < sizeof wanted / sizeof *wanted; i++) {
		void *symbol = dlsym(c10, wanted[i].name);
		memcpy(wanted[i].to, &symbol, sizeof symbol);
	}
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
		{&torch_symbols.comms[0], COMMS "IJ" STRING "S7_EEiOS7_ll" TYPE "SE_iiib"},
		{&torch_symbols.comms[1], COMMS "IJ" STRING "S7_EEiOS7_ll" TYPE "SE_iii"},
		{&torch_symbols.comms[2], COMMS "IJ" STRING "S7_EEiOS7_ii" TYPE "SE_iii"},
		{&torch_symbols.comms[3], COMMS "IJSsSsEEiOSsll" TYPE "S8_iii"},
		{&torch_symbols.comms[4], COMMS "IJSsSsEEiOSsii" TYPE "S8_iii"},
	};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		void *symbol = dlsym(cpu, wanted[i].name);
		memcpy(wanted[i].to, &symbol, sizeof symbol);
	}
	bind_core(c10);
	return torch_symbols.add_global && torch_symbols.remove && torch_symbols.name ? 1 : -ENOSYS;
}

int torch_find(void)
{
	if (!found) {
		unsigned place = gate_enter(GATE_OWN_NS);
		found = bind();
		gate_leave(place);
	}
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
	size_t n = keeper_read_file(path, text, sizeof text);
	*slash = 0;
	if (!n)
		return 0;
	/* Only at the beginning of a line, because __all__ has the word, too. */
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
	/* A wheel has torch/version.py, torch/_C.*.so and torch/lib/libtorch_cpu.so. The library of a Linux
	 * distribution may lie elsewhere, but its _C.*.so lies beside version.py. */
	struct search search = {.part = "/torch/_C."};
	if (gate_iterate(search_one, &search, GATE_OWN_NS))
		read_version(search.path, sizeof search.path, to, bytes);
	search.part = "/libtorch_cpu.so";
	if (!to[0] && gate_iterate(search_one, &search, GATE_OWN_NS)) {
		char *lib = strrchr(search.path, '/');
		if (lib)
			*lib = 0;
		read_version(search.path, sizeof search.path, to, bytes);
	}
	errno = saved;
}

/* ---------------------------------------------------------------- callbacks */

uint64_t torch_add_callback(const struct torch_callback *callback)
{
	unsigned place = gate_enter(GATE_OWN_NS);
	uint64_t handle = torch_symbols.add_global(*callback);
	gate_leave(place);
	return handle;
}

void torch_remove_callback(uint64_t handle)
{
	unsigned place = gate_enter(GATE_OWN_NS);
	torch_symbols.remove(handle);
	gate_leave(place);
}
