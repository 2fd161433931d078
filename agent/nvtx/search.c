/* search.c - see search.h. The list of objects is read under the loader's lock, their data without it. */
#include "search.h"

#include "globals.h"
#include "objects.h"

#include "../core/gate.h"
#include "../core/keeper.h"
#include "../core/object.h"
#include "../core/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REGIONS 256u
#define BLOCK_WORDS 8192u
#define NEEDED_WORDS 4u /* of globals_likely() */
#define REGION_BYTES_MAX (1ull << 30)
/* A region of at most so many bytes is read as a whole. */
#define REGION_BYTES_SMALL 65536u
#define PAGES 2048u
/* How often, a millisecond apart, to look again at an object that is making its first call. */
#define BUSY_LOOKS 20

/* Writable data of an object, without the part that the loader write-protects after relocating. */
struct region {
	uint64_t print;
	uintptr_t at;
	size_t bytes;
	int unmoved; /* its object lies at the address that it was linked for: nothing had to be relocated */
};

/* Objects in which nothing was found: each print, with its lowest two bits replaced by how often the object was looked
 * at. Once is not enough, because the loader's list has objects that are not relocated yet. */
#define BARE 8192u
#define BARE_LOOKS 2u
static uint64_t bare[BARE];

static struct nvtx_searched last, now;
static unsigned long long loads, unloads; /* dlpi_adds and dlpi_subs at the last search */
static uint32_t came;			  /* how many the last search has taken in */
static uint64_t words[BLOCK_WORDS];

/* ---------------------------------------------------------------- objects without NVTX */

static uint64_t *bare_place(uint64_t print)
{
	uint32_t at = (uint32_t)(print >> 32) % BARE;
	for (unsigned i = 0; i < 64; i++, at = (at + 1) % BARE)
		if (!bare[at] || (bare[at] | 3) == (print | 3))
			return &bare[at];
	return NULL;
}

static int is_bare(uint64_t print)
{
	const uint64_t *place = bare_place(print);
	return place && *place && (*place & 3) >= BARE_LOOKS;
}

static void bare_seen(uint64_t print)
{
	uint64_t *place = bare_place(print);
	if (place)
		*place = (print & ~3ull) | (*place ? (*place & 3) + 1 : 1);
}

/* ---------------------------------------------------------------- what is mapped */

struct listing {
	uint32_t from, next; /* objects, counted from the loader's first: where it begins; where the next one
				 does, and 1; 0 = there is none */
	uint32_t object;
	uint32_t count;
	struct region regions[REGIONS];
};

static void list(struct listing *listing, uint64_t print, int unmoved, uintptr_t from, uintptr_t to)
{
	from = (from + sizeof(uint64_t) - 1) & ~(uintptr_t)(sizeof(uint64_t) - 1);
	if (to <= from || to - from < sizeof(struct nvtx_abi_globals))
		return;
	listing->regions[listing->count++] = (struct region){print, from, to - from, unmoved};
}

static int list_object(struct dl_phdr_info *info, size_t size, void *pointer)
{
	struct listing *listing = pointer;
	uintptr_t fixed_from = 0, fixed_to = 0;
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
		loads = info->dlpi_adds;
		unloads = info->dlpi_subs;
	}
	if (slash && strncmp(slash + 1, "libnvToolsExt.so", 16) == 0)
		now.old_library = 1;
	uint64_t print = object_print(info);
	uint32_t object = listing->object++;
	if (object < listing->from || listing->next || is_bare(print))
		return 0;
	if (listing->count + 2u * info->dlpi_phnum > REGIONS && listing->count) {
		listing->next = object + 1;
		return 0;
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type == PT_GNU_RELRO) {
			fixed_from = info->dlpi_addr + p->p_vaddr;
			fixed_to = fixed_from + p->p_memsz;
		}
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		/* NVTX's variable has initial values, so it lies in the part that comes from the file. */
		uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_filesz;
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W) || p->p_filesz > REGION_BYTES_MAX ||
		    listing->count + 2 > REGIONS)
			continue;
		if (fixed_from < to && from < fixed_to) {
			list(listing, print, !info->dlpi_addr, from, fixed_from);
			list(listing, print, !info->dlpi_addr, fixed_to, to);
		} else {
			list(listing, print, !info->dlpi_addr, from, to);
		}
	}
	return 0;
}

