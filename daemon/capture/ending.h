/* ending.h - the end of a capture: its ingest drains, its file is finished, its row stored, and those who follow it are told. Loop's
 * thread. */
#ifndef PROFD_DAEMON_CAPTURE_ENDING_H
#define PROFD_DAEMON_CAPTURE_ENDING_H

#include "proto/base/facts.h"

#include <stdbool.h>

struct capture;

/* The ingest begins its work. */
void capture_submit(struct capture *capture);
/* Nobody will write again: what is there is taken in, and the capture is finished. */
void capture_end(struct capture *capture);
/* Removes the capture as if it had never been: the agent refused it, or its cycle never came. A capture that a client may have seen
 * ends as incomplete instead. */
void capture_drop(struct capture *capture);
/* A capture that is being finished ends with its records as they came. False: it is not being finished. */
bool capture_give_up(struct capture *capture);
/* Writes the row as it stands; nobody waits for it. */
void capture_catalogue(struct capture *capture);

/* Says why it is not complete; `after`: with the steps that are there. */
void ending_incomplete(struct capture *capture, enum cancel_reason code, const char *reason);
void ending_after(struct capture *capture, enum cancel_reason code, const char *what);
#define TIME_LIMIT_TEXT_BYTES 64
/* What is said of its deadline. */
const char *ending_time_limit(const struct capture *capture, char ret[TIME_LIMIT_TEXT_BYTES]);
/* Its rows are all in its file: puts that into order. */
void ending_finish(struct capture *capture);
/* Stores the final row, once more where it could not be stored. */
void ending_store(struct capture *capture);

#endif
