/* stopped.h - one thread of another process that stands still while we have it make calls. The other threads run. Whatever happens to
 * us, the thread goes on where it was: what it calls returns through a signal frame (frame.h). x86-64. */
#ifndef PROFD_CLIENT_ATTACH_STOPPED_H
#define PROFD_CLIENT_ATTACH_STOPPED_H

#include "frame.h"
#include "urgent.h"

#include "client/process/memory.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Where a function is called from, in the process. */
struct stopped_stub {
	uint64_t begin,
		end; /* code that calls what stands in r13, then notes that and waits as `back` says, then makes rt_sigreturn */
	uint64_t enter; /* where in there it begins */
	uint64_t data;	/* r12 there */
	uint64_t back;	/* struct stopped_return */
};

struct stopped_return {
	uint32_t is;	      /* it has come back */
	uint32_t called;      /* it went to the function */
	struct timespec wait; /* and stays there for so long at most */
};

struct stopped {
	int64_t pid, tid;
	struct process_memory *process;
	struct frame_state state; /* as it was found */
	uint64_t frame;		  /* where its signal frame lies */
	uint64_t leave;		  /* libc's rt_sigreturn */
	int64_t since, until;	  /* CLOCK_MONOTONIC ns: stood still from, to */
	bool laid;		  /* the frame is there */
	bool blocked;		  /* and its signals wait */
	int64_t called,
		ran; /* the same clock, at its last call; how long it had had a processor soon after that, 0: not looked at yet */
	bool late;    /* what it called last has not come back in time */
	bool held;    /* the job itself has stopped it meanwhile */
	bool between; /* it stands where the kernel would hand it a signal, and then looks how a system call goes on */
	bool left;    /* nor has it had the processor: it comes back by itself */
	struct stopped_stub stub; /* from where it was made to call; 0: not yet */
	sigset_t own;		  /* the caller's mask, as it was */
	struct urgent urgent;	  /* and how soon the caller gets a processor */
};

/* Stops a thread. 0, or a negative errno: EPERM no permission or another tracer, ESRCH gone, ETIME it does not come to
 * stand, as it does not run. */
int stopped_begin(struct stopped *ret, int64_t pid, int64_t tid, struct process_memory *process);
/* Has it no dispatch of system calls of its own (PR_SET_SYSCALL_USER_DISPATCH), which would get what it is made to call? */
bool stopped_is_plain(const struct stopped *thread);
/* Does it run outside of a restartable sequence (rseq), which a stop in the middle would have begin anew, unseen by the kernel? */
bool stopped_is_alone(const struct stopped *thread);
/* Will there be room below this stack pointer, for the frame and for what is called? It only looks. */
bool stopped_has_room(int64_t pid, int64_t tid, uint64_t sp);
/* The system call that a thread asked for whose next instruction is here, and that goes on by restart_syscall; -1 where that is not
 * known. */
long stopped_meant(struct process_memory *process, uint64_t pc);
/* Lays the signal frame down; before that nothing can be called. -ENOMEM: its stack has no room. */
int stopped_lay(struct stopped *thread, uint64_t leave);
/* Has the thread call a function of libc that makes the system call `number` at once. *ret: what the kernel answers. 0 or a negative
 * errno; then only stopped_end(). */
int stopped_syscall(struct stopped *thread, uint64_t function, long number, const uint64_t arguments[6], int64_t *ret);
/* Where the stub leaves the error of what it could not begin with, as it has nowhere else to write yet; a negative number of 64 bits. */
#define STOPPED_FAILED_BELOW 24 /* the frame */
/* Has it call a function through a stub. 0: it has come back, and stands, or has gone on where it was
 * already. */
int stopped_call(struct stopped *thread, const struct stopped_stub *stub, uint64_t function,
		 const uint64_t arguments[4]);
/* Does it still wait for us after such a call, so that it can be made to call more? */
bool stopped_waits(const struct stopped *thread);
/* Puts everything back and lets it go. 0, or a negative errno: it goes back by itself as soon as it comes out of what it was made to call,
 * or has ended. */
int stopped_end(struct stopped *thread);

#endif
