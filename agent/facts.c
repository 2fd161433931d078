/* facts.c - see facts.h. Reads /proc and the environment with plain system calls. */
#include "facts.h"
#include "core/sentence.h"
#include "enter.h"
#include "core/keeper.h"
#include "core/life.h"
#include "nvtx/nvtx.h"
#include "control.h"
#include "steps/counter.h"
#include "torch/torch.h"

#include "../proto/launcher.h"
#include "../proto/mapping.h"
#include "../proto/small_file.h"
#include "../proto/version.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define SOCKETS 6

static struct {
	char sockets[SOCKETS][SOCKET_PATH_BYTES];
	unsigned socket_count;
	struct launcher_ranks ranks;
	char launcher[32], job[128], name[64];
	int read, whole_graphs;
} facts = {.ranks = {-1, -1, -1}};

/* The environment as it was at the process's start; NULL: getenv() is used. */
static char *started_with;
static size_t started_bytes;

#define ENVIRONMENT_BYTES (1u << 20)

/* The agent's threads do not run yet, so this uses a descriptor in the job's table for a moment. */
static void read_started(void)
{
	char *to = mapping_new(NULL, ENVIRONMENT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long n = to ? small_file_read("/proc/self/environ", to, ENVIRONMENT_BYTES) : 0;
	started_bytes = n < 0 ? 0 : (size_t)n;
	/* Without memory the environment counts as empty. */
	static char nothing[1];
	started_with = to ? to : nothing;
}

static const char *variable(const char *name, void *unused)
{
	(void)unused;
	return started_with ? launcher_find(started_with, started_bytes, name) : getenv(name);
}

static void read_graphs(void)
{
	const char *word = variable("PROFD_GRAPHS_WHOLE", NULL);
	facts.whole_graphs = word && strcmp(word, "1") == 0;
}

void facts_attached(const char *socket)
{
	if (!started_with)
		read_started();
	facts.socket_count = 0;
	if (strlen(socket) < sizeof facts.sockets[0])
		memcpy(facts.sockets[facts.socket_count++], socket, strlen(socket) + 1);
	const char *name = variable("PROFD_NAME", NULL);
	message_text(facts.name, sizeof facts.name, name ? name : "");
	read_graphs();
	facts.read = 1;
}

int facts_read_environment(void)
{
	int before = facts.ranks.rank;
	if (!facts.read) {
		for (unsigned i = 0; i < SOCKETS; i++) {
			int r = socket_candidate(i, facts.sockets[facts.socket_count]);
			if (r == -ENOENT)
				break;
			if (r == 0)
				facts.socket_count++;
		}
		const char *name = variable("PROFD_NAME", NULL);
		message_text(facts.name, sizeof facts.name, name ? name : "");
		read_graphs();
		facts.read = 1;
	}
	const char *launcher, *job = launcher_job(variable, NULL, &launcher);
	if (facts.ranks.rank < 0)
		launcher_ranks(variable, NULL, &facts.ranks);
	message_text(facts.launcher, sizeof facts.launcher, launcher);
	message_text(facts.job, sizeof facts.job, job);
	return facts.ranks.rank != before;
}

int facts_whole_graphs(void)
{
	return facts.whole_graphs;
}

const char *facts_socket(unsigned index)
{
	return index < facts.socket_count ? facts.sockets[index] : NULL;
}

/* Field 22 of /proc/self/stat; the name in field 2 may hold anything, so count from its closing parenthesis. */
static uint64_t start_time(void)
{
	char stat[1024];
	keeper_read_file("/proc/self/stat", stat, sizeof stat);
	const char *p = strrchr(stat, ')');
	uint64_t value = 0;
	if (!p)
		return 0;
	for (int field = 2; *p && field < 22; p++)
		field += *p == ' ';
	for (; *p >= '0' && *p <= '9'; p++)
		value = value * 10 + (uint64_t)(*p - '0');
	return value;
}

static uint64_t pid_namespace(void)
{
	char link[64];
	uint64_t value = 0;
	ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
	if (n <= 0)
		return 0;
	link[n] = 0;
	for (const char *p = strchr(link, '['); p && *++p >= '0' && *p <= '9';)
		value = value * 10 + (uint64_t)(*p - '0');
	return value;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

struct found {
	uint32_t libraries;
};

static int look(struct dl_phdr_info *info, size_t size, void *pointer)
{
	static const struct {
		const char *prefix;
		uint32_t bit;
	} known[] = {{"libtorch_cpu.so", LIBRARY_TORCH},
		     {"libcuda.so", LIBRARY_CUDA},
		     {"libcupti.so", LIBRARY_CUPTI},
		     {"libpython", LIBRARY_PYTHON}};
	struct found *found = pointer;
	const char *name = base_name(info->dlpi_name ? info->dlpi_name : "");
	(void)size;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strncmp(name, known[i].prefix, strlen(known[i].prefix)))
			found->libraries |= known[i].bit;
	return 0;
}

uint32_t facts_libraries(void)
{
	struct found found = {0};
	gate_iterate(look, &found, life_alive() ? GATE_OWN_NS : GATE_JOB_NS);
	return found.libraries | (nvtx_object_count() ? LIBRARY_NVTX : 0);
}

void facts_hello(struct message_hello *hello)
{
	char arguments[sizeof hello->command];
	*hello = MESSAGE_INIT(HELLO, hello);
	hello->major = PROTOCOL_MAJOR;
	hello->minor = PROTOCOL_MINOR;
	hello->pid = (int32_t)getpid();
	hello->pid_namespace = pid_namespace();
	hello->start_time = start_time();
	hello->rank = facts.ranks.rank;
	hello->local_rank = facts.ranks.local_rank;
	hello->world_size = facts.ranks.world_size;
	hello->libraries = facts_libraries();
	hello->nvtx_modules = nvtx_object_count();
	hello->step_source = steps_source();
	hello->step_optimizers = steps_optimizers(hello->optimizers, sizeof hello->optimizers, &hello->steps_unclear);
	hello->entry = enter_ways();
	hello->orphans = control_orphans();
	message_text(hello->version, sizeof hello->version, PROFD_VERSION);
	message_text(hello->launcher, sizeof hello->launcher, facts.launcher);
	message_text(hello->job, sizeof hello->job, facts.job);
	size_t n = keeper_read_file("/proc/self/cmdline", arguments, sizeof arguments);
	/* A container may have no /proc; the auxiliary vector still has the program's name. */
	const char *executed = n ? NULL : (const char *)getauxval(AT_EXECFN);
	message_text(hello->name, sizeof hello->name,
		     *facts.name ? facts.name
		     : executed	 ? launcher_program(executed, 0)
				 : launcher_program(arguments, n));
	for (size_t i = 0; i + 1 < n; i++)
		if (!arguments[i])
			arguments[i] = ' ';
	message_text(hello->command, sizeof hello->command, arguments);
	if (hello->libraries & LIBRARY_TORCH)
		torch_version(hello->torch_version, sizeof hello->torch_version);
	if (gethostname(hello->host, sizeof hello->host - 1) < 0)
		hello->host[0] = 0;
}
