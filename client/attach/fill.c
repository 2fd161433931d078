/* fill.c - see fill.h. */
#include "fill.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEAL_EXEC 0x20 /* F_SEAL_EXEC, Linux 6.3 */

size_t fill_needed(const unsigned char *library, size_t bytes)
{
	const Elf64_Ehdr *head = (const void *)library;
	size_t most = 0;

	if (bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != EM_X86_64 ||
	    head->e_phoff + head->e_phnum * sizeof(Elf64_Phdr) > bytes)
		return 0;
	for (int i = 0; i < head->e_phnum; i++) {
		const Elf64_Phdr *row = (const void *)(library + head->e_phoff + (size_t)i * sizeof *row);

		if (row->p_type == PT_LOAD && row->p_offset + row->p_filesz > most)
			most = row->p_offset + row->p_filesz;
	}
	return most <= bytes ? most : 0;
}

int fill_memfd(int64_t pid, int fd, const unsigned char *library, size_t bytes, ino_t *made)
{
	char path[64];
	struct stat facts;
	int handle, file, error = -EBADF;

	snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)pid, fd);
	handle = open(path, O_PATH | O_CLOEXEC);
	if (handle < 0)
		return -errno;
	snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
	file = fstat(handle, &facts) == 0 && S_ISREG(facts.st_mode) && !facts.st_nlink && !facts.st_size
		       ? open(path, O_RDWR | O_CLOEXEC)
		       : -1;
	/* Of all files only a memfd that may be sealed has no seal yet, but for the one that vm.memfd_noexec gives to each. */
	int seals = file < 0 ? -1 : fcntl(file, F_GET_SEALS);
	if (seals >= 0 && !(seals & ~SEAL_EXEC)) {
		error = 0;
		*made = facts.st_ino;
		for (size_t at = 0; at < bytes && !error;) {
			ssize_t n = write(file, library + at, bytes - at);

			if (n <= 0)
				error = n < 0 ? -errno : -EIO;
			else
				at += (size_t)n;
		}
	}
	if (file >= 0)
		close(file);
	close(handle);
	return error;
}
