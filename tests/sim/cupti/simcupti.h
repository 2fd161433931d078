/* simcupti.h - what the files of the simulated CUPTI share. One library per release, compiled from that release's headers.
 *
 * Threads: the program's, in which the driver tells of calls and launches; the driver's stream threads, which tell what has
 * finished; whoever calls CUPTI; and one worker that hands out full buffers. One lock, sim_lock, guards all state of these
 * files; no client's callback is called with it held. */
#ifndef PROFD_TESTS_SIM_CUPTI_SIMCUPTI_H
#define PROFD_TESTS_SIM_CUPTI_SIMCUPTI_H

#include <cupti.h>
#include <release.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/observer.h"
#include "tests/sim/script.h"

enum {
	CLIENTS_MAX = 5, /* the one of the calls without a subscriber, and four of the _v2 calls */
	KINDS_MAX = 64,
	CALLBACKS_MAX = 2048, /* callback ids of a domain */
	RECORD_MAX = 1024,
	ATTRIBUTES_MAX = 32,
	EXTERNAL_KINDS_MAX = 8,
	EXTERNAL_DEPTH = 64,
	CALL_DEPTH = 16,
	CONTEXTS_MAX = 64,
};

struct client;
struct thread;
struct place;

/* A client's buffer while it is CUPTI's. */
struct buffer {
	struct buffer *next; /* of its client's, or of the finished ones */
	struct client *client;
	struct thread *owner; /* NULL: shared by all threads */
	uint8_t *data;
	size_t size, used;
	size_t records, records_max; /* 0 = any number */
	struct place *places;	     /* incomplete records */
	bool closed;		     /* nothing is added any more */
	uint64_t due;		     /* CLOCK_MONOTONIC ns before which it is not handed out */
	uint64_t thread_id;
};

/* Where the incomplete record of an operation lies; buffer is NULL where there is none, or it was handed out already. */
struct place {
	struct place *next, **link;
	struct buffer *buffer;
	size_t offset;
	const struct sim_operation *operation; /* NULL: of a graph */
};

/* Who collects: client 0 by the calls without a subscriber, the others by _v2 calls with theirs. */
struct client {
	bool live, multiple;
	uint64_t kinds;
	uint64_t callbacks[3][CALLBACKS_MAX / 64]; /* activity of each call: [enum sim_domain] */
	CUpti_BuffersCallbackRequestFunc requested;
	CUpti_BuffersCallbackCompleteFunc completed;
#ifdef HAS_cuptiActivityRegisterCallbacks_v2
	CUpti_BuffersCallbackRequestFunc_v2 requested_v2;
	CUpti_BuffersCallbackCompleteFunc_v2 completed_v2;
#endif
	size_t attributes[ATTRIBUTES_MAX];
	uint32_t thread_id_type;
	bool latency;
	bool event_times;
	uint64_t dropped;
	struct buffer *buffers, *shared, *spare;
	uint64_t context_on[CONTEXTS_MAX], context_off[CONTEXTS_MAX]; /* kinds by context id */
	uint64_t pools[64]; /* addresses of memory pools that MEMORY_POOL records told of */
};

/* What is known of a thread. Lives as long as the process. */
struct thread {
	struct thread *next;
	struct buffer *current[CLIENTS_MAX];
	struct {
		uint64_t ids[EXTERNAL_DEPTH];
		unsigned depth;
	} external[CLIENTS_MAX][EXTERNAL_KINDS_MAX];
	struct {
		uint32_t correlation;
		uint32_t callback;
		uint64_t start;
		unsigned wanted;	    /* clients that collected it as it began, a bit each */
		uint64_t data[CLIENTS_MAX]; /* the subscriber's own, between enter and exit */
	} calls[CALL_DEPTH];
	unsigned depth;
	unsigned in_callback; /* of a buffer */
	unsigned launching;   /* calls of cuLaunchKernel that it is in */
	int unbalanced;	      /* while it is not 0, its kernels have no records */
};

extern pthread_mutex_t sim_lock;
extern struct client sim_clients[CLIENTS_MAX];

