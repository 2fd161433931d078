/* collectors.h - what can be recorded, as collectors.def has it. */
#ifndef PROFD_PROTO_COLLECTORS_H
#define PROFD_PROTO_COLLECTORS_H

#include <stdint.h>

enum collector {
#define COLLECTOR(bit, NAME, word, part_of, ops, asked, option, help, fills, records) COLLECTOR_##NAME = (bit),
#define RESERVED_COLLECTOR(bit, NAME, word, description) COLLECTOR_##NAME = (bit),
#include "collectors.def"
	COLLECTOR_COUNT
};
_Static_assert(COLLECTOR_COUNT <= 16, "STEP records have 16 bits for collectors");

enum collector_asked { ASKED_NEVER, ASKED_ALWAYS, ASKED_WITH, ASKED_UNLESS, ASKED_WITH_MORE, ASKED_VALUE };

/* Figures that several collectors may fill. They are "not recorded" if none of these collectors ran. */
enum collector_figures {
	FILLS_OPERATORS = 1,
	FILLS_RANGES = 2, /* and marks */
	FILLS_DEVICE = 4, /* kernels, copies, memsets, graphs, and the calls that launched them */
	FILLS_MEMORY = 8,
	FILLS_STACKS = 16,
	FILLS_SHAPES = 32,
	FILLS_OPERATOR_STACKS = 64,
	FILLS_ALLOCATIONS = 128, /* of the framework */
	FILLS_MODULES = 256,
	FILLS_COMPILES = 512
};

struct collector_facts {
	const char *word;
	unsigned part_of; /* the collector that reports on it; the bit itself if it is a collector */
	enum collector_asked asked;
	const char *option, *help; /* "" = none */
	unsigned fills;		   /* enum collector_figures */
	const char *records;	   /* "" = nothing, in this release */
};

/* Figures of the host's side that are recorded when torch calls the agent. */
#define FILLED_BY_OPERATORS (FILLS_SHAPES | FILLS_OPERATOR_STACKS | FILLS_MODULES | FILLS_ALLOCATIONS)

/* NULL for a bit that nothing uses yet. */
const struct collector_facts *collector_facts(unsigned bit);
/* The bit's word; NULL as above. */
const char *collector_word(unsigned bit);
/* A bit set of the bits that are asked for in this way. */
uint32_t collectors_asked(enum collector_asked asked);
/* A bit set of the bits that fill any of the figures. */
uint32_t collectors_filling(unsigned figures);

/* Makes a set consistent. If CUPTI is left out, the bits that it records for are left out, too. If figures need torch's
 * calls to the agent, operators are added. */
uint32_t collectors_consistent(uint32_t bits);

/* A bit set of the other bits that a collector records for: the collector torch records shapes. */
static inline uint32_t collector_parts(unsigned bit)
{
	uint32_t parts = 0;
#define COLLECTOR(number, NAME, word, part_of, ops, asked, option, help, fills, records)                               \
	if (COLLECTOR_##part_of == bit && (number) != bit)                                                             \
		parts |= 1u << (number);
#include "collectors.def"
	return parts;
}

#endif
