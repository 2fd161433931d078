/* code.c - see code.h. */
#include "code.h"

#include <string.h>

#define TABLE_MOST (1u << 22) /* largest table of lines that is read, in bytes */
#define PIECE 512
#define TAKES_ALL (4 | 8) /* CPython's flags of functions with *arguments, and with **keywords */

/* Appends a code point; false where it does not fit. */
static bool put_utf8(char **to, const char *end, uint32_t point)
{
	unsigned char bytes[4];
	size_t n = 0;

	if (point >= 0xd800 && point < 0xe000)
		point = 0xfffd;
	if (point > 0x10ffff)
		point = 0xfffd;
	if (point < 0x80) {
		bytes[n++] = (unsigned char)point;
	} else if (point < 0x800) {
		bytes[n++] = (unsigned char)(0xc0 | point >> 6);
		bytes[n++] = (unsigned char)(0x80 | (point & 63));
	} else if (point < 0x10000) {
		bytes[n++] = (unsigned char)(0xe0 | point >> 12);
		bytes[n++] = (unsigned char)(0x80 | (point >> 6 & 63));
		bytes[n++] = (unsigned char)(0x80 | (point & 63));
	} else {
		bytes[n++] = (unsigned char)(0xf0 | point >> 18);
		bytes[n++] = (unsigned char)(0x80 | (point >> 12 & 63));
		bytes[n++] = (unsigned char)(0x80 | (point >> 6 & 63));
		bytes[n++] = (unsigned char)(0x80 | (point & 63));
	}
	if (n > (size_t)(end - *to))
		return false;
	memcpy(*to, bytes, n);
	*to += n;
	return true;
}

static uint32_t unit_at(const unsigned char *data, size_t index, unsigned width)
{
	uint32_t value = 0;
	memcpy(&value, data + index * width, width); /* little-endian, as are all machines that profd runs on */
	return value;
}

bool python_text(struct python *python, uint64_t object, char *to, size_t bytes)
{
	const struct python_offsets *o = &python->offsets;
	unsigned char head[64], data[PYTHON_NAME_BYTES * 4];
	const char *end = to + bytes - 1;
	uint32_t state;
	int64_t length;

	*to = 0;
	if (o->text_state > (int32_t)(sizeof head - sizeof state) ||
	    !python_read(&python->memory, object, head, sizeof head))
		return false;
	memcpy(&length, head + 16, sizeof length);
	memcpy(&state, head + o->text_state, sizeof state);
	unsigned width = state >> 2 & 7;
	bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
	if (length < 0 || !compact || (width != 1 && width != 2 && width != 4))
		return false;
	size_t units = (size_t)length < PYTHON_NAME_BYTES ? (size_t)length : PYTHON_NAME_BYTES;
	if (units > bytes)
		units = bytes;
	uint64_t from = object + (uint64_t)(ascii ? o->text_ascii : o->text_wide);
	if (units && !python_read(&python->memory, from, data, units * width))
		return false;
	for (size_t i = 0; i < units && put_utf8(&to, end, unit_at(data, i, width)); i++)
		;
	*to = 0;
	return true;
}

bool python_describe(struct python *python, uint64_t code, struct python_code *ret)
{
	const struct python_offsets *o = &python->offsets;
	uint64_t name = python_word(&python->memory, code + (uint64_t)o->code_name);
	uint64_t file = python_word(&python->memory, code + (uint64_t)o->code_file);

	return python_read(&python->memory, code + (uint64_t)o->code_line, &ret->line, sizeof ret->line) &&
	       python_text(python, name, ret->name, sizeof ret->name) &&
	       python_text(python, file, ret->file, sizeof ret->file);
}

bool python_takes_all(struct python *python, uint64_t code)
{
	const struct python_offsets *o = &python->offsets;
	int32_t flags, arguments, keywords;

	return python_read(&python->memory, code + (uint64_t)o->code_flags, &flags, sizeof flags) &&
	       python_read(&python->memory, code + (uint64_t)o->code_arguments, &arguments, sizeof arguments) &&
	       python_read(&python->memory, code + (uint64_t)o->code_keywords, &keywords, sizeof keywords) &&
	       (flags & TAKES_ALL) == TAKES_ALL && arguments == 1 && keywords == 0;
}

