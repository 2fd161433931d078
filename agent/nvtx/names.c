/* names.c - NVTX's domains, registered strings and category names.
 *
 * Any thread, at any time, also in a child after a fork. No locks: entries are written once and then published by a
 * compare-and-swap; nothing is ever freed or moved. Domains, strings and names of categories are all texts in one
 * table; their scope says which they are. A handle is the address of a text. */
#include "names.h"
#include "../core/room.h"
#include "../../proto/limits.h"
#include "../../proto/mapping.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define TEXTS (1u << 15)
#define INDEX_SLOTS (TEXTS * 2) /* at most half full */
#define TEXT_BYTES (8u << 20)
#define CATEGORIES 4096u
#define CATEGORY_PROBES 64u
#define WIDE_BUFFERS 8u
/* One byte more than the longest text that the sink keeps, so that the sink sees, and counts, that the text is cut. */
#define KEPT_BYTES (LIMIT_STRING_BYTES + 1u)
#define WIDE_BYTES (KEPT_BYTES + 3u)

/* Scopes: what a text is, and in which domain. */
#define SCOPE_DOMAINS UINT32_MAX
#define SCOPE_DEFAULT 0u /* strings of domain i have scope i + 1 */

struct nvtx_text {
	uint64_t hash;
	_Atomic uint64_t interned; /* generation << 32 | string id of that recording */
	uint32_t scope;
	uint32_t bytes;
	const char *text;
};

struct category {
	_Atomic uint64_t key; /* scope + 1 << 32 | number; 0 = free */
	_Atomic(struct nvtx_text *) name;
};

struct names {
	_Atomic uint32_t index[INDEX_SLOTS]; /* number of a text + 1, by hash */
	struct nvtx_text texts[TEXTS];
	struct category categories[CATEGORIES];
	char wide[WIDE_BUFFERS][WIDE_BYTES];
	char bytes[TEXT_BYTES];
	_Atomic uint32_t text_count;
	_Atomic uint32_t bytes_used;
	_Atomic uint32_t wide_busy; /* a bit per buffer */
	struct nvtx_text many_domains;
	struct nvtx_text many_strings;
};

static _Atomic(struct names *) the_names;

int nvtx_names_init(void)
{
	if (atomic_load_explicit(&the_names, memory_order_acquire))
		return 0;
	/* This may be a thread of the job, whose filter may forbid the system calls of room_try(). */
	struct names *fresh = mapping_new(NULL, sizeof *fresh, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!fresh)
		return -errno;
	room_count(sizeof *fresh, sizeof *fresh);
	static const char many[] = "(more domains than are kept apart)";
	fresh->many_domains.scope = SCOPE_DOMAINS;
	fresh->many_domains.text = many;
	fresh->many_domains.bytes = sizeof many - 1;
	fresh->many_strings.text = "";
	struct names *none = NULL;
	if (!atomic_compare_exchange_strong_explicit(&the_names, &none, fresh, memory_order_acq_rel,
						     memory_order_acquire)) {
		munmap(fresh, sizeof *fresh);
		room_count(-(int64_t)sizeof *fresh, -(int64_t)sizeof *fresh);
	}
	return 0;
}

int nvtx_names_arm(void)
{
	if (!atomic_load_explicit(&the_names, memory_order_acquire) && sizeof(struct names) > room_table() / 2)
		return -ENOMEM;
	return nvtx_names_init();
}

static uint64_t hash_text(uint32_t scope, const char *text, size_t bytes)
{
	uint64_t h = 1469598103934665603ull ^ scope;
	for (size_t i = 0; i < bytes; i++) /* FNV-1a */
		h = (h ^ (unsigned char)text[i]) * 1099511628211ull;
	h ^= h >> 29;
	return h;
}

static int is_same(const struct nvtx_text *a, uint64_t hash, uint32_t scope, const char *text, size_t bytes)
{
	return a->hash == hash && a->scope == scope && a->bytes == bytes && memcmp(a->text, text, bytes) == 0;
}

/* Takes an entry that is not published yet; NULL where there is no room. */
static struct nvtx_text *text_take(struct names *n, uint64_t hash, uint32_t scope, const char *text, uint32_t bytes)
{
	uint32_t number = atomic_load_explicit(&n->text_count, memory_order_relaxed);
	do
		if (number >= TEXTS)
			return NULL;
	while (!atomic_compare_exchange_weak_explicit(&n->text_count, &number, number + 1, memory_order_relaxed,
						      memory_order_relaxed));
	uint32_t at = atomic_load_explicit(&n->bytes_used, memory_order_relaxed);
	do
		if (bytes > TEXT_BYTES - at)
			return NULL;
	while (!atomic_compare_exchange_weak_explicit(&n->bytes_used, &at, at + bytes, memory_order_relaxed,
						      memory_order_relaxed));
	struct nvtx_text *fresh = &n->texts[number];
	memcpy(n->bytes + at, text, bytes);
	fresh->hash = hash;
	fresh->scope = scope;
	fresh->bytes = bytes;
	fresh->text = n->bytes + at;
	return fresh;
}

