/* fuzz_agent_facts.c - what the agent reads of its own process, which others may have filled: the command line, /proc/self/stat,
 * and the launcher's variables.
 * wrap: keeper_read_file */
#include "agent/facts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t __wrap_keeper_read_file(const char *path, char *to, size_t bytes);

static const uint8_t *bytes_of;
static size_t bytes_there;

size_t __wrap_keeper_read_file(const char *path, char *to, size_t bytes)
{
	(void)path;
	size_t n = bytes_there < bytes - 1 ? bytes_there : bytes - 1;
	memcpy(to, bytes_of, n);
	to[n] = 0;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char *const variables[] = {"RANK", "PROFD_JOB", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"};
	struct message_hello hello;
	union message_any checked;
	const char *why;
	char *text = malloc(n + 1);
	if (!text)
		return 0;
	memcpy(text, data, n);
	text[n] = 0;
	setenv(variables[n % 4], text, 1);
	bytes_of = data;
	bytes_there = n;
	facts_read_environment();
	facts_hello(&hello);
	/* The daemon takes it. */
	if (message_check(&hello, sizeof hello, 1, &checked, &why) != 0)
		abort();
	unsetenv(variables[n % 4]);
	free(text);
	return 0;
}