uint64_t python_code_print(struct python *python, uint64_t code)
{
	const struct python_offsets *o = &python->offsets;
	const int32_t offsets[] = {o->code_name, o->code_file, o->code_table, o->code_line};
	unsigned char bytes[256];
	int32_t last = 0;
	uint64_t print = 14695981039346656037u;

	for (int i = 0; i < 4; i++)
		last = offsets[i] > last ? offsets[i] : last;
	if (last + 8 > (int32_t)sizeof bytes || !python_read(&python->memory, code, bytes, (size_t)last + 8))
		return 0;
	for (int i = 0; i < 4; i++) {
		uint64_t word;
		memcpy(&word, bytes + offsets[i], offsets[i] == o->code_line ? 4 : 8);
		print = (print ^ (offsets[i] == o->code_line ? word & 0xffffffff : word)) * 1099511628211u;
	}
	return print ? print : 1;
}

/* A table of lines, read a piece at a time. */
struct table {
	struct python *python;
	uint64_t at;
	size_t left; /* bytes that are not in `piece` yet */
	size_t next, filled;
	unsigned char piece[PIECE];
};

static bool table_open(struct table *table, struct python *python, uint64_t code)
{
	const struct python_offsets *o = &python->offsets;
	uint64_t object = python_word(&python->memory, code + (uint64_t)o->code_table);
	int64_t length;

	table->python = python;
	table->next = table->filled = 0;
	table->at = object + (uint64_t)o->bytes_data;
	if (!python_read(&python->memory, object + 16, &length, sizeof length) || length < 0 || length > TABLE_MOST)
		return false;
	table->left = (size_t)length;
	return true;
}

/* The next byte; -1 at the end. */
static int table_byte(struct table *table)
{
	if (table->next == table->filled) {
		size_t n = table->left < PIECE ? table->left : PIECE;
		if (!n || !python_read(&table->python->memory, table->at, table->piece, n))
			return -1;
		table->at += n;
		table->left -= n;
		table->next = 0;
		table->filled = n;
	}
	return table->piece[table->next++];
}

/* A number in pieces of six bits, the lowest first. */
static uint32_t table_varint(struct table *table)
{
	uint32_t value = 0;
	for (unsigned shift = 0; shift < 32; shift += 6) {
		int byte = table_byte(table);
		if (byte < 0)
			break;
		value |= (uint32_t)(byte & 63) << shift;
		if (!(byte & 64))
			break;
	}
	return value;
}

static int32_t add(int32_t line, int64_t by)
{
	return (int32_t)((uint32_t)line + (uint32_t)by);
}

/* 3.9: pairs of (bytes, lines); a line begins where its bytes do. */
static int32_t line_by_lnotab(struct table *table, int32_t line, int64_t instruction)
{
	int64_t at = 0;
	for (;;) {
		int bytes = table_byte(table), lines = table_byte(table);
		if (lines < 0)
			return line;
		at += bytes;
		if (at > instruction)
			return line;
		line = add(line, (int8_t)lines);
	}
}

/* 3.10: pairs of (bytes, lines); -128 stands for no line. */
static int32_t line_by_pairs(struct table *table, int32_t line, int64_t instruction)
{
	int64_t at = 0;
	for (;;) {
		int bytes = table_byte(table), lines = table_byte(table);
		if (lines < 0)
			return line;
		if ((int8_t)lines != -128)
			line = add(line, (int8_t)lines);
		at += bytes;
		if (instruction < at)
			return (int8_t)lines == -128 ? 0 : line;
	}
}

/* From 3.11 on, PEP 657: an entry has a number of instructions, by how much the line moves, and columns. */
static int32_t line_by_locations(struct table *table, int32_t line, int64_t instruction)
{
	int64_t at = 0;
	for (;;) {
		int byte = table_byte(table);
		if (byte < 0)
			return line;
		int kind = byte >> 3 & 15, columns = 0;
		if (kind == 13 || kind == 14) {
			uint32_t by = table_varint(table);
			line = add(line, by & 1 ? -(int64_t)(by >> 1) : (int64_t)(by >> 1));
			for (int i = 0; kind == 14 && i < 3; i++)
				table_varint(table);
		} else if (kind >= 10 && kind <= 12) {
			line = add(line, kind - 10);
			columns = 2;
		} else if (kind < 10) {
			columns = 1;
		}
		while (columns--)
			table_byte(table);
		at += 2 * ((int64_t)(byte & 7) + 1);
		if (instruction < at)
			return kind == 15 ? 0 : line;
	}
}

int32_t python_line(struct python *python, uint64_t code, int64_t instruction)
{
	struct table table;
	int32_t line;

	if (!python_read(&python->memory, code + (uint64_t)python->offsets.code_line, &line, sizeof line))
		return 0;
	if (instruction < 0)
		return line;
	if (!table_open(&table, python, code))
		return 0;
	if (python->minor <= 9)
		return line_by_lnotab(&table, line, instruction);
	if (python->minor == 10)
		return line_by_pairs(&table, line, instruction);
	return line_by_locations(&table, line, instruction);
}
