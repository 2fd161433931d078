/* reply.c - see reply.h. Thread: the loop's. No locks. */
#include "reply.h"
#include "proto/base/log.h"
#include "calls.h"
#include "connection.h"
#include "json.h"
#include "proto/limits.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>

void error_text(enum error error, const char *detail, char ret[SENTENCE_BYTES])
{
	const char *format = error_sentence(error);
	size_t at = 0;
	ret[0] = 0;
	for (const char *p = format ? format : "%s"; *p && at + 1 < SENTENCE_BYTES;) {
		if (p[0] == '%' && p[1] == 's') {
			text_copy(ret + at, SENTENCE_BYTES - at, detail);
			at += strlen(ret + at);
			p += 2;
		} else {
			ret[at++] = *p++;
			ret[at] = 0;
		}
	}
}

cJSON *conn_row_new(const char *word)
{
	cJSON *row = cJSON_CreateObject();
	cJSON_AddStringToObject(row, "row", word);
	return row;
}

void conn_row_with(struct conn *conn, cJSON *row, int fd)
{
	char *text = conn->closed ? NULL : cJSON_PrintUnformatted(row);
	size_t n = text ? strlen(text) : 0;
	if (n && n <= LIMIT_PACKET_BYTES)
		conn_send(conn, text, n, fd);
	else if (!conn->closed)
		log_line("a row for uid %u is larger than a packet and was left out", conn->peer.uid);
	free(text);
	cJSON_Delete(row);
}

void conn_row(struct conn *conn, cJSON *row)
{
	conn_row_with(conn, row, -1);
}

void conn_end(struct conn *conn, cJSON *end)
{
	if (!end)
		end = cJSON_CreateObject();
	cJSON_AddBoolToObject(end, "end", true);
	conn_row(conn, end);
	if (conn->closed)
		return;
	conn->produce = NULL;
	conn->busy = false;
	conn->server->calls->answered(conn);
	conn_poll_adjust(conn);
}

void conn_error(struct conn *conn, enum error error, const char *detail, int32_t pid)
{
	char sentence[SENTENCE_BYTES];
	error_text(error, detail, sentence);
	cJSON *end = cJSON_CreateObject();
	cJSON *object = json_add_error(end, error_word(error), sentence);
	if (pid > 0)
		cJSON_AddNumberToObject(object, "pid", pid);
	conn_end(conn, end);
}
