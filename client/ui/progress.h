/* progress.h - says on standard error what goes on: on a terminal in one line that is redrawn, elsewhere in a line for
 * each change. */
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
