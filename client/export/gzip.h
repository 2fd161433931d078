/* gzip.h - pieces of one gzip member, deflated in several threads. A compressor belongs to one thread. */
#ifndef PROFD_CLIENT_EXPORT_GZIP_H
#define PROFD_CLIENT_EXPORT_GZIP_H

#include <stddef.h>
#include <stdint.h>

struct compressor;

/* NULL where memory has run out. */
struct compressor *compressor_new(void);
struct compressor *compressor_free(struct compressor *c);

/* Deflates n bytes into a piece that ends on a byte and depends on no other. The piece belongs to the compressor until
 * its next use. 0 or -ENOMEM. */
int compressor_run(struct compressor *c, const char *bytes, size_t n, const char **ret_piece, size_t *ret_bytes,
		   uint32_t *ret_crc);

/* What stands before and behind the pieces. The trailer also ends the deflate stream. */
extern const char gzip_header[10];
#define GZIP_TRAILER_BYTES 10
void gzip_trailer(char trailer[GZIP_TRAILER_BYTES], uint32_t crc, uint64_t bytes);
/* CRC of two texts one after the other; `bytes` is the second's length. */
uint32_t gzip_crc_join(uint32_t first, uint32_t second, size_t bytes);

#endif
