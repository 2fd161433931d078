/* blocks.h - remembers the sizes of CPU blocks, because torch does not tell the size of a CPU block that is given back.
 * Any thread of the job, signal handlers too: no lock, no heap. */
#ifndef PROFD_AGENT_MEMORY_BLOCKS_H
#define PROFD_AGENT_MEMORY_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* Takes memory for the table, as far as the process can spare it. 0 or a negative errno. The agent's thread. */
int blocks_take_room(void);
/* Forgets all blocks, and gives the memory back; the addresses stay mapped, because a thread may be late. The agent's
 * thread. */
void blocks_give_back(void);
/* How many bytes the table may take at most. */
uint64_t blocks_bytes(void);

/* Remembers a block. Without room the block is not remembered, and blocks_crowded() is true from then on. */
void blocks_put(uint64_t address, uint64_t bytes);
/* Takes the block out again. False: the block is not known. */
bool blocks_take(uint64_t address, uint64_t *ret_bytes);
bool blocks_crowded(void);

#endif
