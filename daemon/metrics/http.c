/* http.c - see http.h. Any thread; no locks. */
#include "http.h"

#include <string.h>
#include <strings.h>

struct span {
	const char *at;
	size_t n;
};

static bool span_is(struct span span, const char *text)
{
	return span.n == strlen(text) && memcmp(span.at, text, span.n) == 0;
}

static bool span_is_name(struct span span, const char *name)
{
	return span.n == strlen(name) && strncasecmp(span.at, name, span.n) == 0;
}

/* A character of RFC 9110's token: of methods and of field names. */
static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool all_tokens(struct span span)
{
	for (size_t i = 0; i < span.n; i++)
		if (!is_token(span.at[i]))
			return false;
	return span.n > 0;
}

/* Takes what stands before `end` off the front, and the end itself. */
static bool cut(struct span *from, char end, struct span *ret)
{
	const char *found = memchr(from->at, end, from->n);
	if (!found)
		return false;
	*ret = (struct span){from->at, (size_t)(found - from->at)};
	from->at = found + 1;
	from->n -= ret->n + 1;
	return true;
}

/* A line ends with CR LF. A bare LF ends none, as other programs may read it otherwise. */
static bool cut_line(struct span *from, struct span *ret)
{
	if (!cut(from, '\n', ret) || ret->n == 0 || ret->at[ret->n - 1] != '\r')
		return false;
	ret->n--;
	return memchr(ret->at, '\r', ret->n) == NULL;
}

static struct span trimmed(struct span span)
{
	while (span.n && (span.at[0] == ' ' || span.at[0] == '\t')) {
		span.at++;
		span.n--;
	}
	while (span.n && (span.at[span.n - 1] == ' ' || span.at[span.n - 1] == '\t'))
		span.n--;
	return span;
}

/* localhost, 127.0.0.1 or [::1], with a port or without. */
static bool is_here(struct span host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t n = strlen(names[i]);
		if (host.n < n || strncasecmp(host.at, names[i], n) != 0)
			continue;
		if (host.n == n)
			return true;
		if (host.at[n] != ':')
			continue;
		for (size_t k = n + 1; k < host.n; k++)
			if (host.at[k] < '0' || host.at[k] > '9')
				return false;
		return true;
	}
	return false;
}

/* 200 or the status to answer with; *ret_minor is the x of HTTP/1.x. */
static int request_line(struct span line, struct http_request *ret, char *ret_minor)
{
	struct span method, target;
	if (!cut(&line, ' ', &method) || !all_tokens(method) || !cut(&line, ' ', &target) || target.n == 0 ||
	    line.n != 8 || memcmp(line.at, "HTTP/", 5) != 0 || line.at[6] != '.')
		return 400;
	if (line.at[5] != '1' || line.at[7] < '0' || line.at[7] > '9')
		return 505;
	for (size_t i = 0; i < target.n; i++)
		if (target.at[i] <= ' ' || target.at[i] >= 0x7f)
			return 400;
	*ret_minor = line.at[7];
	ret->head_only = span_is(method, "HEAD");
	/* The part after a ? does not belong to the path, and is ignored. */
	struct span path = target;
	cut(&target, '?', &path);
	ret->metrics = span_is(path, "/metrics");
	if (!ret->head_only && !span_is(method, "GET"))
		return 405;
	return ret->metrics ? 200 : 404;
}

/* The head without its last, empty line. */
static int parse_head(struct span head, struct http_request *ret)
{
	struct span line, name;
	char minor = '0';
	unsigned hosts = 0;
	bool here = true, body = false;
	if (!cut_line(&head, &line))
		return 400;
	int status = request_line(line, ret, &minor);
	if (status == 400 || status == 505)
		return status;
	while (head.n) {
		if (!cut_line(&head, &line) || !cut(&line, ':', &name) || !all_tokens(name))
			return 400;
		struct span value = trimmed(line);
		for (size_t i = 0; i < value.n; i++)
			if ((unsigned char)value.at[i] < ' ' && value.at[i] != '\t')
				return 400;
		if (span_is_name(name, "host")) {
			hosts++;
			here = is_here(value);
		} else if (span_is_name(name, "transfer-encoding")) {
			body = true;
		} else if (span_is_name(name, "content-length")) {
			body |= !span_is(value, "0");
		}
	}
	if (body || hosts > 1 || (hosts == 0 && minor != '0'))
		return 400;
	return here ? status : 421;
}

int http_parse(const char *bytes, size_t n, struct http_request *ret)
{
	*ret = (struct http_request){0};
	/* Bytes that do not begin with a token never become a request. */
	if (n && !is_token(bytes[0]))
		return 400;
	const char *end = memmem(bytes, n, "\r\n\r\n", 4);
	if (!end)
		return n > HTTP_HEAD_BYTES ? 431 : 0;
	size_t head = (size_t)(end - bytes) + 2;
	if (head + 2 > HTTP_HEAD_BYTES)
		return 431;
	ret->bytes = head + 2;
	return parse_head((struct span){bytes, head}, ret);
}

const char *http_reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 421:
		return "Misdirected Request";
	case 431:
		return "Request Header Fields Too Large";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Internal Server Error";
	}
}
