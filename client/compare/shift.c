/* shift.c - see shift.h. */
#include "shift.h"
#include "proto/base/array.h"

#include "client/ui/text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* All ways to deal the values out are tried where there are no more of them; else so many that are drawn. */
#define WAYS_ALL 20000
#define WAYS_DRAWN 9999
/* Two figures that differ by less come from rounding. */
#define SAME 1e-9
/* Where both groups have more values than this, neighbours are averaged. */
#define BLOCKS_LEAST 8

struct deal {
	const double *values; /* less their row's mean */
	double *sum, *square; /* of each row */
	size_t rows, a, b;
	double least;
	enum shift_direction direction;
	double *found, *now; /* statistic of each row: as it is, and of this way of dealing */
	size_t *order;	     /* rows by found, the largest first */
	size_t *above;	     /* how many ways are at least as extreme */
};

/* Ways to choose a of n; more than WAYS_ALL are not counted further. */
static double ways(size_t n, size_t a)
{
	double result = 1;
	for (size_t i = 0; i < a && result < 1e15; i++)
		result = result * (double)(n - i) / (double)(i + 1);
	return floor(result + 0.5);
}

bool shift_possible(size_t a, size_t b, enum shift_direction direction)
{
	/* Of equal groups the mirrored one is as extreme. */
	double extreme = direction == SHIFT_EITHER && a == b ? 2 : 1;
	return a && b &&
	       extreme / ways(a + b, a < b ? a : b) <= (direction == SHIFT_EITHER ? SHIFT_LEVEL : SHIFT_LEVEL_ONE);
}

/* How far apart two groups are, in errors of their difference: each group's own (Welch), or, `pooled`, of their common spread. */
static double distance(const struct deal *deal, size_t row, double sum_a, double square_a, bool pooled)
{
	double a = (double)deal->a, b = (double)deal->b;
	double mean_a = sum_a / a, mean_b = (deal->sum[row] - sum_a) / b;
	double within_a = fmax(square_a - sum_a * mean_a, 0);
	double within_b = fmax(deal->square[row] - square_a - (deal->sum[row] - sum_a) * mean_b, 0);
	double variance, error;
	if (pooled)
		variance = (within_a + within_b) / (a + b - 2) * (1 / a + 1 / b);
	else
		variance = within_a / (a - 1) / a + within_b / (b - 1) / b;
	error = sqrt(variance) + deal->least;
	double difference = mean_b - mean_a;
	if (fabs(difference) <= SAME * (fabs(mean_a) + fabs(mean_b)))
		return 0;
	return (deal->direction == SHIFT_UP ? difference : fabs(difference)) / fmax(error, SAME * fabs(difference));
}

static double apart(const struct deal *deal, size_t row, double sum_a, double square_a)
{
	return distance(deal, row, sum_a, square_a, deal->a == 1 || deal->b == 1);
}

/* `group`: the indices of A. */
static void measure(const struct deal *deal, const size_t *group, double *ret)
{
	size_t n = deal->a + deal->b;
	for (size_t row = 0; row < deal->rows; row++) {
		const double *values = deal->values + row * n;
		double sum = 0, square = 0;
		for (size_t i = 0; i < deal->a; i++) {
			sum += values[group[i]];
			square += values[group[i]] * values[group[i]];
		}
		ret[row] = apart(deal, row, sum, square);
	}
}

/* Step-down: a row competes with those that were found less extreme than itself. */
static void count(struct deal *deal)
{
	double most = -INFINITY;
	for (size_t i = deal->rows; i-- > 0;) {
		size_t row = deal->order[i];
		most = fmax(most, deal->now[row]);
		if (most >= deal->found[row] - SAME * fabs(deal->found[row]))
			deal->above[row]++;
	}
}

/* The next of all subsets, in order; false after the last. */
static bool next_group(size_t *group, size_t a, size_t n)
{
	size_t i = a;
	while (i > 0 && group[i - 1] == n - a + i - 1)
		i--;
	if (i == 0)
		return false;
	group[i - 1]++;
	for (; i < a; i++)
		group[i] = group[i - 1] + 1;
	return true;
}

/* splitmix64: the same draws each time. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void draw_group(size_t *all, size_t a, size_t n, uint64_t *state)
{
	for (size_t i = 0; i < a; i++) {
		size_t other = i + (size_t)(draw(state) % (n - i)), kept = all[i];
		all[i] = all[other];
		all[other] = kept;
	}
}

static const double *found_of_sort;

static int by_found(const void *a, const void *b)
{
	size_t one = *(const size_t *)a, other = *(const size_t *)b;
	double left = found_of_sort[one], right = found_of_sort[other];
	if (left != right)
		return left < right ? 1 : -1;
	return ORDER(one, other);
}

/* Deals the values out in all ways, or in many; returns how many ways that were. */
static double deal_out(struct deal *deal, size_t *group)
{
	size_t n = deal->a + deal->b;
	double tried = ways(n, deal->a < deal->b ? deal->a : deal->b);
	uint64_t state = 1;
	if (tried <= WAYS_ALL) {
		do {
			measure(deal, group, deal->now);
			count(deal);
		} while (next_group(group, deal->a, n));
		return tried;
	}
	/* The way they were found in is one of them. */
	measure(deal, group, deal->now);
	count(deal);
	for (size_t i = 0; i < WAYS_DRAWN; i++) {
		draw_group(group, deal->a, n, &state);
		measure(deal, group, deal->now);
		count(deal);
	}
	return WAYS_DRAWN + 1;
}

