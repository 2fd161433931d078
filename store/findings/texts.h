/* texts.h - names in a capture, and what they tell about it: for findings.c, and for the files that tell a finding. */
#ifndef PROFD_STORE_FINDINGS_TEXTS_H
#define PROFD_STORE_FINDINGS_TEXTS_H

#include "findings.h"

/* So many ids of texts with one meaning are kept. */
#define TEXTS_IDS 16

/* What the capture's texts tell. */
struct texts {
	sqlite3 *db;
	int64_t *per_tensor; /* sorted */
	size_t per_tensor_count, per_tensor_room;
	int64_t input[TEXTS_IDS]; /* marks of input */
	size_t input_count;
	unsigned updates; /* bits of enum names_update */
	bool single_loader,
		workers_loader; /* the DataLoader's iterator that works in the thread itself; with workers */
};

/* False: SQLite's error in *ret_error. Call texts_free() in either case. */
bool texts_load(struct texts *texts, sqlite3 *db, const struct breakdown_watch *watch, int *ret_error);
/* Would an optimizer that updates tensor by tensor gain if one operator took all tensors? On the CPU, foreach=True
 * still takes them one by one, and is slower if they are large: only fused=True helps there. */
bool texts_gain_by_one_update(const struct texts *texts, bool device);
void texts_free(struct texts *texts);
/* The text of an id; "" if there is none. */
void texts_get(const struct texts *texts, uint32_t id, char *to, size_t bytes);
/* The same for a kernel: its name without arguments, templates and namespaces. */
void texts_get_kernel(const struct texts *texts, uint32_t id, char *to, size_t bytes);

#endif
