/* parts.h - what a stopped thread is made to make in its process: a memory file, two pages, and one call. x86-64. */
#ifndef PROFD_CLIENT_ATTACH_PARTS_H
#define PROFD_CLIENT_ATTACH_PARTS_H

#include "attach.h"
#include "choose.h"
#include "stopped.h"

#include <sys/types.h>

#define PAGE 4096
#define SOCKET_BYTES 256
/* As a path it ends like the library's, by which others know it. */
#define PARTS_NAME "profd/libprofd_agent.so"

/* The first page, as the code in the second one sees it. */
struct page {
	uint32_t started, cancelled, done, fd;
	uint64_t handle, result;
	uint64_t dlopen, dlsym, close, detach; /* detach 0: no thread of our own */
	char path[128], entry[32], socket[SOCKET_BYTES];
	uint64_t answer; /* of the call that the stopped thread made */
	uint64_t thread; /* pthread_t of the new one */
	uint64_t direct; /* profd_attach of a library that is there already; 0: it has to be loaded */
	struct stopped_return back;
	char own[64]; /* the client's file, to be opened; "": there is no need */
	uint64_t own_device, own_inode;
	unsigned char facts[144]; /* of what was opened: the kernel's struct stat */
};

/* What has been made in the process. */
struct parts {
	uint64_t pages; /* 0: none are */
	int fd;		/* of the memfd; -1: none is */
	ino_t file;
	bool queued;	 /* Python was asked for a call, which may still come */
	int32_t refused; /* what pthread_create, Py_AddPendingCall said */
	bool earlier;	 /* two pages of an earlier try are there as well */
	bool usable;	 /* the thread can be made to call more */
};

struct bringing {
	struct target *target;
	const void *image; /* the agent's library */
	size_t bytes;
	int own; /* fill_own() */
	const char *socket;
	enum choose_what what;
	struct stops stops;
	struct parts parts;
	struct attachment *ret;
	char *sentence;
	size_t sentence_bytes;
};

/* With the thread standing. `before`: of an earlier try. 0, or a negative errno, and what was made is taken back, or does nothing. */
int parts_prepare(struct bringing *bringing, struct stopped *thread, const struct parts *before);
/* Has a thread that stands queue the call of the page once more. */
void parts_queue(struct target *target, struct stopped *thread, uint64_t pages);
/* A word of the first page; 0 where it cannot be read. */
uint32_t parts_word(struct target *target, uint64_t pages, size_t offset);
/* Whoever comes to the page from now on does nothing. */
void parts_cancel(struct target *target, uint64_t pages);

#endif
