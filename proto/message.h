/* message.h - the fixed records between agents and daemon, expanded from messages.def, and their check. */
#ifndef PROFD_PROTO_MESSAGE_H
#define PROFD_PROTO_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAGIC 0x44465250u /* "PRFD"; a client's JSON begins with '{' */

struct message_head {
	uint32_t magic;
	uint16_t type; /* enum message */
	uint16_t size; /* of the whole message */
};

enum message {
#define MESSAGE(number, NAME, name, from, fds, description) MESSAGE_##NAME = (number),
#include "messages.def"
};

#define MESSAGE(number, NAME, name, from, fds, description)                                                            \
	struct message_##name {                                                                                        \
		struct message_head head;
#define MEMBER(name, type, member, description) type member;
#define TEXT(name, member, bytes, description) char member[bytes];
#define END_MESSAGE(NAME, name, first, size)                                                                           \
	}                                                                                                              \
	;
#include "messages.def"
#define END_MESSAGE(NAME, name, first, bytes)                                                                          \
	_Static_assert(sizeof(struct message_##name) == (bytes), "size of message_" #name);
#include "messages.def"

union message_any {
	struct message_head head;
#define MESSAGE(number, NAME, name, from, fds, description) struct message_##name name;
#include "messages.def"
};

/* Libraries that HELLO.libraries can name. */
enum library {
	LIBRARY_TORCH = 1,
	LIBRARY_CUDA = 2,
	LIBRARY_CUPTI = 4,
	LIBRARY_NVTX = 8,
	LIBRARY_PYTHON = 16,
};
/* How a capture records the device: ARM.options. */
enum arm_option {
	ARM_GRAPHS_WHOLE = 1, /* CUDA graphs as a whole, without a record for each node */
	ARM_API_ALL = 2,      /* all calls of the CUDA API, not only launches, copies, sets, graphs and waits */
	ARM_ALONE = 4,	      /* decline if another profiler is at work in the process */
	ARM_SWITCH = 8,	      /* with cycle > 0: the capture under way goes on as this one, with these collectors */
};
/* How an agent came in: HELLO.entry. */
enum agent_entry {
	ENTRY_PRELOAD = 1,
	ENTRY_NVTX = 2,
	ENTRY_CUDA = 4,
	ENTRY_API = 8,	   /* a profd_*() call of the program */
	ENTRY_TORCH = 16,  /* a preloaded agent saw that torch was loaded */
	ENTRY_ATTACH = 32, /* brought into a process that ran already */
	ENTRY_NEW = 64,	   /* the agent has had no daemon so far */
};
/* Why a capture ended: CANCEL.reason and DONE.reason. */
enum cancel_reason {
	REASON_NONE = 0,      /* the schedule ran to its end */
	REASON_CANCELLED = 1, /* a user cancelled it */
	REASON_DEADLINE = 2,  /* the job did not step in time */
	REASON_EXIT = 3,      /* the process exits */
	REASON_LIMIT = 4,     /* --max-events */
	REASON_MISSED = 5,    /* --at-step passed before the collectors were on */
	REASON_AGENT = 6,     /* the agent gave up; the sentence came in DECLINED or COLLECTOR */
	REASON_DAEMON = 7,    /* the daemon is going down */
	REASON_DIED = 8,      /* never sent: the daemon uses it for a process that is gone */
	REASON_LEFT = 9,      /* the step thread jumped out of a boundary (siglongjmp) */
	REASON_DETACHED = 10, /* a user has detached the agent */
	REASON_PHASE = 11,    /* a batch of another phase has come (ARM.batches) */
};
const char *cancel_reason_word(unsigned reason);
/* The reason for users: a clause that completes "incomplete: ...". */
const char *cancel_reason_sentence(unsigned reason);

const char *message_name(unsigned type);

/* Copies a packet of n bytes into *out (zero-extended) after checking magic, type, size, sender and that every text ends
 * within its array (a text is cut at the first byte that is not valid UTF-8 or is a control character). from_agent: 1
 * where an agent sent it. Returns 0 or -EPROTO; *ret_why, where not NULL, then says what was wrong. */
int message_check(const void *packet, size_t n, int from_agent, union message_any *out, const char **ret_why);

/* Fills the head of a message. */
#define MESSAGE_INIT(NAME, name)                                                                                       \
	(struct message_##name)                                                                                        \
	{                                                                                                              \
		.head = { MESSAGE_MAGIC, MESSAGE_##NAME, sizeof(struct message_##name) }                               \
	}

/* Copies a text into a fixed array: cut at a UTF-8 boundary, always NUL-terminated, control characters become '?'. */
void message_text(char *to, size_t to_bytes, const char *from);

#endif
