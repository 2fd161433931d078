/* facts.h - what /proc says of a process. */
#ifndef PROFD_CLIENT_PROCESS_FACTS_H
#define PROFD_CLIENT_PROCESS_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of /proc/PID/stat, as proc(5) numbers them. */
enum process_field { PROCESS_PARENT = 4, PROCESS_FLAGS = 9, PROCESS_START = 22, PROCESS_ARGUMENTS = 48 };
/* 0 where it cannot be read. */
uint64_t process_number(int64_t pid, enum process_field field);

/* A line of /proc/PID/status, behind its colon. False where there is none. */
bool process_status(int64_t pid, const char *key, char *to, size_t bytes);

/* The start of /proc/PID/NAME, `most` bytes of it, to be freed; a NUL follows. NULL where it cannot be read. */
char *process_file(int64_t pid, const char *name, size_t most, size_t *bytes);

/* The command line, its words parted by blanks; empty where it cannot be read, and for the kernel's threads. */
void process_command(int64_t pid, char *to, size_t bytes);

/* Calls `take` for each line of /proc/PID/NAME, without its newline, until it returns false. 0 or a negative errno. */
int process_lines(int64_t pid, const char *name, bool (*take)(void *context, char *line), void *context);

/* Has it mapped a file whose path has this in it? */
bool process_maps(int64_t pid, const char *part);

#endif
