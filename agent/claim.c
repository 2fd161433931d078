/* claim.c - see claim.h. A process is loaded with two copies by two paths (a preloaded release, and another one that a variable
 * names), or by dlmopen; they share neither symbols nor the loader's lists, so they meet at an address: whoever maps the page
 * there first has the process. No descriptor, no variable: a fork child does not inherit the page, a new program starts without
 * it. */
#include "claim.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17; before that, a wish */
#endif

/* Every release meets here. Above what the kernel keeps free below (64 KiB), below the lowest address that linkers give to a
 * program (2 MiB), where nothing is mapped unasked; a multiple of the largest page. */
#define PLACE 0x1b0000u
#define MARK 0x50524644u /* "DFRP" read as text */
#define BYTES 4096

static _Atomic bool mine, lost;

static bool has_mark(void)
{
	/* Compares without a read that could fault: whose page it is nobody knows. A copy that is claiming just now has not
	 * written its mark yet. */
	const struct timespec none = {0, 0};
	for (uint32_t value = MARK;; value = 0) {
		long r = syscall(SYS_futex, (void *)(uintptr_t)PLACE, FUTEX_WAIT_PRIVATE, value, &none, NULL, 0);
		if (r < 0 && errno == ETIMEDOUT)
			return true;
		if (!value)
			return false;
	}
}

bool claim_process(void)
{
	if (atomic_load(&mine))
		return true;
	void *wish = (void *)(uintptr_t)PLACE;
	void *page =
		mmap(wish, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (page == wish) {
		madvise(page, BYTES, MADV_DONTFORK);
		atomic_store((_Atomic uint32_t *)page, MARK);
		atomic_store(&mine, true);
		return true;
	}
	if (page != MAP_FAILED)
		munmap(page, BYTES);
	/* Where the kernel gives that page to nobody there is no other way to tell. */
	atomic_store(&lost, has_mark());
	atomic_store(&mine, !claim_lost());
	return atomic_load(&mine);
}

bool claim_lost(void)
{
	return atomic_load(&lost);
}
