/* ending.h - the end of a capture: its ingest drains, its file is finished, its row stored, and those who follow it are told. Loop's
 * thread. */
#ifndef PROFD_DAEMON_CAPTURE_ENDING_H
#define PROFD_DAEMON_CAPTURE_ENDING_H

#include "proto/base/facts.h"

#include <stdbool.h>

struct capture;

/* Gives its ingest to the pool, unless that has been done. */
void capture_submit(struct capture *capture);
/* The agent writes no more: the records in the segment are taken in, and the capture is finished. */
void capture_end(struct capture *capture);
/* Removes the capture as if it had never been: the agent refused it, or its cycle never came. A capture that a client may have seen
 * ends as incomplete instead. */
void capture_drop(struct capture *capture);
/* Stops the work on the records of a capture that is being finished: it ends with its records as they came. False: it
 * is not being finished. */
bool capture_give_up(struct capture *capture);
/* Writes the capture's present row into the catalogue; nobody waits for that. */
void capture_catalogue(struct capture *capture);

/* Sets why it is not complete; ending_after() adds how many of its steps are there. */
void ending_incomplete(struct capture *capture, enum cancel_reason code, const char *reason);
void ending_after(struct capture *capture, enum cancel_reason code, const char *what);
#define TIME_LIMIT_TEXT_BYTES 64
/* The words on its deadline: "the time limit of ... came". */
const char *ending_time_limit(const struct capture *capture, char ret[TIME_LIMIT_TEXT_BYTES]);
/* All its rows are in its file: puts the file into order. */
void ending_finish(struct capture *capture);
/* Stores the final row; tries again where it could not be stored. */
void ending_store(struct capture *capture);

#endif
