/* fuzz_client_text.c - texts of a hostile job or daemon on their way to a terminal and into JSON: what comes out is safe, valid
 * and not longer than asked for. */
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_safe(const char *text)
{
	int32_t c;
	while ((c = text_decode(&text)))
		if (c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
		    (c >= 0x2066 && c <= 0x2069))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!n)
		return 0;
	char *text = malloc(n);
	if (!text)
		return 0;
	memcpy(text, data + 1, n - 1);
	text[n - 1] = 0;
	char *safe = text_safe(text), *valid = text_utf8(text);
	check_safe(safe);
	for (const char *at = valid; *at;)
		if (text_decode(&at) < 0)
			abort();
	size_t width = data[0];
	char *cut = text_cut(safe, width);
	check_safe(cut);
	if (text_width(cut) > (width > 4 ? width : text_width(safe)))
		abort();
	free(cut);
	free(valid);
	free(safe);
	free(text);
	return 0;
}
