/* store.h - makes capture files: the only header of this room that others include.
 *
 * One capture file in the making is a struct store. A caller that has records opens it, puts them in, and finishes it:
 *
 *     struct store *store = store_new(NULL);
 *     store_create_at(store, "run.db");
 *     store_begin(store);
 *     store_put_facts(store, &facts);
 *     store_set_base(store, monotonic, realtime);
 *     store_expect_device(store);                    where records of a device come
 *     store_unordered(store);                        where they do not come as an agent writes them
 *     store_put_string(store, 1, "aten::mm", 8);
 *     store_put_event(store, &event);                as often as there are records
 *     store_commit(store);
 *     error = store_finish(store, &ending, &facts, NULL, &finished);
 *     store_free(store);
 *
 * Errors: every function returns 0 or a negative errno. The first error stays: everything after it fails alike, and
 * store_sentence() says what happened, for a user. So it suffices to look at the last. Nothing is logged.
 *
 * Threads: one at a time for each store (SQLite without its own locks). */
#ifndef PROFD_STORE_STORE_H
#define PROFD_STORE_STORE_H

#include "proto/base/facts.h"
#include "proto/base/memory.h"
#include "proto/events.h"

#define STORE_SENTENCE_BYTES REASON_BYTES

struct store;

/* memory: of whoever pays for what is held beside the file, outlives the store; NULL = nobody's, and not bounded. NULL where out of
 * memory. */
struct store *store_new(struct memory *memory);
/* Closes what is open: a file that is not finished stays as it is. Takes NULL. */
void store_free(struct store *store);

/* The first error and its sentence; 0 and "". */
int store_error(const struct store *store);
const char *store_sentence(const struct store *store);
/* Says that it has failed, for a reason of the caller's. */
int store_set_error(struct store *store, int error, const char *sentence);

/* --- a file --- */

/* SQLite's temporary files go to this folder, not to /tmp. Once, before any thread. */
void store_temporary_folder(const char *folder_path);

/* A new file of the daemon's store: <folder>/<number>.partial, and <number>.db once it is finished. folder_path is the path of
 * the descriptor `folder`, which stays the caller's. Room for its end is kept on the disk from now on. */
int store_create(struct store *store, int folder, const char *folder_path, uint64_t number);
/* A new file anywhere: <path>.partial, and <path> once it is finished. -EEXIST where one of them is there already. */
int store_create_at(struct store *store, const char *path);
/* A partial file that an earlier daemon left; one of an older schema is brought to this one's. -EPROTO where it is not one, or of
 * a newer schema. */
int store_open(struct store *store, int folder, const char *folder_path, uint64_t number);
/* A partial file in which all of a finished capture stands gets its final name: the daemon ended before it could do so. 1: it has it
 * now; 0: it is no such file; or a negative errno. */
int store_rename_whole(struct store *store, int folder, const char *folder_path, uint64_t number);
/* Schema of the file that store_open found; -1 = it does not say. */
int store_schema(const struct store *store);
/* The path, and the name, of the partial file. */
const char *store_path(const struct store *store);
const char *store_partial_name(const struct store *store);
/* Gives back what is only cached: nothing comes for a while. */
void store_rest(struct store *store);
/* Closes without finishing: the file stays as it is. */
void store_close(struct store *store);
/* Closes and deletes the partial file. */
void store_discard(struct store *store);

/* --- what goes into it --- */

/* Everything is written in transactions. A transaction that cannot be committed is undone: its rows are not in the file. */
int store_begin(struct store *store);
int store_commit(struct store *store);
void store_rollback(struct store *store);

/* CLOCK_MONOTONIC ns that times of the file count from, and what CLOCK_REALTIME was then. Before the first event with a time. */
int store_set_base(struct store *store, uint64_t monotonic, uint64_t realtime);
uint64_t store_base(const struct store *store);

/* The facts that tell whose capture it is. They are in the file from the start, for a file that is left half done. */
int store_put_facts(struct store *store, const struct capture_facts *facts);
int store_get_facts(struct store *store, struct capture_facts *ret);
int store_meta_text(struct store *store, const char *key, const char *value);
int store_meta_int(struct store *store, const char *key, int64_t value);
/* 0, or "", where the key is absent. */
int64_t store_get_int(struct store *store, const char *key);
void store_get_text(struct store *store, const char *key, char *to, size_t to_bytes);

/* Texts by the ids that events name them by; a second text of one id is not taken. UTF-8 (text_clean). */
int store_put_string(struct store *store, uint32_t id, const char *text, size_t n);
/* The four JSON texts that Kineto writes of an operator's inputs. */
int store_put_inputs(struct store *store, uint32_t id, const char *dims, const char *types, const char *strides,
		     const char *concrete);

