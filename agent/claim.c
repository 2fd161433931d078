/* claim.c - see claim.h. A process may load two copies by two paths (a preloaded release, and another one that a
 * variable names), or by dlmopen. They share neither symbols nor the loader's lists. So they use a fixed address: the
 * copy that maps the page there first works in the process. A descriptor or a variable would be inherited; a fork child
 * does not inherit the page, and a new program starts without it. */
#include "claim.h"

#include "../proto/claim.h"

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

static _Atomic bool mine, lost;

static bool has_mark(void)
{
	/* A futex compares the word without a read that could fault: the page may be anybody's. 0 counts as a mark,
	 * too: a copy that claims the page at this moment has not written its mark yet. */
	const struct timespec none = {0, 0};
	for (uint32_t value = CLAIM_MARK;; value = 0) {
		long r = syscall(SYS_futex, (void *)(uintptr_t)CLAIM_PLACE, FUTEX_WAIT_PRIVATE, value, &none, NULL, 0);
		if (r < 0 && errno == ETIMEDOUT)
			return true;
		if (!value)
			return false;
	}
}

bool claim_process(int (*attach)(const char *))
{
	if (atomic_load(&mine))
		return true;
	void *wish = (void *)(uintptr_t)CLAIM_PLACE;
	void *page = mmap(wish, CLAIM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			  -1, 0);
	if (page == wish) {
		madvise(page, CLAIM_BYTES, MADV_DONTFORK);
		struct claim *claim = page;
		claim->attach = (uintptr_t)attach;
		__atomic_store_n(&claim->mark, CLAIM_MARK, __ATOMIC_SEQ_CST);
		atomic_store(&mine, true);
		return true;
	}
	if (page != MAP_FAILED)
		munmap(page, CLAIM_BYTES);
	/* Where the kernel refuses that page to every program there is no mark; then this copy works, and cannot know
	 * of others. */
	atomic_store(&lost, has_mark());
	atomic_store(&mine, !claim_lost());
	return atomic_load(&mine);
}

bool claim_lost(void)
{
	return atomic_load(&lost);
}
