/* names.c - callback ids and what the release calls them, from its own headers. sim_lock guards the cache; tables are constant. */
#include <stdint.h>

struct callback_name {
	uint32_t id;
	const char *name;
};

#define SIM_WITH_NAMES
#include "simcupti.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const struct callback_name *names;
	size_t count;
} tables[] = {
	[SIM_DRIVER] = {driver_names, sizeof driver_names / sizeof driver_names[0]},
	[SIM_RUNTIME] = {runtime_names, sizeof runtime_names / sizeof runtime_names[0]},
};

/* How well the release's name `known` stands for a function of the API called `name`, which is the one that programs compiled
 * by this release call: 0 not at all; else the newer the version suffix, the better. */
static unsigned long match(const char *known, const char *name)
{
	size_t length = strlen(name);
	if (strncmp(known, name, length) != 0)
		return 0;
	const char *rest = known + length;
	if (!*rest)
		return 1;
	if (strncmp(rest, "_v", 2) != 0)
		return 0;
	char *end;
	unsigned long version = strtoul(rest + 2, &end, 10);
	return *end ? 0 : 1 + version;
}

static uint32_t search(uint32_t domain, const char *name)
{
	uint32_t found = 0;
	unsigned long best = 0;
	for (size_t i = 0; i < tables[domain].count; i++) {
		unsigned long quality = match(tables[domain].names[i].name, name);
		if (quality > best) {
			best = quality;
			found = tables[domain].names[i].id;
		}
	}
	return found;
}

static uint32_t exact(uint32_t domain, const char *symbol)
{
	for (size_t i = 0; i < tables[domain].count; i++)
		if (strcmp(tables[domain].names[i].name, symbol) == 0)
			return tables[domain].names[i].id;
	return 0;
}

uint32_t sim_callback_id(uint32_t domain, const char *symbol, const char *name)
{
	enum { CACHE = 1024 };
	static struct {
		const char *name;
		uint32_t domain, id;
	} cache[CACHE];
	size_t at = ((uintptr_t)symbol >> 2) % CACHE;
	if (cache[at].name == symbol && cache[at].domain == domain)
		return cache[at].id;
	uint32_t id = 0;
	/* What <<<>>> becomes since CUDA 13. */
	if (domain == SIM_RUNTIME && strcmp(name, "cudaLaunchKernel") == 0)
		id = search(domain, "__cudaLaunchKernel");
	if (!id)
		id = exact(domain, symbol);
	if (!id)
		id = search(domain, name);
	cache[at].name = symbol;
	cache[at].domain = domain;
	cache[at].id = id;
	return id;
}

const char *sim_callback_name(uint32_t domain, uint32_t id)
{
	if (domain != SIM_DRIVER && domain != SIM_RUNTIME)
		return NULL;
	for (size_t i = 0; i < tables[domain].count; i++)
		if (tables[domain].names[i].id == id)
			return tables[domain].names[i].name;
	return NULL;
}
