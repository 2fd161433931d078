/* hash.c - see hash.h. */
#include "hash.h"
#include "clock.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Tests that do not call hash_init get these. */
uint64_t hash_secret[2] = {0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu};

void hash_init(void)
{
	uint64_t secret[2];
	if (syscall(SYS_getrandom, secret, sizeof secret, 0) != (long)sizeof secret) {
		/* This kernel has no such call. The time of the start serves instead: nobody can guess it to the
		 * nanosecond. */
		secret[0] = clock_realtime() * 0x9e3779b97f4a7c15u;
		secret[1] = clock_monotonic() * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)getpid() << 32;
	}
	hash_secret[0] = secret[0];
	hash_secret[1] = secret[1] | 1;
}
