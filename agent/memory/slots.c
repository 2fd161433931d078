/* slots.c - see slots.h. Slots are touched only inside a dl_iterate_phdr callback: as long as it runs, the C library
 * unmaps no object. Nothing about an object is kept from one pass to the next, so an object that is gone does no harm.
 * A slot is changed by compare-and-swap from a value that we know: the function itself, or the stub in the object's PLT
 * that looks the function up at the first call (slot_stub.h). An object that is being loaded is left alone, and looked
 * at again. */
#include "slots.h"
#include "slot_stub.h"

#include "../core/copies.h"
#include "../core/gate.h"
#include "../core/object.h"
#include "../core/peek.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __aarch64__
#define SLOT_RELOCATION R_AARCH64_JUMP_SLOT
#else
#define SLOT_RELOCATION R_X86_64_JUMP_SLOT
#endif
#define RELOCATION_TYPE(info) ((uint32_t)(info))
#define RELOCATION_SYMBOL(info) ((uint32_t)((info) >> 32))

/* How many slots that led to a stub may lead to us at a time. */
#define UNBOUND_MOST 64

/* An object's slots, and the functions that it calls through them. */
struct calls {
	const struct dl_phdr_info *info;
	const void *table; /* DT_PLTGOT, which its PLT hands to the loader */
	const ElfW(Rela) * slots;
	size_t slot_count;
	const ElfW(Sym) * symbols;
	size_t symbol_count; /* symbols before the names, where linkers put them; 0: they lie elsewhere */
	const char *names;
	size_t names_bytes;
	const ElfW(Dyn) * dynamic;
	size_t entries;
};

/* With musl the addresses are as in the file, relative to the object. */
static const void *address_of(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

static bool calls_of(const struct dl_phdr_info *info, struct calls *ret)
{
	const ElfW(Dyn) *dynamic = NULL;
	size_t entries = 0, bytes = 0, kind = 0, i;
	*ret = (struct calls){.info = info};
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
			entries = info->dlpi_phdr[i].p_memsz / sizeof *dynamic;
		}
	/* The job may have protected these pages, whatever the program headers say. */
	if (!entries || !object_has(info, dynamic, entries * sizeof *dynamic, PF_R) || !peek_is_there(dynamic) ||
	    !peek_is_there(dynamic + entries - 1))
		return false;
	for (i = 0; i < entries && dynamic[i].d_tag != DT_NULL; i++) {
		const ElfW(Dyn) *entry = &dynamic[i];
		if (entry->d_tag == DT_JMPREL)
			ret->slots = address_of(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_SYMTAB)
			ret->symbols = address_of(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			ret->names = address_of(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_PLTGOT)
			ret->table = address_of(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_PLTRELSZ)
			bytes = entry->d_un.d_val;
		else if (entry->d_tag == DT_STRSZ)
			ret->names_bytes = entry->d_un.d_val;
		else if (entry->d_tag == DT_PLTREL)
			kind = entry->d_un.d_val;
	}
	ret->dynamic = dynamic;
	if ((uintptr_t)ret->symbols < (uintptr_t)ret->names)
		ret->symbol_count = ((uintptr_t)ret->names - (uintptr_t)ret->symbols) / sizeof *ret->symbols;
	if (!object_has(info, ret->symbols, ret->symbol_count * sizeof *ret->symbols, PF_R))
		ret->symbol_count = 0;
	ret->entries = i;
	ret->slot_count = bytes / sizeof *ret->slots;
	return kind == DT_RELA && ret->slot_count && ret->symbols && object_has(info, ret->slots, bytes, PF_R) &&
	       object_has(info, ret->names, ret->names_bytes, PF_R);
}

/* Is this the library, or an object that needs it? Looking through all objects would touch each page of the names of
 * large libraries. */
static bool concerns(const struct calls *calls, const char *library)
{
	size_t bytes = strlen(library);
	for (size_t i = 0; i < calls->entries; i++) {
		const ElfW(Dyn) *entry = &calls->dynamic[i];
		if ((entry->d_tag == DT_NEEDED || entry->d_tag == DT_SONAME) &&
		    entry->d_un.d_val < calls->names_bytes && bytes <= calls->names_bytes - entry->d_un.d_val &&
		    memcmp(calls->names + entry->d_un.d_val, library, bytes) == 0)
			return true;
	}
	return false;
}

/* The symbol of a slot; NULL where it is invalid. */
static const ElfW(Sym) * symbol_of(const struct calls *calls, const ElfW(Rela) * slot)
{
	uint32_t at = RELOCATION_SYMBOL(slot->r_info);
	const ElfW(Sym) *symbol = &calls->symbols[at];
	bool fits = RELOCATION_TYPE(slot->r_info) == SLOT_RELOCATION &&
		    (at < calls->symbol_count || object_has(calls->info, symbol, sizeof *symbol, PF_R)) &&
		    symbol->st_name < calls->names_bytes;
	return fits ? symbol : NULL;
}

static struct slot_hook *hook_of(const struct calls *calls, const ElfW(Sym) * symbol, struct slot_hook *hooks,
				 size_t count)
{
	const char *name = calls->names + symbol->st_name;
	for (size_t i = 0; i < count; i++) {
		size_t bytes = strlen(hooks[i].symbol) + 1;
		if (bytes <= calls->names_bytes - symbol->st_name && memcmp(name, hooks[i].symbol, bytes) == 0)
			return &hooks[i];
	}
	return NULL;
}

struct pass {
	const char *soname; /* beginning of the library's name */
	struct slot_hook *hooks;
	size_t count;
	bool on;
	bool follows; /* the same objects must be loaded as in the pass before */
	bool changed; /* they were not, so nothing was done */
	uint64_t loaded, unloaded;
	struct slots_state state;
	void (*found)(struct pass *pass, const struct calls *calls, const ElfW(Rela) * slot, const ElfW(Sym) * symbol,
		      struct slot_hook *hook);
};

/* Notes how many objects have been loaded and unloaded; these counts do not change during a pass. */
static void note_loads(struct pass *pass, const struct dl_phdr_info *info, size_t size)
{
	uint64_t loaded = 0, unloaded = 0;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
		loaded = info->dlpi_adds;
		unloaded = info->dlpi_subs;
	}
	pass->changed = pass->follows && (loaded != pass->loaded || unloaded != pass->unloaded);
	pass->loaded = loaded;
	pass->unloaded = unloaded;
}

