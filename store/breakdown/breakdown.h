/* breakdown.h - where each step's time goes: every nanosecond in exactly one row, on the host's side and on each device's. Times
 * are ns, intervals half-open. docs/breakdown.md defines the rows. */
#ifndef PROFD_STORE_BREAKDOWN_BREAKDOWN_H
#define PROFD_STORE_BREAKDOWN_BREAKDOWN_H

#include "activity.h"

/* ROW(NAME, word, title): the rows of the step thread. */
#define BREAKDOWN_HOST_ROWS(ROW)                                                                                       \
	ROW(INPUT, "input", "input")                                                                                   \
	ROW(FORWARD, "forward", "forward")                                                                             \
	ROW(BACKWARD, "backward", "backward")                                                                          \
	ROW(OPTIMIZER, "optimizer", "optimizer")                                                                       \
	ROW(ZERO_GRAD, "zero_grad", "zero_grad")                                                                       \
	ROW(VALIDATION, "validation", "validation")                                                                    \
	ROW(TEST, "test", "test")                                                                                      \
	ROW(EVALUATION, "evaluation", "evaluation")                                                                    \
	ROW(INFERENCE, "inference", "inference (without gradient)")                                                    \
	ROW(COMM, "comm", "communication")                                                                             \
	ROW(SYNC, "sync", "waits for the device")                                                                      \
	ROW(COPY, "copy", "pageable copies")                                                                           \
	ROW(ALLOC, "alloc", "allocation")                                                                              \
	ROW(COMPILE, "compile", "compilation")                                                                         \
	ROW(GARBAGE, "garbage", "garbage collection")                                                                  \
	ROW(SETUP, "setup", "set-up")                                                                                  \
	ROW(CAPTURE, "capture", "the profiler itself")                                                                 \
	ROW(OPERATORS, "operators", "other operators")                                                                 \
	ROW(OUTSIDE, "outside", "outside of operators")                                                                \
	ROW(BETWEEN, "between_steps", "between steps")                                                                 \
	ROW(UNKNOWN, "unknown", "not known")

#define BREAKDOWN_DEVICE_ROWS(ROW)                                                                                     \
	ROW(COMPUTE, "compute", "compute")                                                                             \
	ROW(COMMUNICATION, "communication", "exposed communication")                                                   \
	ROW(COPIES, "copies", "exposed copies and memsets")                                                            \
	ROW(IDLE, "idle", "idle")

/* Why a device was idle. */
#define BREAKDOWN_IDLE_ROWS(ROW)                                                                                       \
	ROW(INPUT, "input", "waiting for input")                                                                       \
	ROW(SYNC, "sync", "the host waits for the device")                                                             \
	ROW(COPY, "copy", "a pageable copy")                                                                           \
	ROW(ALLOC, "alloc", "the host allocates")                                                                      \
	ROW(COMPILE, "compile", "the host compiles or loads")                                                          \
	ROW(GARBAGE, "garbage", "the host collects garbage")                                                           \
	ROW(SETUP, "setup", "the host sets up")                                                                        \
	ROW(COMM, "comm", "the host prepares a collective")                                                            \
	ROW(OPERATOR, "op", "the host is in operators")                                                                \
	ROW(LAUNCH, "launch", "the host launches")                                                                     \
	ROW(CALL, "call", "the host is in another call")                                                               \
	ROW(OUTSIDE, "outside", "the host is outside of operators")                                                    \
	ROW(ARRIVAL, "arrival", "on the way to the device")                                                            \
	ROW(CAPTURE, "capture", "the profiler itself")                                                                 \
	ROW(GAP, "gap", "gaps with work queued, 10 us at most")                                                        \
	ROW(DEVICE_WAIT, "device_wait", "idle with work queued")                                                       \
	ROW(UNKNOWN, "unknown", "not known")

