/* function_frames.h - the frames of Python of a capture in memory, with the modules that they call: what functions.c tells calls apart by, and
 * what their events are named by. Read once, then only looked at, by any thread. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_FUNCTION_FRAMES_H
#define PROFD_CLIENT_EXPORT_CHROME_FUNCTION_FRAMES_H

#include "client/export/buffer.h"
#include "client/reader/reader.h"
#include "names.h"

#include <stdbool.h>
#include <stdint.h>

/* The agent reads 512 frames of a stack. */
#define FUNCTION_DEPTH 512

/* A frame and, by its parent, those that led to it. */
struct function_frame {
	uint32_t parent;	 /* 0: the outermost; else less than its own number */
	uint32_t function, file; /* ids of texts */
	uint32_t line, first_line;
	uint32_t module;  /* that it is a call of; 0: none */
	uint16_t modules; /* calls of modules among it and those that led to it */
	uint16_t depth;	  /* frames that led to it, it included; 0: there is no such frame */
};

struct function_module {
	uint32_t parent;      /* that called it, less than its own number; 0: none */
	uint32_t name, class; /* ids of texts; name 0: it hangs nowhere there */
	uint32_t number;      /* of those of its class, from 0, in the order in which they were first called */
	int64_t first;	      /* when it was; INT64_MAX: never */
};

struct function_frames {
	struct function_frame *frames; /* by number, from 1 on */
	struct function_module *modules;
	uint32_t frame_count, module_count; /* the last numbers */
};

/* 0 or a negative errno; nothing where the capture has none. function_frames_deinit() in either case. */
int function_frames_load(struct function_frames *ret, const struct reader *r);
void function_frames_deinit(struct function_frames *frames);

/* Numbers the modules by when they were first called, which the caller has written. 0 or -ENOMEM. */
int function_frames_number(struct function_frames *frames);

/* NULL: there is no such frame. */
static inline const struct function_frame *function_frame(const struct function_frames *frames, int64_t number)
{
	return number > 0 && number <= frames->frame_count && frames->frames[number].depth ? &frames->frames[number]
											   : NULL;
}

/* Are both frames of one function, and of one module where it calls one? */
static inline bool function_frame_is_same(const struct function_frame *a, const struct function_frame *b)
{
	return a->function == b->function && a->file == b->file && a->first_line == b->first_line &&
	       a->module == b->module;
}

/* As torch.profiler writes them: "torch/nn/functional.py(1693): relu", "nn.Module: Linear_0". */
void function_frames_put_name(const struct function_frames *frames, const struct names *names, struct buffer *b,
			      const struct function_frame *frame);
/* "train.py:14": where it was at. */
void function_frames_put_place(const struct names *names, struct buffer *b, const struct function_frame *frame);
/* "blocks.0.attention", as `show --by modules` has it. */
void function_frames_put_path(const struct function_frames *frames, const struct names *names, struct buffer *b,
			      uint32_t module);

#endif