/* ---------------------------------------------------------------- a candidate */

struct candidate {
	const struct region *region;
	uintptr_t at;
	int left;
	enum globals_taking taking;
	uintptr_t function;
};

static int take(struct dl_phdr_info *info, size_t size, void *pointer)
{
	struct candidate *c = pointer;
	(void)size;
	if (!object_has(info, (const void *)c->at, sizeof(struct nvtx_abi_globals), PF_W) ||
	    object_print(info) != c->region->print)
		return 0;
	c->taking = globals_take(info, c->at, c->left, &c->function);
	return 1;
}

static void copy_name(char *to, size_t bytes, const char *from)
{
	const char *slash = strrchr(from, '/');
	if (slash && slash[1])
		from = slash + 1;
	size_t n = strnlen(from, bytes - 1);
	memcpy(to, from, n);
	to[n] = 0;
}

/* Finds the tool that the environment names for an object's first call, if that is not this agent. The job's threads
 * may change the environment at the same time. */
static int names_another(char *name, size_t bytes)
{
	static const char wanted[] = "NVTX_INJECTION64_PATH=", ours[] = "libprofd_agent.so";
	enum { VARIABLES = 65536, AT_ONCE = 64 };
	char text[sizeof wanted + 512];
	uintptr_t at = (uintptr_t)__atomic_load_n(&environ, __ATOMIC_RELAXED), pointers[AT_ONCE];
	for (unsigned i = 0; at && i < VARIABLES; i += AT_ONCE) {
		/* The memory after the end may not be mapped. */
		long n = peek_bytes(at + i * sizeof at, pointers, sizeof pointers);
		for (long k = 0; k < n / (long)sizeof at; k++) {
			if (!pointers[k])
				return 0;
			long have = peek_bytes(pointers[k], text, sizeof text - 1);
			if (have < (long)sizeof wanted - 1 || memcmp(text, wanted, sizeof wanted - 1) != 0)
				continue;
			text[have] = 0;
			copy_name(name, bytes, text + sizeof wanted - 1);
			return *name && strcmp(name, ours) != 0;
		}
		if (n != (long)sizeof pointers)
			return 0;
	}
	return 0;
}

