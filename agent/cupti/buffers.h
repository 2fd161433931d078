/* buffers.h - the activity buffers that CUPTI fills: a pool of our own that is never unmapped, because CUPTI may hold a
 * pointer into it for as long as the process lives.
 *
 * A table says who owns a buffer: FREE (we), HELD (CUPTI), READING (the thread that decodes it), COLLECTED (still
 * CUPTI, but its records at the end of the session are written). CUPTI may also bring us a buffer of another client,
 * because callbacks belong to the process and not to a client; such a buffer is not in the table. No locks: CUPTI may
 * call from any thread, with locks of its own held. */
#ifndef PROFD_AGENT_CUPTI_BUFFERS_H
#define PROFD_AGENT_CUPTI_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/* Takes address space if there is none yet. Buffers that are taken from now on have this generation. 0 or -ENOMEM.
 * Agent's thread. */
int buffers_begin(uint32_t generation);

/* Makes some free buffers' pages ready, so that the job's threads do not fault on them; with `cold` also those of buffers that
 * were trimmed. Not a thread of the job. */
void buffers_stock(int cold);

/* A zeroed buffer for CUPTI; NULL with *ret_bytes = 0 where the pool is used up. Any thread. Takes some ns, or longer
 * where the stock is used up. */
uint8_t *buffers_take(size_t *ret_bytes);

/* For a CUPTI that must get a buffer even if there is none: always the same piece, for one record that nobody reads. */
uint8_t *buffers_scratch(size_t *ret_bytes);

/* Is the pool nearly used up? */
int buffers_scarce(void);

/* CUPTI has given back `data`. 1: it is ours, and the caller reads it now; *ret_generation is set. 0: it is ours, but
 * there is nothing to read (it came twice, was collected already, or is the scratch piece). -1: it is not ours. Any
 * thread. */
int buffers_receive(uint8_t *data, uint32_t *ret_generation);

/* Ends reading: clears the buffer's first `used` bytes (SIZE_MAX: all) and makes it free. */
void buffers_give(uint8_t *data, size_t used);

/* How many buffers CUPTI holds or are being read, and how many of these hold records. */
uint32_t buffers_held(uint32_t *ret_written);

/* How many bytes are filled in all buffers that CUPTI holds. CUPTI may be writing there. */
size_t buffers_filled(void);

/* Copies the next buffer, from index *at on, that CUPTI holds and has written to. CUPTI keeps the buffer, and may go on
 * writing. The copy is good until the next call; NULL: there is no further buffer. Agent's thread. */
uint8_t *buffers_collect(uint32_t *at, size_t *ret_bytes, uint32_t *ret_generation);

/* Bytes of the job's memory that the pool uses now. */
uint64_t buffers_bytes(void);

/* Gives the memory, not the addresses, of the free buffers back. */
void buffers_trim(void);

#endif
