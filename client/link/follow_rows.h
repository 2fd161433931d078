/* follow_rows.h - what the rows of daemons' answers say of a trigger, kept in struct follow; and what of it is printed as JSON. */
#ifndef PROFD_CLIENT_LINK_FOLLOW_ROWS_H
#define PROFD_CLIENT_LINK_FOLLOW_ROWS_H

#include "follow.h"

#include <stdbool.h>

/* The capture that a row tells of. It may be new: captures of later cycles come without a target row. NULL: the row names none. */
struct followed *follow_capture_of(struct follow *follow, unsigned daemon, const cJSON *row);
/* Has the daemon told of any capture? */
bool follow_any_known(const struct follow *follow, unsigned daemon);

/* Keeps why a process is not recorded. */
void follow_refuse(struct follow *follow, const struct failure *failure);
/* Does the next daemon not know the one agent yet that the last one knew? Then it is asked once more. */
bool follow_is_too_early(const struct follow *follow, unsigned daemon, const struct failure *failure);

/* A row each, by its kind. */
void follow_take_target(struct follow *follow, unsigned daemon, const cJSON *row);
void follow_take_together(struct follow *follow, const cJSON *row);
void follow_take_switched(struct follow *follow, const cJSON *row);
void follow_take_progress(struct follow *follow, unsigned daemon, const cJSON *row);
void follow_take_captured(struct follow *follow, unsigned daemon, const cJSON *row);

/* Adds what both a trigger and its dry run print besides their captures: "refused", "left_out", "together". */
void follow_add_others(cJSON *object, const struct follow *follow);

#endif
