/* upgrade.h - a partial file of an older schema becomes one of this release's. */
#ifndef PROFD_STORE_UPGRADE_H
#define PROFD_STORE_UPGRADE_H

struct store;

/* 0 or a negative errno with store->sentence. In a transaction of its own. */
int store_upgrade(struct store *store);

#endif
