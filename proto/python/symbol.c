/* symbol.c - see symbol.h. */
#include "symbol.h"

#include <elf.h>
#include <string.h>

#define HEADERS_MOST 64	  /* program headers of an object */
#define DYNAMIC_MOST 512  /* entries of its dynamic section */
#define CHAIN_MOST 100000 /* symbols that share a hash bucket, or that an old table has */

struct tables {
	uint64_t bias, names, symbols, gnu, old;
};

static bool find_dynamic(struct python_memory *memory, uint64_t base, uint64_t *bias, uint64_t *dynamic)
{
	Elf64_Ehdr head;
	Elf64_Phdr rows[HEADERS_MOST];
	bool based = false;

	if (!python_read(memory, base, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phnum > HEADERS_MOST || !head.e_phnum ||
	    head.e_phentsize != sizeof *rows ||
	    !python_read(memory, base + head.e_phoff, rows, head.e_phnum * sizeof *rows))
		return false;
	*dynamic = 0;
	for (int i = 0; i < head.e_phnum; i++) {
		if (rows[i].p_type == PT_LOAD && !based) {
			*bias = base - (rows[i].p_vaddr - rows[i].p_offset);
			based = true;
		}
		if (rows[i].p_type == PT_DYNAMIC)
			*dynamic = rows[i].p_vaddr;
	}
	if (!based || !*dynamic)
		return false;
	*dynamic += *bias;
	return true;
}

static bool find_tables(struct python_memory *memory, uint64_t base, struct tables *ret)
{
	uint64_t at;
	Elf64_Dyn row;

	*ret = (struct tables){0};
	if (!find_dynamic(memory, base, &ret->bias, &at))
		return false;
	for (int i = 0; i < DYNAMIC_MOST; i++, at += sizeof row) {
		if (!python_read(memory, at, &row, sizeof row) || row.d_tag == DT_NULL)
			break;
		/* glibc's loader writes addresses here; others leave offsets. */
		uint64_t value = row.d_un.d_val < ret->bias ? row.d_un.d_val + ret->bias : row.d_un.d_val;
		if (row.d_tag == DT_STRTAB)
			ret->names = value;
		else if (row.d_tag == DT_SYMTAB)
			ret->symbols = value;
		else if (row.d_tag == DT_GNU_HASH)
			ret->gnu = value;
		else if (row.d_tag == DT_HASH)
			ret->old = value;
	}
	return ret->names && ret->symbols && (ret->gnu || ret->old);
}

/* The symbol's address, if it has this name and the object defines it. */
static uint64_t match(struct python_memory *memory, const struct tables *tables, uint32_t index, const char *name)
{
	Elf64_Sym symbol;
	char text[64];
	size_t n = strlen(name) + 1;

	if (n > sizeof text || !python_read(memory, tables->symbols + index * sizeof symbol, &symbol, sizeof symbol) ||
	    !symbol.st_shndx || !symbol.st_value)
		return 0;
	unsigned type = ELF64_ST_TYPE(symbol.st_info);
	if ((type != STT_FUNC && type != STT_OBJECT) || !python_read(memory, tables->names + symbol.st_name, text, n) ||
	    memcmp(text, name, n) != 0)
		return 0;
	return tables->bias + symbol.st_value;
}

static uint64_t by_gnu_hash(struct python_memory *memory, const struct tables *tables, const char *name)
{
	uint32_t head[4], index, hash = 5381, word; /* buckets, first symbol, words of the filter, shift */

	for (const char *at = name; *at; at++)
		hash = hash * 33 + (unsigned char)*at;
	if (!python_read(memory, tables->gnu, head, sizeof head) || !head[0])
		return 0;
	uint64_t buckets = tables->gnu + sizeof head + head[2] * 8ull, chains = buckets + head[0] * 4ull;
	if (!python_read(memory, buckets + hash % head[0] * 4ull, &index, sizeof index) || index < head[1])
		return 0;
	for (int i = 0; i < CHAIN_MOST; i++, index++) {
		if (!python_read(memory, chains + (index - head[1]) * 4ull, &word, sizeof word))
			return 0;
		uint64_t found = (word | 1) == (hash | 1) ? match(memory, tables, index, name) : 0;
		if (found || word & 1)
			return found;
	}
	return 0;
}

static uint64_t by_old_hash(struct python_memory *memory, const struct tables *tables, const char *name)
{
	uint32_t head[2], index, hash = 0; /* buckets, symbols */

	for (const char *at = name; *at; at++) {
		hash = (hash << 4) + (unsigned char)*at;
		hash = (hash ^ (hash & 0xf0000000) >> 24) & 0x0fffffff;
	}
	if (!python_read(memory, tables->old, head, sizeof head) || !head[0])
		return 0;
	uint64_t buckets = tables->old + sizeof head, chains = buckets + head[0] * 4ull;
	if (!python_read(memory, buckets + hash % head[0] * 4ull, &index, sizeof index))
		return 0;
	for (int i = 0; i < CHAIN_MOST && index; i++) {
		uint64_t found = match(memory, tables, index, name);
		if (found || !python_read(memory, chains + index * 4ull, &index, sizeof index))
			return found;
	}
	return 0;
}

uint64_t python_symbol(struct python_memory *memory, uint64_t base, const char *name)
{
	struct tables tables;

	if (!find_tables(memory, base, &tables))
		return 0;
	return tables.gnu ? by_gnu_hash(memory, &tables, name) : by_old_hash(memory, &tables, name);
}
