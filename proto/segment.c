/* segment.c - the sealed shared memory of one capture: layout, checks and the daemon's half of its protocol; the agent's
 * half is in agent/sink/writer.c. No state; a struct segment belongs to one thread at a time. */
#include "segment.h"
#include "limits.h"
#include "mapping.h"
#include "sealed.h"
#include "system.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The file system of memfds: the kernel's TMPFS_MAGIC. Not that of huge pages, whose holes can fault with SIGBUS. */
#define SEGMENT_FILE_SYSTEM 0x01021994

/* Offsets of strings and chunks are multiples of this, so that each part gets memory by itself, also where pages are
 * larger (aarch64). */
#define SEGMENT_ALIGN 65536u
#define STRINGS_READY_FIRST 65536u
/* The least part of a segment that is worth mapping. */
#define STRINGS_LEAST (1u << 20)
#define CHUNKS_LEAST 16u
/* How many chunks must be ready before a recording begins, unless the daemon asks for fewer. */
#define ROOM_CHUNKS 128

static uint64_t align(uint64_t offset)
{
	return (offset + SEGMENT_ALIGN - 1) & ~(uint64_t)(SEGMENT_ALIGN - 1);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint64_t smaller_size(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Values that were copied out of shared memory before this are not read there again. Without it the compiler may
 * replace the copy by later loads, and a peer could change a value after the check. */
static void copied(void)
{
	__asm__ volatile("" ::: "memory");
}

static int allocate(int fd, uint64_t at, uint64_t bytes)
{
	if (bytes == 0)
		return 0;
	while (fallocate(fd, 0, (off_t)at, (off_t)bytes) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void view(struct segment *segment, int fd, void *map, const struct segment_header *header)
{
	unsigned char *base = map;
	*segment = (struct segment){
		.fd = fd,
		.map = map,
		.map_bytes = header->total_bytes,
		.header = map,
		.table = (struct segment_chunk *)(void *)(base + header->table_at),
		.strings = base + header->strings_at,
		.chunks = base + header->chunks_at,
		.chunk_bytes = header->chunk_bytes,
		.chunk_count = header->chunk_count,
		.strings_bytes = header->strings_bytes,
	};
}

int segment_create(struct segment *segment, uint64_t capture, uint64_t event_bytes, uint32_t chunk_bytes)
{
	if (chunk_bytes < LIMIT_CHUNK_BYTES_MIN || chunk_bytes > LIMIT_CHUNK_BYTES || chunk_bytes % 8)
		return -EINVAL;
	if (event_bytes > LIMIT_SEGMENT_BYTES_MAX)
		event_bytes = LIMIT_SEGMENT_BYTES_MAX;
	uint64_t count = event_bytes / chunk_bytes;
	if (count == 0)
		count = 1;
	if (count > LIMIT_CHUNKS)
		count = LIMIT_CHUNKS;

	struct segment_header header = {
		.magic = SEGMENT_MAGIC,
		.version = SEGMENT_VERSION,
		.header_bytes = sizeof header,
		.capture = capture,
		.chunk_bytes = chunk_bytes,
		.chunk_count = (uint32_t)count,
		.strings_bytes = LIMIT_STRINGS_BYTES,
	};
	/* The table follows the header at once: with few chunks both share their pages. */
	header.table_at = (sizeof header + 63) & ~(uint64_t)63;
	header.strings_at = align(header.table_at + count * sizeof(struct segment_chunk));
	header.chunks_at = align(header.strings_at + header.strings_bytes);
	header.total_bytes = align(header.chunks_at + count * chunk_bytes);

	int fd = sealed_create("profd-segment", header.total_bytes);
	if (fd < 0)
		return fd;
	void *map = MAP_FAILED;
	int error = allocate(fd, 0, header.table_at);
	if (!error) {
		map = mmap(NULL, header.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			error = -errno;
	}
	if (error) {
		close(fd);
		return error;
	}
	struct segment made;
	view(&made, fd, map, &header);
	memcpy(made.header, &header, offsetof(struct segment_header, chunks_ready));
	atomic_store_explicit(&made.header->strings_used, SEGMENT_STRINGS_FIRST, memory_order_relaxed);
	/* One chunk for the step thread and one for the agent's thread, before the daemon has had time for more. */
	error = segment_provide(&made, 2, STRINGS_READY_FIRST);
	if (error) {
		segment_deinit(&made);
		return error;
	}
	*segment = made;
	return 0;
}

int segment_provide(struct segment *segment, uint32_t chunks, uint32_t strings_bytes)
{
	struct segment_header *header = segment->header;
	uint64_t table_at = (uint64_t)((unsigned char *)segment->table - (unsigned char *)segment->map);
	uint64_t strings_at = (uint64_t)(segment->strings - (unsigned char *)segment->map);
	uint64_t chunks_at = (uint64_t)(segment->chunks - (unsigned char *)segment->map);

	chunks = smaller(chunks, segment->chunk_count);
	strings_bytes = smaller(strings_bytes, segment->strings_bytes);
	/* The peer can write the bounds. A wrong bound harms only the peer: it is given memory that it already has, or
	 * does not get chunks. */
	uint32_t ready = atomic_load_explicit(&header->chunks_ready, memory_order_relaxed);
	if (chunks > ready) {
		uint32_t more = chunks - ready;
		int error = allocate(segment->fd, table_at + ready * sizeof(struct segment_chunk),
				     more * sizeof(struct segment_chunk));
		if (!error)
			error = allocate(segment->fd, chunks_at + (uint64_t)ready * segment->chunk_bytes,
					 (uint64_t)more * segment->chunk_bytes);
		if (error)
			return error;
		atomic_fetch_add_explicit(&header->chunks_free, (int32_t)more, memory_order_relaxed);
		atomic_store_explicit(&header->chunks_ready, chunks, memory_order_release);
	}
	ready = atomic_load_explicit(&header->strings_ready, memory_order_relaxed);
	if (strings_bytes > ready) {
		int error = allocate(segment->fd, strings_at + ready, strings_bytes - ready);
		if (error)
			return error;
		atomic_store_explicit(&header->strings_ready, strings_bytes, memory_order_release);
	}
	return 0;
}

/* The constant part of a header, already copied out of the peer's reach, against the size of its file. */
static int header_check(const struct segment_header *header, uint64_t file_bytes)
{
	if (header->magic != SEGMENT_MAGIC || header->version != SEGMENT_VERSION)
		return -EPROTO;
	if (header->total_bytes != file_bytes || header->header_bytes < sizeof *header)
		return -EPROTO;
	if (header->chunk_bytes < LIMIT_CHUNK_BYTES_MIN || header->chunk_bytes > LIMIT_CHUNK_BYTES ||
	    header->chunk_bytes % 8)
		return -EPROTO;
	if (header->chunk_count == 0 || header->chunk_count > LIMIT_CHUNKS)
		return -EPROTO;
	if (header->strings_bytes < SEGMENT_STRINGS_FIRST || header->strings_bytes > LIMIT_STRINGS_BYTES)
		return -EPROTO;
	if (header->table_at % _Alignof(struct segment_chunk) || header->strings_at % 8 || header->chunks_at % 8)
		return -EPROTO;
	/* In order and apart from each other. The products are below 2^32, the sums cannot overflow once the offset is
	 * known to lie in the file. */
	uint64_t total = header->total_bytes;
	if (header->table_at < header->header_bytes || header->table_at > total || header->strings_at > total ||
	    header->chunks_at > total)
		return -EPROTO;
	if (header->table_at + (uint64_t)header->chunk_count * sizeof(struct segment_chunk) > header->strings_at)
		return -EPROTO;
	if (header->strings_at + header->strings_bytes > header->chunks_at)
		return -EPROTO;
	if (header->chunks_at + (uint64_t)header->chunk_count * header->chunk_bytes > total)
		return -EPROTO;
	return 0;
}

/* Changes `header` so that the view has at most half of so many bytes: it has fewer chunks and names, and the chunks
 * follow the names at once. The file stays as it is; *ret_chunks_at is the chunks' offset in the file. */
static int cut(struct segment_header *header, uint64_t most, uint64_t *ret_chunks_at)
{
	*ret_chunks_at = header->chunks_at;
	most /= 2;
	if (header->total_bytes <= most)
		return 0;
	/* The chunks are mapped in place of other pages. Linux 6.18 counts both for a moment, so the other half is left
	 * for that. */
	uint32_t strings = smaller(header->strings_bytes, (uint32_t)smaller_size(most / 8, LIMIT_STRINGS_BYTES));
	strings = strings < STRINGS_LEAST ? smaller(header->strings_bytes, STRINGS_LEAST) : strings;
	uint64_t chunks_at = align(header->strings_at + strings);
	if (header->chunks_at % SEGMENT_ALIGN || chunks_at > header->chunks_at || chunks_at >= most)
		return -ENOMEM;
	uint64_t count = (most - chunks_at) / header->chunk_bytes;
	if (count < CHUNKS_LEAST && count < header->chunk_count)
		return -ENOMEM;
	header->strings_bytes = strings;
	header->chunk_count = smaller(header->chunk_count, (uint32_t)smaller_size(count, LIMIT_CHUNKS));
	header->chunks_at = chunks_at;
	header->total_bytes = chunks_at + (uint64_t)header->chunk_count * header->chunk_bytes;
	return 0;
}

/* Maps a segment for either side, and checks everything that the peer wrote. */
static int map_checked(struct segment *segment, int fd, uint64_t most)
{
	int error = sealed_check(fd);
	if (error)
		return error;
	struct statfs system;
	struct stat status;
	if (fstatfs(fd, &system) < 0 || system_fstat(fd, &status) < 0)
		return -errno;
	if (system.f_type != SEGMENT_FILE_SYSTEM)
		return -EPROTO;
	if (status.st_size < (off_t)sizeof(struct segment_header))
		return -EPROTO;
	uint64_t bytes = (uint64_t)status.st_size, chunks_at;
	/* segment_create never makes a larger one. This bounds the address space that a peer can make us reserve. */
	if (bytes > LIMIT_SEGMENT_BYTES_MAX + 2 * (uint64_t)LIMIT_STRINGS_BYTES)
		return -EPROTO;
	struct segment_header header;
	const ssize_t constant = offsetof(struct segment_header, chunks_ready);
	if (pread(fd, &header, (size_t)constant, 0) != constant)
		return -EPROTO;
	error = header_check(&header, bytes);
	if (!error)
		error = cut(&header, most, &chunks_at);
	if (error)
		return error;
	unsigned char *map = mapping_new(NULL, header.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!map)
		return errno == EPERM || errno == EACCES ? -EPROTO : -errno;
	if (chunks_at != header.chunks_at && !mapping_new(map + header.chunks_at, header.total_bytes - header.chunks_at,
							  PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)chunks_at)) {
		error = -errno;
		munmap(map, header.total_bytes);
		return error;
	}
	view(segment, fd, map, &header);
	return 0;
}

bool segment_has_room(const struct segment *segment)
{
	uint32_t room = atomic_load_explicit(&segment->header->chunks_room, memory_order_relaxed);
	if (room == 0 || room > ROOM_CHUNKS)
		room = ROOM_CHUNKS;
	uint32_t want = segment->chunk_count < room ? segment->chunk_count : room;
	return atomic_load_explicit(&segment->header->chunks_ready, memory_order_relaxed) >= want;
}

int segment_adopt(struct segment *segment, int fd)
{
	return map_checked(segment, fd, UINT64_MAX);
}

int segment_map(struct segment *segment, int fd, uint64_t most)
{
	int error = map_checked(segment, fd, most);
	/* A fork child of the job never uses the segment. */
	if (!error)
		madvise(segment->map, segment->map_bytes, MADV_DONTFORK);
	return error;
}

void segment_forget(struct segment *segment)
{
	madvise(segment->map, segment->map_bytes, MADV_REMOVE);
}

void segment_unmap(struct segment *segment)
{
	munmap(segment->map, segment->map_bytes);
	*segment = (struct segment){.fd = -1};
}

void segment_deinit(struct segment *segment)
{
	int fd = segment->fd;
	segment_unmap(segment);
	close(fd);
}

int segment_identity(int fd, uint64_t *ret_device, uint64_t *ret_inode)
{
	struct stat status;
	if (system_fstat(fd, &status) < 0)
		return -errno;
	*ret_device = status.st_dev;
	*ret_inode = status.st_ino;
	return 0;
}

uint32_t segment_copy_chunk(const struct segment *segment, uint32_t i, void *to, uint32_t *ret_sequence,
			    uint32_t *ret_thread)
{
	*ret_sequence = 0;
	*ret_thread = 0;
	if (i >= segment->chunk_count)
		return 0;
	struct segment_chunk *chunk = &segment->table[i];
	uint32_t used = atomic_load_explicit(&chunk->used, memory_order_acquire);
	used = smaller(used, segment->chunk_bytes) & ~7u;
	*ret_sequence = atomic_load_explicit(&chunk->sequence, memory_order_relaxed);
	*ret_thread = atomic_load_explicit(&chunk->thread, memory_order_relaxed);
	memcpy(to, segment->chunks + (size_t)i * segment->chunk_bytes, used);
	copied();
	return used;
}

void segment_free_chunk(struct segment *segment, uint32_t i)
{
	if (i >= segment->chunk_count)
		return;
	struct segment_chunk *chunk = &segment->table[i];
	/* The sequence is cleared, too: if an agent dies after it has taken the chunk and before it has numbered it,
	 * the chunk has no number, and not an old one. */
	atomic_store_explicit(&chunk->used, 0, memory_order_relaxed);
	atomic_store_explicit(&chunk->sequence, 0, memory_order_relaxed);
	atomic_store_explicit(&chunk->thread, 0, memory_order_relaxed);
	atomic_store_explicit(&chunk->state, CHUNK_FREE, memory_order_release);
	atomic_fetch_add_explicit(&segment->header->chunks_free, 1, memory_order_release);
}

/* Length and type of an entry as one word: when a thread claims an entry this word tells other threads where the next
 * one begins. */
_Static_assert(offsetof(struct segment_string, bytes) == 0 && offsetof(struct segment_string, type) == 4 &&
		       sizeof(struct segment_string) == 8,
	       "a word of the arena");
static _Atomic uint64_t *string_word(const struct segment *segment, uint32_t at)
{
	return (_Atomic uint64_t *)(void *)(segment->strings + at);
}

static uint64_t word_of(uint32_t bytes, uint32_t type)
{
	return bytes | (uint64_t)type << 32;
}

static uint32_t strings_end(const struct segment *segment)
{
	return smaller(atomic_load_explicit(&segment->header->strings_ready, memory_order_acquire),
		       segment->strings_bytes);
}

uint32_t segment_string_claim(const struct segment *segment, _Atomic uint32_t *tail, uint32_t bytes)
{
	uint32_t end = strings_end(segment), size = SEGMENT_STRING_SIZE(bytes);
	uint32_t at = atomic_load_explicit(tail, memory_order_relaxed);
	if (at < SEGMENT_STRINGS_FIRST)
		at = SEGMENT_STRINGS_FIRST;
	/* Each turn passes an entry that another thread has claimed meanwhile. */
	while (at < end && size <= end - at) {
		uint64_t there = 0;
		bool claimed = atomic_compare_exchange_strong_explicit(string_word(segment, at), &there,
								       word_of(bytes, STRING_UNFINISHED),
								       memory_order_acq_rel, memory_order_acquire);
		uint32_t length = claimed ? bytes : (uint32_t)there;
		if (length > LIMIT_STRING_BYTES)
			return 0; /* no code of ours wrote that */
		uint32_t next = at + SEGMENT_STRING_SIZE(length),
			 seen = atomic_load_explicit(tail, memory_order_relaxed);
		while (seen < next && !atomic_compare_exchange_weak_explicit(tail, &seen, next, memory_order_relaxed,
									     memory_order_relaxed))
			;
		if (claimed)
			return at / 8;
		at = next;
	}
	return 0;
}

void segment_string_finish(const struct segment *segment, uint32_t id, uint32_t bytes, uint32_t type)
{
	/* Sequentially consistent, like the loads of segment_strings_publish: if two threads finish neighbours, one of
	 * them sees both. An entry that was given up meanwhile stays as it is. */
	uint64_t unfinished = word_of(bytes, STRING_UNFINISHED);
	atomic_compare_exchange_strong(string_word(segment, id * 8), &unfinished, word_of(bytes, type));
}

void segment_strings_publish(const struct segment *segment, int last)
{
	uint32_t end = strings_end(segment);
	uint32_t at = atomic_load_explicit(&segment->header->strings_used, memory_order_acquire);
	/* At most as many turns as there can be entries: a peer that moves strings_used to and fro cannot keep the reader
	 * here. */
	for (uint32_t turns = 0; turns <= end / 8; turns++) {
		uint32_t from = at < SEGMENT_STRINGS_FIRST ? SEGMENT_STRINGS_FIRST : at;
		if (from % 8 || from >= end || end - from < sizeof(struct segment_string))
			return;
		uint64_t word = atomic_load(string_word(segment, from));
		uint32_t bytes = (uint32_t)word, type = (uint32_t)(word >> 32);
		if (type == 0 || bytes > LIMIT_STRING_BYTES || SEGMENT_STRING_SIZE(bytes) > end - from)
			return;
		if (type == STRING_UNFINISHED) {
			if (!last)
				return;
			atomic_compare_exchange_strong(string_word(segment, from), &word, word_of(bytes, STRING_VOID));
		}
		uint32_t next = from + SEGMENT_STRING_SIZE(bytes);
		if (atomic_compare_exchange_strong(&segment->header->strings_used, &at, next))
			at = next;
	}
}

int segment_next_string(const struct segment *segment, uint32_t *at, void *to, uint32_t *ret_id, uint32_t *ret_type,
			uint32_t *ret_bytes)
{
	uint32_t used = atomic_load_explicit(&segment->header->strings_used, memory_order_acquire);
	uint32_t ready = atomic_load_explicit(&segment->header->strings_ready, memory_order_relaxed);
	/* Reads only memory that was given: reading a hole would allocate it. */
	used = smaller(used, smaller(ready, segment->strings_bytes));
	uint32_t from = *at < SEGMENT_STRINGS_FIRST ? SEGMENT_STRINGS_FIRST : *at;
	if (from >= used)
		return 0;
	struct segment_string entry;
	if (from % 8 || used - from < sizeof entry)
		return -EPROTO;
	memcpy(&entry, segment->strings + from, sizeof entry);
	copied();
	if (entry.type == 0 || entry.bytes > LIMIT_STRING_BYTES)
		return -EPROTO;
	uint32_t size = SEGMENT_STRING_SIZE(entry.bytes);
	if (size > used - from)
		return -EPROTO;
	memcpy(to, segment->strings + from + sizeof entry, entry.bytes);
	copied();
	*at = from + size;
	*ret_id = from / 8;
	*ret_type = entry.type;
	*ret_bytes = entry.bytes;
	return 1;
}
