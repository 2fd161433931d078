/* install.c - see install.h. */
#include "install.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folder of this executable, without a slash at its end. */
static bool own_folder(char folder[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return false;
	folder[n] = 0;
	slash = strrchr(folder, '/');
	if (!slash)
		return false;
	*slash = 0;
	return true;
}

/* The first that exists of patterns relative to the own folder, without "..". */
static bool first(const char *const *patterns, int mode, char path[PATH_MAX])
{
	char folder[PATH_MAX];
	bool found = false;

	if (!own_folder(folder))
		return false;
	for (; *patterns && !found; patterns++) {
		char pattern[PATH_MAX + 64];
		glob_t matches;

		snprintf(pattern, sizeof pattern, "%s/%s", folder, *patterns);
		if (glob(pattern, 0, NULL, &matches) == 0) {
			for (size_t i = 0; i < matches.gl_pathc && !found; i++)
				found = access(matches.gl_pathv[i], mode) == 0 && realpath(matches.gl_pathv[i], path);
			globfree(&matches);
		}
	}
	return found;
}

bool install_agent(char path[PATH_MAX])
{
	static const char *const places[] = {
		"../lib/libprofd_agent.so",
		"../lib/profd/libprofd_agent.so",
		"../lib*/profd/libprofd_agent.so",
		"../lib/*/profd/libprofd_agent.so",
		"libprofd_agent.so",
		NULL,
	};
	const char *chosen = getenv("PROFD_AGENT");

	path[0] = 0;
	if (chosen && *chosen) {
		/* The path must be absolute: in LD_PRELOAD a relative one would be lost when a program changes its
		 * folder. */
		if (access(chosen, R_OK) == 0 && realpath(chosen, path))
			return true;
		path[0] = 0;
		return false;
	}
	if (first(places, R_OK, path))
		return true;
	path[0] = 0;
	return false;
}

bool install_daemon(char path[PATH_MAX])
{
	static const char *const places[] = {
		"profd-daemon",
		"../sbin/profd-daemon",
		"../libexec/profd-daemon",
		"../libexec/profd/profd-daemon",
		"../lib/profd/profd-daemon",
		NULL,
	};
	const char *folders = getenv("PATH");

	if (first(places, X_OK, path))
		return true;
	while (folders && *folders) {
		int n = (int)strcspn(folders, ":");

		if (n && snprintf(path, PATH_MAX, "%.*s/profd-daemon", n, folders) < PATH_MAX &&
		    access(path, X_OK) == 0)
			return true;
		folders += n;
		folders += *folders == ':';
	}
	path[0] = 0;
	return false;
}
