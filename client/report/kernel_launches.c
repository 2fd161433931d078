/* kernel_launches.c - see kernel_launches.h. Configurations are few, calls are many: one pass over the records counts
 * configurations in a table of hashes, and keeps the duration of each call. */
#include "kernel_launches.h"

#include "query.h"

#include "client/reader/occupancy.h"
#include "client/ui/figure.h"
#include "client/ui/text.h"
#include "proto/base/array.h"
#include "proto/events.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* Result columns; those before KEYS tell configurations apart. */
enum { K_NAME, K_DEVICE, K_GRID, K_BLOCK = K_GRID + 3, K_REGISTERS = K_BLOCK + 3, K_SHARED, KEYS, K_DURATION = KEYS };

struct configuration {
	int64_t key[KEYS];
	double total;
	size_t next; /* with the same hash; SIZE_MAX: none */
};

struct call {
	int64_t name, duration;
};

struct kernel_launches {
	struct configuration *configurations;
	size_t count, room;
	size_t *heads; /* by hash, SIZE_MAX: none */
	size_t head_count;
	struct call *calls;
	size_t call_count, call_room;
	struct kernel_launches_row *rows; /* by name */
	size_t row_count;
};

/* --- reading --- */

static size_t hash_of(const int64_t *key)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < KEYS; i++)
		hash = ((hash ^ (uint64_t)key[i]) * UINT64_C(0x9e3779b97f4a7c15)) ^ (hash >> 29);
	return (size_t)(hash >> 20);
}

static void hash_again(struct kernel_launches *to)
{
	to->head_count = to->head_count ? to->head_count * 4 : 1024;
	free(to->heads);
	to->heads = need(malloc(to->head_count * sizeof *to->heads));
	for (size_t i = 0; i < to->head_count; i++)
		to->heads[i] = SIZE_MAX;
	for (size_t i = 0; i < to->count; i++) {
		size_t *head = &to->heads[hash_of(to->configurations[i].key) % to->head_count];
		to->configurations[i].next = *head;
		*head = i;
	}
}

static struct configuration *configuration_of(struct kernel_launches *to, const int64_t *key)
{
	if (to->count * 2 >= to->head_count)
		hash_again(to);
	size_t *head = &to->heads[hash_of(key) % to->head_count];
	for (size_t i = *head; i != SIZE_MAX; i = to->configurations[i].next)
		if (memcmp(to->configurations[i].key, key, sizeof to->configurations[i].key) == 0)
			return &to->configurations[i];
	need(ARRAY_GROW(to->configurations, to->count, to->room) ? to : NULL);
	struct configuration *made = &to->configurations[to->count];
	memcpy(made->key, key, sizeof made->key);
	made->total = 0;
	made->next = *head;
	*head = to->count++;
	return made;
}

static void read_calls(struct kernel_launches *to, const struct reader *reader, const struct report_options *options)
{
	_Static_assert(EVENT_FLAG_TIMELESS == 8, "as the statement has it");
	sqlite3_stmt *row = report_prepare(
		reader,
		"SELECT coalesce(n.name, r.name), r.device, r.grid_x, r.grid_y, r.grid_z, r.block_x, r.block_y, r.block_z, r.registers, "
		"r.static_shared + r.dynamic_shared, r.duration FROM kernel_records r LEFT JOIN kernel_names n ON n.mangled = r.name "
		"WHERE NOT r.flags & 8 AND (?1 = 0 OR ?1 = (SELECT l.step FROM launches l WHERE l.correlation = r.correlation))");
	sqlite3_bind_int64(row, 1, options->step);
	while (report_next(reader, row)) {
		int64_t key[KEYS], duration = figure_length(sqlite3_column_int64(row, K_DURATION));
		for (int i = 0; i < KEYS; i++)
			key[i] = sqlite3_column_int64(row, i);
		configuration_of(to, key)->total += (double)duration;
		need(ARRAY_GROW(to->calls, to->call_count, to->call_room) ? to : NULL);
		to->calls[to->call_count++] = (struct call){key[K_NAME], duration};
	}
}

/* --- adding up --- */

static int by_name_and_total(const void *a, const void *b)
{
	const struct configuration *one = a, *other = b;
	return ORDER(one->key[K_NAME], other->key[K_NAME]) ?: ORDER(other->total, one->total) ?:
	       memcmp(one->key, other->key, sizeof one->key);
}

static int by_name_and_duration(const void *a, const void *b)
{
	const struct call *one = a, *other = b;
	return ORDER(one->name, other->name) ?: ORDER(one->duration, other->duration);
}

static bool read_device(const struct reader *reader, int64_t id, struct occupancy_device *ret)
{
	sqlite3_stmt *row = report_prepare(
		reader,
		"SELECT capability_major, capability_minor, multiprocessors, warp, max_threads_multiprocessor, max_blocks_multiprocessor, "
		"registers_multiprocessor, shared_multiprocessor, shared_block FROM main.devices WHERE id = ?1");
	bool found = false;
	sqlite3_bind_int64(row, 1, id);
	while (report_next(reader, row)) {
		int64_t figures[9];
		for (int i = 0; i < 9; i++)
			figures[i] = sqlite3_column_int64(row, i);
		*ret = (struct occupancy_device){figures[0], figures[1], figures[2], figures[3], figures[4],
						 figures[5], figures[6], figures[7], figures[8]};
		found = ret->multiprocessors > 0;
	}
	return found;
}

