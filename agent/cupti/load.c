/* load.c - see api.h. The agent's thread. */
#include "api.h"

#include "../core/gate.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

struct cupti_api cupti_api;

struct search {
	const char *prefix; /* of the file's name */
	char path[sizeof cupti_api.path];
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int search_one(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;
	(void)size;
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	size_t bytes = strlen(path);
	if (strncmp(base_name(path), search->prefix, strlen(search->prefix)) != 0 || bytes >= sizeof search->path)
		return 0;
	memcpy(search->path, path, bytes + 1);
	return 1;
}

static int mapped(const char *prefix, struct search *ret)
{
	*ret = (struct search){.prefix = prefix};
	return gate_iterate(search_one, ret, GATE_OWN_NS);
}

int cupti_driver_mapped(void)
{
	struct search search;
	return mapped("libcuda.so", &search);
}

const char *cupti_other_tool(void)
{
	static const struct {
		const char *prefix, *tool;
	} known[] = {
		{"libToolsInjection", "Nsight Systems"},
		{"libcuda-injection.so", "Nsight Compute"},
		{"libInterceptorInjection", "Nsight Compute"},
		{"libTreeLauncher", "Nsight Compute"},
		{"libsanitizer-collection.so", "compute-sanitizer"},
		{"libsanitizer-public.so", "compute-sanitizer"},
	};
	struct search search;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (mapped(known[i].prefix, &search))
			return known[i].tool;
	return NULL;
}

int cupti_without_torch(void)
{
	struct search search;
	return mapped("libcupti.so", &search) && !mapped("libtorch_cpu.so", &search);
}

static int bind_driver(void)
{
	struct search search;
	void *driver = mapped("libcuda.so", &search) ? dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (!driver)
		return -ENOENT;
	*(void **)&cupti_api.driver_version = dlsym(driver, "cuDriverGetVersion");
	*(void **)&cupti_api.device_count = dlsym(driver, "cuDeviceGetCount");
	return cupti_api.driver_version && cupti_api.device_count ? 0 : -ENOENT;
}

int cupti_load_driver(void)
{
	if (cupti_api.device_count)
		return 0;
	unsigned place = gate_enter(GATE_OWN_NS);
	int error = bind_driver();
	gate_leave(place);
	return error;
}

/* ---------------------------------------------------------------- which copy */

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so.11.7"};
static const int majors[] = {13, 12, 11, 11};
#define NAMES (sizeof names / sizeof *names)

/* Tries folder/part/name; names of the wanted major version first. */
static void *open_below(const char *folder, size_t folder_bytes, const char *part, int major)
{
	for (int wanted = 1; wanted >= 0; wanted--)
		for (size_t i = 0; i < NAMES; i++) {
			char path[sizeof cupti_api.path];
			size_t part_bytes = strlen(part), name_bytes = strlen(names[i]);
			if ((majors[i] == major) != wanted || folder_bytes + part_bytes + name_bytes >= sizeof path)
				continue;
			memcpy(path, folder, folder_bytes);
			memcpy(path + folder_bytes, part, part_bytes);
			memcpy(path + folder_bytes + part_bytes, names[i], name_bytes + 1);
			void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (library)
				return library;
		}
	return NULL;
}

/* Reads the number at *at, and moves *at past it and one dot; -1 where there are no digits. */
static int number_at(const char **at)
{
	const char *first = *at;
	int value = 0;
	while (**at >= '0' && **at <= '9' && *at - first < 4)
		value = value * 10 + (*(*at)++ - '0');
	if (*at == first)
		return -1;
	*at += **at == '.';
	return value;
}

static void *open_beside_runtime(void)
{
	/* A pip package of CUDA 13 has libcupti in the same folder as libcudart, one of CUDA 12 in another folder, a
	 * toolkit below extras. */
	static const char *const parts[] = {"/", "/../../cuda_cupti/lib/", "/../extras/CUPTI/lib64/"};
	struct search search;
	if (!mapped("libcudart.so", &search))
		return NULL;
	const char *version = base_name(search.path) + sizeof "libcudart.so" - 1;
	version += *version == '.';
	int major = number_at(&version), minor = number_at(&version);
	if (major > 0 && minor >= 0)
		cupti_api.runtime = major * 1000 + minor * 10;
	size_t folder = (size_t)(base_name(search.path) - search.path);
	for (size_t i = 0; folder > 1 && i < sizeof parts / sizeof *parts; i++) {
		void *library = open_below(search.path, folder - 1, parts[i], major);
		if (library)
			return library;
	}
	return NULL;
}

/* torch's own wheels bring CUPTI and CUDA's runtime, in folders beside torch's. */
static void *open_beside_torch(int driver)
{
	static const char *const parts[] = {"/../../nvidia/cuda_cupti/lib/", "/../../nvidia/cu13/lib/"};
	struct search search;
	if (!mapped("libtorch_cuda.so", &search) && !mapped("libtorch_cpu.so", &search))
		return NULL;
	size_t folder = (size_t)(base_name(search.path) - search.path);
	for (size_t i = 0; folder > 1 && i < sizeof parts / sizeof *parts; i++) {
		void *library = open_below(search.path, folder - 1, parts[i], driver / 1000);
		if (library)
			return library;
	}
	return NULL;
}

static void *open_library(int driver)
{
	struct search search;
	/* A copy from another path would be a second CUPTI in one process, so the mapped one is used. */
	if (mapped("libcupti.so", &search))
		return dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
	void *library = open_beside_runtime();
	if (!library)
		library = open_beside_torch(driver);
	return library ? library : open_below("", 0, "", driver / 1000);
}

static int bind_library(int driver)
{
	void *opened = open_library(driver);
	struct search search;
	cupti_api.path[0] = 0;
	if (!opened)
		return -ENOENT;
	/* The library is never closed, even if it lacks functions, because its constructors have run. */
	if (mapped("libcupti.so", &search))
		memcpy(cupti_api.path, search.path, sizeof cupti_api.path);
#define LOOK_UP(needed, member, symbol, parameters)                                                                    \
	*(void **)&cupti_api.member = dlsym(opened, #symbol);                                                          \
	if ((needed) && !cupti_api.member)                                                                             \
		return -ENOSYS;
	CUPTI_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	return 0;
}

int cupti_load(int driver)
{
	static int bound;
	if (bound)
		return 0;
	unsigned place = gate_enter(GATE_OWN_NS);
	int error = bind_library(driver);
	gate_leave(place);
	bound = !error;
	return error;
}
