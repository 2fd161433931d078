/* layout.c - sizes of CUPTI's records: first from the table by version, then from the library itself. See layout.h. Any
 * thread; no locks, no state. */
#include "layout.h"

#include <errno.h>

enum {
	PROBE_BYTES = 4096,
	LARGEST = PROBE_BYTES / 2, /* bytes of a record; far more than any record has */
};

/* The version of each release, in the order of the table. */
static const uint32_t versions[] = {
#define CUPTI_RELEASE(release, version) (version),
#include "records.def"
};
enum { RELEASES = sizeof versions / sizeof versions[0] };

static const uint16_t sizes[CUPTI_KIND_COUNT][RELEASES] = {
#define CUPTI_SIZES(NAME, ...) [CUPTI_KIND_##NAME] = {__VA_ARGS__},
#include "records.def"
};

static const char *const names[CUPTI_KIND_COUNT] = {
#define CUPTI_KIND(number, NAME, record) [CUPTI_KIND_##NAME] = #NAME,
#include "records.def"
};

const char *cupti_kind_name(uint32_t kind)
{
	return kind < CUPTI_KIND_COUNT ? names[kind] : NULL;
}

/* The smallest size of the kind's records in all known releases. */
static size_t smallest(uint32_t kind)
{
	size_t least = LARGEST;
	for (unsigned i = 0; i < RELEASES; i++) {
		if (sizes[kind][i] && sizes[kind][i] < least)
			least = sizes[kind][i];
	}
	return least;
}

int cupti_layout_choose(struct cupti_layout *layout, uint32_t version)
{
	if (version < versions[0])
		return -ENOTSUP;
	unsigned release = 0;
	/* `>` keeps the first of several releases with one number. */
	for (unsigned i = 1; i < RELEASES; i++) {
		if (versions[i] <= version && versions[i] > versions[release])
			release = i;
	}
	*layout = (struct cupti_layout){.version = version};
	for (uint32_t kind = 0; kind < CUPTI_KIND_COUNT; kind++) {
		uint16_t size = sizes[kind][release];
		/* Of releases with one number the smallest size counts. Sizes only grow, except for kinds that nobody
		 * reads. */
		for (unsigned i = release; i < RELEASES && versions[i] == versions[release]; i++) {
			if (sizes[kind][i] < size)
				size = sizes[kind][i];
		}
		layout->size[kind] = size;
		layout->state[kind] = size ? CUPTI_LAYOUT_ASSUMED : CUPTI_LAYOUT_ABSENT;
	}
	return 0;
}

/* How many bytes the library steps over for one record of the kind; 0 where it does not step. */
static size_t step_over(uint32_t kind, cupti_next_record next)
{
	/* The buffer is full of the kind's number, so a record of the kind follows whatever the size is. */
	uint64_t buffer[PROBE_BYTES / sizeof(uint64_t)];
	for (size_t i = 0; i < PROBE_BYTES / sizeof(uint64_t); i++)
		buffer[i] = kind;
	void *record = NULL;
	if (next((uint8_t *)buffer, sizeof buffer, &record) || record != buffer)
		return 0;
	if (next((uint8_t *)buffer, sizeof buffer, &record))
		return 0;
	uintptr_t from = (uintptr_t)buffer, to = (uintptr_t)record;
	return to > from && to - from < sizeof buffer ? to - from : 0;
}

static size_t ask(uint32_t kind, cupti_next_record next, cupti_struct_size struct_size)
{
	size_t official = 0, walked = next ? step_over(kind, next) : 0;
	if (!struct_size || struct_size(kind, 0, &official) || !official)
		return walked;
	/* Where the two answers differ the smaller one is safe. */
	return walked && walked < official ? walked : official;
}

int cupti_layout_prove(struct cupti_layout *layout, cupti_next_record next, cupti_struct_size struct_size)
{
	struct cupti_layout proved = *layout;
	int answers = 0;
	for (uint32_t kind = 0; kind < CUPTI_KIND_COUNT; kind++) {
		if (!names[kind])
			continue;
		size_t size = ask(kind, next, struct_size);
		proved.size[kind] = 0;
		if (!size) {
			if (layout->state[kind] != CUPTI_LAYOUT_ABSENT)
				proved.state[kind] = CUPTI_LAYOUT_SILENT;
			continue;
		}
		answers++;
		if (size < smallest(kind) || size > LARGEST || size % sizeof(uint64_t)) {
			proved.state[kind] = CUPTI_LAYOUT_REFUSED;
			proved.told[kind] = size > UINT16_MAX ? UINT16_MAX : (uint16_t)size;
			continue;
		}
		proved.state[kind] = CUPTI_LAYOUT_PROVED;
		proved.size[kind] = (uint16_t)size;
	}
	if (!answers)
		return -ENODEV;
	*layout = proved;
	return 0;
}

const char *cupti_layout_sentence(const struct cupti_layout *layout, uint32_t kind)
{
	static const char *const sentences[] = {
		[CUPTI_LAYOUT_ABSENT] = "does not exist in this CUPTI",
		[CUPTI_LAYOUT_ASSUMED] = "has the layout that goes with CUPTI's version; the library was not asked",
		[CUPTI_LAYOUT_PROVED] = "has the layout that the library itself confirms",
		[CUPTI_LAYOUT_SILENT] = "is not read: the library does not say how large its records are",
		[CUPTI_LAYOUT_REFUSED] =
			"is not read: the library gives a size that no known release had or could have",
	};
	return sentences[kind < CUPTI_KIND_COUNT ? layout->state[kind] : CUPTI_LAYOUT_ABSENT];
}
