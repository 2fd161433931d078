/* fill.c - see fill.h. */
#include "fill.h"

#include "client/process/facts.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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

static int write_all(int file, const unsigned char *from, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = write(file, from + at, bytes - at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += (size_t)n;
	}
	return 0;
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
	/* Only a memfd that may be sealed can have no seals yet, except the one that vm.memfd_noexec gives to each. */
	int seals = file < 0 ? -1 : fcntl(file, F_GET_SEALS);
	if (seals >= 0 && !(seals & ~SEAL_EXEC)) {
		*made = facts.st_ino;
		error = write_all(file, library, bytes);
	}
	if (file >= 0)
		close(file);
	close(handle);
	return error;
}

/* Is what /proc/PID/NAME leads to the same for both? */
static bool same(int64_t pid, const char *name)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof path, "/proc/self/%s", name);
	if (stat(path, &ours))
		return false;
	snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
	return stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* The kernel compares all of its numbers with ours, and its rights. */
static bool same_user(int64_t pid)
{
	char ours[128], theirs[128];

	for (const char *const *key = (const char *const[]){"Uid", "Gid", "CapPrm", NULL}; *key; key++)
		if (!process_status(getpid(), *key, ours, sizeof ours) ||
		    !process_status(pid, *key, theirs, sizeof theirs) || strcmp(ours, theirs) != 0)
			return false;
	return true;
}

int fill_own(int64_t pid, const unsigned char *library, size_t bytes, const char *name)
{
	int file;

	if (!same_user(pid) || !same(pid, "ns/pid") || !same(pid, "ns/mnt") || !same(pid, "ns/user") ||
	    !same(pid, "root"))
		return -1;
	file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (file < 0)
		return -1;
	if (write_all(file, library, bytes) ||
	    fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(file);
		return -1;
	}
	return file;
}
