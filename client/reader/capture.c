/* capture.c - see capture.h. */
#include "capture.h"

#include "client/link/collect.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct found {
	cJSON *row;
	int fd;
};

static void take_file(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	struct found *found = context;

	(void)daemon;
	if (!reply_is_row(row, "file") || fd < 0 || found->fd >= 0) {
		if (fd >= 0)
			close(fd);
		return;
	}
	found->fd = fd;
	found->row = need(cJSON_Duplicate(row, true));
	cJSON_DeleteItemFromObjectCaseSensitive(found->row, "row");
}

static void take_summary(struct daemon *daemon, const cJSON *row, int fd, void *context)
{
	cJSON **summary = context;

	(void)daemon;
	if (fd >= 0)
		close(fd);
	if (reply_is_row(row, "summary") && !*summary)
		*summary = need(cJSON_Duplicate(row, true));
}

/* Asks one daemon after the other, so that two that know the same id do not both answer. */
static bool ask_in_turn(struct daemons *daemons, const cJSON *request, row_handler handler, void *context,
			struct failure *failure)
{
	*failure = (struct failure){0};
	for (unsigned i = 0; i < daemons->count; i++) {
		struct failure one;

		if (daemon_query(&daemons->list[i], request, handler, context, &one))
			return true;
		failure_merge(failure, &one);
	}
	return false;
}

cJSON *capture_summary(struct daemons *daemons, const char *id, struct failure *failure)
{
	cJSON *request = request_new("summary");
	cJSON *summary = NULL;

	need(cJSON_AddStringToObject(request, "capture_id", id));
	if (ask_in_turn(daemons, request, take_summary, &summary, failure) && !summary)
		failure_set(failure, ERROR_PROTOCOL,
			    "the daemon sent no summary; is it of this release? `profd status` says so");
	cJSON_Delete(request);
	return summary;
}

static int newest_id(struct daemons *daemons, char *id, size_t bytes)
{
	cJSON *request = request_new("captures");
	struct collect collect = {"capture", need(cJSON_CreateArray())};
	struct failure failure;
	const char *latest = "";
	const cJSON *row;
	int code = EXIT_DONE;

	need(cJSON_AddNumberToObject(request, "limit", 8));
	id[0] = 0;
	if (!daemons_query(daemons, request, collect_row, &collect, &failure))
		code = failure_print(&failure);
	cJSON_ArrayForEach(row, collect.array)
	{
		const char *started = json_text(row, "started_at");
		const char *status = json_text(row, "status");
		const char *row_id = json_text(row, "capture_id");

		/* RFC 3339 in UTC sorts as text. One that is still being recorded cannot be read. */
		if (!started || !row_id || !status || strcmp(started, latest) <= 0 ||
		    (strcmp(status, "complete") != 0 && strcmp(status, "incomplete") != 0))
			continue;
		latest = started;
		snprintf(id, bytes, "%s", row_id);
	}
	if (code == EXIT_DONE && !id[0])
		code = fail(EXIT_NO_TARGET, "there is no finished capture yet; `profd trigger --pid PID` records one");
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	return code;
}

static int open_reader(int fd, struct capture *capture)
{
	char why[FAILURE_TEXT_BYTES];

	if (reader_open(&capture->reader, fd, why, sizeof why) == 0)
		return EXIT_DONE;
	cJSON_Delete(capture->row);
	cJSON_Delete(capture->summary);
	*capture = (struct capture){0};
	return fail(EXIT_FAILED, "%s", why);
}

int capture_open_id(struct daemons *daemons, const char *id, struct capture *capture)
{
	cJSON *request = request_new("open");
	struct found found = {NULL, -1};
	struct failure failure;
	bool answered;

	*capture = (struct capture){0};
	need(cJSON_AddStringToObject(request, "capture_id", id));
	answered = ask_in_turn(daemons, request, take_file, &found, &failure);
	cJSON_Delete(request);
	if (!answered) {
		if (found.fd >= 0)
			close(found.fd);
		cJSON_Delete(found.row);
		return failure_print(&failure);
	}
	if (found.fd < 0)
		return fail(EXIT_FAILED,
			    "the daemon handed over no file for capture %s; `profd doctor` checks the set-up", id);
	capture->row = found.row;
	/* The summary has what the catalogue learned after the file was finished. The file alone is enough. */
	capture->summary = capture_summary(daemons, id, &failure);
	return open_reader(found.fd, capture);
}

static bool is_file_name(const char *which)
{
	size_t n = strlen(which);

	return strchr(which, '/') || (n > 3 && strcmp(which + n - 3, ".db") == 0);
}

int capture_open(const char *which, struct capture *capture)
{
	struct daemons daemons;
	char id[64];
	int code;

	*capture = (struct capture){0};
	if (which && is_file_name(which)) {
		/* O_NONBLOCK: opening a pipe would wait until somebody opens its other end. */
		int fd = open(which, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		if (fd < 0)
			return fail(errno == EACCES   ? EXIT_NOT_PERMITTED
				    : errno == ENOENT ? EXIT_NO_TARGET
						      : EXIT_FAILED,
				    "the capture file %s cannot be opened: %s; `profd captures` lists the captures "
				    "that the daemon has",
				    which, strerror(errno));
		return open_reader(fd, capture);
	}
	code = daemons_need(&daemons);
	if (code == EXIT_DONE && !which)
		code = newest_id(&daemons, id, sizeof id);
	if (code == EXIT_DONE)
		code = capture_open_id(&daemons, which ? which : id, capture);
	daemons_deinit(&daemons);
	return code;
}

void capture_close(struct capture *capture)
{
	reader_close(&capture->reader);
	cJSON_Delete(capture->row);
	cJSON_Delete(capture->summary);
	*capture = (struct capture){0};
}