#define ROW(NAME, word, title) HOST_##NAME,
enum host_row { BREAKDOWN_HOST_ROWS(ROW) HOST_ROWS };
#undef ROW
#define ROW(NAME, word, title) DEVICE_##NAME,
enum device_row { BREAKDOWN_DEVICE_ROWS(ROW) DEVICE_ROWS };
#undef ROW
#define ROW(NAME, word, title) IDLE_##NAME,
enum idle_row { BREAKDOWN_IDLE_ROWS(ROW) IDLE_ROWS };
#undef ROW

struct breakdown_row {
	const char *word, *title; /* for JSON; for tables */
};
extern const struct breakdown_row breakdown_host_rows[HOST_ROWS], breakdown_device_rows[DEVICE_ROWS],
	breakdown_idle_rows[IDLE_ROWS];

/* A phase has the word and the title of its row on the host's side. PHASE_NONE has "none". */
const struct breakdown_row *breakdown_phase_row(enum phase phase);
/* The phase of this word; PHASE_COUNT: there is no such phase. */
enum phase breakdown_phase_named(const char *word, size_t bytes);

#define BREAKDOWN_NO_CALL SIZE_MAX

/* A call of the driver's or the runtime's API that launched something. */
struct breakdown_call {
	int64_t start, end;
	uint32_t thread;
	bool pageable; /* a copy of pageable memory: the call returns when it is done */
};

/* What an operation might do better. Of several that run at one instant the first in this list counts: time is lost
 * to one of the others only while nothing else runs. */
enum operation_kind {
	OPERATION_PLAIN,
	OPERATION_NO_TENSOR_CORES, /* a matrix product or a convolution that does not use the device's tensor cores */
	OPERATION_FEW_BLOCKS,	   /* a kernel with blocks for half of the multiprocessors at most */
	OPERATION_PAGEABLE,	   /* a copy that reads or writes pageable memory, or whose call blocks */
	OPERATION_KINDS
};

/* What a device did. */
struct breakdown_operation {
	int64_t start, end;
	int64_t device;
	uint8_t row;   /* enum device_row; not IDLE */
	uint8_t kind;  /* enum operation_kind */
	bool before;   /* launched before the recording */
	uint8_t fill;  /* of a kernel with few blocks: the part of the multiprocessors that get a block, in 1/255 */
	uint32_t name; /* of a kernel: its id in `strings`; 0: none */
	size_t call;   /* index of its call; BREAKDOWN_NO_CALL: the call was not recorded */
};

struct breakdown_step {
	int64_t start, end;
	int64_t annotated; /* time after this is between two steps; `end`: there is no such time */
	int64_t host[HOST_ROWS];
	int64_t compiled;			  /* the part of HOST_COMPILE that was a compilation by torch.compile */
	int64_t matrix[PHASE_COUNT][DOING_COUNT]; /* of the step thread */
	int64_t collections;			  /* full collections of Python's garbage; -1: not known */
};

struct breakdown_device_step {
	int64_t rows[DEVICE_ROWS];
	int64_t hidden_communication, hidden_copies; /* while an earlier row counts */
	int64_t idle[IDLE_ROWS];
	int64_t after_sync; /* of idle: after a wait of the host during which the device ran out of work */
};

/* An idle interval of a device, not cut at steps. */
struct breakdown_idle {
	int64_t start, end;
	size_t next; /* index of the operation that ended it; SIZE_MAX: the recording ended */
	/* The device ran out of work during a wait of the host, and no call launched anything between that wait and
	 * the call that ended the idle interval: the wait's thread and times. */
	bool after_sync;
	uint32_t sync_thread;
	int64_t sync_start, sync_end;
};

/* A stretch of a device's time in one row, as it is kept. Stretches have no holes between them and are not cut at
 * steps: each ends where the next one begins. A capture may have many millions. */
struct breakdown_stretch {
	int64_t start;
	uint32_t idle; /* index in `idles`; only where the row is DEVICE_IDLE */
	uint8_t row;   /* enum device_row */
	uint8_t cause; /* enum idle_row for DEVICE_IDLE, else enum operation_kind */
};

static inline int64_t breakdown_stretch_end(const struct breakdown_stretch *stretch)
{
	return stretch[1].start;
}

