/* findings.h - the verdict: what of a step is lost, to what, how that is known, and what to try. At most three findings, the one that
 * could win back most first; no nanosecond is in two of them, unless one is FINDING_WITHIN. docs/findings.md defines the rules.
 *
 *     struct breakdown_capture capture;
 *     struct findings findings;
 *     if (breakdown_capture_load(db, NULL, &capture, &error) && findings_make(&capture, db, NULL, &findings, &error))
 *             for (size_t i = 0; i < findings.count; i++)
 *                     puts(findings.items[i].what);
 *     breakdown_capture_free(&capture);
 *
 * Nothing found is an answer: findings.count == 0 and findings.abstains empty. Where something keeps the verdict from being given,
 * `abstains` says what; findings that do not depend on it may stand beside. findings.verdict is one line in each case. */
#ifndef PROFD_STORE_FINDINGS_FINDINGS_H
#define PROFD_STORE_FINDINGS_FINDINGS_H

#include "store/breakdown/load.h"

#define FINDINGS_MOST 3
/* Of the intervals that make a finding the longest are kept. */
#define FINDING_INTERVALS 32
#define FINDING_NAME_BYTES 160
#define FINDING_TEXT_BYTES 480

enum finding_flag {
	FINDING_HINT =
		1, /* the device or the profiler worked in that time: it may become less, but is not lost. Behind the others */
	FINDING_WITHIN = 2, /* its time lies within that of others: it adds nothing up */
	FINDING_NOW_AND_THEN =
		4, /* in some steps and not in others, by its nature: judged over all steps together, not by the median */
};

#define FINDING(NAME, ...) FINDING_##NAME,
enum finding_kind {
#include "findings.def"
	FINDING_KINDS
};

/* One of the stretches of time that make a finding. ns since the capture's base, as all times of the file. */
struct finding_interval {
	int64_t start, end;
	int64_t step;	 /* ordinal, 1..n */
	uint32_t thread; /* that was late; 0: none */
	uint32_t name;	 /* id in `strings` of what that thread was in: the innermost operator or call; 0: none */
	uint32_t outer;	 /* and of the outermost operator around it; 0: none */
};

struct finding {
	enum finding_kind kind;
	int64_t device;		       /* -1: of the step's thread */
	int64_t ns, least_ns, most_ns; /* of a step: median over the steps that were judged, and the spread */
	double share, least, most;     /* the same as a part of the step, 0 to 1 */
	int64_t win_ns;		       /* what it would win of a step at most, without the findings before it */
	double win;		       /* as a part of the step */
	int64_t step;		       /* FINDING_UNLIKE: the ordinal of the (worst) step; else 0 */
	int64_t collections; /* FINDING_UNLIKE: how many of these steps are unlike because of full collections of
			 * Python's garbage; else 0 */
	char subject[FINDING_NAME_BYTES]; /* operator, call, kernel or row that it is mostly about; empty: none */
	char what[FINDING_TEXT_BYTES];	  /* one sentence */
	char evidence[FINDING_TEXT_BYTES];
	char advice[FINDING_TEXT_BYTES]; /* what to try */
	char sql[1024];			 /* that lists the records behind it; runs on the capture file as it is */
	/* By start. */
	struct finding_interval intervals[FINDING_INTERVALS];
	size_t interval_count;
	uint64_t interval_total; /* how many there are */
};

struct findings {
	struct finding items[FINDINGS_MOST];
	size_t count;
	/* Steps that were judged: indices of breakdown.steps, [first, last), without those that are unlike the others. */
	size_t first, last, judged;
	size_t recorded;			      /* all steps of the capture */
	bool window;				      /* the only step is a window of time */
	int64_t step_ns, least_step_ns, most_step_ns; /* wall time of these: median, and the spread */
	int64_t device;			   /* the one that is judged; -1: none worked, the step's thread is */
	char abstains[FINDING_TEXT_BYTES]; /* why there is no verdict, or not a whole one; empty: there is */
	char verdict[FINDING_TEXT_BYTES];  /* one line */
};

struct finding_facts {
	const char *word, *title, *advice;
	double device, host; /* least shares, % */
	unsigned flags;	     /* enum finding_flag */
};
/* " a step" or " in the window": behind a number of things; " of a step" or " of the window": behind a part of its time. */
const char *findings_per(const struct findings *findings);
const char *findings_of(const struct findings *findings);
const struct finding_facts *finding_facts(enum finding_kind kind);
/* FINDING_KINDS where there is no such word. */
enum finding_kind finding_kind(const char *word);

/* Gives the verdict on a capture that was loaded. `db` is the same file: names and facts are read from it. False: as
 * breakdown_capture_load(). */
bool findings_make(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
		   struct findings *ret, int *ret_error);
/* The same of one step, by its index. */
bool findings_make_step(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
			size_t step, struct findings *ret, int *ret_error);

#endif
