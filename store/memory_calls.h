/* memory_calls.h - the operators and ranges around blocks of memory: in which operator a block was taken, and what
 * each operator took, together with the operators that it called. No locks. */
#ifndef PROFD_STORE_MEMORY_CALLS_H
#define PROFD_STORE_MEMORY_CALLS_H

#include "file.h"
#include "proto/base/numbered.h"
#include "rows.h"

enum memory_phase { MEMORY_NO_PHASE, MEMORY_BACKWARD, MEMORY_OPTIMIZER, MEMORY_LOADER };

/* Is a row of operators a node of autograd's backward, or an operator that evaluates one? The latter adds up
 * gradients that were broadcast, such as those of biases. scope 1: at::RecordScope::BACKWARD_FUNCTION. */
#define MEMORY_BACKWARD_SQL                                                                                            \
	"(scope = 1 OR name IN (SELECT id FROM strings WHERE text GLOB 'autograd::engine::evaluate_function: *'))"
/* torch's range around a request to a DataLoader for a batch. */
#define MEMORY_LOADER_GLOB "enumerate(DataLoader)#*"

#define MEMORY_NULL UINT32_MAX

struct memory_call {
	union {
		int64_t parent_id; /* until all rows are read; ROWS_NULL: none */
		int64_t cpu;	   /* bytes taken less bytes given back; with what it called after memory_calls_sum() */
	};
	int64_t device;		    /* likewise */
	uint32_t name, step, stack; /* MEMORY_NULL: none; a range has no name */
	uint32_t thread;
	uint32_t parent, owner; /* numbers; owner: the innermost operator around it, or itself */
	uint32_t children;	/* those that could be one call with it */
	uint16_t depth;
	uint8_t phase : 2;
	bool is_operator : 1, no_child : 1; /* no_child: it is on no stack */
	bool known : 1;			    /* has an id of its own */
	bool used : 1;			    /* there are blocks in it */
	bool folded : 1;		    /* one call with its parent, which has its sums */
	bool brings : 1; /* its outermost operator makes a new tensor, or copies one from elsewhere */
};

struct memory_calls {
	struct numbered ids; /* (id, 0, 0): struct memory_call */
};

/* Reads all operators and ranges, and finds their owners and phases. False: there is no memory. Errors stay in the
 * store. */
bool memory_calls_load(struct memory_calls *calls, struct store *store);
void memory_calls_deinit(struct memory_calls *calls);

/* NULL: there is no call of this id, or number. */
struct memory_call *memory_calls_find(const struct memory_calls *calls, int64_t id);
struct memory_call *memory_calls_at(const struct memory_calls *calls, uint32_t number);
/* A block was taken (bytes) or given back (-bytes) by the call itself. */
void memory_calls_add(struct memory_call *call, int64_t bytes, bool device);
/* Adds to each call what it called. Call it once all blocks were added. False: there is no memory. */
bool memory_calls_sum(struct memory_calls *calls);

/* These do not overflow, whatever a hostile agent wrote, and never return ROWS_NULL. */
static inline int64_t memory_plus(int64_t a, int64_t b)
{
	int64_t sum;
	if (__builtin_add_overflow(a, b, &sum))
		sum = b < 0 ? INT64_MIN : INT64_MAX;
	return sum == ROWS_NULL ? ROWS_NULL + 1 : sum;
}

static inline int64_t memory_minus(int64_t a, int64_t b)
{
	int64_t difference;
	if (__builtin_sub_overflow(a, b, &difference))
		difference = b > 0 ? INT64_MIN : INT64_MAX;
	return difference == ROWS_NULL ? ROWS_NULL + 1 : difference;
}

/* A value of a record. NULL, and ROWS_NULL, are MEMORY_NULL. */
static inline uint32_t memory_number(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? MEMORY_NULL
							       : (uint32_t)sqlite3_column_int64(row, column);
}

static inline int64_t memory_value(uint32_t number)
{
	return number == MEMORY_NULL ? ROWS_NULL : number;
}

static inline int64_t memory_integer(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? ROWS_NULL : sqlite3_column_int64(row, column);
}

#endif
