/* progress.h - what goes on, on standard error: one line that is redrawn on a terminal, a line per news elsewhere. */
#ifndef PROFD_CLIENT_UI_PROGRESS_H
#define PROFD_CLIENT_UI_PROGRESS_H

#include <stdbool.h>

/* Can a line be redrawn? */
bool progress_live(void);
/* Redraws the line (cut to the terminal's width). Only where progress_live(). */
void progress_draw(const char *text);
/* Takes the line away, so that something else can be printed. */
void progress_clear(void);

#endif
