/* estimate.c - op "estimate": what a trigger would do and cost. Nothing is armed; only some refusals are written into the audit log.
 *
 * op "estimate" {as op "trigger"; "follow" has no meaning}
 *      -> {"row":"target","pid","name","rank","outcome":"would_record"|"would_wait"|ERROR WORD|"left_out","message"?,
 *             with "would_record": "step","step_ns","step_source" as in PROCESS,
 *             "first_step":N|null,"last_step":N|null (of the first cycle; null: its steps have no numbers that are known before),
 *             "about":bool (where it begins depends on the moment), "steps":N|null,"warmup":N|null (null: a window of time),
 *             "cycles":N|null (null: until it is cancelled), "collectors":[WORD..] (that are asked for),
 *             "not_on":[{"collector","capture_id","sentence"}] (of them, not on in the newest capture that asked for it),
 *             "estimate":{"captures":N,"not_comparable":N (of them),"measured":FIGURES|null,"at_most":FIGURES|null,
 *                         "at_least":FIGURES|null,"by_command":{"measured","at_most","at_least"}|null}}
 *         {"row":"together",...}  as op "trigger"
 *         end, or its error, as op "trigger"; where "wait_for" says to wait, no error
 *      FIGURES, of one complete capture of this very process: "capture_id","steps","step_before_ns","step_during_ns",
 *      "step_more_ns" (each or null),"events_per_step","bytes" (of its file),"differs_by":[WORD..] (collectors that it had more, or
 *      fewer, than would be on). "measured": it had exactly these. "by_command": the same of captures of
 *      the user's other processes that ran the same command; null: there is none, or one of this process tells.
 */
#include "daemon/capture/dry_run.h"
#include "daemon/core/connection.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/ops.h"

static void parse_estimate(struct parse *parse, struct request *request, const cJSON *object)
{
	op_find("trigger")->parse(parse, request, object);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)packet, (void)n;
	dry_run_start(conn, &request->trigger);
}

const struct op op_estimate = {"estimate", "says what a trigger would do and cost", parse_estimate, serve, NULL};
