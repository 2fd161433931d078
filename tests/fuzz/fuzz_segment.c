/* fuzz_segment.c - a segment whose every byte a hostile agent has written. The input is a list of patches to a fresh
 * segment: part (header, table, arena, first chunk), offset (2 bytes), length, bytes. The daemon then adopts it, walks its
 * strings, copies its chunks, reads the records and gives the chunks back. */
#include "proto/limits.h"
#include "proto/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void patch(struct segment *segment, const uint8_t *data, size_t n)
{
	while (n >= 4) {
		unsigned offset = (unsigned)data[1] | (unsigned)data[2] << 8;
		size_t length = data[3];
		unsigned char *parts[4] = {segment->map, (unsigned char *)segment->table, segment->strings,
					   segment->chunks};
		unsigned part = data[0] % 4;
		data += 4;
		n -= 4;
		if (length > n)
			length = n;
		const unsigned sizes[4] = {4096, 4 * (unsigned)sizeof(struct segment_chunk), 4096,
					   LIMIT_CHUNK_BYTES_MIN};
		offset %= sizes[part];
		memcpy(parts[part] + offset, data, length);
		data += length;
		n -= length;
	}
}

static void read_chunk(struct segment *segment, uint32_t i)
{
	uint32_t sequence, thread;
	unsigned char *to = malloc(segment->chunk_bytes);
	if (!to)
		return;
	uint32_t used = segment_copy_chunk(segment, i, to, &sequence, &thread);
	if (used > segment->chunk_bytes || used % 8)
		abort();
	union event_any event;
	size_t at = 0;
	enum event_verdict verdict;
	do
		verdict = event_read(to, used, &at, &event);
	while (verdict == EVENT_OK || verdict == EVENT_UNKNOWN);
	free(to);
	segment_free_chunk(segment, i);
	if (i < segment->chunk_count && atomic_load(&segment->table[i].used) != 0)
		abort();
}

static uint32_t walk_strings(const struct segment *segment, uint32_t at)
{
	static unsigned char text[LIMIT_STRING_BYTES];
	uint32_t id, type, bytes;
	int more;
	for (;;) {
		uint32_t before = at;
		more = segment_next_string(segment, &at, text, &id, &type, &bytes);
		if (more != 1)
			break;
		if (at <= before || at > segment->strings_bytes || bytes > LIMIT_STRING_BYTES || id == 0)
			abort();
	}
	if (more != 0 && more != -EPROTO)
		abort();
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct segment made, segment;
	if (segment_create(&made, 1, 4 * LIMIT_CHUNK_BYTES_MIN, LIMIT_CHUNK_BYTES_MIN) != 0)
		return 0;
	patch(&made, data, n);
	int fd = fcntl(made.fd, F_DUPFD_CLOEXEC, 0);
	int error = segment_adopt(&segment, fd);
	if (error) {
		if (error != -EPROTO)
			abort();
		close(fd);
		segment_deinit(&made);
		return 0;
	}
	/* As it was left, and with what its agent did not publish. */
	uint32_t at = walk_strings(&segment, 0);
	segment_strings_publish(&segment, 1);
	walk_strings(&segment, at);
	for (uint32_t i = 0; i < 4; i++)
		read_chunk(&segment, i);
	read_chunk(&segment, segment.chunk_count - 1);
	read_chunk(&segment, segment.chunk_count);
	segment_provide(&segment, 4, 65536);
	segment_deinit(&segment);
	segment_deinit(&made);
	return 0;
}
