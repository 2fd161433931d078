/* frame.c - see frame.h. */
#include "frame.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <string.h>

#define RED_ZONE 128
#define MAGIC_BEFORE 0x46505853u
#define MAGIC_BEHIND 0x46505845u
#define SOFTWARE_BYTES 464 /* in the state: what the kernel notes on it */
#define PRESENT_BITS 512   /* which parts are not in their first state */
#define TILES (1ull << 18)
#define FLAG_XSTATE 1
#define FLAG_SS 2
#define FLAG_STRICT_SS 4
#define RESTARTS_FIRST (-512) /* -ERESTARTSYS, -ERESTARTNOINTR, -ERESTARTNOHAND */
#define RESTARTS_LAST (-514)
#define RESTARTS_BY_BLOCK (-516)

/* As asm/ucontext.h and asm/sigcontext.h have it. */
struct kernel_frame {
	uint64_t leads_back; /* the address that the handler returns to */
	struct {
		uint64_t flags, link;
		uint64_t stack[3];
		uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
		uint16_t cs, gs, fs, ss;
		uint64_t err, trapno, oldmask, cr2, xstate;
		uint64_t reserved[8];
		uint64_t mask;
	} context;
	unsigned char information[128];
};

struct software {
	uint32_t magic, all_bytes;
	uint64_t features;
	uint32_t state_bytes, padding[7];
};

static void take_registers(struct kernel_frame *frame, const struct user_regs_struct *r)
{
	frame->context.r8 = r->r8, frame->context.r9 = r->r9, frame->context.r10 = r->r10, frame->context.r11 = r->r11;
	frame->context.r12 = r->r12, frame->context.r13 = r->r13, frame->context.r14 = r->r14,
	frame->context.r15 = r->r15;
	frame->context.rdi = r->rdi, frame->context.rsi = r->rsi, frame->context.rbp = r->rbp,
	frame->context.rbx = r->rbx;
	frame->context.rdx = r->rdx, frame->context.rax = r->rax, frame->context.rcx = r->rcx,
	frame->context.rsp = r->rsp;
	frame->context.rip = r->rip, frame->context.eflags = r->eflags;
	frame->context.cs = (uint16_t)r->cs, frame->context.ss = (uint16_t)r->ss;
}

struct user_regs_struct frame_registers(const struct frame_state *state)
{
	struct user_regs_struct r = state->registers;
	long result = (long)r.rax;

	if ((long)r.orig_rax >= 0 &&
	    ((result <= RESTARTS_FIRST && result >= RESTARTS_LAST) || result == RESTARTS_BY_BLOCK)) {
		r.rax = (unsigned long long)state->meant;
		r.rip -= 2; /* the instruction syscall */
	}
	r.orig_rax = (unsigned long long)-1;
	return r;
}

/* What ptrace shows has room for the tiles of AMX; the kernel takes from a thread that never used them no frame that has. */
static size_t xstate_used(const struct frame_state *state)
{
	uint64_t features, present;
	size_t most = 576; /* the old state, and the head */

	if (state->xstate_bytes < most || state->xstate_bytes > FRAME_XSTATE_MOST)
		return 0;
	memcpy(&features, state->xstate + SOFTWARE_BYTES, sizeof features);
	memcpy(&present, state->xstate + PRESENT_BITS, sizeof present);
	if (!(features & TILES) || present & TILES)
		return state->xstate_bytes;
	for (unsigned bit = 2; bit < 63; bit++) {
		unsigned size, offset, c, d;

		if (!(features & ~TILES & 1ull << bit) || !__get_cpuid_count(0xd, bit, &size, &offset, &c, &d))
			continue;
		if (offset + size > most)
			most = offset + size;
	}
	return most <= state->xstate_bytes ? most : 0;
}

size_t frame_build(const struct frame_state *state, unsigned char *bytes, uint64_t *address)
{
	const struct user_regs_struct registers = frame_registers(state), *r = &registers;
	struct kernel_frame frame = {0};
	struct software software = {0};
	size_t xstate = xstate_used(state);
	uint64_t features;
	const uint32_t behind = MAGIC_BEHIND;

	if (!xstate || r->cs != 0x33 || ((long)state->registers.orig_rax >= 0 && state->meant < 0))
		return 0;
	/* The kernel's own order: the state of the vector registers above, aligned; the frame below it. */
	uint64_t state_at = (r->rsp - RED_ZONE - xstate - sizeof behind) & ~63ull;
	uint64_t frame_at = ((state_at - sizeof frame) & ~15ull) - 8;
	take_registers(&frame, r);
	frame.context.flags = FLAG_XSTATE | FLAG_SS | FLAG_STRICT_SS;
	/* No such flags: the kernel leaves the thread's alternate stack what it is. */
	frame.context.stack[1] = 0x55;
	frame.context.mask = state->mask;
	frame.context.xstate = state_at;
	memcpy(&features, state->xstate + SOFTWARE_BYTES, sizeof features);
	software.magic = MAGIC_BEFORE;
	software.all_bytes = (uint32_t)(xstate + sizeof behind);
	software.features = xstate == state->xstate_bytes ? features : features & ~TILES;
	software.state_bytes = (uint32_t)xstate;
	size_t size = (size_t)(state_at - frame_at) + xstate + sizeof behind;
	if (size > FRAME_BYTES_MOST)
		return 0;
	memset(bytes, 0, size);
	memcpy(bytes, &frame, sizeof frame);
	memcpy(bytes + (state_at - frame_at), state->xstate, xstate);
	memcpy(bytes + (state_at - frame_at) + SOFTWARE_BYTES, &software, sizeof software);
	memcpy(bytes + (state_at - frame_at) + xstate, &behind, sizeof behind);
	*address = frame_at;
	return size;
}

#endif
