/* verbs.c - the table of verbs, options and help topics. A new verb: a row here, its function in command.h and a file in
 * command/. No code. */
#include "verbs.h"

#include "commands.h"

#include "proto/limits.h"

#define FORMAT_ROW                                                                                                     \
	{                                                                                                              \
		"format", 0, OPTION_CHOICE, "table|json|csv",                                                          \
			"what to print: a table for people (default), JSON or CSV", 0, 0                               \
	}
/* Of processes, or of what belongs to them. */
#define FILTER_ROWS(what)                                                                                              \
	{"name", 'n', OPTION_TEXT, "GLOB", "only " what " whose name matches", 0, 0},                                  \
	{                                                                                                              \
		"job", 'j', OPTION_TEXT, "JOB", "only " what " of this job", 0, 0                                      \
	}
#define END_ROW                                                                                                        \
	{                                                                                                              \
		NULL, 0, OPTION_FLAG, NULL, NULL, 0, 0                                                                 \
	}

static const struct option_row run_options[] = {
	{"name", 'n', OPTION_TEXT, "NAME", "name under which `profd ps` and --name know the job's processes", 0, 0},
	{"job", 'j', OPTION_TEXT, "JOB", "id of the job they belong to, where no launcher gives one", 0, 0},
	{"daemon", 0, OPTION_FLAG, NULL, "start a daemon of your own, without asking, if none answers", 0, 0},
	{"no-daemon-start", 0, OPTION_FLAG, NULL, "do not offer to start one", 0, 0},
	END_ROW,
};

static const struct option_row env_options[] = {
	{"shell", 's', OPTION_CHOICE, "sh|fish|csh|file",
	 "whose syntax (default: sh); file: lines for --env-file of containers", 0, 0},
	{"name", 'n', OPTION_TEXT, "NAME", "as in `profd run`", 0, 0},
	{"job", 'j', OPTION_TEXT, "JOB", "as in `profd run`", 0, 0},
	END_ROW,
};

