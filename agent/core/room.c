/* room.c - see room.h. */
#include "room.h"
#include "keeper.h"

#include "../../proto/mapping.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SHARE 4
#define PATH 512
#define CGROUPS "/sys/fs/cgroup"

/* UINT64_MAX where there is no number ("max"). */
static uint64_t number_at(const char *text)
{
	uint64_t value = 0;
	if (*text < '0' || *text > '9')
		return UINT64_MAX;
	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

/* The n-th number of /proc/self/statm, in bytes. */
static uint64_t in_use(unsigned n)
{
	char text[128];
	const char *at = text;
	if (!keeper_read_file("/proc/self/statm", text, sizeof text))
		return 0;
	for (; n > 0 && at; n--)
		at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
	uint64_t pages = at ? number_at(at) : UINT64_MAX;
	return pages == UINT64_MAX ? 0 : pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
	return limit > used ? limit - used : 0;
}

static uint64_t left_of_limit(int resource, unsigned n)
{
	struct rlimit limit;
	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return left_of(limit.rlim_cur, in_use(n));
}

/* ---------------------------------------------------------------- memory cgroups */

struct version {
	const char *mount, *limit, *usage, *files[2];
};
static const struct version versions[] = {
	{CGROUPS, "memory.max", "memory.current", {"\ninactive_file ", "\nactive_file "}},
	{CGROUPS "/memory",
	 "memory.limit_in_bytes",
	 "memory.usage_in_bytes",
	 {"\ntotal_inactive_file ", "\ntotal_active_file "}},
};

static uint64_t number_in(const char *folder, const char *name)
{
	char path[PATH + 64], text[64];
	size_t n = strlen(folder);
	memcpy(path, folder, n);
	path[n++] = '/';
	memcpy(path + n, name, strlen(name) + 1);
	return keeper_read_file(path, text, sizeof text) ? number_at(text) : UINT64_MAX;
}

/* Bytes of file pages, which the kernel can take back at any time. */
static uint64_t of_files(const struct version *version, const char *folder)
{
	char path[PATH + 64], text[8192];
	uint64_t sum = 0;
	size_t n = strlen(folder);
	memcpy(path, folder, n);
	memcpy(path + n, "/memory.stat", sizeof "/memory.stat");
	if (!keeper_read_file(path, text, sizeof text))
		return 0;
	for (unsigned i = 0; i < 2; i++) {
		const char *found = strstr(text, version->files[i]);
		uint64_t value = found ? number_at(found + strlen(version->files[i])) : 0;
		sum += value == UINT64_MAX ? 0 : value;
	}
	return sum;
}

/* The least that is left in the cgroup at `path` below the mount, and in those above it. Where a container does not see
 * that path, only the container's root counts. */
static uint64_t left_in(const struct version *version, const char *path)
{
	char folder[PATH];
	uint64_t least = UINT64_MAX;
	size_t root = strlen(version->mount), n = strcspn(path, "\n");
	if (root + n >= sizeof folder)
		n = 0;
	memcpy(folder, version->mount, root);
	memcpy(folder + root, path, n);
	folder[root + n] = 0;
	for (;;) {
		uint64_t limit = number_in(folder, version->limit), used = number_in(folder, version->usage);
		if (limit != UINT64_MAX && used != UINT64_MAX) {
			uint64_t left = left_of(limit, left_of(used, of_files(version, folder)));
			least = left < least ? left : least;
		}
		char *slash = strrchr(folder + root, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

static uint64_t left_of_cgroups(void)
{
	char text[4096];
	uint64_t least = UINT64_MAX, left;
	keeper_read_file("/proc/self/cgroup", text, sizeof text);
	for (const char *line = text; *line;) {
		const char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			break;
		const char *memory = strstr(names, "memory");
		if (path == names + 1)
			left = left_in(&versions[0], path + 1);
		else if (memory && memory < path)
			left = left_in(&versions[1], path + 1);
		else
			left = UINT64_MAX;
		least = left < least ? left : least;
		line = strchr(path, '\n');
		if (!line)
			break;
		line++;
	}
	return least;
}

/* ---------------------------------------------------------------- */

static uint64_t share_of(uint64_t left)
{
	return left == UINT64_MAX ? left : left / SHARE;
}

/* What a limit leaves to the captures. Atomic, because several threads of the agent map memory. */
static struct share {
	int resource;
	unsigned figure;	/* which number of /proc/self/statm */
	uint64_t best;		/* the largest quarter that was ever measured */
	_Atomic uint64_t most;	/* for the capture that was armed last, until it ends */
	_Atomic uint64_t taken; /* what is mapped now, also by earlier captures */
} of_space = {RLIMIT_AS, 0, 0, UINT64_MAX, 0}, of_data = {RLIMIT_DATA, 5, 0, UINT64_MAX, 0};
/* Address space that only segments may take. */
static _Atomic uint64_t for_segments;

/* A quarter of the limit's rest, less what is still mapped from earlier captures. The job may have grown since these
 * were mapped, so the largest quarter ever measured counts. */
static void measure(struct share *share)
{
	uint64_t left = left_of_limit(share->resource, share->figure), taken = atomic_load(&share->taken);
	if (left == UINT64_MAX) {
		atomic_store(&share->most, left);
		return;
	}
	uint64_t now = share_of(left + taken), rest;
	share->best = now > share->best ? now : share->best;
	rest = left_of(share->best, taken);
	atomic_store(&share->most, taken + (rest < share_of(left) ? rest : share_of(left)));
}

/* The job may have grown since measure(): so never more than a quarter of what is left now. */
static uint64_t rest_of(struct share *share)
{
	uint64_t most = atomic_load(&share->most), now = share_of(left_of_limit(share->resource, share->figure));
	uint64_t rest = most == UINT64_MAX ? most : left_of(most, atomic_load(&share->taken));
	return rest < now ? rest : now;
}

void room_begin(void)
{
	int saved = errno;
	atomic_store(&for_segments, 0);
	measure(&of_space);
	measure(&of_data);
	errno = saved;
}

uint64_t room_segments(void)
{
	int saved = errno;
	uint64_t rest = rest_of(&of_space);
	errno = saved;
	return rest;
}

void room_spare(uint64_t bytes)
{
	atomic_store(&for_segments, bytes);
}

uint64_t room_space(void)
{
	uint64_t rest = room_segments();
	return rest == UINT64_MAX ? rest : left_of(rest, atomic_load(&for_segments));
}

uint64_t room_memory(void)
{
	int saved = errno;
	uint64_t data = rest_of(&of_data), groups = share_of(left_of_cgroups());
	errno = saved;
	return data < groups ? data : groups;
}

uint64_t room_table(void)
{
	int saved = errno;
	uint64_t space = room_space(), data = rest_of(&of_data);
	errno = saved;
	return space < data ? space : data;
}

void *room_map(size_t bytes)
{
	void *map =
		mapping_new(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map)
		room_count((int64_t)bytes, (int64_t)bytes);
	return map;
}

void *room_try(size_t bytes)
{
	return bytes <= room_table() / 2 ? room_map(bytes) : NULL;
}

void room_count(int64_t space, int64_t data)
{
	atomic_fetch_add(&of_space.taken, (uint64_t)space);
	atomic_fetch_add(&of_data.taken, (uint64_t)data);
}

const char *room_sentence(int error)
{
	switch (error) {
	case -ENOMEM:
		return "the process has reached its limit of address space (ulimit -v), and the job needs what is "
		       "left of it: raise that limit";
	case -EAGAIN:
		return "the process locks all memory that it maps (mlockall), and has reached its limit of locked "
		       "memory: raise that limit (ulimit -l)";
	case -EPROTO:
		return "the agent in this process is of another version than the daemon; start the job again with the "
		       "agent of this version";
	default:
		return "the agent could not map the segment";
	}
}
