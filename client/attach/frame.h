/* frame.h - a signal frame, as the kernel lays it down before a handler runs. A thread that is made to call something has one of the
 * place where it was: whatever happens to us, the call's return goes through it (rt_sigreturn) and leads back there. x86-64. */
#ifndef PROFD_CLIENT_ATTACH_FRAME_H
#define PROFD_CLIENT_ATTACH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#define FRAME_XSTATE_MOST 16384
/* Room below the stack pointer: what a frame takes at most, and the stack of the function that is called. */
#define FRAME_BYTES_MOST (FRAME_XSTATE_MOST + 2048)
#define FRAME_STACK_BYTES (48u << 10)

struct frame_state {
	struct user_regs_struct registers;
	long meant;    /* the system call in which it is: orig_rax, or what that goes on with (restart_syscall) */
	uint64_t mask; /* of signals */
	unsigned char xstate[FRAME_XSTATE_MOST];
	size_t xstate_bytes;
};

/* The registers of a thread that goes on from this state by itself: a system call that was interrupted is made
 * again. */
struct user_regs_struct frame_registers(const struct frame_state *state);

/* Builds the frame for a thread in this state into `bytes` (FRAME_BYTES_MOST). *address: where it has to lie in the thread's stack.
 * Returns its size, 0 where the state is none that we know. It leads to frame_registers(). */
size_t frame_build(const struct frame_state *state, unsigned char *bytes, uint64_t *address);

#endif
