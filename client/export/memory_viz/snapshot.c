/* snapshot.c - see snapshot.h. Lists of frames are found again in a table with open addressing; once it is full they are written anew. */
#include "snapshot.h"

#include "proto/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST 1024
#define PLACES ((size_t)1 << 16)
#define PLACES_FILLED (PLACES / 4 * 3)

struct origin_place {
	uint64_t key;	 /* of name, stack and label; 0 = free */
	uint32_t number; /* of the list */
};

static const char *const words[] = {
#define WORD(NAME, text) text,
	SNAPSHOT_WORDS(WORD)
#undef WORD
};

static const char *const labels[SNAPSHOT_LABEL_COUNT] = {
	[LABEL_OLDER] = "(taken before the recording began)",
	[LABEL_LEFT_OUT] = "(taken before the part of the recording that this file has)",
	[LABEL_NO_BEGIN] = "(when it was taken is lost)",
	[LABEL_NO_END] = "(when it was given back is lost)",
	[LABEL_HELD] = "(all that was taken before the recording began and is held at its end)",
};

int snapshot_init(struct snapshot *s, const struct reader *reader, struct buffer *to)
{
	*s = (struct snapshot){0};
	int error = stack_frames_load(&s->stacks, reader);
	if (error)
		return error;
	s->frames = calloc((size_t)s->stacks.count + 1, sizeof *s->frames);
	s->origins = calloc(PLACES, sizeof *s->origins);
	if (!s->frames || !s->origins)
		return -ENOMEM;
	pickle_begin(&s->pickle, to);
	return 0;
}

void snapshot_deinit(struct snapshot *s)
{
	stack_frames_free(&s->stacks);
	free(s->frames);
	free(s->origins);
	*s = (struct snapshot){0};
}

void snapshot_word(struct snapshot *s, enum snapshot_word word)
{
	if (s->words[word]) {
		pickle_kept(&s->pickle, s->words[word]);
		return;
	}
	pickle_text(&s->pickle, words[word]);
	s->words[word] = pickle_keep(&s->pickle);
}

void snapshot_int(struct snapshot *s, enum snapshot_word key, int64_t value)
{
	snapshot_word(s, key);
	pickle_int(&s->pickle, value);
}

void snapshot_words(struct snapshot *s, enum snapshot_word key, enum snapshot_word value)
{
	snapshot_word(s, key);
	snapshot_word(s, value);
}

/* ---------------------------------------------------------------- frames */

static void put_frame(struct snapshot *s, const char *file, int64_t line, const char *name)
{
	pickle_dict(&s->pickle);
	snapshot_word(s, WORD_FILENAME);
	pickle_text(&s->pickle, file);
	snapshot_int(s, WORD_LINE, line);
	snapshot_word(s, WORD_NAME);
	pickle_text(&s->pickle, name);
	pickle_dict_end(&s->pickle);
}

static void put_stack(struct snapshot *s, uint32_t id)
{
	for (unsigned depth = 0; id && s->stacks.frames[id].function && depth < DEPTH_MOST; depth++) {
		const struct stack_frame *frame = &s->stacks.frames[id];
		if (s->frames[id]) {
			pickle_kept(&s->pickle, s->frames[id]);
		} else {
			put_frame(s, frame->file, frame->line, frame->function);
			s->frames[id] = pickle_keep(&s->pickle);
		}
		id = frame->parent;
	}
}

static void put_list(struct snapshot *s, const struct snapshot_origin *origin)
{
	int64_t stack = origin->stack > 0 && origin->stack <= s->stacks.count ? origin->stack : 0;
	pickle_list(&s->pickle);
	if (origin->label)
		put_frame(s, "profd", 0, labels[origin->label]);
	if (origin->text)
		put_frame(s, "operator", 0, origin->text);
	else if (!origin->label && !stack)
		put_frame(s, "profd", 0, "(outside of operators)");
	put_stack(s, (uint32_t)stack);
	pickle_list_end(&s->pickle);
}

static uint64_t key_of(const struct snapshot_origin *origin)
{
	return (uint64_t)origin->label << 61 | 1ull << 60 | ((uint64_t)origin->stack & 0xfffffff) << 32 |
	       (uint32_t)origin->name;
}

void snapshot_frames(struct snapshot *s, const struct snapshot_origin *origin)
{
	uint64_t key = key_of(origin);
	size_t at = hash_of(key, 0) % PLACES;
	snapshot_word(s, WORD_FRAMES);
	while (s->origins[at].key && s->origins[at].key != key)
		at = (at + 1) % PLACES;
	if (s->origins[at].key) {
		pickle_kept(&s->pickle, s->origins[at].number);
		return;
	}
	put_list(s, origin);
	if (s->origin_count < PLACES_FILLED) {
		s->origin_count++;
		s->origins[at] = (struct origin_place){key, pickle_keep(&s->pickle)};
	}
}
