/* blocks.h - how large the blocks are that were taken while the agent looked: torch does not say it of a CPU block that is given back.
 * Any thread of the job, signal handlers too: no lock, no heap. */
#ifndef PROFD_AGENT_MEMORY_BLOCKS_H
#define PROFD_AGENT_MEMORY_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes room, for as many as the process can spare memory for. 0 or a negative errno. The agent's thread. */
int blocks_take_room(void);
/* Forgets all, and gives the memory back; its addresses stay ours, as a thread may be late. The agent's thread. */
void blocks_give_back(void);
/* Most bytes that the room may take. */
uint64_t blocks_bytes(void);

/* Remembers a block. Where there is no room it is not remembered, and blocks_crowded() says so from then on. */
void blocks_put(uint64_t address, uint64_t bytes);
/* Takes it out again. False: not known. */
bool blocks_take(uint64_t address, uint64_t *ret_bytes);
bool blocks_crowded(void);

#endif
