/* copies.c - see copies.h. A copy is known by its file's name, or by the path of an attached copy, and by its
 * soname. */
#include "copies.h"
#include "gate.h"
#include "object.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Each fork in a line of forks leaves one. */
#define COPIES 16

static struct {
	uintptr_t from, to;
} copies[COPIES];
static unsigned count;

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool may_be(const struct dl_phdr_info *info)
{
	const char *name = info->dlpi_name ? info->dlpi_name : "", *slash = strrchr(name, '/');
	return begins(name, "/proc/self/fd/") || begins(slash ? slash + 1 : name, "libprofd_agent");
}

/* The object's soname, or "". With musl the table's address is as in the file, so it is less than the object's
 * address. */
static const char *own_name(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic, size_t entries)
{
	const char *names = NULL;
	size_t bytes = 0, at = 0;
	for (size_t i = 0; i < entries && dynamic[i].d_tag != DT_NULL; i++) {
		ElfW(Addr) value = dynamic[i].d_un.d_ptr;
		if (dynamic[i].d_tag == DT_STRTAB)
			names = (const char *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
		else if (dynamic[i].d_tag == DT_STRSZ)
			bytes = value;
		else if (dynamic[i].d_tag == DT_SONAME)
			at = value;
	}
	static const char wanted[] = "libprofd_agent.so";
	if (!at || at >= bytes || bytes - at < sizeof wanted || !object_has(info, names, bytes, PF_R))
		return "";
	return names + at;
}

static int look(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t from = UINTPTR_MAX, to = 0;
	const char *name = "";
	(void)size, (void)unused;
	if (!may_be(info) || count == COPIES || object_has(info, &copies, sizeof copies, PF_W))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_DYNAMIC && object_has(info, (const void *)begin, p->p_memsz, PF_R))
			name = own_name(info, (const ElfW(Dyn) *)begin, p->p_memsz / sizeof(ElfW(Dyn)));
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		from = begin < from ? begin : from;
		to = begin + p->p_memsz > to ? begin + p->p_memsz : to;
	}
	if (begins(name, "libprofd_agent.so") && from < to) {
		copies[count].from = from;
		copies[count++].to = to;
	}
	return 0;
}

void copies_find(void)
{
	static bool looked;
	if (!looked)
		gate_iterate(look, NULL, GATE_OWN_NS);
	looked = true;
}

bool copies_have(const void *at)
{
	for (unsigned i = 0; i < count; i++)
		if ((uintptr_t)at >= copies[i].from && (uintptr_t)at < copies[i].to)
			return true;
	return false;
}
