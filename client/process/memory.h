/* memory.h - another process's memory, through /proc/PID/mem. The descriptor stays with the program that ran when it was opened: after
 * an exec, or when the pid belongs to somebody else, nothing can be read any more. The kernel asks for the rights of ptrace(2). */
#ifndef PROFD_CLIENT_PROCESS_MEMORY_H
#define PROFD_CLIENT_PROCESS_MEMORY_H

#include "proto/python/memory.h"

#include <stddef.h>
#include <stdint.h>

struct process_memory {
	int64_t pid;
	int fd;
	struct python_memory memory; /* reads it */
};

/* Returns 0 or a negative errno. `reads` bounds what a hostile process may cost. `mode`: O_RDONLY, or O_RDWR where it is to be
 * written, too. */
int process_memory_open(struct process_memory *ret, int64_t pid, uint64_t reads, int mode);
/* Writes all of the bytes, or returns false. Never into what an exec has put in the process's place, nor into another process. */
bool process_memory_write(const struct process_memory *memory, uint64_t address, const void *from, size_t bytes);
void process_memory_close(struct process_memory *memory);

/* Why the kernel would not let us look into a process, and what would allow it: a sentence. `error` as it came, positive. */
void process_refusal(int64_t pid, int error, char *sentence, size_t bytes);

#endif