static int pass_object(struct dl_phdr_info *info, size_t size, void *pointer)
{
	struct pass *pass = pointer;
	struct calls calls;
	note_loads(pass, info, size);
	if (pass->changed)
		return 1;
	if (!calls_of(info, &calls) || !concerns(&calls, pass->soname))
		return 0;
	for (size_t i = 0; i < calls.slot_count; i++) {
		const ElfW(Sym) *symbol = symbol_of(&calls, &calls.slots[i]);
		struct slot_hook *hook = symbol ? hook_of(&calls, symbol, pass->hooks, pass->count) : NULL;
		if (hook)
			pass->found(pass, &calls, &calls.slots[i], symbol, hook);
	}
	return 0;
}

/* ---------------------------------------------------------------- what is defined where */

static void find_definition(struct pass *pass, const struct calls *calls, const ElfW(Rela) * slot,
			    const ElfW(Sym) * symbol, struct slot_hook *hook)
{
	(void)pass, (void)slot;
	void *at = (void *)(calls->info->dlpi_addr + symbol->st_value);
	if (symbol->st_shndx == SHN_UNDEF || !object_has(calls->info, at, 1, PF_X))
		return;
	/* If there are two definitions, the one that was known before counts. */
	if (!hook->definitions++ || at == atomic_load(&hook->real))
		hook->found = at;
}

static void find_definitions(struct pass *pass)
{
	pass->found = find_definition;
	for (size_t i = 0; i < pass->count; i++) {
		pass->hooks[i].definitions = 0;
		pass->hooks[i].found = NULL;
	}
	gate_iterate(pass_object, pass, GATE_OWN_NS);
	/* If a function is gone `real` keeps its address, because a thread may be late. */
	for (size_t i = 0; i < pass->count; i++)
		if (pass->hooks[i].found)
			atomic_store(&pass->hooks[i].real, pass->hooks[i].found);
}

size_t slots_find(const char *library, struct slot_hook *hooks, size_t count)
{
	struct pass pass = {.soname = library, .hooks = hooks, .count = count};
	size_t known = 0;
	find_definitions(&pass);
	for (size_t i = 0; i < count; i++)
		known += hooks[i].found != NULL;
	return known;
}

/* ---------------------------------------------------------------- what slots hold */

/* Slots that led to a stub in the PLT of their object. An entry is used only if the slot holds our function, and the
 * stub is still that of this slot. */
