/* page.c - see page.h: the data, and the program that draws it, in one file. */
#include "page.h"

#include "client/export/stream.h"
#include "client/report/about.h"
#include "client/report/query.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "parts.h"
#include "steps.h"
#include "template.h"

#include "proto/version.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void add_device_names(cJSON *data, const struct reader *reader)
{
	cJSON *names = need(cJSON_AddArrayToObject(data, "device_names"));
	if (!sqlite3_table_column_metadata(reader->db, NULL, "devices", NULL, NULL, NULL, NULL, NULL, NULL)) {
		sqlite3_stmt *statement = report_prepare(
			reader, "SELECT DISTINCT s.text FROM devices d JOIN strings s ON s.id = d.name LIMIT 16");
		while (report_next(reader, statement)) {
			char *text = text_utf8((const char *)sqlite3_column_text(statement, 0));
			cJSON_AddItemToArray(names, need(cJSON_CreateString(text)));
			free(text);
		}
	}
}

static cJSON *data_of(struct capture *capture, const struct page_options *options)
{
	cJSON *data = need(cJSON_CreateObject());
	struct page_time time_rows;
	char made[40] = "";
	time_t now = time(NULL);
	struct tm parts;
	if (!gmtime_r(&now, &parts) || !strftime(made, sizeof made, "made %Y-%m-%d %H:%M UTC", &parts))
		*made = '\0';
	json_add_text(data, "generator", "profd " PROFD_VERSION);
	json_add_text(data, "made", made);
	need(cJSON_AddBoolToObject(data, "redacted", options->redact));
	cJSON_AddItemToObject(data, "about", about_capture(capture));
	cJSON_AddItemToObject(data, "notes", about_notes(&capture->reader));
	add_device_names(data, &capture->reader);
	page_time_load(&time_rows, &capture->reader);
	page_steps(data, &time_rows);
	cJSON_AddItemToObject(data, "lines", page_lines(&time_rows, &capture->reader));
	cJSON_AddItemToObject(data, "verdict", page_verdict(&time_rows, &capture->reader));
	cJSON_AddItemToObject(data, "strip", page_strip(&time_rows, &capture->reader));
	cJSON_AddItemToObject(data, "tables", page_tables(capture, &time_rows));
	page_time_free(&time_rows);
	cJSON_AddItemToObject(data, "tree", page_tree(&capture->reader));
	if (options->redact)
		page_redact(data);
	return data;
}

/* JSON inside of a script element: "</script>" and "<!--" would end it. */
static void put_data(struct buffer *to, const char *json)
{
	for (const char *at = json; *at;) {
		size_t n = strcspn(at, "<");
		buffer_put(to, at, n);
		at += n;
		if (*at == '<') {
			BUFFER_PUT(to, "\\u003c");
			at++;
		}
	}
}

static void put_html(struct buffer *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			BUFFER_PUT(to, "&lt;");
		else if (*text == '>')
			BUFFER_PUT(to, "&gt;");
		else if (*text == '&')
			BUFFER_PUT(to, "&amp;");
		else if (*text == '"')
			BUFFER_PUT(to, "&quot;");
		else
			buffer_put(to, text, 1);
	}
}

static void put_title(struct buffer *to, const cJSON *data)
{
	const cJSON *about = cJSON_GetObjectItemCaseSensitive(data, "about");
	const char *id = json_text(about, "capture_id"), *name = json_text(about, "name");
	char title[160];
	snprintf(title, sizeof title, "capture %.32s, %.64s - profd", id ? id : "", name ? name : "a process");
	char *text = text_utf8(title);
	put_html(to, text);
	free(text);
}

/* The template with its @WORDS@ replaced. */
static void put_page(struct buffer *to, const cJSON *data, const char *json)
{
	for (const char *at = page_template; *at;) {
		size_t n = strcspn(at, "@");
		buffer_put(to, at, n);
		at += n;
		if (!*at)
			break;
		size_t length = strcspn(at + 1, "@");
		if (strncmp(at, "@TITLE@", length + 2) == 0)
			put_title(to, data);
		else if (strncmp(at, "@GENERATOR@", length + 2) == 0)
			BUFFER_PUT(to, "profd " PROFD_VERSION);
		else if (strncmp(at, "@STYLE@", length + 2) == 0)
			buffer_put(to, page_style, strlen(page_style));
		else if (strncmp(at, "@SCRIPT@", length + 2) == 0)
			buffer_put(to, page_script, strlen(page_script));
		else
			put_data(to, json);
		at += length + 2;
	}
}

int page_write(struct capture *capture, const struct page_options *options, const char *path, char *why,
	       size_t why_bytes)
{
	struct stream *stream;
	cJSON *data = data_of(capture, options);
	char *json = need(cJSON_PrintUnformatted(data));
	int error = stream_open(&stream, path, false, 1, why, why_bytes), closed;
	if (!error) {
		put_page(&stream_head(stream)->text, data, json);
		error = block_flush(stream_head(stream));
		closed = stream_close(stream, !error, why, why_bytes);
		error = closed ? closed : error;
	}
	free(json);
	cJSON_Delete(data);
	return error;
}
