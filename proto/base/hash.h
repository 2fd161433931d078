/* hash.h - the hash for tables with open addressing. Keys may come from a hostile peer, who must not be able to choose keys that
 * collide: the hash depends on two random numbers of this process. */
#ifndef PROFD_PROTO_BASE_HASH_H
#define PROFD_PROTO_BASE_HASH_H

#include <stdint.h>

extern uint64_t hash_secret[2];

/* Chooses the random numbers. Call it before any table is used and before any thread is started. */
void hash_init(void);

static inline uint64_t hash_of(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)(a ^ hash_secret[0]) * (b ^ hash_secret[1]);
	uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64);
	product = (unsigned __int128)(mixed ^ hash_secret[1]) * 0x9e3779b97f4a7c15u;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
