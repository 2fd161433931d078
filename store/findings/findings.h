/* findings.h - the verdict: how much of a step is lost, to what, how that is known, and what to try. There are at
 * most three findings. The one that could win back most comes first. No nanosecond is in two findings, unless one of
 * them is FINDING_WITHIN. docs/findings.md defines the rules.
 *
 *     struct breakdown_capture capture;
 *     struct findings findings;
 *     if (breakdown_capture_load(db, NULL, &capture, &error) && findings_make(&capture, db, NULL, &findings, &error))
 *             for (size_t i = 0; i < findings.count; i++)
 *                     puts(findings.items[i].what);
 *     breakdown_capture_free(&capture);
 *
 * No finding is an answer, too: findings.count == 0 and findings.abstains is empty. If something prevents the
 * verdict, `abstains` says what; findings that do not depend on that may be there all the same. findings.verdict is
 * one line in each case. */
#ifndef PROFD_STORE_FINDINGS_FINDINGS_H
#define PROFD_STORE_FINDINGS_FINDINGS_H

#include "store/breakdown/load.h"

#define FINDINGS_MOST 3
/* So many of a finding's intervals are kept, the longest. */
#define FINDING_INTERVALS 32
#define FINDING_NAME_BYTES 160
#define FINDING_TEXT_BYTES 480

enum finding_flag {
	FINDING_HINT =
		1, /* the device or the profiler worked in that time: it may become less, but is not lost. Comes after the others */
	FINDING_WITHIN = 2, /* its time lies within that of other findings: it is not added to theirs */
	FINDING_NOW_AND_THEN =
		4, /* by its nature it is in some steps and not in others: judged over all steps together, not by the median */
};

#define FINDING(NAME, ...) FINDING_##NAME,
enum finding_kind {
#include "findings.def"
	FINDING_KINDS
};

/* One of a finding's stretches of time. ns since the capture's base, like all times of the file. */
struct finding_interval {
	int64_t start, end;
	int64_t step;	 /* ordinal, 1..n */
	uint32_t thread; /* the thread that was late; 0: none */
	uint32_t name;	 /* id in `strings` of the innermost operator or call in which that thread was; 0: none */
	uint32_t outer;	 /* of the outermost operator around that; 0: none */
};

struct finding {
	enum finding_kind kind;
	int64_t device;		       /* -1: it is about the step's thread */
	int64_t ns, least_ns, most_ns; /* in a step: median over the judged steps, and the spread */
	double share, least, most;     /* the same as a part of the step, 0 to 1 */
	int64_t win_ns;		       /* what it would win back of a step at most, alone */
	double win;		       /* as a part of the step */
	int64_t step;		       /* FINDING_UNLIKE: the ordinal of the (worst) step; else 0 */
	int64_t collections; /* FINDING_UNLIKE: how many of these steps are unlike because of full collections of Python's garbage; else 0 */
	char subject[FINDING_NAME_BYTES]; /* the operator, call, kernel or row that has most of it; empty: none */
	char what[FINDING_TEXT_BYTES];	  /* one sentence */
	char evidence[FINDING_TEXT_BYTES];
	char advice[FINDING_TEXT_BYTES]; /* what to try */
	char sql[1024];			 /* lists the records behind it, in the capture file as it is */
	/* By start. */
	struct finding_interval intervals[FINDING_INTERVALS];
	size_t interval_count;
	uint64_t interval_total; /* how many intervals there are */
};

struct findings {
	struct finding items[FINDINGS_MOST];
	size_t count;
	/* Judged steps: indices in breakdown.steps, [first, last), without those that are unlike the others. */
	size_t first, last, judged;
	size_t recorded;			      /* all steps of the capture */
	bool window;				      /* the only step is a window of time: no steps were known */
	int64_t step_ns, least_step_ns, most_step_ns; /* wall time of the judged steps: median, and the spread */
	int64_t device; /* the judged device; -1: no device worked, and the step's thread is judged */
	char abstains
		[FINDING_TEXT_BYTES]; /* why there is no verdict, or only a part of one; empty: there is a whole one */
	char verdict[FINDING_TEXT_BYTES]; /* one line */
};

struct finding_facts {
	const char *word, *title, *advice;
	double device, host; /* the smallest shares that count, % */
	unsigned flags;	     /* enum finding_flag */
};
/* " a step" or " in the window", after a number of things; " of a step" or " of the window", after a part of the
 * time. */
const char *findings_per(const struct findings *findings);
const char *findings_of(const struct findings *findings);
const struct finding_facts *finding_facts(enum finding_kind kind);
/* FINDING_KINDS: there is no such word. */
enum finding_kind finding_kind(const char *word);

/* Gives the verdict on a capture that was loaded. `db` is the same file, for names and facts. False: as
 * breakdown_capture_load(). */
bool findings_make(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
		   struct findings *ret, int *ret_error);
/* The same for one step, by its index. */
bool findings_make_step(const struct breakdown_capture *capture, sqlite3 *db, const struct breakdown_watch *watch,
			size_t step, struct findings *ret, int *ret_error);

#endif