/* Takes in the candidate at `at`. 1 where it is NVTX's variable. */
static int offer(const struct region *region, uintptr_t at, int left)
{
	struct candidate c = {region, at, left, GLOBALS_NONE, 0};
	for (int looks = 0; looks < BUSY_LOOKS; looks++) {
		gate_iterate(take, &c, GATE_OWN_NS);
		if (c.taking != GLOBALS_BUSY)
			break;
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
	came += c.taking == GLOBALS_NEW;
	now.left += c.taking == GLOBALS_LEFT;
	now.fixed += c.taking == GLOBALS_FIXED || c.taking == GLOBALS_BUSY;
	if (c.taking == GLOBALS_OTHERS) {
		now.others++;
		object_name_at((const void *)c.function, now.holder, sizeof now.holder);
	}
	return c.taking != GLOBALS_NONE;
}

/* 1 where NVTX's variable is found between `at` and `end`. */
static int look_between(const struct region *region, uintptr_t at, uintptr_t end, int left)
{
	int any = 0;
	while (at < end && end - at >= NEEDED_WORDS * sizeof *words) {
		size_t wanted = end - at < sizeof words ? (end - at) & ~7ul : sizeof words;
		long n = peek_bytes(at, words, wanted);
		if (n < (long)(NEEDED_WORDS * sizeof *words)) {
			/* The page is not mapped. */
			now.unread += n < 0 && n != -EFAULT;
			at = (at | 4095) + 1;
			continue;
		}
		size_t have = (size_t)n / sizeof *words;
		for (size_t i = 0; i + NEEDED_WORDS <= have; i++)
			if (globals_likely(words + i) && offer(region, at + i * sizeof *words, left))
				any = 1;
		at += (have - NEEDED_WORDS + 1) * sizeof *words;
	}
	return any;
}

/* ---------------------------------------------------------------- pages */

/* Entries of /proc/self/pagemap. */
#define PAGE_THERE (1ull << 63 | 1ull << 62) /* in memory, or swapped */
#define PAGE_OF_FILE (1ull << 61)

struct pages {
	uintptr_t first; /* number of the page */
	size_t count;
	uint64_t *to;
};

static long read_pages(void *pointer)
{
	struct pages *p = pointer;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	long n = pread(fd, p->to, p->count * sizeof *p->to, (off_t)(p->first * sizeof *p->to));
	syscall(SYS_close, fd);
	return n < 0 ? n : n / (long)sizeof *p->to;
}

/* 1 where the region has NVTX's variable. Pages that are unchanged since they came from the file are not read, because
 * that would bring them into memory. NVTX's variable has relocated addresses everywhere except in its first two words,
 * so its pages are changed. */
static int look(const struct region *region, int left)
{
	static uint64_t there[PAGES];
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = region->at + region->bytes;
	const uintptr_t clean = offsetof(struct nvtx_abi_globals, callbacks.get_module_function_table);
	if (region->bytes <= REGION_BYTES_SMALL || region->unmoved)
		return look_between(region, region->at, end, left);
	int any = 0;
	for (uintptr_t first = region->at / page, n; first * page < end; first += n) {
		uintptr_t left_over = (end - 1) / page - first + 1, wanted = left_over < PAGES ? left_over : PAGES;
		long have = keeper_run(read_pages, &(struct pages){first, wanted, there});
		if (have <= 0) {
			/* /proc/self/pagemap cannot be read: reads the whole region. */
			uintptr_t from = first * page < region->at ? region->at : first * page;
			return any | look_between(region, from, end, left);
		}
		n = (uintptr_t)have;
		for (uintptr_t i = 0, run; i < n; i = run) {
			for (run = i; run < n && there[run] & PAGE_THERE && !(there[run] & PAGE_OF_FILE); run++)
				;
			uintptr_t from = (first + i) * page - clean, to = (first + run) * page;
			if (run > i)
				any |= look_between(region, from < region->at ? region->at : from, to < end ? to : end,
						    left);
			else
				run++;
		}
	}
	return any;
}

/* ---------------------------------------------------------------- the search */

static void look_at(const struct listing *listing, int left)
{
	for (uint32_t i = 0, next; i < listing->count; i = next) {
		const struct region *first = &listing->regions[i];
		int any = 0;
		for (next = i; next < listing->count && listing->regions[next].print == first->print; next++)
			any |= look(&listing->regions[next], left);
		if (!any)
			bare_seen(first->print);
	}
}

void nvtx_search(void)
{
	static struct listing listing;
	memset(&now, 0, sizeof now);
	came = 0;
	/* Forgets objects that are gone, and takes slots that have become free. */
	nvtx_objects_set(nvtx_objects_hooked());
	int left = names_another(now.variable, sizeof now.variable);
	for (listing.next = 1; listing.next;) {
		listing.from = listing.next - 1;
		listing.next = listing.object = listing.count = 0;
		gate_iterate(list_object, &listing, GATE_OWN_NS);
		look_at(&listing, left);
	}
	last = now;
}

const struct nvtx_searched *nvtx_searched(void)
{
	return &last;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *pointer)
{
	unsigned long long *seen = pointer;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
		seen[0] = info->dlpi_adds;
		seen[1] = info->dlpi_subs;
	}
	return 1;
}

int nvtx_search_again(void)
{
	unsigned long long seen[2] = {loads, unloads}, before = loads, gone = unloads;
	gate_iterate(count_loads, seen, GATE_OWN_NS);
	if (seen[0] == before)
		return 0;
	nvtx_search();
	return came || (loads != before && unloads != gone);
}
