/* claim.h - the page by which the copy of the agent that works in a process shows this to other copies and to the
 * client. A forked child does not inherit the page, so a copy that was inherited by the fork does not work there. */
#ifndef PROFD_PROTO_CLAIM_H
#define PROFD_PROTO_CLAIM_H

#include <stdint.h>

/* All releases use this address. It is above the part that the kernel keeps free (64 KiB), and below the lowest address
 * that linkers give to a program (2 MiB). The kernel maps nothing there by itself. It is a multiple of the largest
 * page. */
#define CLAIM_PLACE 0x1b0000u
#define CLAIM_BYTES 4096
/* The page as /proc/PID/maps has it. */
#define CLAIM_LINE "001b0000-001b1000 "
#define CLAIM_MARK 0x50524644u /* "DFRP" read as text */

/* The contents of the page. */
struct claim {
	uint32_t mark, unused;
	uint64_t attach; /* that copy's profd_attach(); 0: its release did not give it */
};
_Static_assert(sizeof(struct claim) == 16, "releases agree on it");

#endif
