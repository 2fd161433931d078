/* inspect.c - see inspect.h. Reads /proc/PID/{exe,maps,status,cmdline,ns/pid} and, by inspect_open(), version.py of a
 * torch that is mapped. */
#include "inspect.h"

#include "check.h"
#include "container.h"
#include "profiler.h"
#include "root.h"

#include "client/link/forked.h"
#include "client/link/presence.h"
#include "client/process/facts.h"
#include "client/ui/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
	bool agent, cuda, cupti, nvtx, musl, loader;
	char torch[PATH_MAX]; /* path of libtorch_cpu.so */
	char cudart[64];      /* file name */
	char interpreter[64]; /* libpython's or the executable's name */
};

static void keep_name(char *to, size_t bytes, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!to[0])
		snprintf(to, bytes, "%s", slash ? slash + 1 : path);
}

static bool look(void *context, char *line)
{
	struct seen *seen = context;
	const char *path = strchr(line, '/');
	if (!path)
		return true;
	const char *name = strrchr(path, '/') + 1;

	if (strncmp(name, "libprofd_agent", 14) == 0)
		seen->agent = true;
	else if (strncmp(name, "libtorch_cpu.so", 15) == 0 && !seen->torch[0])
		snprintf(seen->torch, sizeof seen->torch, "%s", path);
	else if (strncmp(name, "libcuda.so", 10) == 0)
		seen->cuda = true;
	else if (strncmp(name, "libcudart", 9) == 0)
		keep_name(seen->cudart, sizeof seen->cudart, path);
	else if (strncmp(name, "libcupti", 8) == 0)
		seen->cupti = true;
	else if (strncmp(name, "libnvToolsExt", 13) == 0)
		seen->nvtx = true;
	else if (strncmp(name, "libpython", 9) == 0)
		keep_name(seen->interpreter, sizeof seen->interpreter, path);
	else if (strncmp(name, "ld-musl", 7) == 0)
		seen->musl = seen->loader = true;
	else if (strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld-2.", 5) == 0)
		seen->loader = true;
	return true;
}

static bool read_uids(int64_t pid, unsigned *real, unsigned *effective)
{
	char text[128];

	return process_status(pid, "Uid", text, sizeof text) && sscanf(text, "%u %u", real, effective) == 2;
}

/* `__version__ = '2.15.0+cpu'` of the package around libtorch_cpu.so; Debian's library has it in its own name. */
static void torch_version(int64_t pid, const char *library, char *version, size_t bytes)
{
	char path[PATH_MAX + 16], line[256];
	unsigned real, effective;
	const char *so = strstr(library, "libtorch_cpu.so.");
	const char *lib = strstr(library, "/lib/libtorch_cpu.so");
	FILE *file;

	snprintf(version, bytes, "of a version that cannot be read");
	if (so) {
		snprintf(version, bytes, "%s", so + strlen("libtorch_cpu.so."));
		return;
	}
	if (!lib)
		return;
	snprintf(path, sizeof path, "%.*s/version.py", (int)(lib - library), library);
	file = read_uids(pid, &real, &effective) ? inspect_open(pid, path, effective) : NULL;
	if (!file)
		return;
	for (int lines = 0; lines < 64 && fgets(line, sizeof line, file); lines++) {
		char *quote = strpbrk(line, "'\"");

		if (strncmp(line, "__version__", 11) != 0 || !quote)
			continue;
		quote[1 + strcspn(quote + 1, "'\"\n")] = 0;
		snprintf(version, bytes, "%s", quote + 1);
	}
	fclose(file);
}

static void check_program(int64_t pid, const struct seen *seen, struct table *checks)
{
	char exe_link[64], exe[PATH_MAX], text[PATH_MAX + 200];
	struct stat file;
	unsigned real, effective;
	ssize_t n;

	snprintf(exe_link, sizeof exe_link, "/proc/%lld/exe", (long long)pid);
	n = readlink(exe_link, exe, sizeof exe - 1);
	exe[n > 0 ? n : 0] = 0;
	if (inspect_class(pid, checks))
		; /* no more to be said */
	else if (!seen->loader)
		doctor_check(checks, "linking", "failed",
			     "the program is linked statically: nothing can be preloaded into it; link it with profd.h "
			     "instead");
	else if (seen->musl)
		doctor_check(checks, "linking", "warning",
			     "the program runs on musl's C library; the agent is built for glibc and stays out of the "
			     "way there");
	else
		doctor_check(checks, "linking", "ok", "the program is linked dynamically: the agent can be preloaded");
	if (n > 0 && stat(exe_link, &file) == 0 && (file.st_mode & (S_ISUID | S_ISGID))) {
		snprintf(text, sizeof text, "%s is setuid or setgid: the loader ignores LD_PRELOAD for it", exe);
		doctor_check(checks, "rights", "failed", text);
	} else if (read_uids(pid, &real, &effective) && real != effective) {
		doctor_check(checks, "rights", "warning",
			     "the process has changed its uid: it may not reach a user's own daemon");
	}
	inspect_container(pid, checks);
}

/* The agent records no operators of a torch before 2.4 (agent/torch/collector.c). A version that cannot be read is none. */
static bool is_old_torch(const char *version)
{
	char *end;
	long major = strtol(version, &end, 10);

	return end != version && *end == '.' && (major < 2 || (major == 2 && strtol(end + 1, NULL, 10) < 4));
}

static void check_torch(int64_t pid, const struct seen *seen, enum presence presence, struct table *checks)
{
	char text[PATH_MAX + 256], version[64];

	if (!seen->torch[0]) {
		doctor_check(checks, "torch", "warning", "libtorch is not mapped: there are no operators to record");
		return;
	}
	torch_version(pid, seen->torch, version, sizeof version);
	bool old = is_old_torch(version), forked = presence == PRESENCE_FORKED;
	snprintf(
		text, sizeof text, "torch %s (%s)%s", version, seen->torch,
		forked ? ": nothing of it is recorded in this process as it is"
		: old ? ": operators need torch 2.4 or later; steps, NVTX ranges and profd's own ranges could be recorded"
		      : ": operators, user ranges and optimizer steps could be recorded; input shapes too");
	doctor_check(checks, "torch", old || forked ? "warning" : "ok", text);
}

static void check_libraries(int64_t pid, const struct seen *seen, enum presence presence, struct table *checks)
{
	char text[PATH_MAX + 200];

	check_torch(pid, seen, presence, checks);
	if (seen->cuda || seen->cudart[0]) {
		snprintf(text, sizeof text, "%s%s%s mapped%s", seen->cuda ? "the CUDA driver" : "",
			 seen->cuda && seen->cudart[0] ? " and " : "", seen->cudart,
			 seen->cupti ? "; so is CUPTI: another profiler may hold it" : "");
		doctor_check(checks, "cuda", seen->cupti ? "warning" : "ok", text);
	} else {
		doctor_check(checks, "cuda", "warning", "no CUDA library is mapped: the process uses no GPU yet");
	}
	if (seen->torch[0])
		doctor_profiler(pid, checks);
	if (seen->interpreter[0]) {
		snprintf(text, sizeof text, "%s is mapped", seen->interpreter);
		doctor_check(checks, "python", "ok", text);
	}
}

struct copies {
	char first[PATH_MAX];
	bool several;
	char *sentence;
	size_t bytes;
};

/* Each copy of the agent has one mapping that begins at the file's start. */
static bool take_copy(void *context, char *line)
{
	struct copies *copies = context;
	const char *path = strchr(line, '/');

	if (!path || strncmp(strrchr(path, '/') + 1, "libprofd_agent", 14) != 0 || !strstr(line, " 00000000 "))
		return true;
	copies->several = copies->first[0];
	if (!copies->several)
		snprintf(copies->first, sizeof copies->first, "%s", path);
	else
		snprintf(copies->sentence, copies->bytes,
			 "another copy of the agent is in this process (%s and %s); one of them works, the "
			 "other stays out: keep one path to it",
			 copies->first, path);
	return !copies->several;
}

bool inspect_copies(int64_t pid, char *sentence, size_t bytes)
{
	struct copies copies = {.sentence = sentence, .bytes = bytes};

	process_lines(pid, "maps", take_copy, &copies);
	/* Of one that was forked the others came along, and are dead. */
	return copies.several && !forked_since_exec(pid);
}

static void check_forked(int64_t pid, struct table *checks)
{
	int64_t parent = forked_by(pid);
	char text[256], by[TEXT_FIGURE_BYTES + 16] = "";

	if (parent)
		snprintf(by, sizeof by, " by process %lld", (long long)parent);
	snprintf(
		text, sizeof text,
		"the process was forked%s after the agent was loaded; the agent does not live on in forked children, which can be "
		"given one of their own",
		by);
	doctor_check(checks, "agent", "failed", text);
}

/* Of a process that is not registered. */
static void check_agent(int64_t pid, enum presence presence, struct table *checks)
{
	switch (presence) {
	case PRESENCE_AWAKE:
		doctor_check(checks, "agent", "warning",
			     "the agent runs but has not registered: it does not reach the daemon's socket, or "
			     "that of another daemon");
		break;
	case PRESENCE_DETACHED:
		doctor_check(
			checks, "agent", "warning",
			presence_lingers(pid)
				? "the agent was detached, but for a thread that waits for a call of CUPTI's to end"
				: "the agent was detached: its library is mapped, and nothing of it runs");
		break;
	case PRESENCE_FORKED:
		check_forked(pid, checks);
		break;
	case PRESENCE_ASLEEP:
		doctor_check(checks, "agent", "warning",
			     "the agent is loaded and sleeps: nothing that it records has shown up in the process "
			     "yet (torch, CUDA, NVTX, a call of profd.h); what other frameworks do on the CPU is "
			     "not recorded");
		break;
	case PRESENCE_ABSENT:
	case PRESENCE_UNKNOWN:
		doctor_check(checks, "agent", "failed", "the agent is not loaded");
		break;
	}
}

int inspect_process(int64_t pid, struct table *checks)
{
	char path[64], command[512], text[768];
	struct seen *seen;
	struct stat found;
	int error;
	enum presence presence = PRESENCE_UNKNOWN;
	bool moved = inspect_clocks(pid);

	snprintf(path, sizeof path, "/proc/%lld", (long long)pid);
	if (stat(path, &found) < 0) {
		snprintf(text, sizeof text, "there is no process %lld (any more)", (long long)pid);
		doctor_check(checks, "process", "failed", text);
		return -ENOENT;
	}
	process_command(pid, command, sizeof command);
	snprintf(text, sizeof text, "process %lld of uid %u: %s", (long long)pid, (unsigned)found.st_uid,
		 command[0] ? command : "(a kernel thread or a zombie: it has no command line)");
	doctor_check(checks, "process", command[0] ? "ok" : "failed", text);
	if (!command[0])
		return 0;
	seen = need(calloc(1, sizeof *seen));
	error = process_lines(pid, "maps", look, seen);
	if (error) {
		snprintf(text, sizeof text, "its libraries cannot be seen: %s; ask as its owner", strerror(-error));
		doctor_check(checks, "libraries", "warning", text);
	} else {
		check_program(pid, seen, checks);
		presence = presence_of(pid);
		check_libraries(pid, seen, presence, checks);
		if (seen->agent && moved)
			doctor_check(checks, "clocks", "failed",
				     "the process lives in a time namespace whose clocks count from elsewhere, so the "
				     "daemon refuses it; start it in the host's");
		else
			check_agent(pid, presence, checks);
	}
	if (!error && presence == PRESENCE_FORKED) {
		doctor_check(
			checks, "how to", "warning",
			"if it is a rank, `profd attach` (or trigger --attach) gives it an agent of its own; torchrun, or "
			"start_method='spawn' where what launches it has such a setting, has one there from the start; a "
			"worker of a DataLoader needs no agent");
		free(seen);
		return 0;
	}
	if (!error && seen->agent && presence != PRESENCE_DETACHED) {
		if (!moved)
			doctor_check(
				checks, "how to", "ok",
				"it need not be started anew: it registers by itself, once the above is mended or "
				"something shows up; profd_step() and the ranges of profd.h can be called from any "
				"language");
		free(seen);
		return 0;
	}
	snprintf(text, sizeof text,
		 "start it as `profd run -- %.400s`, or put `eval \"$(profd env)\"` before it into its job script",
		 command);
	doctor_check(checks, "how to", "warning", text);
	free(seen);
	return 0;
}
