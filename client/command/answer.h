/* answer.h - the answer on one screen: what was recorded, how long a step took, where it went and why, the tables that say most,
 * and how to see the rest. */
#ifndef PROFD_CLIENT_COMMAND_ANSWER_H
#define PROFD_CLIENT_COMMAND_ANSWER_H

#include "tables.h"

/* One line: what was recorded. `about`: about_capture(). */
void answer_line(const struct tables *tables, const cJSON *about);
/* A line of "next:". What a command tells stands beside it, or below it where there is no room. */
void answer_next(const struct screen *screen, const char *command, const char *text);
/* May the answer show of this view, or be made of it? */
bool answer_has(const struct view *view);
/* All else. */
void answer_print(struct tables *tables, const cJSON *about);

#endif
