/* hash.h - where a key lies in a table with open addressing. Keys come from agents, which must not know where: two numbers of
 * the daemon's own decide. */
#ifndef PROFD_BASE_HASH_H
#define PROFD_BASE_HASH_H

#include <stdint.h>

extern uint64_t hash_secret[2];

/* Chooses the secret. Before any table and any thread. */
void hash_init(void);

static inline uint64_t hash_of(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)(a ^ hash_secret[0]) * (b ^ hash_secret[1]);
	uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64);
	product = (unsigned __int128)(mixed ^ hash_secret[1]) * 0x9e3779b97f4a7c15u;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