/* A record of any kind, times in CLOCK_MONOTONIC ns. Its values are believed: of what a peer sends the caller checks them. */
int store_put_event(struct store *store, const union event_any *event);
/* The events that follow were written by this thread, into its chunk of that sequence, in the order of their ends. */
void store_chunk(struct store *store, uint32_t thread, uint32_t sequence);
/* Instead: events come in any order. Totals are then taken from the file, which takes longer. Before the first event. */
void store_unordered(struct store *store);
/* Events of the device side will come. If they come without this call, they are looked up in the file in the end. */
void store_expect_device(struct store *store);

/* Chunks that were taken in already, for a capture that another daemon may go on with. */
int store_put_ingested(struct store *store, uint32_t sequence);
bool store_has_ingested(struct store *store, uint32_t sequence);

/* --- names --- */

/* Makes mangled names of kernels readable. A program that has such names passes its own functions, since names may be
 * hostile. */
#define STORE_NAME_BYTES 16384
struct store_demangler {
	/* For one capture, whose names then are read one by one. NULL: out of memory. */
	void *(*begin)(void);
	/* The readable form: text[0..*ret_n). false: `mangled` is no mangled name, or it was refused. */
	bool (*read)(void *names, const char *mangled, char text[STORE_NAME_BYTES], size_t *ret_n);
	/* How many were refused. Frees. */
	uint64_t (*end)(void *names);
};
/* NULL, as at first: names of kernels come readable. */
void store_set_demangler(struct store *store, const struct store_demangler *demangler);

/* --- the end --- */

/* What one collector has reported. */
struct store_collector {
	bool wanted, told, ran;
	uint64_t enable;    /* ns */
	char sentence[248]; /* what it recorded, or why it did not; empty: what is always said */
};

/* What limits the processors of the recorded process. */
struct store_processors {
	uint32_t machine, allowed; /* that there are, and that its affinity lets it use; 0 = not known */
	uint64_t limit;		   /* thousandths of a processor, by the quota of its cgroup; 0 = none is known */
	uint64_t periods,
		stopped; /* of the quota, while it was armed and recorded: how many, and in how many it was used up */
};

/* What the recorder knows beside the rows. Numbers may be a peer's: they are bounded here. */
struct store_ending {
	struct store_collector collectors[COLLECTOR_COUNT];
	uint64_t lost[LOSS_COUNT][EVENT_KIND_COUNT];
	uint64_t record_start, record_end; /* the first and the last boundary, CLOCK_MONOTONIC ns; 0 = not known */
	uint64_t done_at;		   /* CLOCK_MONOTONIC ns when the end was known; 0 = does not matter */
	uint64_t step_before, step_during, enable, drain, agent_cpu, agent_bytes, clock_off, other_thread_steps;
	uint32_t late, step_source;
	bool has_done; /* step_before to step_source are known */
	char step_range[128];
	char note[REASON_BYTES];   /* what the caller has to say of it; empty = nothing */
	char before[REASON_BYTES]; /* and of the steps before it */
	struct store_processors processors;
	char id[ID_BYTES], trigger_id[ID_BYTES]; /* as users know them */
};
/* Adds to what was lost. */
void store_count_lost(struct store_ending *ending, unsigned loss, unsigned kind, uint64_t count);

/* Asked every millisecond or so while work that may take long is under way. doing: what is being done, in words
 * ("finding what launched what"). 0: go on. -ETIME or -ECANCELED: stop, and the sentence says why. */
struct store_watch {
	int (*look)(void *context, const char *doing, char sentence[STORE_SENTENCE_BYTES]);
	void *context;
};

/* What became of it. */
struct store_finished {
	bool kept;		   /* the file is there; false: nothing was recorded, and there is none */
	uint64_t lost[LOSS_COUNT]; /* over all kinds */
	uint64_t moved;		   /* events whose step was put right */
	uint64_t derive_ns, derive_cpu, summary_ns, disk_ns;
	uint64_t since_last;		    /* ns from the last boundary until the summary was made */
	char verdict[STORE_SENTENCE_BYTES]; /* in one line */
	/* What is worth an administrator's attention, though the file is good; empty = nothing. */
	char warning[STORE_SENTENCE_BYTES];
};

/* Puts the rows into order (steps, totals, what launched what), adds what is known beside them, writes the summary, closes the
 * file and gives it its name. facts: status (pass COMPLETE unless it is known not to be), reason and figures are
 * corrected by what is in the file. `watch` (NULL: nobody) may end the work of putting rows into order: they stay as
 * they came then, and facts->reason says so.
 *
 * 0, or a negative errno: the file could not be written and is gone, and facts->reason says why. */
int store_finish(struct store *store, struct store_ending *ending, struct capture_facts *facts,
		 const struct store_watch *watch, struct store_finished *ret);

#endif
