/* gzip.c - deflates blocks for one gzip member (RFC 1952). Each thread has a compressor; nothing is shared. */
#include "gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

/* Traces compress well: the fastest level makes them ten times smaller, the best one fifteen times at ten times the
 * cost. */
#define LEVEL 1

struct compressor {
	z_stream z;
	char *bytes;
	size_t size;
};

const char gzip_header[10] = {0x1f, (char)0x8b, 8 /* deflate */, 0, 0, 0, 0, 0, 4 /* fastest */, 3 /* Unix */};

struct compressor *compressor_new(void)
{
	struct compressor *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	if (deflateInit2(&c->z, LEVEL, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(c);
		return NULL;
	}
	return c;
}

struct compressor *compressor_free(struct compressor *c)
{
	if (c) {
		deflateEnd(&c->z);
		free(c->bytes);
		free(c);
	}
	return NULL;
}

int compressor_run(struct compressor *c, const char *bytes, size_t n, const char **ret_piece, size_t *ret_bytes,
		   uint32_t *ret_crc)
{
	if (n > UINT32_MAX / 2)
		return -ENOMEM;
	deflateReset(&c->z);
	size_t need = deflateBound(&c->z, (uLong)n) + 16; /* and the sync point */
	if (need > c->size) {
		char *grown = realloc(c->bytes, need);
		if (!grown)
			return -ENOMEM;
		c->bytes = grown;
		c->size = need;
	}
	c->z.next_in = (Bytef *)(uintptr_t)bytes;
	c->z.avail_in = (uInt)n;
	c->z.next_out = (Bytef *)c->bytes;
	c->z.avail_out = (uInt)c->size;
	if (deflate(&c->z, Z_SYNC_FLUSH) != Z_OK || c->z.avail_in || !c->z.avail_out)
		return -ENOMEM;
	*ret_piece = c->bytes;
	*ret_bytes = c->size - c->z.avail_out;
	*ret_crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const Bytef *)bytes, n);
	return 0;
}

void gzip_trailer(char trailer[GZIP_TRAILER_BYTES], uint32_t crc, uint64_t bytes)
{
	trailer[0] = 3; /* a last block, empty */
	trailer[1] = 0;
	for (unsigned i = 0; i < 4; i++) {
		trailer[2 + i] = (char)(crc >> 8 * i);
		trailer[6 + i] = (char)(bytes >> 8 * i);
	}
}

uint32_t gzip_crc_join(uint32_t first, uint32_t second, size_t bytes)
{
	return (uint32_t)crc32_combine(first, second, (z_off_t)bytes);
}