/* entry.c: every exported function begins with one of these. They answer what the script or the missing driver says, and
 * else CUPTI_SUCCESS. `always`: the real one works without a driver, up to 13.1. argument: a kind, or 0. */
CUptiResult sim_enter(const char *function, uint32_t argument, bool always);
/* And ends with this: writes the log, keeps the last error, and returns the result. */
CUptiResult sim_leave(const char *function, uint32_t argument, CUptiResult result);
CUptiResult sim_last_error(void);
bool sim_driver_up(void);
void sim_driver_gone(void);
/* Makes the driver tell, from the first thing enabled until cuptiFinalize. */
void sim_observe(bool on);
simcuda_dump_fn *sim_dump_function(void);
void *sim_driver_function(const char *name);
/* Where the client did what the real library does not allow, and the script does not say "lenient". */
void sim_forbid(bool offence, const char *what);
/* A fault, not raise(): a thread that has blocked its signals dies of a fault all the same. */
void sim_crash(void);

#define ENTER(argument)                                                                                                \
	do {                                                                                                           \
		CUptiResult entered = sim_enter(__func__, (uint32_t)(argument), false);                                \
		if (entered != CUPTI_SUCCESS)                                                                          \
			return sim_leave(__func__, (uint32_t)(argument), entered);                                     \
	} while (0)
#define ENTER_ALWAYS(argument)                                                                                         \
	do {                                                                                                           \
		CUptiResult entered = sim_enter(__func__, (uint32_t)(argument), true);                                 \
		if (entered != CUPTI_SUCCESS)                                                                          \
			return sim_leave(__func__, (uint32_t)(argument), entered);                                     \
	} while (0)
#define LEAVE(argument, result) return sim_leave(__func__, (uint32_t)(argument), (result))

/* clock.c. Times of records: `host` ones are those of calls, the others were taken on a device. */
uint64_t sim_monotonic(void);
uint64_t sim_time(uint64_t monotonic, bool host);
void sim_clock_start(void); /* the first kind is enabled */
void sim_clock_callback(CUpti_TimestampCallbackFunc function);

/* sizes.c: bytes of the release's record of a kind, 0 where the release does not have it. */
size_t sim_record_size(uint32_t kind);
CUptiResult sim_next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record);

/* names.c: the callback id of an API function (sim_call's symbol and name), 0 where the release does not know it; sim_lock
 * held. */
uint32_t sim_callback_id(uint32_t domain, const char *symbol, const char *name);
/* What the release calls it, NULL where there is no such id. */
const char *sim_callback_name(uint32_t domain, uint32_t id);

/* records.c: each writes one record to out (RECORD_MAX bytes) and returns its kind. Times are CLOCK_MONOTONIC ns, 0 = none. */
uint32_t record_operation(uint8_t *out, const struct client *client, const struct sim_operation *operation,
			  uint64_t start, uint64_t end);
uint32_t record_graph(uint8_t *out, const struct sim_operation *operation, uint64_t start, uint64_t end);
uint32_t record_call(uint8_t *out, const struct client *client, const struct sim_call *call, uint32_t callback);
uint32_t record_external(uint8_t *out, uint32_t kind, uint64_t id, uint32_t correlation);
uint32_t record_memory(uint8_t *out, const struct sim_memory *memory, uint32_t pid);
uint32_t record_pool(uint8_t *out, const struct sim_memory *memory, uint32_t pid);
uint32_t record_device(uint8_t *out, const struct sim_device *device);
uint32_t record_context(uint8_t *out, const struct sim_context *context);
uint32_t record_stream(uint8_t *out, const struct sim_stream *stream);
uint32_t record_module(uint8_t *out, const struct sim_module *module);
uint32_t record_overhead(uint8_t *out, const struct client *client, uint64_t start, uint64_t end);
/* Which kind the record of an operation would have; for kernels, of the two that `client` has on. */
uint32_t operation_kind(const struct client *client, const struct sim_operation *operation);

/* buffers.c; sim_lock held throughout, which all but `give` may let go of in between. */
extern struct thread *sim_threads; /* all there ever were */
struct thread *sim_thread(void);
unsigned client_number(const struct client *client);
/* Puts a record (written by one of records.c) into the calling thread's buffer of the client; with `place` it is incomplete
 * until place_finish. Returns whether it is there: else it was dropped, and counted. */
