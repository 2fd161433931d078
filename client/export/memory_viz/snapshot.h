/* snapshot.h - the parts of a memory snapshot of torch's that are written several times: words, and from where a block was taken. One
 * thread. */
#ifndef PROFD_CLIENT_EXPORT_MEMORY_VIZ_SNAPSHOT_H
#define PROFD_CLIENT_EXPORT_MEMORY_VIZ_SNAPSHOT_H

#include "client/export/stack_frames.h"
#include "pickle.h"

#include <stddef.h>
#include <stdint.h>

/* WORD(NAME, "text") */
#define SNAPSHOT_WORDS(WORD)                                                                                           \
	WORD(ACTION, "action")                                                                                         \
	WORD(ADDR, "addr")                                                                                             \
	WORD(SIZE, "size")                                                                                             \
	WORD(STREAM, "stream")                                                                                         \
	WORD(TIME, "time_us")                                                                                          \
	WORD(FRAMES, "frames")                                                                                         \
	WORD(ALLOC, "alloc")                                                                                           \
	WORD(REQUESTED, "free_requested")                                                                              \
	WORD(COMPLETED, "free_completed")                                                                              \
	WORD(NAME, "name")                                                                                             \
	WORD(FILENAME, "filename")                                                                                     \
	WORD(LINE, "line")                                                                                             \
	WORD(DEVICE, "device")                                                                                         \
	WORD(ADDRESS, "address")                                                                                       \
	WORD(TOTAL_SIZE, "total_size")                                                                                 \
	WORD(ALLOCATED_SIZE, "allocated_size")                                                                         \
	WORD(ACTIVE_SIZE, "active_size")                                                                               \
	WORD(REQUESTED_SIZE, "requested_size")                                                                         \
	WORD(SEGMENT_TYPE, "segment_type")                                                                             \
	WORD(LARGE, "large")                                                                                           \
	WORD(EXPANDABLE, "is_expandable")                                                                              \
	WORD(BLOCKS, "blocks")                                                                                         \
	WORD(STATE, "state")                                                                                           \
	WORD(ACTIVE, "active_allocated")                                                                               \
	WORD(INACTIVE, "inactive")

enum snapshot_word {
#define WORD(NAME, text) WORD_##NAME,
	SNAPSHOT_WORDS(WORD)
#undef WORD
		SNAPSHOT_WORD_COUNT
};

/* What is said of a block besides. */
enum snapshot_label {
	LABEL_NONE,
	LABEL_OLDER,	/* taken before the recording */
	LABEL_LEFT_OUT, /* taken before the part of the recording that is written */
	LABEL_NO_BEGIN, /* that it was taken was lost */
	LABEL_NO_END,	/* that it was given back was lost */
	LABEL_HELD,	/* all that was held before, and still is */
	SNAPSHOT_LABEL_COUNT,
};

/* From where a block was taken. */
struct snapshot_origin {
	enum snapshot_label label;
	int64_t name;	  /* number of the text; 0: in no operator and no range */
	const char *text; /* of name */
	int64_t stack;	  /* 0: not recorded */
};

struct snapshot {
	struct pickle pickle;
	struct stack_frames stacks;
	uint32_t words[SNAPSHOT_WORD_COUNT]; /* what has been written: its number */
	uint32_t *frames;		     /* likewise of each stack's own frame */
	struct origin_place *origins;	     /* likewise of lists of frames */
	size_t origin_count;
};

/* 0 or a negative errno; snapshot_deinit() in either case. Nothing is written yet but the beginning. */
int snapshot_init(struct snapshot *snapshot, const struct reader *reader, struct buffer *to);
void snapshot_deinit(struct snapshot *snapshot);

void snapshot_word(struct snapshot *snapshot, enum snapshot_word word);
/* A key of a dict, and its value. */
void snapshot_int(struct snapshot *snapshot, enum snapshot_word key, int64_t value);
void snapshot_words(struct snapshot *snapshot, enum snapshot_word key, enum snapshot_word value);
/* The key "frames" and the frames: the label, the operator or range, Python's, the innermost first. Never an empty list, which readers take
 * for an older block. */
void snapshot_frames(struct snapshot *snapshot, const struct snapshot_origin *origin);

#endif
