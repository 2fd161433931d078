/* once.c - stands in for libFuzzer where a fuzz target is built by any compiler: `fuzz_X FOLDER...` hands each file of these folders to the
 * target once, and no bytes at all before them. It says each file's name before it does: the last one named is the one that failed. What a
 * target may play itself ("wrap:") is not called here. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_SECONDS 40 /* for one input: 10 on an idle machine (tests/parts.sh) */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A target may put something else in the place of our outputs. */
static int out;

static void run(const char *name, const uint8_t *bytes, size_t n)
{
	dprintf(out, "%s\n", name);
	/* A block of just this size: the sanitizer sees who reads beyond it. */
	uint8_t *copy = malloc(n);
	if (!copy)
		abort();
	memcpy(copy, bytes, n);
	alarm(MOST_SECONDS);
	LLVMFuzzerTestOneInput(copy, n);
	alarm(0);
	free(copy);
}

static bool run_file(const char *path)
{
	int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	if (fd < 0 || fstat(fd, &stat) < 0) {
		perror(path);
		return false;
	}
	size_t n = (size_t)stat.st_size;
	uint8_t *bytes = malloc(n + 1);
	bool read_all = bytes && read(fd, bytes, n) == (ssize_t)n;
	close(fd);
	if (read_all)
		run(path, bytes, n);
	free(bytes);
	return read_all;
}

int main(int argc, char **argv)
{
	size_t inputs = 1;
	out = dup(STDERR_FILENO);
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	run("no bytes", (const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		struct dirent **entries;
		int count = scandir(argv[i], &entries, NULL, alphasort);
		if (count < 0) {
			perror(argv[i]);
			return 1;
		}
		for (int k = 0; k < count; k++) {
			char path[PATH_MAX];
			snprintf(path, sizeof path, "%s/%s", argv[i], entries[k]->d_name);
			if (entries[k]->d_name[0] != '.' && !run_file(path))
				return 1;
			inputs += entries[k]->d_name[0] != '.';
			free(entries[k]);
		}
		free(entries);
	}
	dprintf(out, "%zu inputs\n", inputs);
	return 0;
}
