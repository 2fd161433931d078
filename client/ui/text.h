/* text.h - makes bytes from elsewhere safe for a terminal and for JSON, and writes durations, sizes and counts for
 * people. No state but the locale that wcwidth(3) reads. */
#ifndef PROFD_CLIENT_UI_TEXT_H
#define PROFD_CLIENT_UI_TEXT_H

#include "proto/base/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_FIGURE_BYTES 40

/* Returns the pointer. If it is NULL, memory has run out: the program ends with a sentence (exit code 1). */
void *need(void *pointer);
/* ARRAY_GROW() that ends the program where there is no memory. */
#define NEED_ROOM(array, count, room) ((void)need(ARRAY_GROW(array, count, room) ? (array) : NULL))

/* Next code point of a NUL-terminated text; moves *at. Returns -1 for a byte that is no valid UTF-8 (and skips one), 0
 * at the end (and stays). */
int32_t text_decode(const char **at);

/* A copy (to be freed) that is safe for a terminal: control characters, bidirectional overrides and what is no UTF-8
 * become '?'. NULL is read as "". */
char *text_safe(const char *text);
/* A copy (to be freed) that is valid UTF-8: each byte that is not becomes U+FFFD. */
char *text_utf8(const char *text);
/* The last part of a path; of one that ends with a slash all of it. */
const char *text_base_name(const char *path);
/* Columns that a safe text takes on a terminal. */
size_t text_width(const char *text);
/* A copy (to be freed) of a safe text that takes at most `width` columns, cut in the middle, where both ends of a long
 * name tell it from its neighbours. */
char *text_cut(const char *text, size_t width);

/* Figures for people, in TEXT_FIGURE_BYTES: "12.34 ms", "1.5 MiB", "1,234,567". Return `to`. */
const char *text_duration(char to[TEXT_FIGURE_BYTES], int64_t ns);
const char *text_bytes(char to[TEXT_FIGURE_BYTES], int64_t bytes);
const char *text_count(char to[TEXT_FIGURE_BYTES], int64_t count);
/* "pid 42"; of one that lives outside of this container (0, in JSON null) "pid not seen from here". */
const char *text_pid(char to[TEXT_FIGURE_BYTES], int64_t pid);

/* Does a name match a pattern with * and ?, as a daemon's --name means it? */
bool glob_matches(const char *glob, const char *name);

#endif