/* The entry of this text in this scope, made if need be; NULL where there is no room. */
static struct nvtx_text *text_of(struct names *n, uint32_t scope, const char *text, size_t given)
{
	uint32_t bytes = (uint32_t)(given > KEPT_BYTES ? KEPT_BYTES : given);
	uint64_t hash = hash_text(scope, text, bytes);
	struct nvtx_text *fresh = NULL;
	uint32_t at = (uint32_t)hash & (INDEX_SLOTS - 1);
	for (uint32_t i = 0; i < INDEX_SLOTS; i++, at = (at + 1) & (INDEX_SLOTS - 1)) {
		uint32_t number = atomic_load_explicit(&n->index[at], memory_order_acquire);
		if (!number) {
			if (!fresh)
				fresh = text_take(n, hash, scope, text, bytes);
			if (!fresh)
				return NULL;
			if (atomic_compare_exchange_strong_explicit(&n->index[at], &number,
								    (uint32_t)(fresh - n->texts) + 1,
								    memory_order_release, memory_order_acquire))
				return fresh;
		}
		/* An entry that lost the race for its slot to an equal one stays unused. */
		if (is_same(&n->texts[number - 1], hash, scope, text, bytes))
			return &n->texts[number - 1];
	}
	return NULL;
}

static struct names *loaded(void)
{
	return atomic_load_explicit(&the_names, memory_order_acquire);
}

static uint32_t scope_of(const struct names *n, const struct nvtx_text *domain)
{
	if (!domain)
		return SCOPE_DEFAULT;
	/* All domains for which there is no room share the last scope. */
	return domain == &n->many_domains ? TEXTS + 1 : (uint32_t)(domain - n->texts) + 1;
}

struct nvtx_text *nvtx_domain(const char *name, size_t bytes)
{
	struct names *n = loaded();
	if (!n || !name)
		return NULL;
	struct nvtx_text *domain = text_of(n, SCOPE_DOMAINS, name, bytes);
	return domain ? domain : &n->many_domains;
}

struct nvtx_text *nvtx_string(struct nvtx_text *domain, const char *text, size_t bytes)
{
	struct names *n = loaded();
	if (!n || !text)
		return NULL;
	struct nvtx_text *string = text_of(n, scope_of(n, domain), text, bytes);
	return string ? string : &n->many_strings;
}

static struct nvtx_text *as_text(const struct names *n, const void *handle)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)n->texts;
	if ((uintptr_t)handle < (uintptr_t)n->texts || offset >= sizeof n->texts || offset % sizeof n->texts[0])
		return NULL;
	struct nvtx_text *text = (struct nvtx_text *)(uintptr_t)handle;
	return text->text ? text : NULL;
}

struct nvtx_text *nvtx_as_domain(const void *handle)
{
	struct names *n = handle ? loaded() : NULL;
	if (!n)
		return NULL;
	if (handle == &n->many_domains)
		return &n->many_domains;
	struct nvtx_text *text = as_text(n, handle);
	return text && text->scope == SCOPE_DOMAINS ? text : NULL;
}

struct nvtx_text *nvtx_as_string(const void *handle)
{
	struct names *n = handle ? loaded() : NULL;
	if (!n)
		return NULL;
	if (handle == &n->many_strings)
		return &n->many_strings;
	struct nvtx_text *text = as_text(n, handle);
	return text && text->scope != SCOPE_DOMAINS ? text : NULL;
}

size_t nvtx_length(const char *text)
{
	return text ? strnlen(text, KEPT_BYTES) : 0;
}

const char *nvtx_text_bytes(const struct nvtx_text *text, size_t *ret_bytes)
{
	*ret_bytes = text->bytes;
	return text->text;
}

