/* screen.h - what is known of the terminal, or of whatever else standard output is. */
#ifndef PROFD_CLIENT_UI_SCREEN_H
#define PROFD_CLIENT_UI_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

/* What is known of the place that text goes to. */
struct screen {
	FILE *file;
	bool color;
	unsigned width; /* columns; 0 = not a terminal */
};
/* Standard output: its width if it is a terminal, colour unless NO_COLOR or TERM=dumb say otherwise. */
struct screen screen_output(void);
/* Escape sequences, or nothing where there is no colour. */
const char *screen_bold(const struct screen *screen);
const char *screen_warn(const struct screen *screen);
const char *screen_dim(const struct screen *screen);
const char *screen_plain(const struct screen *screen);

#endif
