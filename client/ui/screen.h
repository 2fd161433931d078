/* screen.h - what is known of the terminal, or of whatever else standard output is. */
#ifndef PROFD_CLIENT_UI_SCREEN_H
#define PROFD_CLIENT_UI_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

/* Columns of what goes into a file or a pipe. */
#define SCREEN_PIPED 119
/* Cells of the widest bar. */
#define SCREEN_BAR_MAX 20
#define SCREEN_BAR_BYTES (3 * SCREEN_BAR_MAX + 1)

/* What is known of the place that text goes to. */
struct screen {
	FILE *file;
	bool color;
	bool terminal;
	bool blocks;	/* bars are made of blocks, else of # */
	unsigned width; /* columns; 0 = without end */
};
/* Standard output: its width if it is a terminal, else SCREEN_PIPED; colour on a terminal, unless NO_COLOR or TERM=dumb say
 * otherwise. */
struct screen screen_output(void);
/* A bar for a share of 0 to 100, of which `cells` (at most SCREEN_BAR_MAX) are the whole. Returns how many it has. */
unsigned screen_bar(const struct screen *screen, char to[SCREEN_BAR_BYTES], double percent, unsigned cells);
/* Escape sequences, or nothing where there is no colour. */
const char *screen_bold(const struct screen *screen);
const char *screen_warn(const struct screen *screen);
const char *screen_dim(const struct screen *screen);
/* Colours of time: time of useful work; time spent waiting; all other time. */
const char *screen_good(const struct screen *screen);
const char *screen_bad(const struct screen *screen);
const char *screen_other(const struct screen *screen);
const char *screen_plain(const struct screen *screen);

#endif
