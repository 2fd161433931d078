/* figure.h - bounds and defaults as one writes them on a command line or in profd.conf. */
#ifndef PROFD_MANUAL_FIGURE_H
#define PROFD_MANUAL_FIGURE_H

#include <stddef.h>
#include <stdint.h>

enum figure_unit { FIGURE_COUNT, FIGURE_BYTES, FIGURE_DURATION /* ns */ };

/* "2h", "500ms", "64M": in the largest unit that says it exactly. */
void figure(char *text, size_t bytes, enum figure_unit unit, int64_t value);

#endif
