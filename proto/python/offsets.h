/* offsets.h - offsets of the fields that are read, by release of CPython. */
#ifndef PROFD_PROTO_PYTHON_OFFSETS_H
#define PROFD_PROTO_PYTHON_OFFSETS_H

#include "memory.h"

#define PYTHON_MINOR_LEAST 9
#define PYTHON_MINOR_MOST 14

/* All fields of a frame that are read end before this, in every release. */
#define PYTHON_FRAME_BYTES 128

/* Offsets in bytes; -1: there is no such field. */
struct python_offsets {
	int32_t runtime_head, runtime_finalizing; /* of _PyRuntime */
	int32_t gil_holder, gil_locked; /* of _PyRuntime, or of the structure that interpreter_gil points to, if
					 * there is one */
	int32_t interpreter_next, interpreter_threads, interpreter_modules, interpreter_gil;
	int32_t interpreter_collections; /* statistics of the collector of garbage, from the youngest generation on; -1: not known */
	int32_t thread_next, thread_ident, thread_native, thread_frame;
	int32_t cframe_current; /* thread_frame leads to this structure first (3.11, 3.12) */
	int32_t thread_cframe;	/* 3.10 has it, too, beside thread_frame; elsewhere -1 */
	int32_t frame_previous, frame_code, frame_instruction, frame_owner, frame_locals;
	int32_t code_file, code_name, code_line, code_table, code_start; /* code_start: first instruction */
	int32_t code_flags, code_arguments, code_keywords; /* numbers of arguments, and of keyword-only ones */
	int32_t text_state, text_ascii, text_wide;	   /* of str: flags, data if ASCII, data if not */
	int32_t bytes_data;
	int32_t tuple_items;
	/* For PEP 768 (3.14): offsets from a thread's state, and within its slot. */
	int32_t breaker, debugger, debugger_pending, debugger_path, debugger_path_bytes;
	int32_t interpreter_debugger_enabled;
};

/* Words of the statistics of a generation: collections, objects that were freed, and those that could not be. */
#define PYTHON_GENERATIONS 3
#define PYTHON_GENERATION_WORDS 3

enum python_offsets_result { OFFSETS_KNOWN, OFFSETS_UNKNOWN, OFFSETS_FREE_THREADED, OFFSETS_UNREADABLE };

/* Finds the offsets of the runtime at this address. *minor is the release, 3.MINOR; if it is 0 on entry the runtime
 * must tell it, as it does from 3.13 on. */
enum python_offsets_result python_offsets_find(struct python_memory *memory, uint64_t runtime, unsigned *minor,
					       struct python_offsets *ret);

#endif