static const struct option_row ps_options[] = {
	{"pid", 'p', OPTION_PIDS, "PID[,PID]", "only these processes", 0, 0},
	FILTER_ROWS("processes"),
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row trigger_options[] = {
	{"pid", 'p', OPTION_PIDS, "PID[,PID]", "this process; may be given more than once", 0, 0},
	{"name", 'n', OPTION_TEXT, "GLOB", "every process whose name matches (* and ?)", 0, 0},
	{"job", 'j', OPTION_TEXT, "JOB", "every process of this job", 0, 0},
	{"all", 'a', OPTION_FLAG, NULL,
	 "every registered process that is yours; as root or in the group profd: "
	 "everybody's",
	 0, 0},
	{"wait-for", 0, OPTION_DURATION, "TIME", "with --name or --job: also processes that start within this time",
	 1000000, (int64_t)LIMIT_DURATION_NS},
	{"steps", 's', OPTION_NUMBER, "N", "steps to record (default: 3, at most 100000)", 1, LIMIT_STEPS},
	{"duration", 'd', OPTION_DURATION, "TIME", "record a window of time instead of steps", 1000000,
	 (int64_t)LIMIT_DURATION_NS},
	{"skip-first", 0, OPTION_NUMBER, "N", "steps to let pass before the first cycle (default: 0)", 0,
	 LIMIT_SCHEDULE_STEPS},
	{"wait-steps", 0, OPTION_NUMBER, "N", "steps to let pass in each cycle before its warm-up (default: 0)", 0,
	 LIMIT_SCHEDULE_STEPS},
	{"warmup", 'w', OPTION_NUMBER, "N", "steps in which recording is on and thrown away (default: 1)", 0,
	 LIMIT_SCHEDULE_STEPS},
	{"repeat", 'r', OPTION_NUMBER, "N", "cycles, a capture each (default: 1; 0: until cancelled or --timeout)", 0,
	 LIMIT_SCHEDULE_STEPS},
	{"at-step", 0, OPTION_NUMBER, "N",
	 "the process's own number of the first step to record; refused if it has passed", 1, 0},
	{"at-multiple", 0, OPTION_NUMBER, "N", "begin with a step whose number is a multiple of N", 1,
	 LIMIT_SCHEDULE_STEPS},
	{"step-range", 0, OPTION_TEXT, "GLOB", "a step ends where the NVTX or user range of this name ends", 0, 0},
	{"step-op", 0, OPTION_TEXT, "GLOB", "a step ends where the framework operator of this name ends", 0, 0},
	{"step-optimizer", 0, OPTION_TEXT, "GLOB", "a step ends where the step of an optimizer of this class ends", 0,
	 0},
	{"look", 0, OPTION_DURATION, "TIME",
	 "record nothing; list what recurs within this time, and the option that takes it for the step", 1000000,
	 (int64_t)LIMIT_DURATION_NS},
	{"shapes", 0, OPTION_FLAG, NULL,
	 "record shapes, types and scalars of operators' inputs too (torch 2.4 or newer)", 0, 0},
	{"no-gpu", 0, OPTION_FLAG, NULL, "record nothing of CUDA (without a CUDA driver nothing is)", 0, 0},
	{"memory", 0, OPTION_FLAG, NULL, "record allocations of device memory too", 0, 0},
	{"graphs", 0, OPTION_CHOICE, "nodes|whole",
	 "CUDA graphs: each kernel of a launch (default), or each launch as a whole", 0, 0},
	{"api", 0, OPTION_CHOICE, "launches|all", "CUDA API: launches, copies and waits (default), or all calls", 0, 0},
	{"label", 'l', OPTION_TEXT, "TEXT", "a word of yours to find the captures by", 0, 0},
	{"max-events", 0, OPTION_NUMBER, "N",
	 "end a capture with the step in which it reaches this many events; what is too much is counted as dropped", 1,
	 0},
	{"max-bytes", 0, OPTION_SIZE, "SIZE",
	 "memory of the daemon that a capture's events may wait in (default: 256M)", LIMIT_CHUNK_BYTES_MIN,
	 (int64_t)LIMIT_SEGMENT_BYTES_MAX},
	{"timeout", 't', OPTION_DURATION, "TIME",
	 "end the captures after this time with what they have (default: 2m, more with --duration, --repeat, "
	 "--wait-for)",
	 1000000, (int64_t)LIMIT_DURATION_NS},
	{"no-wait", 0, OPTION_FLAG, NULL, "print the captures' ids once they are armed, and leave", 0, 0},
	{"output", 'o', OPTION_TEXT, "FILE",
	 "export too; the format by the suffix (.json, .json.gz); several captures: rank or pid before the suffix; a "
	 "folder, which is made if / ends it: .json.gz with names of their own",
	 0, 0},
	{"force", 'f', OPTION_FLAG, NULL, "let --output overwrite files", 0, 0},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row cancel_options[] = {
	{"pid", 'p', OPTION_PIDS, "PID[,PID]", "whatever these processes record", 0, 0},
	{"trigger", 0, OPTION_TEXT, "ID", "all captures of one trigger", 0, 0},
	{"all", 'a', OPTION_FLAG, NULL, "all captures of yours; as root or in the group profd: everybody's", 0, 0},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row captures_options[] = {
	{"limit", 'l', OPTION_NUMBER, "N", "the newest N (default: 20 in the table, all else)", 1, 0},
	{"pid", 'p', OPTION_NUMBER, "PID", "only captures of this process", 1, INT32_MAX},
	FILTER_ROWS("captures of processes"),
	{"label", 0, OPTION_TEXT, "TEXT", "only captures with this label", 0, 0},
	{"deleted", 0, OPTION_FLAG, NULL, "those that were deleted: when, by whom, and why", 0, 0},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row show_options[] = {
	{"by", 'b', OPTION_CHOICE,
	 "all|totals|steps|devices|kernels|copies|memsets|graphs|streams|operators|ranges|api|syncs|memory|sessions|"
	 "threads|dropped|cost",
	 "one table only (CSV: operators unless said otherwise):", 0, 0},
	{"sort-by", 's', OPTION_CHOICE,
	 "self_cpu_time_total|cpu_time_total|cpu_time|self_device_time_total|device_time_total|device_time|"
	 "self_cuda_time_total|cuda_time_total|cuda_time|count|name",
	 "order of what has names (default: total time; operators: self time of the device where it was recorded, else "
	 "of the CPU); cuda_ is an older word for device_:",
	 0, 0},
	{"limit", 'l', OPTION_NUMBER, "N", "rows of each table (default: 15 in the table, all else; 0: all)", 0, 0},
	{"step", 0, OPTION_NUMBER, "N",
	 "only step N: 1 is the first recorded one; larger ones may be the process's own number", 1, 0},
	{"group-by-shapes", 0, OPTION_FLAG, NULL,
	 "tell operators of different input shapes apart (recorded with --shapes)", 0, 0},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row export_options[] = {
	{"format", 0, OPTION_CHOICE, "chrome|tensorboard|critical-path",
	 "for which program (default: by the suffix of --output, else chrome)", 0, 0},
	{"output", 'o', OPTION_TEXT, "FILE",
	 "where to; - is standard output (default: NAME_PID.CAPTURE.pt.trace.json.gz here)", 0, 0},
	{"force", 'f', OPTION_FLAG, NULL, "overwrite the file", 0, 0},
	END_ROW,
};

static const struct option_row snapshot_options[] = {
	{"all", 'a', OPTION_FLAG, NULL, "every job that you may trigger", 0, 0},
	{"name", 'n', OPTION_TEXT, "GLOB", "only processes whose name matches (* and ?)", 0, 0},
	{"user", 'u', OPTION_TEXT, "NAME", "only processes of this user (name or number)", 0, 0},
	{"job", 'j', OPTION_TEXT, "JOB", "only processes of this job", 0, 0},
	{"pid", 'p', OPTION_PIDS, "PID[,PID]", "only these processes", 0, 0},
	{"min-step-time", 0, OPTION_DURATION, "TIME", "only processes whose steps take that long, or longer", 1,
	 (int64_t)LIMIT_DURATION_NS},
	{"ranks", 0, OPTION_TEXT, "N[,N]", "of a job with ranks only these, such as 0,3 or 0-7 (default: all)", 0, 0},
	{"one-per-job", 0, OPTION_FLAG, NULL, "of each job only its lowest rank", 0, 0},
	{"steps", 's', OPTION_NUMBER, "N", "steps to record (default: 3, at most 100000)", 1, LIMIT_STEPS},
	{"warmup", 'w', OPTION_NUMBER, "N", "steps in which recording is on and thrown away (default: 1)", 0,
	 LIMIT_SCHEDULE_STEPS},
	{"at-multiple", 0, OPTION_NUMBER, "N", "begin with a step whose number is a multiple of N", 1,
	 LIMIT_SCHEDULE_STEPS},
	{"no-gpu", 0, OPTION_FLAG, NULL, "record nothing of CUDA", 0, 0},
	{"label", 'l', OPTION_TEXT, "TEXT", "the captures' label (default: snapshot)", 0, 0},
	{"keep", 'k', OPTION_NUMBER, "N",
	 "keep the newest N captures with this label of each job and rank that was picked, and delete older ones; "
	 "pinned ones stay, and do not count",
	 1, 1000000},
	{"if-slower-than", 0, OPTION_TEXT, "FACTOR",
	 "record only jobs of which a rank steps slower now than FACTOR (such as 1.2x) times the median of its "
	 "earlier snapshots with this label (the newest 20; with fewer than 3 it is recorded)",
	 0, 0},
	{"stagger", 0, OPTION_DURATION, "TIME", "spread the jobs over this time, each at a random moment of its share",
	 1, (int64_t)LIMIT_DURATION_NS},
	{"max-parallel", 0, OPTION_NUMBER, "N", "jobs recorded at a time (default: 1)", 1, 64},
	{"timeout", 't', OPTION_DURATION, "TIME",
	 "end a job's captures after this time with what they have (default: 2m, more where steps are long)", 1000000,
	 (int64_t)LIMIT_DURATION_NS},
	{"allow-none", 0, OPTION_FLAG, NULL, "that nothing matches is no error", 0, 0},
	{"quiet", 'q', OPTION_FLAG, NULL, "print only what went wrong", 0, 0},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row history_options[] = {
	{"job", 'j', OPTION_TEXT, "JOB", "only this job", 0, 0},
	{"name", 'n', OPTION_TEXT, "GLOB", "only processes whose name matches (* and ?)", 0, 0},
	{"pid", 'p', OPTION_NUMBER, "PID", "only this process", 1, INT32_MAX},
	{"rank", 'r', OPTION_NUMBER, "N", "only this rank", 0, INT32_MAX},
	{"label", 'l', OPTION_TEXT, "TEXT", "only captures with this label (default: snapshot)", 0, 0},
	{"any-label", 0, OPTION_FLAG, NULL, "all captures, whatever their label", 0, 0},
	{"limit", 0, OPTION_NUMBER, "N", "the newest N of each (default: 20)", 1, 10000},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row format_options[] = {
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row audit_options[] = {
	{"limit", 'l', OPTION_NUMBER, "N", "the newest N (default: 20 in the table, all else)", 1, 0},
	{"since", 's', OPTION_DURATION, "TIME", "only what is not older, such as 2h or 30d", 1, 0},
	{"user", 'u', OPTION_TEXT, "USER", "only what this user did (a name or a number)", 0, 0},
	{"action", 'a', OPTION_TEXT, "WORD", "only trigger, cancel, open, rm, pin, delete, connection, ...", 0, 0},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row doctor_options[] = {
	{"pid", 'p', OPTION_NUMBER, "PID", "what can be recorded in this process, and what not, and why", 1, INT32_MAX},
	FORMAT_ROW,
	END_ROW,
};

static const struct option_row no_options[] = {END_ROW};

static const struct verb verbs[] = {
	{"run", "run a command with the agent in it", "[--name NAME] [--job JOB] [--] COMMAND [ARGUMENT...]",
	 "Runs COMMAND with LD_PRELOAD, CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH set to profd's agent, which "
	 "sleeps until a\n"
	 "trigger comes. What is set already is left alone, or added to, and named. The command takes profd's place: "
	 "its output,\n"
	 "signals and exit code are its own (127: there is no such command; 126: it cannot be run).",
	 "  profd run -- python3 train.py\n  profd run --name llama -- torchrun --nproc-per-node 8 train.py\n",
	 run_options, 1, 0, VERB_COMMAND, command_run},
	{"env", "print what puts the agent into a job script", "[--shell sh|fish|csh|file]",
	 "Prints the lines that set what `profd run` sets, for a shell to evaluate, or for the --env-file of docker, "
	 "podman and\n"
	 "apptainer. The container needs the agent's library at the same place and the folder of the daemon's socket.",
	 "  eval \"$(profd env)\"\n"
	 "  profd env --shell file >profd.env\n",
	 env_options, 0, 0, 0, command_env},
	{"ps", "list the processes that can be triggered", "[--pid PID] [--name GLOB] [--job JOB]",
	 "Lists the registered processes: yours, or everybody's if you are root or in the group profd. A filter that "
	 "matches\n"
	 "nothing ends with exit code 3.",
	 "  profd ps\n  profd ps --format json | jq '.processes[].pid'\n", ps_options, 0, 0, 0, command_ps},
	{"trigger", "record the next steps of running processes",
	 "(--pid PID | --name GLOB | --job JOB | --all) [OPTIONS]",
	 "Records, waits, and prints where the time went and what to try next. Ctrl-C cancels: captures end with what "
	 "they have.\n"
	 "If profd dies otherwise, they go on.\n"
	 "Of several targets' exit codes the first that applies counts: 130 cancelled, 1 failed, 4 timed out, 5 "
	 "incomplete,\n"
	 "6 not permitted, 9 no step source, 8 busy, 3 no such target. With --all, processes that show no steps are "
	 "left out;\n"
	 "with --name and --job launchers and workers of those that step are.\n"
	 "Ranks of one job record the same steps: profd chooses a number that all of them have still before them, and "
	 "says which,\n"
	 "or why it cannot.",
	 "  profd trigger --pid 4242 --steps 3\n"
	 "  profd trigger --job 77 --steps 5 --warmup 2 --label before-fix\n"
	 "  profd trigger --name 'train*' --wait-for 5m --skip-first 100\n"
	 "  profd trigger --pid 4242 --duration 2s --output trace.json.gz\n",
	 trigger_options, 0, 0, 0, command_trigger},
	{"cancel", "end captures that are under way", "(CAPTURE... | --pid PID | --trigger ID | --all)",
	 "Ends captures now. What they have recorded is kept, marked incomplete.",
	 "  profd cancel 17\n  profd cancel --pid 4242\n", cancel_options, 0, 1000, 0, command_cancel},
	{"captures", "list the captures, newest first",
	 "[--limit N] [--pid PID] [--name GLOB] [--job JOB] [--label TEXT] [--deleted]",
	 "Lists the captures of all daemons that answer, newest first. A filter that matches nothing ends with exit "
	 "code "
	 "3.\nIds of captures of a user's own daemon begin with u.",
	 "  profd captures --label before-fix\n  profd captures --deleted\n", captures_options, 0, 0, 0,
	 command_captures},
	{"show", "print what captures hold",
	 "[CAPTURE... | FILE...] [--by TABLE] [--sort-by KEY] [--limit N] [--step N]",
	 "Prints totals, steps, what the GPU did (kernels, copies, ...), operators, ranges, CUDA API calls, threads, "
	 "dropped events and the\n"
	 "capture's own cost. Without CAPTURE: the newest one. FILE, with a / in it or ending in .db, is a capture "
	 "file "
	 "that was\n"
	 "copied away. Sort keys are torch.profiler's, and so is what they mean: device time of an operator or range "
	 "is "
	 "that of\n"
	 "what was launched in it; its self time leaves out what its children launched. Of several captures each is "
	 "printed, one\n"
	 "below the other; with --format json an object a line each.",
	 "  profd show\n  profd show 17 --by operators --sort-by cpu_time_total --limit 30\n  profd show 17 --step 2\n"
	 "  profd show 17 18\n"
	 "  profd show 17 --by kernels --format csv\n"
	 "  profd show 17 --format json | jq '.operators[0]'\n",
	 show_options, 0, 1000, 0, command_show},
	{"export", "write a capture in another program's format", "[CAPTURE | FILE] [--output FILE] [--format FORMAT]",
	 "chrome: the JSON that torch.profiler writes; for ui.perfetto.dev, chrome://tracing and HTA.\n"
	 "tensorboard: the same with the names that TensorBoard's plugin torch_tb_profiler knows; --output may be a "
	 "folder "
	 "of\nits log directory. critical-path: the same with waits as HTA's critical path analysis wants them.\n"
	 "A file that exists is left alone unless --force is given; a folder with / at its end is made. Without "
	 "CAPTURE: the\n"
	 "newest one.",
	 "  profd export 17\n  profd export 17 --output trace.json\n  profd export 17 --format tensorboard --output "
	 "logs/run\n",
	 export_options, 0, 1, 0, command_export},
	{"rm", "delete captures", "CAPTURE...",
	 "Deletes captures, pinned ones too. One that is still being recorded is kept: cancel it first.",
	 "  profd rm 17 18\n", format_options, 1, 100000, 0, command_rm},
	{"pin", "keep captures until they are unpinned", "CAPTURE...",
	 "Pins captures: the daemon, which deletes the oldest ones where a budget is exceeded, a capture is too old or "
	 "the "
	 "disk\nis nearly full, lets them be. They count in their user's budget all the same.",
	 "  profd pin 17\n", format_options, 1, 100000, 0, command_pin},
	{"unpin", "let captures be deleted again when their time comes", "CAPTURE...",
	 "Takes back what `profd pin` said.", "  profd unpin 17\n", format_options, 1, 100000, 0, command_unpin},
	{"metrics", "print what Prometheus is told of the daemon", "",
	 "Prints the daemon's metrics in Prometheus' text format: of the system's daemon, or where that does not "
	 "answer "
	 "or does\n"
	 "not permit it, of your own. They tell of all users' jobs, so the system's are for root and the group profd. "
	 "For a\n"
	 "Prometheus that asks by itself: metrics_textfile or metrics_port in profd.conf.",
	 "  profd metrics | grep profd_captures_total\n  profd metrics | promtool check metrics\n", no_options, 0, 0, 0,
	 command_metrics},
	{"snapshot", "a short recording of every job, for cron and timers",
	 "(--all | --name GLOB | --user NAME | --job JOB | --pid PID) [OPTIONS]",
	 "Records a few steps of each job that is picked, one job after the other, and prints a line a job: what was "
	 "recorded,\n"
	 "or why it was skipped. All filters that are given must hold. All picked ranks of a job are recorded "
	 "together: they wait\n"
	 "for each other anyway. Processes without a job's id are a job each.\n"
	 "\n"
	 "A job is left in peace, and skipped, while profd records it, and while another profiler is at work in it: "
	 "Nsight\n"
	 "Systems, Nsight Compute and compute-sanitizer (by their libraries), torch.profiler (before torch 2.5: as of "
	 "the last\n"
	 "Optimizer.step), a tool that holds NVTX, and in programs without torch one that holds CUPTI. Not seen are "
	 "perf, py-spy\n"
	 "and others that look from outside, and tools beside torch that are none of these. Skipped is also what "
	 "shows no steps,\n"
	 "or has stood still for a minute.\n"
	 "\n"
	 "A second run with the same label ends at once while the first is on its way (exit code 8). Exit codes for "
	 "cron: 0: all\n"
	 "that was wanted is done, or was skipped; 3: nothing matched (--allow-none: 0); else the first that applies "
	 "of 130, 1,\n"
	 "4 timed out, 5 incomplete, 6, 9, 8. Jobs of the same user, name and rank without a job's id are told apart "
	 "by pid where\n"
	 "several live at a time; else they are one job that was started again.",
	 "  profd snapshot --all --keep 50\n"
	 "  profd snapshot --name 'train*' --if-slower-than 1.2x --quiet\n"
	 "  */10 * * * * profd snapshot --all --keep 20 --quiet --allow-none\n",
	 snapshot_options, 0, 0, 0, command_snapshot},
	{"history", "how a job's snapshots have changed", "[--job JOB] [--name GLOB] [--pid PID] [--rank N] [OPTIONS]",
	 "Prints step time, device busy time, and the top operators and kernels of a job over its snapshots, oldest to "
	 "newest.\n"
	 "Changes are against the median of those that are shown; more than 10 % is marked. Where several jobs or "
	 "ranks match, a\n"
	 "line for each; --job, --rank and --pid choose one. JSON and CSV hold all in full.",
	 "  profd history --job 77 --rank 0\n  profd history --name 'train*' --format csv\n", history_options, 0, 0, 0,
	 command_history},
	{"audit", "list who did what to whose processes and captures",
	 "[--since TIME] [--user USER] [--action WORD] [--limit N]",
	 "Lists what was triggered, cancelled, opened (shown or exported) and deleted, and what was refused, newest "
	 "first: all of\n"
	 "it to root and the group profd; to others what they did, and what was done to their processes and captures. "
	 "What one\n"
	 "user does too often in a minute is counted, and told in one line (left_out). The same lines stand in the "
	 "journal:\n"
	 "`journalctl -u profd -g audit`. Without a line that matches the exit code is 3.",
	 "  profd audit --since 1d\n  profd audit --user alice --action rm --format csv\n", audit_options, 0, 0, 0,
	 command_audit},
	{"status", "say which daemons answer, and what they hold", "",
	 "Lists the daemons that answer: the system's and your own.", NULL, format_options, 0, 0, 0, command_status},
	{"doctor", "say what can be recorded, and what stands in the way", "[--pid PID]",
	 "Without --pid: checks this machine's set-up. With it: asks the process's agent what it can record, or, where "
	 "there is no\n"
	 "agent, says how to start the program with one. It touches nothing.",
	 "  profd doctor\n  profd doctor --pid 4242\n", doctor_options, 0, 0, 0, command_doctor},
	{"daemon", "run a daemon of your own in the foreground", "--user [--dir DIR]",
	 "Runs profd-daemon with the words that follow, in the foreground, without root. `profd-daemon --help` "
	 "describes them.\n"
	 "With --user it listens where your own programs look for it; --dir says where its captures lie.",
	 "  profd daemon --user\n  profd daemon --user --dir /scratch/profd\n", no_options, 0, 0, VERB_RAW,
	 command_daemon},
	{"help", "explain a verb or a topic", "[VERB | TOPIC]", "Explains a verb or a topic; without one, lists them.",
	 NULL, no_options, 0, 1, 0, command_help},
	{"version", "print the release", "", "Prints the release of this program.", NULL, no_options, 0, 0, 0,
	 command_version},
};

const struct verb *verb_table(size_t *ret_count)
{
	*ret_count = sizeof verbs / sizeof *verbs;
	return verbs;
}

/* clang-format off: a line here is a line on the terminal. */
static const struct topic topics[] = {
	{"json", "the JSON that --format json prints",
	 "One object on standard output. \"schema\" names its kind and version; a version only ever gains keys. "
	 "Durations are\n"
	 "numbers of ns, sizes bytes, absolute times RFC 3339 texts, capture and trigger ids texts. What was not "
	 "recorded, or is\n"
	 "not known (yet), is null, never 0. Texts are valid UTF-8: bytes that were not are U+FFFD. Pids are those of "
	 "the\n"
	 "caller's own pid namespace, and null for what cannot be seen from there: in a container, what lives outside "
	 "of it\n"
	 "(--name and --job reach it). Uids are the machine's, and so are pids in the audit log.\n"
	 "\n"
	 "profd.ps/1       {\"processes\": [{\"pid\", \"uid\", \"user\", \"name\", \"command\", \"host\", \"job\", "
	 "\"launcher\", \"rank\",\n"
	 "                 \"local_rank\", \"world_size\", \"torch_version\", \"libraries\": [], \"step\" (ended so "
	 "far), \"step_source\",\n"
	 "                 \"step_note\" (several optimizers a step, or doubt), \"step_ns\" (median of the last 16), "
	 "\"last_step_at\", \"registered_at\", \"state\", "
	 "\"capture_id\",\n"
	 "                 \"role\" (\"launcher\": shows no steps, and has started processes that do, or that are "
	 "ranks;\n"
	 "                 \"worker\": shows no steps, and was started by one that does; null), \"agent_version\",\n"
	 "                 \"daemon\" (its socket)}]}\n"
	 "profd.trigger/1  {\"trigger_id\", \"captures\": [{\"capture_id\", \"trigger_id\", \"cycle\", \"pid\", "
	 "\"rank\", \"name\", \"status\":\n"
	 "                 \"complete\" | \"incomplete\" | \"failed\" (--no-wait: \"armed\"), \"reason\" (a sentence), "
	 "\"reason_code\":\n"
	 "                 \"none\" | \"cancelled\" | \"deadline\" (--timeout) | \"exit\" | \"died\" (the process) | "
	 "\"limit\"\n"
	 "                 (--max-events) | \"missed\" (--at-step) | \"left\" | \"agent\" | \"daemon\", "
	 "\"steps_recorded\", "
	 "\"steps_wanted\",\n"
	 "                 \"events\", \"lost\", \"bytes\", \"step_ns\", \"output\" (with --output: the file written), "
	 "...}],\n"
	 "                 \"refused\": [{\"pid\", \"code\", \"message\"}], \"left_out\": [{\"pid\", \"name\", "
	 "\"message\": \"launcher\" |\n"
	 "                 \"worker\" | \"helper\"}], \"together\": [{\"job\", \"processes\", \"at_step\" (with which "
	 "all its ranks\n"
	 "                 begin; null: each with its own), \"message\"}]}\n"
	 "                 With two daemons \"trigger_id\" is the first one's; each capture says its own.\n"
	 "profd.look/1     trigger --look: {\"recurring\": [{\"pid\", \"kind\": \"optimizer\" | \"range\" | "
	 "\"batches\" | "
	 "\"operator\", \"name\",\n"
	 "                 \"calls\", \"period_ns\" (mean), \"variation_percent\" (standard deviation), \"option\"}]}\n"
	 "profd.captures/1 {\"captures\": [as above, and \"uid\", \"user\", \"command\", \"job\", \"world_size\", "
	 "\"host\", \"label\",\n"
	 "                 \"started_at\", \"finished_at\", \"simulated\", \"pinned\"]}\n"
	 "profd.deleted/1  {\"deleted\": [{\"capture_id\", \"deleted_at\", \"by\", \"by_uid\" (null: the daemon), "
	 "\"reason\", \"pid\", \"uid\",\n"
	 "                 \"user\", \"name\", \"job\", \"rank\", \"host\", \"label\", \"status\", "
	 "\"started_at\", \"finished_at\", \"bytes\"}]}: captures --deleted\n"
	 "profd.show/1     (an object a line for each of several captures) {\"capture\": as above, and "
	 "\"step_source\", \"derive_ns\"; \"notes\": [TEXT]; \"totals\": "
	 "{\"wall_ns\", "
	 "\"steps\", \"device_busy_ns\",\n"
	 "                 \"device_busy_percent\", \"kernels\", \"copies\", \"sets\", \"graphs\", \"device_ns\" (of "
	 "all that the devices did;\n"
	 "                 torch.profiler's Self CUDA time total), \"operators\", \"self_cpu_ns\", \"operator_names\", "
	 "\"ranges\", \"marks\",\n"
	 "                 \"threads\"}; \"steps\": [{\"step\", \"number\" (the process's own; null: a window of "
	 "time), \"start_ns\",\n"
	 "                 \"wall_ns\", \"device_busy_ns\" (something ran on the device; added up over devices), "
	 "\"device_busy_percent\"\n"
	 "                 (of the wall time of all devices), \"kernels\", \"copies\", \"sets\", \"graphs\" (--graphs "
	 "whole),\n"
	 "                 \"largest_gap_ns\", \"operators\", \"self_cpu_ns\", \"ranges\", \"thread\"}]; "
	 "\"operators\": [{\"name\",\n"
	 "                 \"input_shapes\" (--group-by-shapes), \"calls\", \"self_cpu_ns\", \"self_cpu_percent\" (of "
	 "the totals'\n"
	 "                 self_cpu_ns), \"cpu_ns\",\n"
	 "                 \"cpu_percent\", \"cpu_average_ns\", \"self_device_ns\", \"self_device_percent\", "
	 "\"device_ns\",\n"
	 "                 \"device_percent\", \"device_average_ns\"}]; \"ranges\": [{\"name\", \"domain\", "
	 "\"source\", \"calls\", \"total_ns\", \"wall_percent\" (of\n"
	 "                 the steps' wall time), \"self_ns\", \"average_ns\", \"min_ns\", \"max_ns\", "
	 "\"self_device_ns\", \"device_ns\", "
	 "\"device_percent\",\n"
	 "                 \"device_average_ns\", \"device_span_ns\" (from the first to the last operation launched in "
	 "it)}];\n"
	 "                 \"kernels\": [{\"name\" (whole), \"calls\", \"total_ns\", \"percent\" (of device_ns), "
	 "\"average_ns\", \"min_ns\",\n"
	 "                 \"max_ns\", \"devices\": [], \"streams\": [], \"short_name\"}]; \"copies\": [{\"name\", "
	 "\"kind\": \"HtoD\" ...,\n"
	 "                 \"source\": \"Pinned\" ..., \"target\", \"calls\", \"bytes\", \"total_ns\", \"percent\", "
	 "\"bandwidth_gb_s\",\n"
	 "                 \"average_ns\", \"min_ns\", \"max_ns\", \"devices\", \"streams\"}]; \"sets\": likewise, "
	 "with \"memory\"; \"graphs\":\n"
	 "                 [{\"graph\", \"calls\", \"operations\" (null: --graphs whole), \"total_ns\" (of its "
	 "operations; --graphs whole:\n"
	 "                 from its first to its last), as kernels}]; \"api\": [{\"name\", \"api\": \"runtime\" | "
	 "\"driver\", \"calls\",\n"
	 "                 \"total_ns\", \"percent\" (of all listed), \"average_ns\", \"min_ns\", \"max_ns\", "
	 "\"failed\"}]; \"syncs\": likewise,\n"
	 "                 with \"kind\"; \"streams\": [{\"device\", \"stream\", \"name\", \"priority\", \"busy_ns\", "
	 "\"busy_percent\" (of the\n"
	 "                 wall time), \"kernel_busy_ns\", \"kernels\", \"copies\", \"sets\", \"graphs\", "
	 "\"largest_gap_ns\"}]; \"devices\":\n"
	 "                 [{\"device\", \"name\", \"uuid\", as streams, \"memory_bytes\", \"multiprocessors\", "
	 "\"capability\"}]; \"memory\":\n"
	 "                 [{\"device\", \"source\": \"cuda\" | \"pool\" | \"torch\", \"memory\", \"taken\", "
	 "\"taken_bytes\", \"given_back\",\n"
	 "                 \"given_back_bytes\", \"peak_bytes\", \"kept_bytes\" (both from what was held at first)}];\n"
	 "                 \"sessions\": [{\"cupti_version\", \"driver_version\", \"runtime_version\", "
	 "\"clock_error_ns\" (by "
	 "which\n"
	 "                 times of the device may be off), \"records\", \"buffer_bytes\", \"foreign_buffers\" "
	 "(another "
	 "client's, that\n"
	 "                 came to profd), \"astray_buffers\" (that never came back), \"early\" (operations that seem "
	 "to begin\n"
	 "                 before their call), \"enable_ns\", \"drain_ns\", \"library\", \"notes\"}]; \"threads\":\n"
	 "                 [{\"thread\", \"name\", \"operators\", \"self_cpu_ns\", \"ranges\", \"marks\", "
	 "\"launches\", \"device_ns\"}];\n"
	 "                 \"losses\": [{\"kind\", \"loss\", \"count\", \"is_loss\", \"sentence\"}]; \"collectors\": "
	 "[{\"collector\", \"wanted\",\n"
	 "                 \"on\", \"enable_ns\", \"sentence\"}]; \"cost\": {\"step_before_ns\", \"step_during_ns\", "
	 "\"step_after_ns\",\n"
	 "                 \"enable_ns\", \"drain_ns\", \"agent_cpu_ns\", \"agent_bytes\", \"late_steps\"}}\n"
	 "                 What is the GPU's is null where it was not recorded: figures, and the lists from "
	 "\"devices\" to \"sessions\".\n"
	 "                 All rows, unless --limit is given. Keys are there whatever --by says. Calls are "
	 "torch.profiler's:\n"
	 "                 an operator that does nothing but come back to itself is one call with it. The threads' "
	 "operators\n"
	 "                 are all that were recorded.\n"
	 "profd.snapshot/1 {\"label\", \"jobs\": [{\"job\", \"user\", \"daemon\", \"at_step\", \"together\" (as in "
	 "profd.trigger/1), \"outcome\": \"recorded\" | "
	 "\"incomplete\" | \"skipped\" |\n"
	 "                 \"failed\", \"processes\": [{\"pid\", \"rank\", \"name\", \"outcome\", \"code\" (a word of "
	 "errors, or \"stalled\",\n"
	 "                 \"slow\", \"not_slower\", \"outside\"; null: recorded), \"reason\" (a clause), "
	 "\"capture_id\", "
	 "\"steps_recorded\",\n"
	 "                 \"step_ns\" (while recorded), \"idle_step_ns\" (before it), \"device_busy_percent\", "
	 "\"history\" (snapshots\n"
	 "                 compared with), \"history_median_ns\" (of their idle steps)}]}], \"recorded\", "
	 "\"incomplete\", \"skipped\",\n"
	 "                 \"failed\" (jobs), \"deleted\": [ID]}\n"
	 "profd.history/1  {\"label\" (null: any), \"series\": [{\"job\", \"name\", \"user\", \"rank\", \"pid\" "
	 "(null: of any), \"step_median_ns\",\n"
	 "                 \"device_busy_median_percent\", \"snapshots\": [{\"capture_id\", \"started_at\", "
	 "\"status\", "
	 "\"steps_recorded\",\n"
	 "                 \"step_ns\", \"idle_step_ns\", \"step_change_percent\" (against the median), "
	 "\"device_busy_percent\",\n"
	 "                 \"operators\" (null: not recorded): [{\"name\", \"calls\", \"self_cpu_ns\", "
	 "\"self_device_ns\"}], \"kernels\":\n"
	 "                 [{\"name\", \"calls\", \"total_ns\"}], \"ranges\": [{\"name\", \"calls\", "
	 "\"self_ns\"}]}]}]}; "
	 "sums over the\n"
	 "                 recorded steps, the capture's top 20\n"
	 "profd.cancel/1   {\"cancelled\": [ID], \"captures\": [{\"capture_id\", \"pid\", \"uid\", \"user\", \"name\", "
	 "\"daemon\"}]}\n"
	 "profd.rm/1       {\"removed\": [ID], \"kept\": [{\"capture_id\", \"code\", \"message\"}]}\n"
	 "profd.pin/1      {\"pinned\": [ID], \"kept\": as above}\n"
	 "profd.unpin/1    {\"unpinned\": [ID], \"kept\": as above}\n"
	 "profd.audit/1    {\"lines\": [{\"at\", \"uid\", \"user\", \"pid\" (who did it), \"action\", \"subject\", "
	 "\"target_pid\", \"target_uid\",\n"
	 "                 \"target_user\" (whose process or capture it is about), \"outcome\": \"armed\" | \"opened\" "
	 "| "
	 "\"removed\" | ... or the\n"
	 "                 word of an error (\"not_permitted\", \"quota\", \"protocol\"), \"daemon\"}]}\n"
	 "profd.status/1   {\"daemons\": [{\"version\", \"pid\", \"uid\", \"socket\", \"directory\", \"started_at\", "
	 "\"processes\", \"running\",\n"
	 "                 \"captures\", \"store_bytes\", \"user\"}]}\n"
	 "profd.doctor/1   {\"checks\": [{\"check\", \"result\": \"ok\" | \"warning\" | \"failed\", \"sentence\"}]} "
	 "or, with --pid,\n"
	 "                 {\"pid\", \"registered\", \"process\", \"collectors\": [{\"collector\", \"available\", "
	 "\"sentence\"}], \"checks\"}\n"
	 "\n"
	 "Errors are sentences on standard error, in every format; the exit code tells them apart (`profd help "
	 "exit-codes`).\n"},
	{"exit-codes", "what the exit codes mean",
	 "0    done\n"
	 "1    failed\n"
	 "2    the command line makes no sense\n"
	 "3    no such process, capture or target; or it is gone, runs without the agent, or has not registered\n"
	 "4    timed out\n"
	 "5    a capture is incomplete: it holds what was recorded until then\n"
	 "6    not permitted\n"
	 "7    no daemon answers\n"
	 "8    busy: the process is being recorded already, another run of snapshots is on its way, or you use as\n"
	 "     much of the daemon as you may\n"
	 "9    no step source: the process shows no steps\n"
	 "130  cancelled by Ctrl-C\n"
	 "\n"
	 "A filter or a target that matches nothing is never 0. `profd run` ends with its command's code.\n"},
	{"environment", "the variables that are read",
	 "PROFD_SOCKET             the daemon's socket, and no other (daemon, agent and client)\n"
	 "PROFD_AGENT              the agent's library, where it is not found beside this program\n"
	 "PROFD_NAME, PROFD_JOB    what `profd run --name --job` sets\n"
	 "XDG_RUNTIME_DIR          your own daemon's socket lies in its folder profd; else /run/user/UID/profd, else\n"
	 "                         /tmp/profd-UID\n"
	 "NO_COLOR                 no colours\n"
	 "\n"
	 "`profd run` and `profd env` set LD_PRELOAD, CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH.\n"},
};
/* clang-format on */

const struct topic *topic_table(size_t *ret_count)
{
	*ret_count = sizeof topics / sizeof *topics;
	return topics;
}
