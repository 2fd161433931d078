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

/* memory: counts what is held beside the file, for whoever pays; it outlives the store. NULL = nothing is counted or
 * bounded. Returns NULL if out of memory. */
struct store *store_new(struct memory *memory);
/* Closes what is open: a file that is not finished stays as it is. `store` may be NULL. */
void store_free(struct store *store);

/* The first error and its sentence; 0 and "". */
int store_error(const struct store *store);
const char *store_sentence(const struct store *store);
/* Sets an error of the caller's. */
int store_set_error(struct store *store, int error, const char *sentence);

/* --- a file --- */

/* SQLite's temporary files go to this folder, not to /tmp. Call it once, before any thread starts. */
void store_temporary_folder(const char *folder_path);

/* Makes a new file of the daemon's store: <folder>/<number>.partial, and <number>.db once it is finished. folder_path
 * is the path of the descriptor `folder`, which stays the caller's. From now on room for the end is kept on the
 * disk. */
int store_create(struct store *store, int folder, const char *folder_path, uint64_t number);
/* Makes a new file anywhere: <path>.partial, and <path> once it is finished. -EEXIST: one of them exists. */
int store_create_at(struct store *store, const char *path);
/* Opens a partial file that an earlier daemon left, and upgrades it if its schema is older. -EPROTO: it is no such
 * file, or its schema is newer. */
int store_open(struct store *store, int folder, const char *folder_path, uint64_t number);
/* Gives a partial file its final name, if a whole finished capture stands in it: the daemon ended before it could do
 * so. 1: it has the name now; 0: it is no such file; or a negative errno. */
int store_rename_whole(struct store *store, int folder, const char *folder_path, uint64_t number);
/* The schema of the file that store_open() found; -1: the file does not say. */
int store_schema(const struct store *store);
/* The path, and the name, of the partial file. */
const char *store_path(const struct store *store);
const char *store_partial_name(const struct store *store);
/* Gives back memory that is only a cache: no records come for a while. */
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
/* Writes what the transaction has changed so far to the file, if that can be done now. If the transaction has ended by it,
 * the failure is that of a commit. */
int store_flush(struct store *store);

/* The CLOCK_MONOTONIC ns from which the file's times count, and the CLOCK_REALTIME then. Call it before the first
 * event with a time. */
int store_set_base(struct store *store, uint64_t monotonic, uint64_t realtime);
uint64_t store_base(const struct store *store);

/* The facts that tell whose capture it is. They are in the file from the start, in case it is never finished. */
int store_put_facts(struct store *store, const struct capture_facts *facts);
int store_get_facts(struct store *store, struct capture_facts *ret);
int store_meta_text(struct store *store, const char *key, const char *value);
int store_meta_int(struct store *store, const char *key, int64_t value);
/* 0, or "", where the key is absent. */
int64_t store_get_int(struct store *store, const char *key);
void store_get_text(struct store *store, const char *key, char *to, size_t to_bytes);

/* Texts, by the ids that events use. A second text for an id is ignored. UTF-8 (text_clean). */
int store_put_string(struct store *store, uint32_t id, const char *text, size_t n);
/* The four JSON texts that Kineto writes for an operator's inputs. */
int store_put_inputs(struct store *store, uint32_t id, const char *dims, const char *types, const char *strides,
		     const char *concrete);

/* A record of any kind, with times in CLOCK_MONOTONIC ns. Its values are not checked: the caller checks what a peer
 * sends. */
int store_put_event(struct store *store, const union event_any *event);
/* This thread wrote the events that follow, in the order of their ends, into its chunk of that sequence. */
void store_chunk(struct store *store, uint32_t thread, uint32_t sequence);
/* The opposite: events come in any order. Totals are then read from the file, which takes longer. Call it before the
 * first event. */
void store_unordered(struct store *store);
/* Events of the device side will come. Without this call they are looked up in the file at the end. */
void store_expect_device(struct store *store);

/* Numbers of chunks that are in the file already: another daemon may go on with the capture. */
int store_put_ingested(struct store *store, uint32_t sequence);
bool store_has_ingested(struct store *store, uint32_t sequence);

