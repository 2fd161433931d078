/* objects.c - the objects of the process that carry NVTX, and the function pointers in them.
 *
 * nvtx_objects_add runs in threads of the job (each object's first NVTX call), the other functions in the agent's
 * thread. There is no lock of ours: an entry has a version that grows with every change of owner. Values read from an
 * entry are used only if the version has not changed, and the object that is mapped now is the one that was entered.
 * Slots are touched only inside a dl_iterate_phdr callback: as long as it runs, the C library unmaps no object. A slot
 * is changed by compare-and-swap from a value that we know, so a function of another tool stays. */
#include "objects.h"

#include "globals.h"

#include "../core/copies.h"
#include "../core/gate.h"
#include "../core/object.h"
#include "../core/peek.h"
#include "nvtx.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

#define OBJECTS 256u

/* Entry states: version << 2 | one of these. */
enum { ENTRY_FREE = 0, ENTRY_BUSY = 1, ENTRY_LIVE = 2, ENTRY_STATES = 3 };
#define VERSION_STEP 4u

struct object {
	_Atomic uint64_t state;
	/* The mapped object: its base, and a fingerprint of its program headers and address. */
	_Atomic uintptr_t base;
	_Atomic uint64_t print;
	_Atomic uintptr_t core, core2; /* nvtx_abi_table, in the object's own memory */
	_Atomic uint32_t core_count, core2_count;
};

static struct object objects[OBJECTS];
static _Atomic int hooks; /* enum nvtx_hooked */
static _Atomic uint32_t refused;
/* What the last pass found. */
static _Atomic uint32_t foreign_slots, shut_objects;
static _Atomic uintptr_t foreign_function;

struct module {
	nvtx_abi_table table;
	uint32_t count; /* valid ids are 1 .. count - 1 */
};

struct snapshot {
	uint64_t state, print;
	uintptr_t base;
	struct module core, core2;
};

/* ---------------------------------------------------------------- slots */

/* The address of the object's function pointer for `hook`; NULL where there is none, or an invalid one. */
static nvtx_abi_function *slot_of(const struct dl_phdr_info *info, const struct snapshot *object,
				  const struct nvtx_hook *hook)
{
	const struct module *m = hook->module == NVTX_ABI_MODULE_CORE ? &object->core : &object->core2;
	if (hook->id >= m->count || !object_has(info, m->table + hook->id, sizeof(void *), PF_R))
		return NULL;
	nvtx_abi_function *slot = m->table[hook->id];
	return slot && (uintptr_t)slot % sizeof *slot == 0 && object_has(info, slot, sizeof *slot, PF_W) ? slot : NULL;
}

