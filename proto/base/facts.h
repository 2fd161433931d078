/* facts.h - facts of a process and of a capture: the plain values that registry, capture file, catalogue and replies
 * share, with functions to copy and name them. */
#ifndef PROFD_PROTO_BASE_FACTS_H
#define PROFD_PROTO_BASE_FACTS_H

#include "proto/events.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Room for all levels of nested namespaces that the kernel allows. */
#define PIDS_BYTES 640

struct identity {
	pid_t pid; /* as the daemon sees it */
	uint64_t start_time;
	uid_t uid;
	pid_t agent_pid;       /* in the agent's own pid namespace */
	char pids[PIDS_BYTES]; /* for each pid namespace below the daemon's, the outer first: " 4026532210:7
			        * 4026532300:1 " */
	int32_t rank, local_rank, world_size; /* -1 = none */
	char user[32];
	char host[64];
	char name[64];
	char command[1024];
	char job[128];
	char launcher[32];
	char torch_version[32];
	char agent_version[32];
};

#define LABEL_BYTES 128
#define REASON_BYTES 384

struct capture_facts {
	uint64_t number, trigger, cycle;
	struct identity who;
	char label[LABEL_BYTES];
	enum capture_status status;
	char reason[REASON_BYTES];	/* empty = none */
	enum cancel_reason reason_code; /* NONE while it runs, and where it is complete */
	uint64_t started, finished;	/* CLOCK_REALTIME ns; finished 0 = not yet */
	uint64_t steps_wanted, steps_recorded;
	uint64_t events, lost, bytes;
	uint64_t step_ns;    /* median of the recorded steps; 0 = none */
	uint64_t step_after; /* ns; 0 = not known */
	bool simulated;
	bool pinned; /* as the catalogue has it: retention does not delete it */
};

/* "17", or "u17" from a user's own daemon; with trigger "t17", "ut17". */
#define ID_BYTES 32
void capture_id_text(uint64_t number, bool user, char ret[ID_BYTES]);
void trigger_id_text(uint64_t number, bool user, char ret[ID_BYTES]);
/* The number in an id of this daemon; 0 where the text is no such id. */
uint64_t capture_id_parse(const char *text, bool user);
uint64_t trigger_id_parse(const char *text, bool user);

/* Copies text, cut where it is too long, always NUL-terminated. */
void text_copy(char *to, size_t to_bytes, const char *from);
/* Makes hostile bytes fit for TEXT columns and JSON: bytes that are not UTF-8, and control characters except tab and
 * newline, become '?'. */
void text_clean(char *text, size_t n);

/* Name of a user, or the number as text. May wait for a name service, so it must not be called on the loop's thread. */
void user_name(uid_t uid, char *to, size_t to_bytes);

#endif
