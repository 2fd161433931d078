/* slots.c - see slots.h. Slots are touched only inside a dl_iterate_phdr callback: as long as it runs, the C library lets nothing be
 * unmapped. Nothing about an object is kept from one pass to the next, so one that has gone cannot be mistaken. A slot is changed by
 * compare-and-swap from a value that we know: the function itself, or the object's own code that looks the function up at the first
 * call. An object that is being loaded just now has neither in its slots; it is looked at again. */
#include "slots.h"

#include "../core/gate.h"
#include "../core/object.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined __aarch64__
#define SLOT_RELOCATION R_AARCH64_JUMP_SLOT
#else
#define SLOT_RELOCATION R_X86_64_JUMP_SLOT
#endif
#define RELOCATION_TYPE(info) ((uint32_t)(info))
#define RELOCATION_SYMBOL(info) ((uint32_t)((info) >> 32))

/* What an object calls through slots. */
struct calls {
	const struct dl_phdr_info *info;
	const ElfW(Rela) * slots;
	size_t slot_count;
	const ElfW(Sym) * symbols;
	size_t symbol_count; /* that lie before the names, as linkers put them; 0: they lie elsewhere */
	const char *names;
	size_t names_bytes;
	const ElfW(Dyn) * dynamic;
	size_t entries;
};

/* musl leaves the addresses as they are in the file. */
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
	if (!dynamic || !object_has(info, dynamic, entries * sizeof *dynamic, PF_R))
		return false;
	for (i = 0; i < entries && dynamic[i].d_tag != DT_NULL; i++) {
		const ElfW(Dyn) *entry = &dynamic[i];
		if (entry->d_tag == DT_JMPREL)
			ret->slots = address_of(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_SYMTAB)
			ret->symbols = address_of(info, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			ret->names = address_of(info, entry->d_un.d_ptr);
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

/* Is it the library, or one that needs it? To look through all would touch each page of the names of large libraries. */
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

/* The symbol of a slot; NULL where its address is wild. */
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
	const char *soname; /* how the name of the library begins */
	struct slot_hook *hooks;
	size_t count;
	bool on;
	struct slots_state state;
	void (*found)(struct pass *pass, const struct calls *calls, const ElfW(Rela) * slot, const ElfW(Sym) * symbol,
		      struct slot_hook *hook);
};

static int pass_object(struct dl_phdr_info *info, size_t size, void *pointer)
{
	struct pass *pass = pointer;
	struct calls calls;
	(void)size;
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
	const void *at = (const void *)(calls->info->dlpi_addr + symbol->st_value);
	if (symbol->st_shndx != SHN_UNDEF && object_has(calls->info, at, 1, PF_X))
		atomic_store(&hook->real, (void *)(uintptr_t)at);
}

size_t slots_find(const char *library, struct slot_hook *hooks, size_t count)
{
	struct pass pass = {.soname = library, .hooks = hooks, .count = count, .found = find_definition};
	size_t known = 0;
	gate_iterate(pass_object, &pass, GATE_OWN_NS);
	for (size_t i = 0; i < count; i++)
		known += atomic_load(&hooks[i].real) != NULL;
	return known;
}

/* ---------------------------------------------------------------- what slots hold */

/* Reads hexadecimal digits; *at comes to stand behind them. */
static uintptr_t hexadecimal(const char **at)
{
	uintptr_t value = 0;
	for (;; (*at)++) {
		char c = **at;
		if (c >= '0' && c <= '9')
			value = value << 4 | (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uintptr_t)(c - 'a' + 10);
		else
			return value;
	}
}

/* Is the memory at `at` mapped, and for reading alone? By the kernel's own list: what the loader has closed to writers it has finished
 * with, and what it is still at must stay open to it. */
static bool is_closed(uintptr_t at)
{
	char text[4096];
	size_t have = 0;
	bool closed = false, found = false;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	while (fd >= 0 && !found) {
		ssize_t n = read(fd, text + have, sizeof text - 1 - have);
		if (n <= 0)
			break;
		text[have += (size_t)n] = 0;
		const char *line = text;
		for (const char *end; !found && (end = strchr(line, '\n')) != NULL; line = end + 1) {
			const char *p = line;
			uintptr_t from = hexadecimal(&p);
			p += *p == '-';
			uintptr_t to = hexadecimal(&p);
			found = at >= from && at < to;
			closed = found && p[0] == ' ' && p[1] == 'r' && p[2] == '-';
		}
		have -= (size_t)(line - text);
		/* A line that is longer than the buffer has its addresses at the beginning: the rest is let go. */
		if (have == sizeof text - 1)
			have = 0;
		memmove(text, line, have);
	}
	if (fd >= 0)
		close(fd);
	return closed;
}

/* Does the loader close the page of the slot to writers? */
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

static bool change(void **slot, void *from, void *to)
{
	return __atomic_compare_exchange_n(slot, &from, to, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* False where its memory cannot be written. */
static bool change_guarded(const struct dl_phdr_info *info, void **slot, void *from, void *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot;
	void *start = (void *)(at & ~(page - 1));
	bool closed = is_guarded(info, at, page) && is_closed(at);
	if (closed && mprotect(start, page, PROT_READ | PROT_WRITE) < 0)
		return false;
	change(slot, from, to);
	if (closed)
		mprotect(start, page, PROT_READ);
	return true;
}

static void set_slot(struct pass *pass, const struct calls *calls, const ElfW(Rela) * relocation,
		     const ElfW(Sym) * symbol, struct slot_hook *hook)
{
	const struct dl_phdr_info *info = calls->info;
	void **slot = (void **)(info->dlpi_addr + relocation->r_offset);
	void *real = atomic_load(&hook->real), *to = pass->on ? hook->function : real;
	if (!real || (hook->others_only && symbol->st_shndx != SHN_UNDEF) || (uintptr_t)slot % sizeof *slot ||
	    !object_has(info, slot, sizeof *slot, PF_W))
		return;
	void *now = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	bool known = pass->on ? now == real || object_has(info, now, 1, PF_X) : now == hook->function;
	if (known && now != to && !change_guarded(info, slot, now, to))
		pass->state.refused++;
	now = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (now == hook->function) {
		pass->state.ours++;
	} else if (now != real && !object_has(info, now, 1, PF_X)) {
		pass->state.foreign++;
		pass->state.foreign_function = now;
	}
}

void slots_set(const char *library, struct slot_hook *hooks, size_t count, bool on, struct slots_state *ret)
{
	struct pass pass = {.soname = library, .hooks = hooks, .count = count, .on = on, .found = set_slot};
	int saved = errno;
	gate_iterate(pass_object, &pass, GATE_OWN_NS);
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
