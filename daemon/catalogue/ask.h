/* ask.h - questions of clients to the catalogue, in turn: of one user's only so many are with it at a time. Loop's
 * thread. */
#ifndef PROFD_DAEMON_CATALOGUE_ASK_H
#define PROFD_DAEMON_CATALOGUE_ASK_H

#include <stdbool.h>

struct quota_user;
struct server;
struct work;

/* Gives the catalogue a question, or keeps it until enough of the same user's are answered. False (not taken) where the
 * catalogue does not keep up. The work's `done` calls catalogue_answered; it finds work->run NULL where the catalogue did
 * not keep up meanwhile, and nothing was asked. */
bool catalogue_ask(struct server *server, struct quota_user *user, struct work *work);
void catalogue_answered(struct server *server, struct quota_user *user);

#endif
