/* ranks_answer.c - see ranks_answer.h. */
#include "ranks_answer.h"

#include "client/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void name_rank(const struct ranks_member *one, char to[32])
{
	if (one->rank >= 0)
		snprintf(to, 32, "rank %lld", (long long)one->rank);
	else
		snprintf(to, 32, "a rank");
}

static double waits_of(const struct ranks *ranks)
{
	double sum = 0, units = 0;
	for (size_t i = 0; i < ranks->count; i++) {
		sum += ranks->members[i].waits;
		units += ranks->members[i].units;
	}
	return units > 0 ? sum / units : 0;
}

const char *ranks_unit(const struct ranks *ranks)
{
	return ranks->side->window ? "window" : "step";
}

/* " Its "compute" takes 20.1 ms a step, that of the others 12.0 ms on average." Empty: there is no such row. */
static void tell_row(const struct ranks *ranks, char *to, size_t bytes)
{
	char own[TEXT_FIGURE_BYTES], others[TEXT_FIGURE_BYTES];
	*to = '\0';
	if (ranks->row)
		snprintf(to, bytes, " Its \"%s\" takes %s a %s, that of the other%s %s%s.", ranks->row,
			 text_duration(own, llround(ranks->row_own)), ranks_unit(ranks),
			 ranks->count > 2 ? "s" : " one", text_duration(others, llround(ranks->row_others)),
			 ranks->count > 2 ? " on average" : "");
}

static char *answer_of_last(const struct ranks *ranks)
{
	const struct ranks_member *last = &ranks->members[ranks->last];
	double mean = last->keeps / ranks->units;
	char *text = NULL, figure[TEXT_FIGURE_BYTES], rank[32], row[256], range[96] = "";
	name_rank(last, rank);
	tell_row(ranks, row, sizeof row);
	if (llround(ranks->least * 100) != llround(ranks->most * 100))
		snprintf(range, sizeof range, " (%.0f to %.0f %% of each)", ranks->least * 100, ranks->most * 100);
	int n = asprintf(&text,
			 "%s for %s: %s a %s, %.0f %% of it%s. It is last in %.0f of %.0f collective operations.%s",
			 ranks->count > 2 ? "The others wait" : "The other rank waits", rank,
			 text_duration(figure, llround(mean)), ranks_unit(ranks), mean * 100 / fmax(ranks->wall, 1),
			 range, last->last, last->calls, row);
	return n < 0 ? NULL : text;
}

char *ranks_answer(const struct ranks *ranks)
{
	char *text = NULL, figure[TEXT_FIGURE_BYTES];
	double wall = ranks->wall, waits = waits_of(ranks);
	int n;
	if (ranks->calls > 0 && ranks->last != SIZE_MAX)
		return need(answer_of_last(ranks));
	text_duration(figure, llround(waits));
	if (ranks->calls <= 0)
		n = asprintf(&text, "It is not known how long the ranks wait for each other: %s.",
			     ranks->unknown > 0 ? "for no collective operation is it known when it ran on all ranks"
			     : ranks->alone > 0 ? "no collective operation was recorded on all ranks that took part"
						: "no collective operation was recorded");
	else if (ranks->in_turn)
		n = asprintf(
			&text,
			"The ranks wait for each other, now for one and now for another: each waits %s a %s, %.0f %% of it.",
			figure, ranks_unit(ranks), waits * 100 / fmax(wall, 1));
	else
		n = asprintf(&text, "The ranks come together: each waits %s a %s for the others, %.1f %% of it.",
			     figure, ranks_unit(ranks), waits * 100 / fmax(wall, 1));
	return need(n < 0 ? NULL : text);
}
