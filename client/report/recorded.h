/* recorded.h - what a capture has, and why it lacks the rest. */
#ifndef PROFD_CLIENT_REPORT_RECORDED_H
#define PROFD_CLIENT_REPORT_RECORDED_H

#include "client/reader/reader.h"

#include "proto/events.h"

/* Did this collector of the device side run in the capture, and does the file have its tables? Files of schema 1 lack
 * them. */
bool report_device_ran(const struct reader *reader, const char *collector);
/* The same for cupti. */
bool report_gpu(const struct reader *reader);
/* Was a device simulated? */
bool report_simulated(const struct reader *reader);
/* Did CUPTI refuse to record all of these kinds, or was a trace imported that has none of them? kinds: bits of enum
 * activity_kind. */
bool report_refused(const struct reader *reader, int64_t kinds);
#define REPORT_COPIES (INT64_C(1) << ACTIVITY_COPY)
#define REPORT_SETS (INT64_C(1) << ACTIVITY_SET)
#define REPORT_SYNCS (INT64_C(1) << ACTIVITY_SYNC)
#define REPORT_RUNTIME (INT64_C(1) << ACTIVITY_RUNTIME)
#define REPORT_DRIVER (INT64_C(1) << ACTIVITY_DRIVER)
#define REPORT_CALLS (INT64_C(1) << ACTIVITY_RUNTIME | INT64_C(1) << ACTIVITY_DRIVER)
/* Is it known what launched the work of the devices? Then that work can be given to operators, ranges and threads. */
bool report_attributed(const struct reader *reader);
/* Did profd itself use CUPTI? An imported trace does not say how CUPTI was used. */
bool report_used_cupti(const struct reader *reader);
/* Are blocks of torch's allocators told apart? Traces of torch before 1.10 have no addresses. */
bool report_tells_blocks(const struct reader *reader);
/* Bits of enum session_option: how CUPTI was used; 0: it was not. */
int64_t report_session_options(const struct reader *reader);
/* Did a collector run that fills these figures (enum collector_figures), and does the file have their tables? */
bool report_filled(const struct reader *reader, unsigned figures);
/* The sentence of the first collector that would have filled them: why it did not. The caller frees it. */
char *report_unfilled(const struct reader *reader, unsigned figures);
/* Did this collector run in the capture? */
bool report_ran(const struct reader *reader, const char *collector);
/* The collector's own sentence: what it recorded, or why it did not. The caller frees it. */
char *report_sentence(const struct reader *reader, const char *collector);
/* Is there a table of this name? Files of earlier releases lack tables that came later. */
bool report_has_table(const struct reader *reader, const char *table);
/* Did the agent look at processes that the job had forked? */
bool report_looked(const struct reader *reader);
/* The step that a user means: its ordinal, or else the process's own number. 0: there is no such step. */
int64_t report_step(const struct reader *reader, int64_t wanted);
/* The process's own numbers of the first and the last step; 0: steps have none. */
void report_step_numbers(const struct reader *reader, int64_t *ret_first, int64_t *ret_last);
/* How many steps were recorded. */
int64_t report_step_count(const struct reader *reader);

/* A query: for each step the ns in which a network ran that was not trained (docs/breakdown.md). No row: there are
 * none. */
#define REPORT_EVALUATIONS                                                                                             \
	"SELECT step, sum(ns) AS ns FROM breakdown WHERE side = 'host' AND row IN "                                    \
	"('validation', 'test', 'evaluation', 'inference') GROUP BY step"
#define REPORT_NO_EVALUATIONS "SELECT NULL AS step, NULL AS ns"
/* The same for compilations by torch.compile in the step's thread. */
#define REPORT_COMPILATIONS                                                                                            \
	"SELECT step, sum(ns) AS ns FROM breakdown WHERE side = 'beside' AND row = 'torch_compile' GROUP BY step"
/* The same for garbage collection. */
#define REPORT_COLLECTIONS                                                                                             \
	"SELECT step, sum(ns) AS ns FROM breakdown WHERE side = 'host' AND row = 'garbage' GROUP BY step"
/* Does any step of the file have such a row? No, if the breakdown was not made with the capture. */
bool report_evaluates(const struct reader *reader);
bool report_compiles_in_steps(const struct reader *reader);
bool report_collects_in_steps(const struct reader *reader);

#endif
