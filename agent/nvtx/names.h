/* names.h - NVTX's domains, registered strings and category names: the collector makes handles that stay valid for the
 * life of the process (and of its forks). Every function may be called from any thread at any time, recording or not;
 * none blocks. Everything lies in one private mapping that is never unmapped. */
#ifndef PROFD_AGENT_NVTX_NAMES_H
#define PROFD_AGENT_NVTX_NAMES_H

#include "agent/sink/sink.h"

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* A domain or a registered string: the handle is its address. NULL is the default domain. */
struct nvtx_text;

/* Maps the memory, once. 0, or a negative errno, after which every other function here answers NULL or 0. */
int nvtx_names_init(void);
/* The same, but only if the share of a capture has room for it. The agent's thread. */
int nvtx_names_arm(void);

/* The domain called `name`; equal names are the same domain. NULL for NULL. Where there are too many, all further ones
 * get one domain, whose name says so. */
struct nvtx_text *nvtx_domain(const char *name, size_t bytes);
/* The registered string `text` of a domain; equal strings of one domain share a handle. Where there are too many, the
 * further ones get a handle whose events are counted as nameless. */
struct nvtx_text *nvtx_string(struct nvtx_text *domain, const char *text, size_t bytes);
void nvtx_category_name(struct nvtx_text *domain, uint32_t category, const char *name, size_t bytes);

/* What a job passed as a domain or a registered string, if it is one of ours; else NULL. */
struct nvtx_text *nvtx_as_domain(const void *handle);
struct nvtx_text *nvtx_as_string(const void *handle);

/* Length of a string of the job; at most one byte more than the longest text that is kept. */
size_t nvtx_length(const char *text);

/* The text's bytes, not ended by a NUL. */
const char *nvtx_text_bytes(const struct nvtx_text *text, size_t *ret_bytes);

/* The text's string id in the recording in which `thread` is; 0 for NULL, and where the arena is full (counted). */
uint32_t nvtx_text_id(struct sink_thread *thread, struct nvtx_text *text, uint8_t kind);
/* The same for a category: its name, or its number as text where it has no name. 0 for category 0, which means none. */
uint32_t nvtx_category_id(struct sink_thread *thread, const struct nvtx_text *domain, uint32_t category, uint8_t kind);

/* A wide string of the job as UTF-8. Short ones lie in the struct, longer ones in one of a few shared buffers, because
 * a hook may run on a small stack. */
struct nvtx_wide {
	const char *text;
	size_t bytes;
	int buffer;    /* number of the shared buffer, -1 = none */
	int truncated; /* cut because no shared buffer was free */
	char small[512];
};
void nvtx_wide_init(struct nvtx_wide *wide, const wchar_t *text);
void nvtx_wide_deinit(struct nvtx_wide *wide);

#endif
