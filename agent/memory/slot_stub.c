/* slot_stub.c - see slot_stub.h. The first code of a PLT hands a word of the table to the loader, by which the loader
 * knows the object. On x86-64 each function has a stub, which pushes the number of its slot and jumps to that first
 * code (linkers: GNU ld, gold, lld). mold's slots lead to the first code itself, and so do all slots on aarch64. Code
 * is read only where the object is readable and executable. */
#include "slot_stub.h"

#include "../core/object.h"

#include <stdint.h>
#include <string.h>

static uint32_t word_at(const unsigned char *at)
{
	uint32_t word;
	memcpy(&word, at, sizeof word);
	return word;
}

#if defined __aarch64__

/* stp x16, x30, [sp, #-16]!; adrp x16, TABLE + 16; ldr x17, [x16, TABLE + 16]. */
static bool is_beginning(const struct dl_phdr_info *info, const void *table, const unsigned char *at)
{
	if (!object_has(info, at, 16, PF_R | PF_X))
		return false;
	if (word_at(at) == 0xd503245f) /* bti c */
		at += 4;
	uint32_t page = word_at(at + 4), load = word_at(at + 8);
	if (word_at(at) != 0xa9bf7bf0 || (page & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
		return false;
	/* A signed number of pages, 21 bits. */
	int64_t pages = (int64_t)((uint64_t)((page >> 5 & 0x7ffff) << 2 | (page >> 29 & 3)) << 43) >> 43;
	uintptr_t loaded =
		(((uintptr_t)at + 4) & ~(uintptr_t)0xfff) + (uintptr_t)pages * 4096 + (load >> 10 & 0xfff) * 8;
	return loaded == (uintptr_t)table + 16;
}

bool slot_stub(const struct dl_phdr_info *info, const void *table, size_t number, const void *at)
{
	(void)number;
	return table && is_beginning(info, table, at);
}

#else

static const unsigned char *behind(const unsigned char *at, const char *code, size_t bytes)
{
	return memcmp(at, code, bytes) == 0 ? at + bytes : at;
}

/* The target of four bytes that hold its distance from their end. */
static uintptr_t relative(const unsigned char *at)
{
	return (uintptr_t)at + 4 + (uintptr_t)(intptr_t)(int32_t)word_at(at);
}

/* endbr64 and push %r11 (mold); push TABLE + 8. */
static bool is_beginning(const struct dl_phdr_info *info, const void *table, const unsigned char *at)
{
	if (!object_has(info, at, 12, PF_R | PF_X))
		return false;
	at = behind(behind(at, "\xf3\x0f\x1e\xfa", 4), "\x41\x53", 2);
	return at[0] == 0xff && at[1] == 0x35 && relative(at + 2) == (uintptr_t)table + 8;
}

/* endbr64; push NUMBER; jmp to the PLT's first code, perhaps with a bnd prefix. */
bool slot_stub(const struct dl_phdr_info *info, const void *table, size_t number, const void *at)
{
	const unsigned char *code = at;
	if (!table || !object_has(info, code, 16, PF_R | PF_X))
		return false;
	code = behind(code, "\xf3\x0f\x1e\xfa", 4);
	if (code[0] != 0x68)
		return is_beginning(info, table, at);
	if (word_at(code + 1) != number)
		return false;
	code = behind(code + 5, "\xf2", 1);
	return code[0] == 0xe9 && is_beginning(info, table, (const unsigned char *)relative(code + 1));
}

#endif
