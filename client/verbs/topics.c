/* topics.c - the help topics. That of JSON is docs/json.md: the build makes json_head and json_tail of it
 * (cmake/json_reference.cmake), what stands before and behind the tables of `profd show`, which the table of views has. */
#include "topics.h"

#include "client/report/cuts.h"

#include <stdio.h>

extern const char json_head[], json_tail[];

static const char json_views[] = ""
#define VIEW(name, key, heading, fills, flags, activities, cuts, sentence, json) "- " key ": " json "\n"
#include "client/report/views.def"
	;

/* clang-format off: a line here is a line on the terminal. */
static const char exit_codes[] = "0    done\n"
				 "1    failed\n"
				 "2    the command line makes no sense\n"
				 "3    there is no such process, capture or target; or the process is gone, runs\n"
				 "     without the agent, or has not registered\n"
				 "4    timed out\n"
				 "5    a capture is incomplete: it holds what was recorded until then\n"
				 "6    not permitted\n"
				 "7    no daemon answers\n"
				 "8    busy: the process is being recorded already, another run of snapshots is\n"
				 "     on its way, or you use as much of the daemon as you may\n"
				 "9    no step source: the process shows no steps\n"
				 "10   `profd diff --fail-if-slower`: it is slower\n"
				 "130  cancelled by Ctrl-C\n"
				 "\n"
				 "A filter or a target that matches nothing is never 0. `profd run` ends with its\n"
				 "command's code.\n";

static const char environment[] = "PROFD_SOCKET             the socket of the daemon that is used, and no other\n"
				  "                         (daemon, agent and client)\n"
				  "PROFD_AGENT              the agent's library, if it is not beside this program\n"
				  "PROFD_NAME, PROFD_JOB    what `profd run --name --job` sets\n"
				  "XDG_RUNTIME_DIR          your own daemon's socket is in its folder profd; else\n"
				  "                         in /run/user/UID/profd, else in /tmp/profd-UID\n"
				  "NO_COLOR                 no colours\n"
				  "PROFD_PAGER, PAGER       the pager of `profd show` on a terminal; \"cat\": none\n"
				  "\n"
				  "`profd run` and `profd env` set LD_PRELOAD, CUDA_INJECTION64_PATH and\n"
				  "NVTX_INJECTION64_PATH.\n";
/* clang-format on */

static const struct cut_view {
	const char *name;
	unsigned cuts;
} cut_views[] = {
#define VIEW(name, key, heading, fills, flags, activities, cuts, sentence, json) {#name, cuts},
#include "client/report/views.def"
};

/* An entry of a list for each view, as the manual wants it. */
static char filters[4096];

static void write_filters(void)
{
	size_t n = 0;
	char cuts[64];

	for (size_t i = 0; i < sizeof cut_views / sizeof *cut_views && n < sizeof filters; i++)
		n += (size_t)snprintf(filters + n, sizeof filters - n, "- %s: %s\n", cut_views[i].name,
				      cut_views[i].cuts ? cuts_text(cut_views[i].cuts, cuts, sizeof cuts) : "none");
	if (n < sizeof filters)
		snprintf(filters + n, sizeof filters - n,
			 "\nAn option that the table of --by does not take is refused, with exit code 2.\n"
			 "Where several tables are shown, those are left out that do not take it; but the\n"
			 "tables of the recording itself (dropped, cost, sessions) stay as they are.\n"
			 "--where takes the columns of every table.\n");
}

static const struct topic topics[] = {
	{"json", "the JSON that --format json prints", {json_head, json_views, json_tail}},
	{"filters", "which options cut which tables of `profd show`", {filters}},
	{"exit-codes", "what the exit codes mean", {exit_codes}},
	{"environment", "the variables that are read", {environment}},
};

const struct topic *topic_table(size_t *ret_count)
{
	if (!*filters)
		write_filters();
	*ret_count = sizeof topics / sizeof *topics;
	return topics;
}
