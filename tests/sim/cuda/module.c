/* module.c - modules, libraries and functions. A module is PTX text, whose entries and their parameters are read, or any other
 * image, which then has every function that is asked for. Any thread; object_lock guards the lists. Modules are unloaded but
 * never freed, because records name their functions for as long as the process lives. */
#include "internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULE_MAGIC = 0x6d6f6475, GLOBAL_BYTES = 65536 };

struct CUmod_st {
	uint32_t magic, id;
	struct CUctx_st *context; /* NULL: a library's */
	char *text;		  /* PTX; NULL: any other image */
	const void *image;
	struct CUfunc_st *functions;
	struct global {
		struct global *next;
		CUdeviceptr address;
		char name[];
	} * globals;
	struct CUmod_st *next;
};

static struct CUmod_st *modules;
static uint32_t module_ids;
static struct CUfunc_st *all_functions[1024]; /* by address, to check handles: lists by ->next_known */

/* ---- PTX */

/* A C++ name without _Z and its length, so that _Z4spinm begins with "spin" as spin does. */
static const char *plain_name(const char *name)
{
	if (name[0] == '_' && name[1] == 'Z') {
		name += 2;
		while (isdigit((unsigned char)*name))
			name++;
	}
	return name;
}

static uint64_t duration_of(const char *name)
{
	name = plain_name(name);
	if (strncmp(name, "spin", 4) == 0)
		return UINT64_MAX;
	if (strncmp(name, "empty", 5) == 0)
		return script_time("empty", 1000);
	return script_time("kernel", 20000);
}

static const char *skip_blank(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

static size_t word_length(const char *at)
{
	size_t n = 0;
	while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$' || at[n] == '%')
		n++;
	return n;
}

/* The size of one ".param .u64 name" or ".param .align 8 .b8 name[128]", which ends at `end`; 0: not understood. */
static size_t parameter_size(const char *at, const char *end)
{
	size_t size = 0;
	for (const char *dot = at; (dot = memchr(dot, '.', (size_t)(end - dot))); dot++)
		if (strchr("usfb", dot[1]) && isdigit((unsigned char)dot[2]))
			size = strtoul(dot + 2, NULL, 10) / 8;
	const char *array = memchr(at, '[', (size_t)(end - at));
	return array ? size * strtoul(array + 1, NULL, 10) : size;
}

static void parse_parameters(struct CUfunc_st *function, const char *at)
{
	function->parameter_count = 0;
	at = skip_blank(at);
	if (*at != '(')
		return;
	const char *close = strchr(at, ')');
	for (at++; close && skip_blank(at) < close && function->parameter_count < 32;) {
		const char *comma = memchr(at, ',', (size_t)(close - at)), *end = comma ? comma : close;
		function->parameters[function->parameter_count++] = parameter_size(at, end);
		at = end + 1;
	}
}

/* object_lock held. NULL: out of memory. */
static struct CUfunc_st *function_new(struct CUmod_st *module, const char *name, size_t length)
{
	struct CUfunc_st *function = calloc(1, sizeof *function);
	char *own = strndup(name, length);
	if (!function || !own) {
		free(function);
		free(own);
		return NULL;
	}
	function->name = own;
	function->module = module;
	function->parameter_count = -1;
	function->duration = duration_of(own);
	function->traps = strncmp(plain_name(own), "trap", 4) == 0;
	function->next = module->functions;
	module->functions = function;
	struct CUfunc_st **bucket = &all_functions[((uintptr_t)function >> 5) % 1024];
	function->next_known = *bucket;
	*bucket = function;
	return function;
}

static void parse_ptx(struct CUmod_st *module)
{
	for (const char *at = module->text; (at = strstr(at, ".entry"));) {
		at = skip_blank(at + 6);
		size_t n = word_length(at);
		struct CUfunc_st *function = n && n < NAME_MAX_LENGTH ? function_new(module, at, n) : NULL;
		at += n;
		if (function)
			parse_parameters(function, at);
	}
}

/* PTX is text, and says its version before anything but comments. */
static int is_ptx(const char *image)
{
	const char *at = skip_blank(image);
	while (at[0] == '/' && (at[1] == '/' || at[1] == '*')) {
		const char *end = at[1] == '/' ? strchr(at, '\n') : strstr(at, "*/");
		if (!end)
			return 0;
		at = skip_blank(end + (at[1] == '/' ? 1 : 2));
	}
	return strncmp(at, ".version", 8) == 0;
}

/* ---- modules */

static struct CUmod_st *module_new(struct CUctx_st *context, const void *image)
{
	struct CUmod_st *module = calloc(1, sizeof *module);
	if (!module)
		return NULL;
	module->magic = MODULE_MAGIC;
	module->context = context;
	module->image = image;
	if (is_ptx(image))
		module->text = strdup(image);
	pthread_mutex_lock(&object_lock);
	module->id = ++module_ids;
	module->next = modules;
	modules = module;
	if (module->text)
		parse_ptx(module);
	pthread_mutex_unlock(&object_lock);
	return module;
}

static void tell(const struct CUmod_st *module, int loaded)
{
	const struct sim_observer *who = observer();
	struct sim_module facts = {module->id, module->context ? module->context->id : 0,
				   module->text ? (uint32_t)strlen(module->text) : 0,
				   module->text ? module->text : module->image};
	if (who && who->module)
		who->module(&facts, loaded);
}

static int module_valid(const struct CUmod_st *module)
{
	int found = 0;
	pthread_mutex_lock(&object_lock);
	for (struct CUmod_st *m = modules; m && !found; m = m->next)
		found = m == module && m->magic == MODULE_MAGIC;
	pthread_mutex_unlock(&object_lock);
	return found;
}

static CUresult load(CUmodule *result, const void *image)
{
	struct CUctx_st *context = current_context();
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!result || !image)
		return CUDA_ERROR_INVALID_VALUE;
	*result = module_new(context, image);
	if (!*result)
		return CUDA_ERROR_OUT_OF_MEMORY;
	tell(*result, 1);
	return CUDA_SUCCESS;
}

