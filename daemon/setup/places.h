/* places.h - where a daemon lives: store, socket, lock. Before the loop runs. */
#ifndef PROFD_DAEMON_SETUP_PLACES_H
#define PROFD_DAEMON_SETUP_PLACES_H

struct server;

#define PLACES_SENTENCE_BYTES 640

/* Chooses directory and socket from the options (NULL = not given) and the environment, makes the folders, checks the
 * file system, takes the lock. Fills server->directory, folder, folder_path, socket_path. Returns the lock's descriptor,
 * or a negative errno with a sentence. */
int places_take(struct server *server, const char *directory, const char *socket_path, char *sentence);

/* Listens on server->socket_path; a socket file that nobody listens on is replaced. Returns the descriptor or a negative
 * errno with a sentence. */
int places_listen(const struct server *server, char *sentence);

#endif