static nvtx_abi_function slot_read(nvtx_abi_function *slot)
{
	return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

static int slot_change(nvtx_abi_function *slot, nvtx_abi_function from, nvtx_abi_function to)
{
	return __atomic_compare_exchange_n(slot, &from, to, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* While an object initialises NVTX its slots hold functions of its own. */
static int is_own(const struct dl_phdr_info *info, nvtx_abi_function function)
{
	return object_has(info, (const void *)(uintptr_t)function, 1, PF_X);
}

nvtx_abi_function nvtx_objects_wanted(const struct nvtx_hook *hook, int hooked)
{
	if (hooked == NVTX_HOOKED_NOTHING)
		return NULL;
	return hook->always || hooked == NVTX_HOOKED_ALL ? hook->function : NULL;
}

int nvtx_objects_hooked(void)
{
	return atomic_load(&hooks);
}

/* Returns the number of slots that another tool holds. */
static uint32_t object_flip(const struct dl_phdr_info *info, const struct snapshot *object, int hooked, int entering)
{
	uint32_t foreign = 0;
	for (size_t i = 0; i < nvtx_hook_count; i++) {
		const struct nvtx_hook *hook = &nvtx_hooks[i];
		nvtx_abi_function *slot = slot_of(info, object, hook);
		if (!slot)
			continue;
		nvtx_abi_function now = slot_read(slot), wanted = nvtx_objects_wanted(hook, hooked);
		if (now == wanted)
			continue;
		/* When we return NVTX sets each slot that still has its own function to NULL, without a
		 * compare-and-swap. So we leave no such slot. */
		if ((!now || now == hook->function || copies_have((const void *)(uintptr_t)now) ||
		     (entering && is_own(info, now))) &&
		    slot_change(slot, now, wanted))
			continue;
		now = slot_read(slot);
		if (now && now != hook->function && !is_own(info, now)) {
			foreign++;
			atomic_store_explicit(&foreign_function, (uintptr_t)now, memory_order_relaxed);
		}
	}
	return foreign;
}

/* 1 where the entry was live during the whole read. */
static int object_read(struct object *o, struct snapshot *to)
{
	to->state = atomic_load_explicit(&o->state, memory_order_acquire);
	if ((to->state & ENTRY_STATES) != ENTRY_LIVE)
		return 0;
	to->base = atomic_load_explicit(&o->base, memory_order_relaxed);
	to->print = atomic_load_explicit(&o->print, memory_order_relaxed);
	to->core.table = (nvtx_abi_table)atomic_load_explicit(&o->core, memory_order_relaxed);
	to->core.count = atomic_load_explicit(&o->core_count, memory_order_relaxed);
	to->core2.table = (nvtx_abi_table)atomic_load_explicit(&o->core2, memory_order_relaxed);
	to->core2.count = atomic_load_explicit(&o->core2_count, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&o->state, memory_order_relaxed) == to->state;
}

/* ---------------------------------------------------------------- a pass over all objects */

/* Can the object's tables be read, and its slots be written? The job may have protected its data since they were
 * entered, and a thread that touches protected data could end the job. The kernel is asked once for each page. */
static int is_open(const struct dl_phdr_info *info, const struct snapshot *object)
{
	uintptr_t read = 0, written = 0;
	for (size_t i = 0; i < nvtx_hook_count; i++) {
		const struct nvtx_hook *hook = &nvtx_hooks[i];
		const struct module *m = hook->module == NVTX_ABI_MODULE_CORE ? &object->core : &object->core2;
		if (hook->id >= m->count)
			continue;
		if (!peek_is_there_once(&read, m->table + hook->id))
			return 0;
		nvtx_abi_function *slot = slot_of(info, object, hook);
		if (slot && !peek_is_writable_once(&written, slot))
			return 0;
	}
	return 1;
}

struct pass {
	int hooked;
	uint32_t foreign, shut;
	uint64_t before[OBJECTS]; /* states at the start */
	uint8_t seen[OBJECTS];
};

static int pass_object(struct dl_phdr_info *info, size_t size, void *pointer)
{
	struct pass *pass = pointer;
	(void)size;
	uint64_t print = 0;
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct snapshot object;
		if (atomic_load_explicit(&objects[i].base, memory_order_relaxed) != info->dlpi_addr ||
		    !object_read(&objects[i], &object) || object.base != info->dlpi_addr)
			continue;
		if (!print)
			print = object_print(info);
		if (object.print != print)
			continue;
		if (object.state == pass->before[i])
			pass->seen[i] = 1;
		if (is_open(info, &object))
			pass->foreign += object_flip(info, &object, pass->hooked, 0);
		else
			pass->shut++;
	}
	return 0;
}

void nvtx_objects_set(int hooked)
{
	struct pass pass = {.hooked = hooked};
	atomic_store(&hooks, hooked);
	for (uint32_t i = 0; i < OBJECTS; i++)
		pass.before[i] = atomic_load(&objects[i].state);
	gate_iterate(pass_object, &pass, GATE_OWN_NS);
	for (uint32_t i = 0; i < OBJECTS; i++)
		if ((pass.before[i] & ENTRY_STATES) == ENTRY_LIVE && !pass.seen[i])
			atomic_compare_exchange_strong(&objects[i].state, &pass.before[i],
						       (pass.before[i] & ~(uint64_t)ENTRY_STATES) + VERSION_STEP);
	atomic_store_explicit(&foreign_slots, pass.foreign, memory_order_relaxed);
	atomic_store_explicit(&shut_objects, pass.shut, memory_order_relaxed);
}

/* ---------------------------------------------------------------- entering */

struct newcomer {
	struct snapshot object;
	int hooked;
	int found;
	int flip_only;
};

/* Is this the entry of the same object, or of one that was mapped at its place before? */
static int is_superseded(struct object *o, const struct snapshot *by)
{
	return atomic_load_explicit(&o->base, memory_order_relaxed) == by->base &&
	       (atomic_load_explicit(&o->print, memory_order_relaxed) != by->print ||
		(atomic_load_explicit(&o->core, memory_order_relaxed) == (uintptr_t)by->core.table &&
		 atomic_load_explicit(&o->core2, memory_order_relaxed) == (uintptr_t)by->core2.table));
}

/* An entry for the object: its old one, or that of an object that was mapped at its place before, or a free one.
 * Returns it as BUSY; NULL where all are taken. */
static struct object *entry_take(const struct snapshot *object, uint64_t *ret_state)
{
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < OBJECTS; i++) {
			struct object *o = &objects[i];
			uint64_t state = atomic_load_explicit(&o->state, memory_order_acquire);
			int fits = round == 0 ? (state & ENTRY_STATES) == ENTRY_LIVE && is_superseded(o, object)
					      : (state & ENTRY_STATES) == ENTRY_FREE;
			uint64_t busy = (state & ~(uint64_t)ENTRY_STATES) + VERSION_STEP + ENTRY_BUSY;
			if (fits && atomic_compare_exchange_strong(&o->state, &state, busy)) {
				*ret_state = busy;
				return o;
			}
		}
	}
	return NULL;
}

