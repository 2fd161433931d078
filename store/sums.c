/* sums.c - see sums.h. */
#include "sums.h"
#include "proto/base/hash.h"
#include "file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* 131,072 groups of 64 bytes: 16 MiB, since half of the places stay free. */
#define GROUPS_MAX (1u << 17)

void sums_init(struct sums *sums, struct memory *memory)
{
	memset(sums, 0, sizeof *sums);
	sums->memory = memory;
}

void sums_deinit(struct sums *sums)
{
	memory_put(sums->memory, sums->table, sums->capacity * sizeof *sums->table);
	sqlite3_finalize(sums->insert);
	memset(sums, 0, sizeof *sums);
}

static struct sum *place(struct sum *table, size_t capacity, const struct sum *key)
{
	uint64_t first = (uint64_t)key->a << 32 | key->step, second = (uint64_t)key->b << 32 | key->c;
	size_t i = (size_t)hash_of(hash_of(first, second), key->table) & (capacity - 1);
	while (table[i].table && (table[i].a != key->a || table[i].b != key->b || table[i].c != key->c ||
				  table[i].step != key->step || table[i].table != key->table))
		i = (i + 1) & (capacity - 1);
	return &table[i];
}

static int prepare(struct sums *sums, struct store *store)
{
	if (sums->insert)
		return 0;
	store_run(store,
		  "CREATE TEMP TABLE IF NOT EXISTS sums (tab INTEGER, a INTEGER, b INTEGER, c INTEGER, step INTEGER, "
		  "calls INTEGER, total INTEGER, extra INTEGER, min INTEGER, max INTEGER)");
	sums->insert = store_prepare(store, "INSERT INTO temp.sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	return store->error;
}

static int64_t bounded(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

int sums_write(struct sums *sums, struct store *store)
{
	if (sums->error || prepare(sums, store))
		return sums->error ? sums->error : store->error;
	for (size_t i = 0; i < sums->capacity && !store->error; i++) {
		const struct sum *sum = &sums->table[i];
		if (!sum->table)
			continue;
		const uint64_t values[] = {sum->table, sum->a,	   sum->b,     sum->c,	 sum->step,
					   sum->calls, sum->total, sum->extra, sum->min, sum->max};
		int columns = sum->min > sum->max ? 8 : 10;
		sqlite3_clear_bindings(sums->insert);
		for (int k = 0; k < columns; k++)
			sqlite3_bind_int64(sums->insert, k + 1, bounded(values[k]));
		if (sqlite3_step(sums->insert) != SQLITE_DONE)
			store_fail(store, "writing");
		sqlite3_reset(sums->insert);
	}
	if (sums->capacity)
		memset(sums->table, 0, sums->capacity * sizeof *sums->table);
	sums->count = 0;
	return store->error;
}

static int grow(struct sums *sums, struct store *store)
{
	size_t capacity = sums->capacity ? sums->capacity * 2 : 1024;
	struct sum *table = NULL;
	if (sums->count < GROUPS_MAX && !sums->capacity)
		table = memory_get_anyway(sums->memory, capacity * sizeof *table);
	else if (sums->count < GROUPS_MAX)
		table = memory_get(sums->memory, capacity * sizeof *table);
	if (!table)
		return store && sums->capacity ? sums_write(sums, store) : -ENOMEM;
	for (size_t i = 0; i < sums->capacity; i++)
		if (sums->table[i].table)
			*place(table, capacity, &sums->table[i]) = sums->table[i];
	memory_put(sums->memory, sums->table, sums->capacity * sizeof *table);
	sums->table = table;
	sums->capacity = capacity;
	return 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

void sums_add(struct sums *sums, struct store *store, const struct sum *key, uint64_t time, uint64_t extra, bool timed)
{
	if (sums->error)
		return;
	if (sums->count * 2 >= sums->capacity && (sums->error = grow(sums, store)) != 0)
		return;
	struct sum *sum = place(sums->table, sums->capacity, key);
	if (!sum->table) {
		*sum = *key;
		sum->calls = sum->total = sum->extra = sum->max = 0;
		sum->min = UINT64_MAX;
		sums->count++;
	}
	sum->calls++;
	sum->extra = add(sum->extra, extra);
	if (!timed)
		return;
	sum->total = add(sum->total, time);
	if (time < sum->min)
		sum->min = time;
	if (time > sum->max)
		sum->max = time;
}