static int64_t product(const int64_t *three)
{
	int64_t all = 1;
	for (size_t i = 0; i < 3; i++)
		if (three[i] <= 0 || __builtin_mul_overflow(all, three[i], &all))
			return 0;
	return all;
}

/* Adds how much of the device it fills, weighted by its time. */
static void fill(struct kernel_launches_row *row, const struct configuration *of, const struct occupancy_device *device)
{
	const struct occupancy_kernel kernel = {.blocks = product(&of->key[K_GRID]),
						.threads = product(&of->key[K_BLOCK]),
						.registers = of->key[K_REGISTERS],
						.shared = of->key[K_SHARED]};
	double achieved = device && kernel.blocks ? occupancy_achieved(device, &kernel) : -1;
	/* If a part is not known, the mean is not known. */
	row->blocks = !device || !kernel.blocks || row->blocks < 0
			      ? -1
			      : row->blocks + (double)kernel.blocks / (double)device->multiprocessors * of->total;
	row->occupancy = achieved < 0 || row->occupancy < 0 ? -1 : row->occupancy + achieved * of->total;
}

static void take_shape(struct kernel_launches_row *row, const struct configuration *of)
{
	memcpy(row->grid, &of->key[K_GRID], sizeof row->grid);
	memcpy(row->block, &of->key[K_BLOCK], sizeof row->block);
	row->registers = of->key[K_REGISTERS];
	row->shared = of->key[K_SHARED];
}

static struct kernel_launches_row *row_of(struct kernel_launches *to, int64_t name, size_t *room)
{
	if (to->row_count && to->rows[to->row_count - 1].name == name)
		return &to->rows[to->row_count - 1];
	need(ARRAY_GROW(to->rows, to->row_count, *room) ? to : NULL);
	to->rows[to->row_count] = (struct kernel_launches_row){.name = name};
	return &to->rows[to->row_count++];
}

static void add_configurations(struct kernel_launches *to, const struct reader *reader)
{
	struct occupancy_device device;
	int64_t known = -1;
	bool described = false;
	size_t room = 0;
	if (to->count)
		qsort(to->configurations, to->count, sizeof *to->configurations, by_name_and_total);
	for (size_t i = 0; i < to->count; i++) {
		const struct configuration *of = &to->configurations[i];
		struct kernel_launches_row *row = row_of(to, of->key[K_NAME], &room);
		if (of->key[K_DEVICE] != known) {
			known = of->key[K_DEVICE];
			described = read_device(reader, known, &device);
		}
		if (!row->configurations++)
			take_shape(row, of);
		fill(row, of, described ? &device : NULL);
	}
}

/* The calls have one name; the shortest comes first. */
static void add_times(struct kernel_launches_row *row, const struct call *calls, size_t count)
{
	double mean = 0, squares = 0, total = 0;
	for (size_t i = 0; i < count; i++) {
		double from = (double)calls[i].duration - mean;
		mean += from / (double)(i + 1);
		squares += from * ((double)calls[i].duration - mean);
		total += (double)calls[i].duration;
	}
	row->median_ns = (calls[(count - 1) / 2].duration + calls[count / 2].duration) / 2;
	row->deviation_ns = count > 1 ? sqrt(squares / (double)(count - 1)) : -1;
	row->blocks = total > 0 && row->blocks >= 0 ? row->blocks / total : -1;
	row->occupancy = total > 0 && row->occupancy >= 0 ? row->occupancy / total : -1;
}

struct kernel_launches *kernel_launches_read(const struct reader *reader, const struct report_options *options)
{
	struct kernel_launches *to = need(calloc(1, sizeof *to));
	size_t from = 0;
	read_calls(to, reader, options);
	add_configurations(to, reader);
	if (to->call_count)
		qsort(to->calls, to->call_count, sizeof *to->calls, by_name_and_duration);
	for (size_t r = 0; r < to->row_count; r++) {
		size_t end = from;
		while (end < to->call_count && to->calls[end].name == to->rows[r].name)
			end++;
		add_times(&to->rows[r], to->calls + from, end - from);
		from = end;
	}
	return to;
}

const struct kernel_launches_row *kernel_launches_find(const struct kernel_launches *launches, int64_t name)
{
	size_t at = ARRAY_BEFORE(launches->row_count, middle, launches->rows[middle].name < name);
	return at < launches->row_count && launches->rows[at].name == name ? &launches->rows[at] : NULL;
}

void kernel_launches_free(struct kernel_launches *launches)
{
	free(launches->configurations);
	free(launches->heads);
	free(launches->calls);
	free(launches->rows);
	free(launches);
}