uint32_t nvtx_text_id(struct sink_thread *thread, struct nvtx_text *text, uint8_t kind)
{
	if (!text)
		return 0;
	uint32_t generation = sink_recording();
	uint64_t interned = atomic_load_explicit(&text->interned, memory_order_relaxed);
	if (generation && (uint32_t)(interned >> 32) == generation)
		return (uint32_t)interned;
	struct names *n = loaded();
	if (n && text == &n->many_strings) {
		sink_lost(LOSS_NAMELESS, kind);
		return 0;
	}
	uint32_t id = sink_string(thread, text->text, text->bytes, kind);
	/* The id of a cut text is not kept, so that each cut is counted. */
	if (id && generation && text->bytes <= LIMIT_STRING_BYTES)
		atomic_store_explicit(&text->interned, (uint64_t)generation << 32 | id, memory_order_relaxed);
	return id;
}

/* ---------------------------------------------------------------- categories */

static struct category *category_find(struct names *n, uint64_t key, int make)
{
	uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 40) % CATEGORIES;
	for (uint32_t i = 0; i < CATEGORY_PROBES; i++, at = (at + 1) % CATEGORIES) {
		struct category *c = &n->categories[at];
		uint64_t held = atomic_load_explicit(&c->key, memory_order_acquire);
		if (!held && !make)
			return NULL;
		if (!held && atomic_compare_exchange_strong_explicit(&c->key, &held, key, memory_order_acq_rel,
								     memory_order_acquire))
			return c;
		if (held == key)
			return c;
	}
	return NULL;
}

static uint64_t category_key(const struct names *n, const struct nvtx_text *domain, uint32_t category)
{
	return ((uint64_t)scope_of(n, domain) + 1) << 32 | category;
}

void nvtx_category_name(struct nvtx_text *domain, uint32_t category, const char *name, size_t bytes)
{
	struct names *n = loaded();
	if (!n || !name)
		return;
	struct nvtx_text *text = text_of(n, scope_of(n, domain), name, bytes);
	struct category *c = text ? category_find(n, category_key(n, domain, category), 1) : NULL;
	/* Without room the category's events show its number. */
	if (c)
		atomic_store_explicit(&c->name, text, memory_order_release);
}

uint32_t nvtx_category_id(struct sink_thread *thread, const struct nvtx_text *domain, uint32_t category, uint8_t kind)
{
	if (!category)
		return 0;
	struct names *n = loaded();
	struct category *c = n ? category_find(n, category_key(n, domain, category), 0) : NULL;
	struct nvtx_text *name = c ? atomic_load_explicit(&c->name, memory_order_acquire) : NULL;
	if (name)
		return nvtx_text_id(thread, name, kind);
	char digits[10];
	size_t at = sizeof digits;
	do
		digits[--at] = (char)('0' + category % 10);
	while (category /= 10);
	return sink_string(thread, digits + at, sizeof digits - at, kind);
}

/* ---------------------------------------------------------------- wide strings */

/* Returns the bytes written; *ret_whole tells whether `from` ended within `room`. */
static size_t utf8_of(char *to, size_t room, const wchar_t *from, int *ret_whole)
{
	size_t used = 0;
	*ret_whole = 1;
	for (; *from; from++) {
		uint32_t c = (uint32_t)*from;
		if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			c = 0xfffd;
		size_t need = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		if (need > room - used) {
			*ret_whole = 0;
			break;
		}
		if (need == 1) {
			to[used++] = (char)c;
			continue;
		}
		static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
		to[used] = (char)(lead[need] | c >> (6 * (need - 1)));
		for (size_t i = 1; i < need; i++)
			to[used + i] = (char)(0x80 | (c >> (6 * (need - 1 - i)) & 0x3f));
		used += need;
	}
	return used;
}

void nvtx_wide_init(struct nvtx_wide *wide, const wchar_t *text)
{
	int whole = 1;
	wide->buffer = -1;
	wide->truncated = 0;
	wide->text = NULL;
	wide->bytes = 0;
	if (!text)
		return;
	wide->text = wide->small;
	wide->bytes = utf8_of(wide->small, sizeof wide->small, text, &whole);
	if (whole)
		return;
	struct names *n = loaded();
	for (uint32_t i = 0; n && i < WIDE_BUFFERS; i++) {
		if (atomic_fetch_or_explicit(&n->wide_busy, 1u << i, memory_order_acquire) & 1u << i)
			continue;
		wide->buffer = (int)i;
		wide->text = n->wide[i];
		wide->bytes = utf8_of(n->wide[i], WIDE_BYTES, text, &whole);
		return;
	}
	wide->truncated = 1;
}

void nvtx_wide_deinit(struct nvtx_wide *wide)
{
	struct names *n = loaded();
	if (n && wide->buffer >= 0)
		atomic_fetch_and_explicit(&n->wide_busy, ~(1u << wide->buffer), memory_order_release);
	wide->buffer = -1;
}
