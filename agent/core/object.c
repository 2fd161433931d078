/* object.c - see object.h. */
#include "object.h"
#include "gate.h"

#include <stdint.h>
#include <string.h>

int object_has(const struct dl_phdr_info *info, const void *at, size_t bytes, ElfW(Word) flags)
{
	uintptr_t from = (uintptr_t)at;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && (p->p_flags & flags) == flags && from >= low && from - low <= p->p_memsz &&
		    bytes <= p->p_memsz - (from - low))
			return 1;
	}
	return 0;
}

static uint64_t fold(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * 0x9e3779b97f4a7c15ull ^ hash >> 31;
}

uint64_t object_print(const struct dl_phdr_info *info)
{
	uint64_t hash = fold(info->dlpi_phnum, info->dlpi_addr);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		hash = fold(fold(fold(hash, p->p_type), p->p_vaddr), p->p_memsz);
		hash = fold(fold(hash, p->p_offset), p->p_filesz);
	}
	return hash ? hash : 1;
}

struct search {
	const void *at;
	char *name;
	size_t bytes;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *pointer)
{
	struct search *search = pointer;
	(void)size;
	if (!object_has(info, search->at, 1, PF_X))
		return 0;
	const char *name = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "the program itself";
	const char *slash = strrchr(name, '/');
	if (slash)
		name = slash + 1;
	size_t n = strnlen(name, search->bytes - 1);
	memcpy(search->name, name, n);
	search->name[n] = 0;
	return 1;
}

void object_name_at(const void *at, char *name, size_t bytes)
{
	struct search search = {at, name, bytes};
	if (bytes)
		gate_iterate(search_object, &search, GATE_OWN_NS);
}
