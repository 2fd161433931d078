/* stream.h - the file that an export writes: whole or not at all, gzipped or not, made by several threads.
 *
 * The text comes in blocks. The format's own thread fills `stream_head`'s block; stream_jobs runs numbered jobs in
 * several threads, each filling a block of its own, and writes the blocks in the order of the jobs. Each block is
 * deflated where it was filled, ends on a byte (a sync point), and its CRC is combined into that of the one gzip member:
 * every reader takes the file. */
#ifndef PROFD_CLIENT_EXPORT_STREAM_H
#define PROFD_CLIENT_EXPORT_STREAM_H

#include "buffer.h"

#include <stdbool.h>

struct stream;

struct block {
	struct buffer text;
	struct stream *stream;
	struct compressor *compressor; /* NULL: the text goes out as it is */
	uint64_t job;
	bool in_turn; /* all earlier jobs are written: this thread alone writes, until its job ends */
};

/* A job hands its block on when it holds this much, so that no block grows with what is in it. */
#define BLOCK_BYTES (1u << 20)

/* Opens PATH.tmp, or standard output for "-", or a path that exists and is no regular file (a pipe, /dev/null) itself.
 * A PATH.tmp that an interrupted export has left behind is used again. 0 or a negative errno with a sentence. */
int stream_open(struct stream **ret_stream, const char *path, bool gzip, unsigned threads, char *why, size_t why_bytes);
/* Ends the file and renames it, where `whole` and nothing has failed; else removes it. Frees the stream. 0, or a
 * negative errno with a sentence where the file could not be written. */
int stream_close(struct stream *stream, bool whole, char *why, size_t why_bytes);

/* The file that is being made, for a format that writes it by itself instead of by blocks; NULL where it is no regular one: then it
 * goes by blocks. */
const char *stream_path(const struct stream *stream);
unsigned stream_threads(const struct stream *stream);
/* The block of the thread that opened the stream; not to be touched while jobs run. */
struct block *stream_head(struct stream *stream);

/* Hands the block's text on and empties it; in a job this waits until it is the job's turn. 0 or a negative errno, also
 * where another thread has failed before. */
int block_flush(struct block *block);
/* As block_flush, where the block is full. */
static inline int block_flush_full(struct block *block)
{
	return block->text.used < BLOCK_BYTES && !block->text.failed ? 0 : block_flush(block);
}
/* Waits until it is the job's turn: what follows in the job runs alone, in the order of the jobs. */
int block_wait(struct block *block);

/* Fills and writes one block. Anything but 0 ends the export. */
typedef int (*stream_job)(void *user, unsigned worker, struct block *block);
/* Writes the head's text, then that of jobs 0..jobs-1. `worker` is below stream_threads. */
int stream_jobs(struct stream *stream, uint64_t jobs, stream_job run, void *user);

#endif
