/* requests.h - the JSON that clients and the daemon exchange: one object a packet, at most LIMIT_PACKET_BYTES. Durations
 * and relative times are numbers of ns, absolute times RFC 3339 strings (UTC, microseconds), ids strings. What a peer
 * does not know it ignores; what it needs and does not find, or finds with the wrong type, is an error of code "usage".
 *
 * Every request: {"op": "...", "major": 1, "minor": 0, ...}. Every reply is a row, or the end, or an error:
 *
 *   {"row": "...", ...}            any number of them
 *   {"end": true, ...}             the last packet of a reply
 *   {"error": {"code": WORD, "message": SENTENCE, "pid": N?}, "end": true}    words of errors.def
 *
 * A connection serves one request after the other. Who asks is told by SO_PEERCRED, never by the request.
 *
 * Pids, in requests and in replies, are those of the caller's own pid namespace. The first request of a connection shows
 * it by one descriptor: its /proc/self/ns/pid, open. Without, the caller is taken to be in the daemon's namespace if the
 * kernel says so, else it has none. In replies "pid" is null where the caller cannot see the process (it lives outside of the
 * caller's container), in requests such a process has no pid. Uids are the
 * daemon's, and so are the pids of op audit, which is the machine's own log.
 *
 * op "status"   -> {"row":"daemon","version","pid"|null,"uid","socket","directory","started_at","processes":N,"running":N,
 *                   "captures":N,"store_bytes":N,"user":bool (a user's own daemon)}, end. Counts: of what the caller may see.
 *
 * op "ps"       -> {"row":"process", PROCESS}*, end. With {"pid":N} only that one (NO_PROCESS / NO_AGENT / NOT_YOURS
 *                   when there is none; NO_TARGET in another pid namespace than the daemon's).
 *   PROCESS = "role": "launcher"|"worker"|null (family.h), "pid" (null: see above), "uid", "user", "name", "command", "host", "job", "launcher",
 *             "rank","local_rank","world_size" (null where none), "torch_version", "libraries":["torch",...],
 *             "step":N (ended so far), "step_source":WORD, "step_note":TEXT|null, "step_ns":N|null (median of the last 16), "last_step_at":
 *             RFC3339|null, "registered_at", "state":"idle"|"armed"|"warmup"|"recording"|"finishing",
 *             "capture_id":ID|null, "agent_version"
 *
 * op "doctor"   {"pid":N} -> {"row":"process", PROCESS}, {"row":"collector","collector":WORD,"available":bool,
 *                   "sentence":TEXT}*, end. Asks the agent by PROBE; touches nothing.
 *
 * op "trigger"  {"targets": {"pids":[N..]} | {"name":GLOB} | {"job":TEXT} | {"all":true},
 *                "wait_for": ns (0 = no; else keep matching name/job for processes that register within that time),
 *                "schedule": {"skip_first","wait","warmup","active","repeat"}, "at_step":N (0), "at_multiple":N (0; the first
 *                recorded step's number is to be divisible by it), "duration":ns (0),
 *                "step_range":GLOB (""), "step_operator":GLOB (""), "step_optimizer":GLOB (""), "collectors":["steps","nvtx","torch","cupti"?,
 *                "shapes"?,"memory"?], "graphs":"nodes"|"whole" ("nodes"), "api":"launches"|"all" ("launches"),
 *                "label":TEXT (""), "timeout":ns (deadline of the whole trigger; the daemon ends captures there),
 *                "max_events":N (0), "max_bytes":N (0 = default), "follow":bool,
 *                "alone":bool (false; true: "profiled" where another profiler is seen at work in the process)}
 *      -> {"row":"target","pid","name","rank","outcome":"armed"|ERROR WORD,"message"?,"capture_id"?,"step_source"?,
 *             "trigger_id"?}
 *             one per target, as soon as each agent has answered; "outcome":"left_out" where it launches or helps what is
 *             meant, and shows no steps ("message": "launcher", "worker" or "helper")
 *         {"row":"together","job","processes":N,"at_step":N|null,"message"}  several ranks of one job: the step with which all
 *             begin, or null and why each begins by itself; again where one has begun with another step
 *         {"row":"accepted","trigger_id":ID,"armed":N,"refused":N}
 *         with follow, then until all is finished:
 *         {"row":"progress","capture_id","pid","rank","status":WORD of CAPTURE_STATUS,"step":k,"of":n,
 *             "warmup_step":k,"elapsed":ns}       at most 10 a second for each capture, only on change
 *         {"row":"captured", CAPTURE}             once a capture is in the catalogue (or has failed)
 *         {"end":true,"trigger_id"}
 *      No target matched: error no_such_target (or no_agent, no_such_process, not_permitted for a pid). All targets
 *      refused: the rows, then an error with the first one's word. If the caller's connection closes, captures go on.
 *
 * op "cancel"   {"capture_id"} | {"trigger_id"} | {"pid"} | {"all":true} -> {"row":"cancelled","capture_id","pid","uid","user","name"}*, end.
 *                Captures end with what they have (status incomplete, reason cancelled). None: error no_such_capture.
 *
 * op "captures" {"limit":N?, "pid"?, "job"?, "name"?, "label"?, "trigger_id"?} -> {"row":"capture", CAPTURE}* newest first, end;
 *                with trigger_id the end holds "running":N, how many of them are under way: whoever followed a trigger goes on
 *                so with the next daemon, until all are finished and none is under way
 *   CAPTURE = "capture_id","trigger_id","cycle","pid","uid","user","name","command","job","rank","world_size","host",
 *             "label","status":WORD,"reason":TEXT|null,"reason_code":WORD,"started_at","finished_at"|null,"steps_recorded","steps_wanted",
 *             "events","lost" (sum of losses that are losses),"bytes" (of the file),"step_ns" (median recorded)|null,
 *             "simulated":bool,"pinned":bool. reason_code: "none" (runs, or complete), "cancelled", "deadline" (the trigger's timeout
 *             came), "exit" (of the process), "limit" (--max-events), "missed" (--at-step had passed), "agent" (it gave
 *             up, or recorded less), "daemon" (it went down, or its disk was full), "died" (the process, in any other way)
 *
 * op "summary"  {"capture_id"} -> {"row":"summary", SUMMARY}, end. Computed once, when the capture was finished.
 *   SUMMARY = "capture":CAPTURE, "steps":[{"step","number","wall_ns","device_busy_ns"|null,"kernels"|null,"copies"|null,
 *             "largest_gap_ns"|null}] (the first 100; device_busy_ns is the sum over devices), "steps_total", "wall_ns" (of all), "devices":N,
 *             "operators":[{"name","calls","self_cpu_ns","cpu_ns","self_device_ns"|null,"device_ns"|null}] (top 20 by
 *             self_device_ns where cupti ran, else self), "operators_total" (names), "self_cpu_ns" (of all),
 *             "ranges":[{"name","calls","total_ns","self_ns","self_device_ns"|null,"device_ns"|null}] (top 20 by total),
 *             "ranges_total", "kernels":[{"name","calls","total_ns","average_ns","min_ns","max_ns"}] | null (cupti did not
 *             run; top 20 by total), "kernels_total" (names), "copies":[{"kind","calls","bytes","total_ns"}] | null,
 *             "sets":{"calls","bytes","total_ns"} | null, "gpu":{"cupti_version","driver_version","clock_error_ns"} | null,
 *             "notes":[TEXT] (what the figures do not say by themselves), "losses":[{"kind","loss","count","is_loss":bool,"sentence"}], "collectors":[{"collector","on":bool,
 *             "sentence","enable_ns"}], "cost":{"step_before_ns"|null,"step_during_ns"|null,"step_after_ns"|null,
 *             "enable_ns","drain_ns","agent_cpu_ns","agent_bytes","late_steps"}, "derive_ns" (last event to summary)
 *
 * op "open"     {"capture_id"} -> {"row":"file","capture_id","bytes":N, CAPTURE fields} with one read-only descriptor
 *                attached, end. A running capture: error busy.
 *
 * op "rm"       {"capture_ids":[ID..], "keep":bool (false; true: a snapshot's --keep asks for it)} -> {"row":"removed",
 *                "capture_id"} | {"row":"kept","capture_id","error":{...}} for each, end.
 *
 * op "metrics"  -> {"row":"metrics","bytes":N} with one descriptor attached: N bytes of Prometheus' text format 0.0.4, end.
 *                Root, the group profd and the owner of a user's daemon; else error not_permitted.
 *
 * op "audit"    {"limit":N? (100), "since":ns? (not older than that), "uid":N? (what this user did), "action":WORD?}
 *      -> {"row":"audit","at":RFC3339,"uid","user","pid" (who),"action","subject","outcome","target_pid":N|null,
 *          "target_uid":N|null,"target_user":TEXT|null}* newest first, end. Of what the caller did, and of what was done to the
 *          caller's processes and captures; to an administrator, of all.
 *
 * op "pin", "unpin" {"capture_ids":[ID..]} -> {"row":"pinned"|"unpinned","capture_id"} | {"row":"kept","capture_id",
 *                "error":{...}} for each, end. A pinned capture is not deleted by retention; rm deletes it.
 *
 * op "deleted"  {"limit":N?, "pid"?, "job"?, "name"?, "label"?} -> {"row":"deleted","capture_id","pid","uid","user","name",
 *                "job","rank","host","label","status","started_at","finished_at","bytes","deleted_at","by_uid":N|null (the
 *                daemon),"by":TEXT,"reason":TEXT}*, newest deletion first, end
 */
#ifndef PROFD_PROTO_REQUESTS_H
#define PROFD_PROTO_REQUESTS_H

#define REQUEST_OPS(X)                                                                                                 \
	X(status)                                                                                                      \
	X(ps)                                                                                                          \
	X(doctor)                                                                                                      \
	X(trigger)                                                                                                     \
	X(cancel)                                                                                                      \
	X(captures)                                                                                                    \
	X(summary)                                                                                                     \
	X(open)                                                                                                        \
	X(rm)                                                                                                          \
	X(metrics)                                                                                                     \
	X(audit)                                                                                                       \
	X(pin)                                                                                                         \
	X(unpin)                                                                                                       \
	X(deleted)

#endif