char *image_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char *image = NULL;
	if (!file)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0) {
		long size = ftell(file);
		rewind(file);
		image = size >= 0 ? malloc((size_t)size + 1) : NULL;
		if (image)
			image[fread(image, 1, (size_t)size, file)] = 0;
	}
	fclose(file);
	return image;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	CALL(cuModuleLoadData, );
	RETURN(load(module, image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
			    void **values)
{
	CALL(cuModuleLoadDataEx, );
	(void)count, (void)options, (void)values;
	RETURN(load(module, image));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	CALL(cuModuleLoadFatBinary, );
	RETURN(load(module, image));
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	CALL(cuModuleLoad, );
	char *image = image_read(path);
	CHECK(image, CUDA_ERROR_FILE_NOT_FOUND);
	RETURN(load(module, image));
}

CUresult cuModuleUnload(CUmodule module)
{
	CALL(cuModuleUnload, );
	CHECK(module_valid(module), CUDA_ERROR_INVALID_HANDLE);
	module->magic = 0;
	tell(module, 0);
	RETURN(CUDA_SUCCESS);
}

void modules_unload(struct CUctx_st *context)
{
	pthread_mutex_lock(&object_lock);
	struct CUmod_st *module = modules;
	pthread_mutex_unlock(&object_lock);
	for (; module; module = module->next)
		if (module->context == context && module->magic) {
			module->magic = 0;
			tell(module, 0);
		}
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CALL(cuModuleGetLoadingMode, );
	*mode = CU_MODULE_LAZY_LOADING;
	RETURN(CUDA_SUCCESS);
}

/* ---- functions */

struct CUfunc_st *function_of(CUfunction wanted)
{
	pthread_mutex_lock(&object_lock);
	struct CUfunc_st *function = all_functions[((uintptr_t)wanted >> 5) % 1024];
	while (function && function != wanted)
		function = function->next_known;
	pthread_mutex_unlock(&object_lock);
	return function && function->module->magic ? function : NULL;
}

static CUresult get_function(struct CUfunc_st **result, struct CUmod_st *module, const char *name)
{
	if (!result || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module_valid(module))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&object_lock);
	struct CUfunc_st *function = module->functions;
	while (function && strcmp(function->name, name) != 0)
		function = function->next;
	if (!function && !module->text)
		function = function_new(module, name, strnlen(name, NAME_MAX_LENGTH));
	pthread_mutex_unlock(&object_lock);
	*result = function;
	return function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CALL(cuModuleGetFunction, );
	RETURN(get_function(function, module, name));
}

/* A global's memory is the same for all of its size that is asked for: 64 KiB of zeroes. */
static CUresult get_global(CUdeviceptr *address, size_t *bytes, struct CUmod_st *module, const char *name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module_valid(module))
		return CUDA_ERROR_INVALID_HANDLE;
	if (module->text && !strstr(module->text, name))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&object_lock);
	struct global *global = module->globals;
	while (global && strcmp(global->name, name) != 0)
		global = global->next;
	if (!global && (global = calloc(1, sizeof *global + strlen(name) + 1))) {
		memcpy(global->name, name, strlen(name) + 1);
		global->address = (CUdeviceptr)calloc(1, GLOBAL_BYTES);
		global->next = module->globals;
		module->globals = global;
	}
	pthread_mutex_unlock(&object_lock);
	if (!global || !global->address)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (address)
		*address = global->address;
	if (bytes)
		*bytes = GLOBAL_BYTES;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
	CALL(cuModuleGetGlobal, _v2);
	RETURN(get_global(address, bytes, module, name));
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
	struct CUfunc_st *function = function_of(handle);
	if (!function || !value)
		return function ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	int dynamic = atomic_load(&function->dynamic_shared_max);
	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = FUNCTION_REGISTERS;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = 80;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = dynamic ? dynamic : 49152;
		break;
	default:
		*value = 0;
	}
	return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
	struct CUfunc_st *function = function_of(handle);
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		atomic_store(&function->dynamic_shared_max, value);
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
	CALL(cuFuncGetAttribute, );
	RETURN(get_attribute(value, attribute, function));
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
	CALL(cuFuncSetAttribute, );
	RETURN(set_attribute(function, attribute, value));
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
	CALL(cuFuncSetCacheConfig, );
	(void)config;
	RETURN(function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction handle)
{
	CALL(cuFuncGetModule, );
	struct CUfunc_st *function = function_of(handle);
	CHECK(function, CUDA_ERROR_INVALID_HANDLE);
	*module = function->module;
	RETURN(CUDA_SUCCESS);
}