/* --- names --- */

/* Makes mangled names of kernels readable. A program with such names passes its own functions, since names may be
 * hostile. */
#define STORE_NAME_BYTES 16384
struct store_demangler {
	/* Begins with one capture, whose names are then read one by one. NULL: out of memory. */
	void *(*begin)(void);
	/* The readable form: text[0..*ret_n). False: `mangled` is no mangled name, or it was refused. */
	bool (*read)(void *names, const char *mangled, char text[STORE_NAME_BYTES], size_t *ret_n);
	/* Returns how many names were refused, and frees. */
	uint64_t (*end)(void *names);
};
/* NULL, as in the beginning: names of kernels are readable already. */
void store_set_demangler(struct store *store, const struct store_demangler *demangler);

/* --- the end --- */

/* What one collector has reported. */
struct store_collector {
	bool wanted, told, ran;
	uint64_t enable;    /* ns */
	char sentence[248]; /* what it recorded, or why it did not; empty: the usual sentence */
};

/* What limits the processors of the recorded process. */
struct store_processors {
	uint32_t machine, allowed; /* how many there are; how many its affinity allows; 0 = not known */
	uint64_t limit;		   /* thousandths of a processor, by the quota of its cgroup; 0 = no quota is known */
	uint64_t periods,
		stopped; /* periods of the quota while the capture was armed and recorded; those in which the quota was used up */
};

/* What the recorder knows beside the rows. Numbers may come from a peer: they are bounded here. */
struct store_ending {
	struct store_collector collectors[COLLECTOR_COUNT];
	uint64_t lost[LOSS_COUNT][EVENT_KIND_COUNT];
	uint64_t record_start, record_end; /* the first and the last boundary, CLOCK_MONOTONIC ns; 0 = not known */
	uint64_t done_at;		   /* CLOCK_MONOTONIC ns when the end was known; 0 = does not matter */
	uint64_t step_before, step_during, enable, drain, agent_cpu, agent_bytes, clock_off, other_thread_steps;
	uint32_t late, step_source;
	bool has_done; /* step_before to step_source are known */
	char step_range[128];
	char note[REASON_BYTES];   /* a note of the caller's; empty = none */
	char before[REASON_BYTES]; /* the same, on the steps before the capture */
	struct store_processors processors;
	char id[ID_BYTES], trigger_id[ID_BYTES]; /* as users know them */
};
/* Adds to what was lost. */
void store_count_lost(struct store_ending *ending, unsigned loss, unsigned kind, uint64_t count);

/* Asked about every millisecond during work that may take long. doing: what the work does, in words ("finding what
 * launched what"). 0: go on. -ETIME or -ECANCELED: stop, and the sentence says why. */
struct store_watch {
	int (*look)(void *context, const char *doing, char sentence[STORE_SENTENCE_BYTES]);
	void *context;
};

/* The result for a capture. */
struct store_finished {
	bool kept;		   /* the file exists; false: nothing was recorded, and there is no file */
	uint64_t lost[LOSS_COUNT]; /* over all kinds */
	uint64_t moved;		   /* events whose step was put right */
	uint64_t derive_ns, derive_cpu, summary_ns, disk_ns;
	uint64_t since_last;		    /* ns from the last boundary until the summary was made */
	char verdict[STORE_SENTENCE_BYTES]; /* in one line */
	/* What an administrator should know although the file is good; empty = nothing. */
	char warning[STORE_SENTENCE_BYTES];
};

/* Puts the rows into order (steps, totals, what launched what), adds what is known beside them, writes the summary,
 * closes the file and gives it its name. facts: the status (COMPLETE, unless the caller knows that it is not), the
 * reason and the figures are corrected by what is in the file. `watch` (NULL: nobody) may stop putting the rows into
 * order: then they stay as they came, and facts->reason says so.
 *
 * 0, or a negative errno: the file could not be written and is gone, and facts->reason says why. */
int store_finish(struct store *store, struct store_ending *ending, struct capture_facts *facts,
		 const struct store_watch *watch, struct store_finished *ret);

#endif