bool buffer_put(struct client *client, uint8_t *record, struct place *place);
/* Overwrites the incomplete record and makes it complete. */
void place_finish(struct place *place, const uint8_t *record);
/* Hands out what is complete, or with `forced` everything; waits for the callbacks unless the script says otherwise. */
void buffers_flush(bool forced);
/* Forgets all buffers without handing them out. */
void buffers_forget(struct client *client);
/* The callback gets it; takes sim_lock itself. */
void buffer_give(struct buffer *buffer);
void client_reset(struct client *client);

/* operations.c: what the driver tells. All but the observer's own functions with sim_lock held. */
extern const struct sim_observer sim_observer;
void operations_dump(struct client *client, uint32_t kind);
void operations_forget(void);
/* When a still incomplete operation began to run, 0 where it waits yet. */
uint64_t operation_begun(const struct sim_operation *operation);

/* subscribers.c; sim_lock held, which subscribers_call lets go of. */
void subscribers_call(struct thread *thread, unsigned depth, const struct sim_call *call, CUpti_ApiCallbackSite site);
void subscribers_forget(void);
bool subscribers_any(void);
bool subscribers_multiple(void);
/* NULL: not one of ours. Its client becomes live with the first question. */
struct client *subscriber_client(CUpti_SubscriberHandle handle);

/* activity.c; sim_lock held. Whether a client collects a kind of a context (0: of none). */
bool client_wants(const struct client *client, uint32_t kind, uint32_t context);
/* The client of the calls without a subscriber; *result says whether these go with the subscribers that are there. */
struct client *client_plain(CUptiResult *result);
CUptiResult client_enable(struct client *client, uint32_t kind, bool on);
void client_enable_call(struct client *client, uint32_t domain, uint32_t callback, bool on);
/* Of the calling thread; these take sim_lock themselves. */
CUptiResult external_push(struct client *client, uint32_t kind, uint64_t id);
CUptiResult external_pop(struct client *client, uint32_t kind, uint64_t *last);

/* options.c */
CUptiResult attribute_get(struct client *client, uint32_t attribute, size_t *size, void *value);
CUptiResult attribute_set(struct client *client, uint32_t attribute, size_t *size, void *value);

/* seen.c: what a real GPU was seen to do, where the script asks for it. Without sim_lock, which they do not take: */
void seen_register(void);	    /* callbacks for buffers are being registered */
void seen_disable(uint32_t kind);   /* before it is */
void seen_launch(const char *name); /* a call of the driver begins */
/* With sim_lock: */
bool seen_marked(void); /* are incomplete records marked? */
void seen_enter(struct thread *thread, const struct sim_call *call);
void seen_leave(struct thread *thread, const struct sim_call *call);
void seen_switched(uint32_t kind, bool on);					      /* it was not so before */
bool seen_silent(const struct thread *thread, const struct sim_operation *operation); /* it gets no record */
void seen_graph_made(uint32_t id);
void seen_graph_launched(const struct sim_operation *node); /* as a whole */
void seen_forget(void);

/* trouble.c: what the script wants to go wrong; sim_lock held where it counts. */
bool every(const char *key); /* true at each N-th question about a key whose value is N */
uint64_t trouble_random(uint64_t below);
void trouble_record(uint8_t *record, uint32_t kind); /* names, times and sizes of a finished record */
size_t trouble_growth(uint32_t kind);		     /* bytes that records of a kind are longer than the headers say */
size_t trouble_kind_size(uint32_t kind);	     /* of a kind that only the script knows, else 0 */
bool trouble_unknown(uint8_t *record);		     /* whether a record of such a kind comes next; writes it */
void trouble_shuffle(struct buffer *buffer);
void trouble_replace(struct client *client); /* another client registers its callbacks, if it is time to */
void trouble_dump(const struct buffer *buffer);
void trouble_foreign(struct buffer *buffer, const struct client *client); /* a buffer that the client never gave */

#endif
