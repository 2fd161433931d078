/* collectors.c - see collectors.h. No state. */
#include "collectors.h"

#include <stddef.h>

static const struct collector_facts rows[COLLECTOR_COUNT] = {
#define COLLECTOR(bit, NAME, word, part_of, ops, asked, option, help, fills, records)                                  \
	[bit] = {word, COLLECTOR_##part_of, ASKED_##asked, option, help, fills, records},
#include "collectors.def"
};

const struct collector_facts *collector_facts(unsigned bit)
{
	return bit < COLLECTOR_COUNT && rows[bit].word ? &rows[bit] : NULL;
}

const char *collector_word(unsigned bit)
{
	return bit < COLLECTOR_COUNT ? rows[bit].word : NULL;
}

uint32_t collectors_asked(enum collector_asked asked)
{
	uint32_t bits = 0;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (rows[bit].word && rows[bit].asked == asked)
			bits |= 1u << bit;
	return bits;
}

uint32_t collectors_filling(unsigned figures)
{
	uint32_t bits = 0;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (rows[bit].fills & figures)
			bits |= 1u << bit;
	return bits;
}

uint32_t collectors_consistent(uint32_t bits)
{
	if (!(bits >> COLLECTOR_CUPTI & 1))
		bits &= ~collector_parts(COLLECTOR_CUPTI);
	if (bits & collectors_filling(FILLED_BY_OPERATORS))
		bits |= 1u << COLLECTOR_TORCH;
	return bits;
}
