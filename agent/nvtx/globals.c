/* globals.c - see globals.h. The kernel reads the memory, so it may be unmapped. We write only after the whole variable
 * has been proved, into memory that the kernel has just found writable, slot by slot, by compare-and-swap. */
#include "globals.h"

#include "objects.h"

#include "../core/copies.h"
#include "../core/object.h"
#include "../core/peek.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* NVTX has 2 and 3 so far. */
#define VERSION_LAST 15

/* Is this writable data that the loader has not write-protected after relocating? */
static int is_writable_data(const struct dl_phdr_info *info, uintptr_t at, size_t bytes)
{
	if (!object_has(info, (const void *)at, bytes, PF_W))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_GNU_RELRO && at < low + p->p_memsz && low < at + bytes)
			return 0;
	}
	return 1;
}

static int is_own_code(const struct dl_phdr_info *info, uintptr_t function)
{
	return object_has(info, (const void *)function, 1, PF_X);
}

static int tables_prove(const struct nvtx_abi_globals *copy, uintptr_t at)
{
	static const unsigned char modules[] = NVTX_ABI_MODULES;
	uintptr_t slot = at + offsetof(struct nvtx_abi_globals, slots);
	nvtx_abi_function *const *entry = copy->tables;
	for (size_t m = 0; m < sizeof modules; m++) {
		if (*entry++)
			return 0;
		for (unsigned i = 0; i < modules[m]; i++, slot += sizeof(nvtx_abi_function))
			if ((uintptr_t)*entry++ != slot)
				return 0;
		if (*entry++)
			return 0;
	}
	return 1;
}

int globals_prove(const struct dl_phdr_info *info, const struct nvtx_abi_globals *copy, uintptr_t at)
{
	if (at % sizeof(void *) || !is_writable_data(info, at, sizeof *copy))
		return 0;
	if (copy->state > NVTX_ABI_STATE_COMPLETE || copy->padding ||
	    copy->callbacks.struct_size != sizeof copy->callbacks ||
	    copy->version.struct_size != sizeof copy->version || !copy->version.version ||
	    copy->version.version > VERSION_LAST || copy->version.reserved0)
		return 0;
	return is_own_code(info, (uintptr_t)copy->callbacks.get_module_function_table) &&
	       is_own_code(info, (uintptr_t)copy->version.set_injection_version) && tables_prove(copy, at);
}

static const struct nvtx_hook *hook_of(size_t slot)
{
	for (size_t i = 0; i < nvtx_hook_count; i++) {
		const struct nvtx_hook *hook = &nvtx_hooks[i];
		size_t first = hook->module == NVTX_ABI_MODULE_CORE ? NVTX_ABI_CORE_SLOT : NVTX_ABI_CORE2_SLOT;
		if (first + hook->id - 1 == slot)
			return hook;
	}
	return NULL;
}

/* A function of another tool in one of the slots; 0: there is none. If NVTX is initialised and a slot has a function of
 * the object itself, a tool was compiled into the object. */
static uintptr_t other_function(const struct dl_phdr_info *info, const struct nvtx_abi_globals *copy)
{
	for (size_t i = 0; i < NVTX_ABI_SLOTS; i++) {
		const struct nvtx_hook *hook = hook_of(i);
		uintptr_t now = (uintptr_t)copy->slots[i];
		if (!now || (hook && now == (uintptr_t)hook->function) || copies_have((const void *)now))
			continue;
		if (copy->state == NVTX_ABI_STATE_COMPLETE || !is_own_code(info, now))
			return now;
	}
	return 0;
}

/* Does what NVTX does at the first call when there is a tool. The state is written last: if anything happens before,
 * also a fork, the variable still works. If a thread makes the first call meanwhile, NVTX sets all slots to NULL. */
static int claim(const struct dl_phdr_info *info, struct nvtx_abi_globals *globals)
{
	for (size_t i = 0; i < NVTX_ABI_SLOTS; i++) {
		const struct nvtx_hook *hook = hook_of(i);
		nvtx_abi_function now = __atomic_load_n(&globals->slots[i], __ATOMIC_ACQUIRE),
				  wanted = hook ? nvtx_objects_wanted(hook, nvtx_objects_hooked()) : NULL;
		if (is_own_code(info, (uintptr_t)now))
			__atomic_compare_exchange_n(&globals->slots[i], &now, wanted, 0, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED);
	}
	uint32_t fresh = NVTX_ABI_STATE_FRESH;
	return __atomic_compare_exchange_n(&globals->state, &fresh, NVTX_ABI_STATE_COMPLETE, 0, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

enum globals_taking globals_take(struct dl_phdr_info *info, uintptr_t at, int left, uintptr_t *ret_function)
{
	struct nvtx_abi_globals copy, *globals = (struct nvtx_abi_globals *)at;
	*ret_function = 0;
	if (peek_bytes(at, &copy, sizeof copy) != (long)sizeof copy || !globals_prove(info, &copy, at))
		return GLOBALS_NONE;
	if (copy.state == NVTX_ABI_STATE_STARTED)
		return GLOBALS_BUSY;
	if ((*ret_function = other_function(info, &copy)))
		return GLOBALS_OTHERS;
	int fresh = copy.state == NVTX_ABI_STATE_FRESH;
	if (fresh && left)
		return GLOBALS_LEFT;
	if (peek_is_writable(globals) <= 0 || peek_is_writable((char *)(globals + 1) - sizeof(uint32_t)) <= 0)
		return GLOBALS_FIXED;
	if (fresh && !claim(info, globals))
		return GLOBALS_BUSY;
	int entered = nvtx_objects_enter(info, globals);
	return entered < 0 ? GLOBALS_FIXED : entered || fresh ? GLOBALS_NEW : GLOBALS_KNOWN;
}
