/* manager.h - the service manager: the socket that it hands over, messages to it, and the segments that it keeps from
 * one daemon to the next. Without a service manager these functions do nothing. Loop's thread, or before the loop runs.
 *
 * The protocols are systemd's documented ones (sd_listen_fds(3), sd_notify(3)), a few lines each: libsystemd cannot go into
 * a program that is to run as one file anywhere. */
#ifndef PROFD_DAEMON_CORE_MANAGER_H
#define PROFD_DAEMON_CORE_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MANAGER_SENTENCE_BYTES 640

/* A segment that an earlier daemon of this service has left with the manager. */
struct manager_kept {
	uint64_t capture;
	int fd; /* -1: taken */
};

struct manager {
	int notify_fd; /* -1: nobody is told */
	struct sockaddr_un notify_address;
	socklen_t notify_length;
	bool managed;		   /* somebody starts the daemon again when it ends, or when it is needed */
	bool handed;		   /* the listening socket is the manager's: not ours to remove */
	struct manager_kept *kept; /* owned; until manager_release */
	size_t kept_count;
	uint64_t watchdog_ns; /* 0: there is no watchdog */
};

/* Reads what the manager has put into the environment, and takes it out of there. Before anything else. Returns the
 * listening socket that was handed over, with its path in ret_path, -ENOENT where there is none, or another negative
 * errno with a sentence. */
int manager_init(struct manager *manager, char ret_path[MANAGER_SENTENCE_BYTES], char *sentence);
void manager_deinit(struct manager *manager);

/* One message of lines NAME=VALUE. It is lost where the manager does not listen. */
void manager_tell(struct manager *manager, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Leaves the segment of a capture with the manager, so that what it holds outlives this daemon and the job too. False
 * where that cannot be now. */
bool manager_keep(struct manager *manager, uint64_t capture, int fd);
/* The manager no longer needs to keep the capture's segment. */
void manager_unkeep(struct manager *manager, uint64_t capture);
/* The segment of this capture that an earlier daemon has left; it belongs to the caller from now on. -1: there is
 * none. */
int manager_take(struct manager *manager, uint64_t capture);
/* Gives back the segments that nobody has taken. */
void manager_release(struct manager *manager);

#endif