static int enter_object(struct dl_phdr_info *info, size_t size, void *pointer)
{
	struct newcomer *newcomer = pointer;
	struct snapshot *object = &newcomer->object;
	(void)size;
	const void *where = object->core.table ? (const void *)object->core.table : (const void *)object->core2.table;
	if (!object_has(info, where, sizeof(void *), PF_R))
		return 0;
	newcomer->found = 1;
	if (!newcomer->flip_only) {
		uint64_t busy;
		object->base = info->dlpi_addr;
		object->print = object_print(info);
		struct object *o = entry_take(object, &busy);
		if (!o) {
			newcomer->found = 0;
			return 1;
		}
		atomic_store_explicit(&o->base, object->base, memory_order_relaxed);
		atomic_store_explicit(&o->print, object->print, memory_order_relaxed);
		atomic_store_explicit(&o->core, (uintptr_t)object->core.table, memory_order_relaxed);
		atomic_store_explicit(&o->core_count, object->core.count, memory_order_relaxed);
		atomic_store_explicit(&o->core2, (uintptr_t)object->core2.table, memory_order_relaxed);
		atomic_store_explicit(&o->core2_count, object->core2.count, memory_order_relaxed);
		atomic_store(&o->state, busy - ENTRY_BUSY + ENTRY_LIVE);
	}
	newcomer->hooked = nvtx_objects_hooked();
	atomic_fetch_add_explicit(&foreign_slots, object_flip(info, object, newcomer->hooked, !newcomer->flip_only),
				  memory_order_relaxed);
	return 1;
}

static void module_get(const struct nvtx_abi_callbacks *callbacks, int module, struct module *ret)
{
	unsigned int count = 0;
	nvtx_abi_table table = NULL;
	if (callbacks->get_module_function_table(module, &table, &count) && table) {
		ret->table = table;
		ret->count = count;
	}
}

void nvtx_objects_add(nvtx_abi_get_export_table get)
{
	const struct nvtx_abi_callbacks *callbacks = get ? get(NVTX_ABI_ETID_CALLBACKS) : NULL;
	if (!callbacks || callbacks->struct_size < sizeof *callbacks || !callbacks->get_module_function_table)
		return;
	struct newcomer newcomer = {.flip_only = 0};
	module_get(callbacks, NVTX_ABI_MODULE_CORE, &newcomer.object.core);
	module_get(callbacks, NVTX_ABI_MODULE_CORE2, &newcomer.object.core2);
	if (!newcomer.object.core.table && !newcomer.object.core2.table)
		return;
	gate_iterate(enter_object, &newcomer, GATE_JOB_NS);
	if (!newcomer.found) {
		atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
		return;
	}
	/* The agent's thread may have switched all objects meanwhile, before the entry was there. */
	newcomer.flip_only = 1;
	while (newcomer.found && newcomer.hooked != nvtx_objects_hooked()) {
		newcomer.found = 0;
		gate_iterate(enter_object, &newcomer, GATE_JOB_NS);
	}
}

/* Is the object taken in already? */
static int is_known(const struct snapshot *object)
{
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct snapshot known;
		if (object_read(&objects[i], &known) && known.base == object->base && known.print == object->print &&
		    known.core.table == object->core.table && known.core2.table == object->core2.table)
			return 1;
	}
	return 0;
}

int nvtx_objects_enter(struct dl_phdr_info *info, const struct nvtx_abi_globals *globals)
{
	struct newcomer newcomer = {.flip_only = 0};
	newcomer.object.core =
		(struct module){(nvtx_abi_table)(uintptr_t)&globals->tables[NVTX_ABI_CORE_TABLE], NVTX_ABI_CORE_COUNT};
	newcomer.object.core2 = (struct module){(nvtx_abi_table)(uintptr_t)&globals->tables[NVTX_ABI_CORE2_TABLE],
						NVTX_ABI_CORE2_COUNT};
	newcomer.object.base = info->dlpi_addr;
	newcomer.object.print = object_print(info);
	if (is_known(&newcomer.object))
		return 0;
	return enter_object(info, sizeof *info, &newcomer) && newcomer.found ? 1 : -1;
}

/* ---------------------------------------------------------------- telling */

unsigned nvtx_object_count(void)
{
	unsigned count = 0;
	for (uint32_t i = 0; i < OBJECTS; i++)
		count += (atomic_load_explicit(&objects[i].state, memory_order_relaxed) & ENTRY_STATES) == ENTRY_LIVE;
	return count;
}

unsigned nvtx_objects_refused(void)
{
	return atomic_load_explicit(&refused, memory_order_relaxed);
}

unsigned nvtx_objects_shut(void)
{
	return atomic_load_explicit(&shut_objects, memory_order_relaxed);
}

void nvtx_objects_describe(unsigned *ret_foreign, char *holder, size_t bytes)
{
	*ret_foreign = atomic_load_explicit(&foreign_slots, memory_order_relaxed);
	if (bytes) {
		holder[0] = 0;
		if (*ret_foreign)
			object_name_at((const void *)atomic_load_explicit(&foreign_function, memory_order_relaxed),
				       holder, bytes);
	}
}
