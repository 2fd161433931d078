/* live.h - a terminal that is redrawn until a key or a signal ends it. However it ends, the terminal is as before. One thread. */
#ifndef PROFD_CLIENT_UI_LIVE_H
#define PROFD_CLIENT_UI_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Is standard output a terminal that can be redrawn? */
bool live_possible(void);
/* Takes the terminal: its other screen, keys without Enter, the signals that end or stop a program. */
void live_begin(void);
/* Draws the text over what was there, as many lines as fit. False where the terminal is gone. */
bool live_draw(const char *text);
/* Waits for a key, for at most so many ns. Returns it, 0 when the time is over or the window has another size, -1 where a signal ends
 * the program: live_end() raises that again. */
int live_wait(int64_t ns);
/* Gives the terminal back. */
void live_end(void);

#endif
