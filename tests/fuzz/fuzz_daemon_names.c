/* fuzz_daemon_names.c - readable forms of whatever an agent calls a kernel: they end in time, and the short one lies within the
 * whole. */
#include "daemon/capture/names.h"
#include "store/names_short.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	names_reader(*argc, *argv);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct names names;
	static struct names_text text;
	static bool begun;
	if (!begun)
		names_begin(&names);
	begun = true;
	names.spent_ns = names.until = 0;
	names.readers = 0;
	char *mangled = malloc(n + 1);
	if (!mangled)
		return 0;
	if (n)
		memcpy(mangled, data, n);
	mangled[n] = 0;
	size_t from, length;
	if (names_demangle(&names, mangled, &text)) {
		if (text.n > sizeof text.text)
			abort();
		char *whole = malloc(text.n);
		if (whole) {
			memcpy(whole, text.text, text.n);
			names_short(whole, text.n, &from, &length);
			if (from > text.n || length > text.n - from)
				abort();
		}
		free(whole);
	}
	names_short(mangled, n, &from, &length);
	if (from > n || length > n - from)
		abort();
	free(mangled);
	return 0;
}
