/* test_daemon_http.c - which requests get the metrics, and what the others get; byte by byte, as they may come. */
#include "daemon/metrics/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The verdict on a text that comes byte by byte is that on the whole. */
static int parse(const char *text, size_t n)
{
	struct http_request request, partial;
	int status = http_parse(text, n, &request);
	for (size_t i = 1; i < n; i++) {
		int early = http_parse(text, i, &partial);
		if (early == 0)
			continue;
		assert_int_equal(early, status);
		break;
	}
	assert_true(status == 0 || status == 431 || *http_reason(status));
	return status;
}

static void expect(int status, const char *text)
{
	int got = parse(text, strlen(text));
	if (got != status)
		fail_msg("%d instead of %d: %s", got, status, text);
}

#define HOST "Host: 127.0.0.1:9188\r\n"

static void test_good(void **state)
{
	struct http_request request;
	static const char head[] = "HEAD /metrics?x=/other HTTP/1.1\r\nhost:\t LocalHost \r\n\r\nmore";
	(void)state;
	expect(200, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
	expect(200, "GET /metrics HTTP/1.0\r\n\r\n");
	expect(200, "GET /metrics HTTP/1.1\r\nHost: [::1]:9188\r\nContent-Length: 0\r\n\r\n");
	expect(200, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Prometheus/2.42.0\r\n"
		    "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\nAccept-Encoding: gzip\r\n"
		    "X-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n");
	assert_int_equal(http_parse(head, sizeof head - 1, &request), 200);
	assert_true(request.head_only);
	assert_true(request.metrics);
	assert_int_equal(request.bytes, sizeof head - 1 - 4);
}

static void test_more(void **state)
{
	(void)state;
	expect(0, "");
	expect(0, "GET /metrics HTTP/1.1\r\n" HOST "\r");
	expect(0, "GET /metrics HTTP/1.1\r\n" HOST);
}

static void test_refused(void **state)
{
	(void)state;
	expect(404, "GET / HTTP/1.1\r\n" HOST "\r\n");
	expect(404, "GET /metrics/ HTTP/1.1\r\n" HOST "\r\n");
	expect(404, "GET /metrics/../etc/passwd HTTP/1.1\r\n" HOST "\r\n");
	expect(404, "GET http://127.0.0.1/metrics HTTP/1.1\r\n" HOST "\r\n");
	expect(404, "GET /%6detrics HTTP/1.1\r\n" HOST "\r\n");
	expect(405, "POST /metrics HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
	expect(405, "get /metrics HTTP/1.1\r\n" HOST "\r\n");
	expect(405, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n");
	expect(421, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	expect(421, "GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n");
	expect(421, "GET /metrics HTTP/1.1\r\nHost: localhost:80@evil.example\r\n\r\n");
	expect(421, "GET /metrics HTTP/1.1\r\nHost:\r\n\r\n");
	expect(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	expect(505, "GET /metrics HTTP/1.x\r\n" HOST "\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\n\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\n" HOST HOST "\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
	expect(400, "GET /metrics HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\n" HOST "no colon\r\n\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\n" HOST "bad name: x\r\n\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\n" HOST " folded: x\r\n\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\n" HOST "a: b\x01\r\n\r\n");
	expect(400, "GET /metrics HTTP/1.1\n" HOST "\r\n\r\n");
	expect(400, "GET /metrics HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n");
	expect(400, "GET  /metrics HTTP/1.1\r\n" HOST "\r\n");
	expect(400, "GET /met\x80rics HTTP/1.1\r\n" HOST "\r\n");
	expect(400, "GET /metrics\r\n\r\n");
	expect(400, "GET\r\n\r\n");
	expect(400, "\r\n\r\n");
	expect(400, "\x16\x03\x01\x02");
	static const char zero[] = "GET /metrics HTTP/1.1\r\n" HOST "a: \0\r\n\r\n";
	assert_int_equal(parse(zero, sizeof zero - 1), 400);
}

static void test_long(void **state)
{
	static char text[HTTP_HEAD_BYTES + 64];
	struct http_request request;
	(void)state;
	int n = snprintf(text, sizeof text, "GET /metrics HTTP/1.1\r\n" HOST "Cookie: ");
	memset(text + n, 'c', sizeof text - (size_t)n);
	assert_int_equal(http_parse(text, HTTP_HEAD_BYTES, &request), 0);
	assert_int_equal(http_parse(text, HTTP_HEAD_BYTES + 1, &request), 431);
	memcpy(text + HTTP_HEAD_BYTES - 4, "\r\n\r\n", 4);
	assert_int_equal(http_parse(text, HTTP_HEAD_BYTES, &request), 200);
	memset(text + HTTP_HEAD_BYTES - 4, 'c', 4);
	memcpy(text + HTTP_HEAD_BYTES - 3, "\r\n\r\n", 4);
	assert_int_equal(http_parse(text, HTTP_HEAD_BYTES + 1, &request), 431);
	/* What never becomes a request has one verdict, however much of it has come. */
	*text = '{';
	assert_int_equal(http_parse(text, HTTP_HEAD_BYTES / 2, &request), 400);
	assert_int_equal(http_parse(text, HTTP_HEAD_BYTES + 1, &request), 400);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_more),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