CUresult cuFuncGetName(const char **name, CUfunction handle)
{
	CALL(cuFuncGetName, );
	struct CUfunc_st *function = function_of(handle);
	CHECK(function, CUDA_ERROR_INVALID_HANDLE);
	*name = function->name;
	RETURN(CUDA_SUCCESS);
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	CALL(cuFuncGetParamInfo, );
	struct CUfunc_st *function = function_of(handle);
	CHECK(function, CUDA_ERROR_INVALID_HANDLE);
	CHECK(function->parameter_count >= 0 && index < (size_t)function->parameter_count, CUDA_ERROR_INVALID_VALUE);
	size_t at = 0;
	for (size_t i = 0;; at += function->parameters[i++]) {
		size_t alignment = function->parameters[i] < 8 && function->parameters[i] ? function->parameters[i] : 8;
		at = (at + alignment - 1) / alignment * alignment;
		if (i == index)
			break;
	}
	*offset = at;
	if (size)
		*size = function->parameters[index];
	RETURN(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block, size_t shared)
{
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, );
	(void)shared;
	CHECK(function_of(function), CUDA_ERROR_INVALID_HANDLE);
	CHECK(blocks && block > 0, CUDA_ERROR_INVALID_VALUE);
	*blocks = block > 1024 ? 0 : 2048 / block > 32 ? 32 : 2048 / block;
	RETURN(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block,
							      size_t shared, unsigned int flags)
{
	CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, );
	(void)shared, (void)flags;
	CHECK(function_of(function), CUDA_ERROR_INVALID_HANDLE);
	CHECK(blocks && block > 0, CUDA_ERROR_INVALID_VALUE);
	*blocks = block > 1024 ? 0 : 2048 / block > 32 ? 32 : 2048 / block;
	RETURN(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of,
					  size_t shared, int limit)
{
	CALL(cuOccupancyMaxPotentialBlockSize, );
	(void)shared_of, (void)shared;
	CHECK(function_of(function), CUDA_ERROR_INVALID_HANDLE);
	*block = limit > 0 && limit < 1024 ? limit : 1024;
	*grid = 2 * 108;
	RETURN(CUDA_SUCCESS);
}

/* ---- libraries: a module without a context, whose kernels are functions */

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit, void **jit_values,
			   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
	CALL(cuLibraryLoadData, );
	(void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
	CHECK(library && image, CUDA_ERROR_INVALID_VALUE);
	struct CUmod_st *module = module_new(NULL, image);
	CHECK(module, CUDA_ERROR_OUT_OF_MEMORY);
	tell(module, 1);
	*library = (CUlibrary)module;
	RETURN(CUDA_SUCCESS);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values,
			       unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
	CALL(cuLibraryLoadFromFile, );
	(void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
	char *image = image_read(path);
	CHECK(image, CUDA_ERROR_FILE_NOT_FOUND);
	struct CUmod_st *module = module_new(NULL, image);
	CHECK(module, CUDA_ERROR_OUT_OF_MEMORY);
	tell(module, 1);
	*library = (CUlibrary)module;
	RETURN(CUDA_SUCCESS);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	CALL(cuLibraryUnload, );
	struct CUmod_st *module = (struct CUmod_st *)library;
	CHECK(module_valid(module), CUDA_ERROR_INVALID_HANDLE);
	module->magic = 0;
	tell(module, 0);
	RETURN(CUDA_SUCCESS);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	CALL(cuLibraryGetKernel, );
	struct CUfunc_st *function = NULL;
	CUresult result = get_function(&function, (struct CUmod_st *)library, name);
	*kernel = (CUkernel)function;
	RETURN(result);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	CALL(cuLibraryGetModule, );
	CHECK(module_valid((struct CUmod_st *)library), CUDA_ERROR_INVALID_HANDLE);
	*module = (struct CUmod_st *)library;
	RETURN(CUDA_SUCCESS);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
	CALL(cuLibraryGetGlobal, );
	RETURN(get_global(address, bytes, (struct CUmod_st *)library, name));
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CALL(cuKernelGetFunction, );
	*function = function_of((CUfunction)kernel);
	RETURN(*function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	CALL(cuKernelGetName, );
	struct CUfunc_st *function = function_of((CUfunction)kernel);
	CHECK(function, CUDA_ERROR_INVALID_HANDLE);
	*name = function->name;
	RETURN(CUDA_SUCCESS);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
	CALL(cuKernelGetAttribute, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	RETURN(get_attribute(value, attribute, (CUfunction)kernel));
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
	CALL(cuKernelSetAttribute, );
	CHECK(device_of(device), CUDA_ERROR_INVALID_DEVICE);
	RETURN(set_attribute((CUfunction)kernel, attribute, value));
}