static struct unbound {
	void **slot;
	void *stub;
} unbound[UNBOUND_MOST];
static size_t unbound_count;

static bool is_stub(const struct calls *calls, const ElfW(Rela) * slot, const void *at)
{
	return slot_stub(calls->info, calls->table, (size_t)(slot - calls->slots), at);
}

/* Does the loader write-protect the slot's page? */
static bool is_guarded(const struct dl_phdr_info *info, uintptr_t slot, uintptr_t page)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);
		uintptr_t to = (info->dlpi_addr + p->p_vaddr + p->p_memsz) & ~(page - 1);
		if (p->p_type == PT_GNU_RELRO && slot >= from && slot < to)
			return true;
	}
	return false;
}

static void change(void **slot, void *from, void *to)
{
	__atomic_compare_exchange_n(slot, &from, to, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* A page that the loader has still to protect is left alone: the loader may protect it between our look and our write.
 * A page that holds our function was protected before. */
static void change_guarded(struct pass *pass, const struct dl_phdr_info *info, void **slot, void *from, void *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot;
	void *start = (void *)(at & ~(page - 1));
	int open = peek_is_writable(slot);
	if (open > 0 && pass->on && is_guarded(info, at, page)) {
		pass->state.unfinished++;
	} else if (open > 0) {
		change(slot, from, to);
	} else if (open == 0 && mprotect(start, page, PROT_READ | PROT_WRITE) == 0) {
		change(slot, from, to);
		mprotect(start, page, PROT_READ);
	} else {
		pass->state.refused++;
	}
}

/* The loader might find another library's function of this name. So we take only a slot that is bound already, or whose
 * name has a single definition. The stub is kept: afterwards the loader looks the function up as if we had never been
 * there. */
static bool take_unbound(const struct slot_hook *hook, void **slot, void *stub)
{
	if (hook->definitions != 1 || unbound_count == UNBOUND_MOST)
		return false;
	unbound[unbound_count++] = (struct unbound){slot, stub};
	return true;
}

static void *before(const struct calls *calls, const ElfW(Rela) * relocation, void **slot, void *real)
{
	for (size_t i = unbound_count; i-- > 0;)
		if (unbound[i].slot == slot && is_stub(calls, relocation, unbound[i].stub))
			return unbound[i].stub;
	return real;
}

static void set_slot(struct pass *pass, const struct calls *calls, const ElfW(Rela) * relocation,
		     const ElfW(Sym) * symbol, struct slot_hook *hook)
{
	const struct dl_phdr_info *info = calls->info;
	void **slot = (void **)(info->dlpi_addr + relocation->r_offset);
	void *real = atomic_load(&hook->real);
	if (!hook->found || (hook->others_only && symbol->st_shndx != SHN_UNDEF) || (uintptr_t)slot % sizeof *slot ||
	    !object_has(info, slot, sizeof *slot, PF_W))
		return;
	void *now = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (pass->on &&
	    (now == real || copies_have(now) || (is_stub(calls, relocation, now) && take_unbound(hook, slot, now))))
		change_guarded(pass, info, slot, now, hook->function);
	else if (!pass->on && now == hook->function)
		change_guarded(pass, info, slot, now, before(calls, relocation, slot, real));
	now = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (now == hook->function) {
		pass->state.ours++;
	} else if (now != real && !is_stub(calls, relocation, now)) {
		pass->state.foreign++;
		pass->state.foreign_function = now;
	}
}

void slots_set(const char *library, struct slot_hook *hooks, size_t count, bool on, struct slots_state *ret)
{
	int saved = errno, tries = 3;
	struct pass pass;
	/* Objects may be loaded or unloaded between the two passes: then both are repeated. */
	do {
		pass = (struct pass){.soname = library, .hooks = hooks, .count = count, .on = on};
		find_definitions(&pass);
		pass.follows = true;
		pass.found = set_slot;
		gate_iterate(pass_object, &pass, GATE_OWN_NS);
	} while (pass.changed && --tries);
	if (pass.changed)
		pass.state.unfinished++;
	if (!on)
		unbound_count = 0;
	*ret = pass.state;
	errno = saved;
}

static int first_object(struct dl_phdr_info *info, size_t size, void *pointer)
{
	uint64_t *loaded = pointer;
	if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds)
		*loaded = info->dlpi_adds;
	return 1;
}

uint64_t slots_loaded(void)
{
	uint64_t loaded = 0;
	gate_iterate(first_object, &loaded, GATE_OWN_NS);
	return loaded;
}
