/* fuzz_client_kineto.c - a trace of somebody else's, through the parser and into a capture file. */
#include "proto/base/hash.h"
#include "client/import/import.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char output[64];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	hash_init();
	snprintf(output, sizeof output, "/dev/shm/profd-fuzz-kineto-%d.db", (int)getpid());
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct build_counts counts;
	char path[40], sentence[IMPORT_SENTENCE_BYTES];
	int fd = memfd_create("trace", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int code = import_file(path, output, true, NULL, &counts, sentence);
	/* What fails says why, and leaves nothing behind. */
	if (code ? !*sentence || access(output, F_OK) == 0 : access(output, F_OK) != 0)
		abort();
	unlink(output);
	close(fd);
	return 0;
}
