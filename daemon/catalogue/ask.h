/* ask.h - clients' questions to the catalogue, in turn: it has only a few of one user at a time. Loop's thread. */
#ifndef PROFD_DAEMON_CATALOGUE_ASK_H
#define PROFD_DAEMON_CATALOGUE_ASK_H

#include <stdbool.h>

struct quota_user;
struct server;
struct work;

/* Gives the catalogue a question, or keeps it until enough of the same user's questions are answered. False (not taken)
 * if the catalogue does not keep up. The work's `done` calls catalogue_answered. It finds work->run NULL if the
 * catalogue took the question neither at once nor later. */
bool catalogue_ask(struct server *server, struct quota_user *user, struct work *work);
void catalogue_answered(struct server *server, struct quota_user *user);

#endif
