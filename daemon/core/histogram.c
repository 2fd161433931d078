/* histogram.c - see histogram.h. */
#include "histogram.h"

void histogram_add(struct histogram *histogram, uint64_t ns)
{
	unsigned i = 0;
	while (i < histogram->bound_count && ns > histogram->bounds[i])
		i++;
	histogram->counts[i]++;
	histogram->sum += ns;
}
