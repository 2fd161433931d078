/* pickle.c - see pickle.h. */
#include "pickle.h"

static void put_byte(struct pickle *p, unsigned char byte)
{
	buffer_put(p->to, (const char *)&byte, 1);
}

static void put_bytes(struct pickle *p, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		put_byte(p, (unsigned char)(value >> 8 * i));
}

void pickle_begin(struct pickle *p, struct buffer *to)
{
	*p = (struct pickle){.to = to};
	BUFFER_PUT(to, "\x80\x02");
}

void pickle_end(struct pickle *p)
{
	BUFFER_PUT(p->to, ".");
}

void pickle_int(struct pickle *p, int64_t value)
{
	if (value >= 0 && value <= UINT8_MAX) {
		put_byte(p, 'K');
		put_bytes(p, (uint64_t)value, 1);
	} else if (value >= 0 && value <= UINT16_MAX) {
		put_byte(p, 'M');
		put_bytes(p, (uint64_t)value, 2);
	} else if (value >= INT32_MIN && value <= INT32_MAX) {
		put_byte(p, 'J');
		put_bytes(p, (uint64_t)value, 4);
	} else {
		BUFFER_PUT(p->to, "\x8a\x08");
		put_bytes(p, (uint64_t)value, 8);
	}
}

void pickle_false(struct pickle *p)
{
	put_byte(p, 0x89);
}

void pickle_text(struct pickle *p, const char *text)
{
	put_byte(p, 'X');
	put_bytes(p, 0, 4);
	size_t from = p->to->used;
	buffer_put_utf8(p->to, text, strlen(text));
	size_t bytes = p->to->used - from;
	for (unsigned i = 0; i < 4 && !p->to->failed; i++)
		p->to->bytes[from - 4 + i] = (char)(bytes >> 8 * i);
}

void pickle_dict(struct pickle *p)
{
	BUFFER_PUT(p->to, "}(");
}

void pickle_dict_end(struct pickle *p)
{
	BUFFER_PUT(p->to, "u");
}

void pickle_list(struct pickle *p)
{
	BUFFER_PUT(p->to, "](");
}

void pickle_more(struct pickle *p)
{
	BUFFER_PUT(p->to, "(");
}

void pickle_list_end(struct pickle *p)
{
	BUFFER_PUT(p->to, "e");
}

static void put_number(struct pickle *p, char small, char large, uint32_t number)
{
	put_byte(p, (unsigned char)(number <= UINT8_MAX ? small : large));
	put_bytes(p, number, number <= UINT8_MAX ? 1 : 4);
}

uint32_t pickle_keep(struct pickle *p)
{
	put_number(p, 'q', 'r', ++p->kept);
	return p->kept;
}

void pickle_kept(struct pickle *p, uint32_t number)
{
	put_number(p, 'h', 'j', number);
}
