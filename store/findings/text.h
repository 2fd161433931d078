/* text.h - what a finding says: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_TEXT_H
#define PROFD_STORE_FINDINGS_TEXT_H

#include "findings.h"
#include "claims.h"
#include "processor.h"

/* Ids of texts that mean one thing; more are not told apart. */
#define TEXTS_IDS 16

/* What the capture's texts tell. */
struct texts {
	sqlite3 *db;
	int64_t *per_tensor; /* sorted */
	size_t per_tensor_count, per_tensor_room;
	int64_t input[TEXTS_IDS]; /* marks of input */
	size_t input_count;
	bool single_loader, workers_loader; /* the DataLoader's iterator: in the thread itself, with workers */
};

/* False: SQLite's error in *ret_error. texts_free() in either case. */
bool texts_load(struct texts *texts, sqlite3 *db, const struct breakdown_watch *watch, int *ret_error);
void texts_free(struct texts *texts);
/* The text of an id, "" where there is none. */
void texts_get(const struct texts *texts, uint32_t id, char *to, size_t bytes);

/* Fills subject, what, evidence, advice and sql. grown: of a step unlike the others, ns by which its row grew. */
void findings_tell(const struct texts *texts, const struct breakdown_capture *capture, const struct findings *findings,
		   const struct claims *claims, const struct processor *processor, int64_t grown,
		   struct finding *finding);
/* Fills the verdict: one line. */
void findings_tell_line(struct findings *findings);

#endif
