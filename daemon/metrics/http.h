/* http.h - the head of one HTTP/1 request, as far as a page that only programs read needs it. Any thread; no state; no
 * locks. Knows no sockets, so that it can be fuzzed alone.
 *
 * Own code, as the daemon has its loop already: a library for HTTP servers brings threads, and hundreds of features that a
 * single page in plain text does without. */
#ifndef PROFD_DAEMON_METRICS_HTTP_H
#define PROFD_DAEMON_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/* Bounds the whole head; what scrapes sends a few hundred bytes. */
#define HTTP_HEAD_BYTES 8192

struct http_request {
	bool head_only; /* HEAD: the answer has no body */
	bool metrics;	/* the path is /metrics */
	size_t bytes;	/* of the head, its empty line too */
};

/* Reads the head at the beginning of n bytes. 0: more has to come. 200: it is good, *ret filled. Else what to answer: 400
 * (no request, or one with a body), 404 (another path), 405 (neither GET nor HEAD), 421 (its Host is not this machine: a
 * name that somebody's web page has made to lead here), 431 (too long), 505 (not HTTP/1). */
int http_parse(const char *bytes, size_t n, struct http_request *ret);

/* The words that go with a status ("Not Found"). */
const char *http_reason(int status);

#endif
