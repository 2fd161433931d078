/* metrics.c - `profd metrics`: prints what Prometheus would read. */
#include "client/link/connection.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* row_handler: copies what the descriptor holds to standard output. */
struct copy {
	bool done;
	int error;
};

static int put(const char *bytes, size_t n)
{
	while (n) {
		ssize_t written = write(STDOUT_FILENO, bytes, n);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno;
		bytes += written;
		n -= (size_t)written;
	}
	return 0;
}

static void copy_row(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct copy *copy = context;
	char bytes[65536];
	off_t at = 0;
	ssize_t n = 0;

	(void)daemon;
	if (fd >= 0 && reply_is_row(row, "metrics")) {
		while (!copy->error && (n = pread(fd, bytes, sizeof bytes, at)) > 0) {
			copy->error = put(bytes, (size_t)n);
			at += n;
		}
		if (n < 0)
			copy->error = errno;
		copy->done = true;
	}
	if (fd >= 0)
		close(fd);
}

int command_metrics(struct arguments *arguments)
{
	struct copy copy = {0};
	struct failure worst = {0}, one;
	struct daemons daemons;
	cJSON *request;
	int code = daemons_need(&daemons);

	(void)arguments;
	if (code)
		return code;
	request = request_new("metrics");
	/* Only one daemon is asked, the system's first: two texts together would name each metric twice. */
	for (unsigned i = 0; i < daemons.count && !copy.done; i++) {
		if (!daemon_query(&daemons.list[i], request, copy_row, &copy, &one)) {
			failure_merge(&worst, &one);
			continue;
		}
		if (daemons.count > 1)
			note("these are of the daemon at %s; PROFD_SOCKET names another", daemons.list[i].path);
	}
	if (copy.error)
		code = fail(EXIT_FAILED, "metrics: cannot write: %s", strerror(copy.error));
	else if (worst.error != ERROR_NONE && !copy.done)
		code = failure_print(&worst);
	else if (!copy.done)
		code = fail(EXIT_FAILED, "metrics: the daemon at %s sent none; is it of this release?",
			    daemons.list[0].path);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
