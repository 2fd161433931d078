/* follow_tell.h - says on standard error how far the captures of a trigger are: one line that is redrawn on a terminal,
 * a line for each change elsewhere. */
#ifndef PROFD_CLIENT_LINK_FOLLOW_TELL_H
#define PROFD_CLIENT_LINK_FOLLOW_TELL_H

#include "follow.h"

/* Keeps the new status of a capture, and says it where there is no line to redraw. */
void follow_set_status(struct followed *followed, const char *status);
/* Redraws the line. The capture that is furthest behind tells how long it still takes. */
void follow_draw(const struct follow *follow);

#endif