static void centre(struct deal *deal, double *values)
{
	size_t n = deal->a + deal->b;
	for (size_t row = 0; row < deal->rows; row++) {
		double mean = 0, *own = values + row * n;
		for (size_t i = 0; i < n; i++)
			mean += own[i] / (double)n;
		deal->sum[row] = deal->square[row] = 0;
		for (size_t i = 0; i < n; i++) {
			own[i] -= mean;
			deal->sum[row] += own[i];
			deal->square[row] += own[i] * own[i];
		}
	}
}

static void run(struct deal *deal, double *p)
{
	size_t n = deal->a + deal->b, *group = need(calloc(n, sizeof *group));
	for (size_t i = 0; i < n; i++)
		group[i] = i;
	measure(deal, group, deal->found);
	for (size_t row = 0; row < deal->rows; row++)
		deal->order[row] = row;
	found_of_sort = deal->found;
	qsort(deal->order, deal->rows, sizeof *deal->order, by_found);
	double tried = deal_out(deal, group), least = 0;
	for (size_t i = 0; i < deal->rows; i++) {
		size_t row = deal->order[i];
		least = fmax(least, (double)deal->above[row] / tried);
		p[row] = least;
	}
	free(group);
}

void shift_test(const double *values, size_t rows, size_t a, size_t b, double least, enum shift_direction direction,
		double *p)
{
	size_t n = a + b;
	struct deal deal = {.rows = rows, .a = a, .b = b, .least = least, .direction = direction};
	for (size_t row = 0; row < rows; row++)
		p[row] = NAN;
	if (!rows || !shift_possible(a, b, direction))
		return;
	double *own = need(malloc(rows * n * sizeof *own));
	memcpy(own, values, rows * n * sizeof *own);
	deal.values = own;
	deal.sum = need(calloc(rows, sizeof *deal.sum));
	deal.square = need(calloc(rows, sizeof *deal.square));
	deal.found = need(calloc(rows, sizeof *deal.found));
	deal.now = need(calloc(rows, sizeof *deal.now));
	deal.order = need(calloc(rows, sizeof *deal.order));
	deal.above = need(calloc(rows, sizeof *deal.above));
	centre(&deal, own);
	run(&deal, p);
	free(own);
	free(deal.sum);
	free(deal.square);
	free(deal.found);
	free(deal.now);
	free(deal.order);
	free(deal.above);
}

/* The largest distance of two parts of a series, and where it is cut. */
static double farthest(double *values, size_t count, size_t *ret_cut)
{
	double sum = 0, square = 0, part = 0, part_square = 0, most = -1;
	struct deal deal = {.sum = &sum, .square = &square, .rows = 1, .direction = SHIFT_EITHER};
	for (size_t i = 0; i < count; i++) {
		sum += values[i];
		square += values[i] * values[i];
	}
	for (size_t cut = 1; cut < count; cut++) {
		part += values[cut - 1];
		part_square += values[cut - 1] * values[cut - 1];
		deal.a = cut;
		deal.b = count - cut;
		/* Their common spread: of one or two values no other can be told. */
		double now = distance(&deal, 0, part, part_square, true);
		if (now > most * (1 + SAME)) {
			most = now;
			*ret_cut = cut;
		}
	}
	return most;
}

size_t shift_since(const double *values, size_t count, double *p)
{
	size_t cut = 0, ignored, above = 1;
	uint64_t state = 1;
	double mean = 0;
	*p = NAN;
	if (count < SHIFT_SERIES)
		return 0;
	double *own = need(malloc(count * sizeof *own));
	for (size_t i = 0; i < count; i++)
		mean += values[i] / (double)count;
	for (size_t i = 0; i < count; i++)
		own[i] = values[i] - mean;
	double found = farthest(own, count, &cut);
	for (size_t i = 0; i < WAYS_DRAWN; i++) {
		for (size_t k = 0; k + 1 < count; k++) {
			size_t other = k + (size_t)(draw(&state) % (count - k));
			double kept = own[k];
			own[k] = own[other];
			own[other] = kept;
		}
		above += farthest(own, count, &ignored) >= found * (1 - SAME);
	}
	free(own);
	*p = (double)above / (WAYS_DRAWN + 1);
	return cut;
}

struct shift_blocks shift_blocks_of(size_t units, size_t others)
{
	size_t fewer = units < others ? units : others;
	struct shift_blocks blocks = {.length = fewer / BLOCKS_LEAST > 1 ? fewer / BLOCKS_LEAST : 1};
	size_t whole = units / blocks.length;
	blocks.every = (whole + SHIFT_MOST - 1) / SHIFT_MOST;
	if (blocks.every == 0)
		blocks.every = 1;
	blocks.count = (whole + blocks.every - 1) / blocks.every;
	return blocks;
}

size_t shift_block(const struct shift_blocks *blocks, size_t unit)
{
	size_t block = unit / blocks->length;
	if (block % blocks->every || block / blocks->every >= blocks->count)
		return SIZE_MAX;
	return block / blocks->every;
}
