/* occupancy.c - the rules by which blocks are placed on a multiprocessor, from the CUDA C++ Programming Guide, appendix
 * "Compute Capabilities" (technical specifications per capability), and the CUDA Occupancy Calculator: registers are
 * handed out to warps in units of 256, warps belong to one of the multiprocessor's partitions, shared memory is handed
 * out in units, and from capability 8.0 on the system takes 1 KiB of it a block. */
#include "occupancy.h"

#include <stddef.h>

#define REGISTER_UNIT 256
#define RESERVED_SHARED 1024
/* More than any device has, and little enough to be reckoned with. */
#define MOST (INT64_C(1) << 40)

static int64_t round_up(int64_t value, int64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static int64_t partitions(const struct occupancy_device *d)
{
	return d->capability_major == 6 && d->capability_minor == 0 ? 2 : 4;
}

static int64_t shared_unit(const struct occupancy_device *d)
{
	return d->capability_major >= 8 ? 128 : 256;
}

static int64_t shared_reserved(const struct occupancy_device *d)
{
	return d->capability_major >= 8 ? RESERVED_SHARED : 0;
}

int64_t occupancy_shared_most(const struct occupancy_device *d)
{
	if (d->capability_major < 7 || d->shared <= 0)
		return d->shared_block;
	return d->shared - shared_reserved(d);
}

/* As the Programming Guide has them; traces of torch.profiler do not tell it. 0: not known. */
static int64_t blocks_of_capability(int64_t major, int64_t minor)
{
	static const struct {
		int64_t capability, blocks;
	} known[] = {{30, 16}, {32, 16}, {35, 16},  {37, 16},  {50, 32},  {52, 32}, {53, 32}, {60, 32},
		     {61, 32}, {62, 32}, {70, 32},  {72, 32},  {75, 16},  {80, 32}, {86, 16}, {87, 16},
		     {89, 24}, {90, 32}, {100, 32}, {103, 32}, {120, 24}, {121, 24}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (major >= 0 && major < 100 && minor >= 0 && minor < 10 && known[i].capability == major * 10 + minor)
			return known[i].blocks;
	return 0;
}

int64_t occupancy_blocks(const struct occupancy_device *d, const struct occupancy_kernel *k)
{
	int64_t blocks =
		d->max_blocks > 0 ? d->max_blocks : blocks_of_capability(d->capability_major, d->capability_minor);
	if (d->capability_major < 3 || d->warp <= 0 || d->max_threads < d->warp || blocks <= 0 || d->registers <= 0 ||
	    d->shared <= 0 || k->threads <= 0 || k->threads > d->max_threads || k->registers < 0 ||
	    k->registers > 255 || k->shared < 0)
		return -1;
	if (d->warp > MOST || d->max_threads > MOST || d->shared > MOST || k->shared > MOST)
		return -1;
	int64_t warps = round_up(k->threads, d->warp) / d->warp, most = blocks;
	int64_t by_warps = d->max_threads / d->warp / warps;
	if (by_warps < most)
		most = by_warps;
	if (k->registers) {
		int64_t warp_registers = round_up(k->registers * d->warp, REGISTER_UNIT);
		int64_t warps_fit = d->registers / partitions(d) / warp_registers * partitions(d);
		int64_t by_registers = warps_fit / warps;
		if (by_registers < most)
			most = by_registers;
	}
	int64_t shared = round_up(k->shared + shared_reserved(d), shared_unit(d));
	if (shared && d->shared / shared < most)
		most = d->shared / shared;
	return most;
}

double occupancy_achieved(const struct occupancy_device *d, const struct occupancy_kernel *k)
{
	int64_t most = occupancy_blocks(d, k);
	/* A kernel that ran did fit. If it does not fit by these rules, the rules do not know it. */
	if (most <= 0 || d->multiprocessors <= 0 || k->blocks <= 0)
		return -1;
	double blocks = (double)k->blocks / (double)d->multiprocessors;
	if (blocks > (double)most)
		blocks = (double)most;
	return blocks * (double)k->threads / (double)d->max_threads;
}
