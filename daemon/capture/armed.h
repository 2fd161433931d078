/* armed.h - a note in the store's folder on a capture between ARM and its file: whose it is, and its schedule. To make
 * a capture's file takes some ms, and a trigger on many processes would wait for all of the files; the note takes a few
 * us. A client is told that a capture is armed once the note is written (with a slow disk: after 1 s, see capture.c).
 * So a daemon that is killed loses no capture that a client knows of, unless the disk is slow. */
#ifndef PROFD_DAEMON_CAPTURE_ARMED_H
#define PROFD_DAEMON_CAPTURE_ARMED_H

#include "proto/base/facts.h"
#include "handoff.h"

/* Any thread. 0 or a negative errno. */
int armed_write(int folder, const struct capture_facts *facts, const struct handoff *handoff, int segment_fd);
void armed_remove(int folder, uint64_t number);
/* Makes the partial file of a capture that has only this note, and removes the note. True: the file has been made. */
bool armed_make_file(int folder, const char *folder_path, uint64_t number);
/* Writes into a new file, in one transaction, what another daemon has to know to go on with the capture. */
void armed_begin_file(struct store *store, const struct capture_facts *facts, const struct handoff *handoff,
		      uint64_t device, uint64_t inode);

#endif
