/* peek.c - see peek.h. */
#include "peek.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECES 64
#define PAGE_BITS 12

long peek_bytes(uintptr_t at, void *to, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)at, bytes};
	ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	return n < 0 ? -errno : n;
}

uint32_t peek_pieces(const uint64_t *at, void *to, size_t bytes, uint32_t count)
{
	struct iovec local = {to, count * bytes}, remote[PIECES];
	if (!count || count > PIECES)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		remote[i] = (struct iovec){(void *)(uintptr_t)at[i], bytes};
	ssize_t copied = process_vm_readv(getpid(), &local, 1, remote, count, 0);
	return copied > 0 ? (uint32_t)((size_t)copied / bytes) : 0;
}

int peek_is_there(const void *at)
{
	char byte;
	return peek_bytes((uintptr_t)at, &byte, 1) != -EFAULT;
}

/* Asks the kernel for a futex operation that changes nothing but needs writable memory: if the memory is not writable,
 * the kernel returns an error and sends no signal. /proc/self/maps would need a descriptor. */
int peek_is_writable(const void *at)
{
	static uint32_t nobody_waits;
	if (syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP_PRIVATE, 0, NULL, at,
		    FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0)
		return 1;
	return errno == EFAULT ? 0 : -errno;
}

static int once(uintptr_t *known, const void *at, int (*look)(const void *))
{
	uintptr_t page = ((uintptr_t)at >> PAGE_BITS) + 1;
	if (*known != page && !look(at))
		return 0;
	*known = page;
	return 1;
}

int peek_is_there_once(uintptr_t *known, const void *at)
{
	return once(known, at, peek_is_there);
}

int peek_is_writable_once(uintptr_t *known, const void *at)
{
	return once(known, at, peek_is_writable);
}