struct breakdown_device {
	int64_t device;
	struct breakdown_device_step *steps; /* one for each step */
	struct breakdown_idle *idles;
	size_t idle_count;
	struct breakdown_stretch *stretches; /* one more at the end begins where the last one ends */
	size_t stretch_count, stretch_room;
	size_t operations_from, operations_to; /* its operations, by start */
	size_t near_step;		       /* the step that was asked for last */
	bool failed;			       /* no memory */
};

/* A stretch of time in one row. */
struct breakdown_piece {
	int64_t start, end;
	int64_t device; /* -1: the step's thread */
	int row;	/* enum device_row, or enum host_row */
	int idle;	/* enum idle_row; -1 where the device was not idle */
};

/* Is told of each piece when it is found. Pieces of one side come in order of time. The host's pieces are cut at each
 * step; a device's are not. */
struct breakdown_listener {
	void (*piece)(void *context, const struct breakdown_piece *piece);
	void *context;
};

struct breakdown {
	/* The caller sets these, and owns the arrays. `operations` are sorted here. */
	const struct breakdown_listener *listener; /* NULL: none */
	struct breakdown_step *steps;		   /* sorted, not overlapping */
	size_t step_count;
	uint32_t step_thread;
	bool has_operators; /* operators were recorded: time without any is outside of operators, not unknown */
	const struct activity *activity; /* built */
	const struct breakdown_call *calls;
	size_t call_count;
	struct breakdown_operation *operations;
	size_t operation_count;
	/* Before this time the devices may have worked on operations that were not recorded: idle time before it is
	 * unknown. 0: there is no such time. */
	int64_t known_from;
	/* The result. */
	struct breakdown_device *devices; /* by number */
	size_t device_count;
};

/* Fills the steps and makes the devices. False: no memory. */
bool breakdown_make(struct breakdown *breakdown);
void breakdown_free(struct breakdown *breakdown);
/* Time of the step, ns, in which a network ran that was not trained: the rows from validation to inference. */
int64_t breakdown_evaluates(const struct breakdown_step *step);
/* What the untrained networks of these steps were run for, with an article: "a validation". NULL: the job did not
 * say. */
const char *breakdown_called(const struct breakdown_step *steps, size_t count);
/* Work that not every step does. */
enum breakdown_held { HOLDS_EVALUATION = 1, HOLDS_COMPILATION = 2 };
/* Which of this work the step does: bits of enum breakdown_held. */
unsigned breakdown_holds(const struct breakdown_step *step);
/* How many steps do which of this work. */
struct breakdown_holders {
	size_t steps, evaluate, compile, any;
};
/* Counts one more step. holds: bits of the work that it does. */
void breakdown_count(struct breakdown_holders *holders, unsigned holds);
/* The kinds of work (bits) that make a step unusual: medians leave such steps out, since the other steps do none of
 * that work. 0: medians are of all steps. At least one step is always kept. */
unsigned breakdown_unusual(const struct breakdown_holders *holders);
/* The same, for the steps [first, last). */
unsigned breakdown_left_out(const struct breakdown *breakdown, size_t first, size_t last);
#define BREAKDOWN_SENTENCE 160
/* "1 of 5 steps holds an evaluation (212 ms): left out of the median". Empty: no step is left out. */
void breakdown_tell_left_out(const struct breakdown *breakdown, size_t first, size_t last,
			     char ret[BREAKDOWN_SENTENCE]);
/* The row of the host's side at an instant; HOST_ROWS: the instant is in no step. *ret_end: the row lasts at least
 * until then. */
enum host_row breakdown_host_row(const struct breakdown *breakdown, int64_t time, int64_t *ret_end);
/* The step in which an instant lies; SIZE_MAX: in none. */
size_t breakdown_step_of(const struct breakdown *breakdown, int64_t time);
/* The thread that launched the operation after the idle interval. If that is not known, the thread that steps. */
uint32_t breakdown_launcher(const struct breakdown *breakdown, const struct breakdown_idle *idle);
/* Calls the listener with this piece, unless it is empty. */
void breakdown_tell(const struct breakdown *breakdown, const struct breakdown_piece *piece);

#endif
