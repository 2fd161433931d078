/* buffers.h - the activity buffers that CUPTI fills: a pool of our own that is kept for good, because CUPTI may hold a pointer
 * into it for as long as the process lives.
 *
 * Whose a buffer is stands in a table: FREE (ours), HELD (CUPTI's), READING (whoever decodes it), COLLECTED
 * (CUPTI's still, but what it held when the session ended is written). A buffer of another
 * client, that CUPTI brings to us because callbacks are the process's and not a client's, is none of the table.
 * No locks: CUPTI may call from any thread, with locks of its own held. */
#ifndef PROFD_AGENT_CUPTI_BUFFERS_H
#define PROFD_AGENT_CUPTI_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/* Takes address space where there is none yet; buffers are of this generation from now on. 0 or -ENOMEM. Agent's thread. */
int buffers_begin(uint32_t generation);

/* Makes some free buffers' pages ready, so that the job's threads do not fault on them; with `cold` also those of buffers that
 * were trimmed. Not a thread of the job. */
void buffers_stock(int cold);

/* A zeroed buffer for CUPTI; NULL with *ret_bytes = 0 where the pool is used up. Any thread; some ns, unless the stock is used
 * up too. */
uint8_t *buffers_take(size_t *ret_bytes);

/* Where there is none, and CUPTI must get one all the same: always the same piece, for one record that nobody reads. */
uint8_t *buffers_scratch(size_t *ret_bytes);

/* Is the pool nearly used up? */
int buffers_scarce(void);

/* CUPTI has given back `data`. 1: it is ours and now the caller's to read, its generation in *ret_generation; 0: ours, but not
 * CUPTI's (it came twice, or was collected already), or the scratch piece; -1: not ours. Any thread. */
int buffers_receive(uint8_t *data, uint32_t *ret_generation);

/* Ends reading: clears its first `used` bytes (all of it where SIZE_MAX) and makes it free. */
void buffers_give(uint8_t *data, size_t used);

/* Held by CUPTI or being read: how many, and how many of these hold records. */
uint32_t buffers_held(uint32_t *ret_written);

/* How far the buffers that CUPTI holds are filled, in all. CUPTI may be writing there. */
size_t buffers_filled(void);

/* A copy of the next of the buffers that CUPTI holds and has written to, from index *at on: CUPTI keeps the buffer, and may go on
 * writing. Good until the next call; NULL where there is none. Agent's thread. */
uint8_t *buffers_collect(uint32_t *at, size_t *ret_bytes, uint32_t *ret_generation);

/* Bytes of the job's memory that lie behind the pool now. */
uint64_t buffers_bytes(void);

/* Gives the memory, not the addresses, of the free buffers back. */
void buffers_trim(void);

#endif
