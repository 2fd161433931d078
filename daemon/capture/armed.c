/* armed.c - see armed.h. The note is the bytes of this build's structs: a daemon of another build does not read it. No
 * locks. */
#include "armed.h"
#include "proto/segment.h"
#include "proto/version.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct note {
	char version[32];
	uint64_t bytes;
	uint64_t device, inode; /* of the segment */
	struct capture_facts facts;
	struct handoff handoff;
};

static void name_note(uint64_t number, char name[32])
{
	snprintf(name, 32, "%" PRIu64 ".armed", number);
}

int armed_write(int folder, const struct capture_facts *facts, const struct handoff *handoff, int segment_fd)
{
	struct note note = {.version = PROFD_VERSION, .bytes = sizeof note, .facts = *facts, .handoff = *handoff};
	char name[32];
	name_note(facts->number, name);
	int error = segment_identity(segment_fd, &note.device, &note.inode);
	int fd = error ? -1 : openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error ? error : -errno;
	ssize_t n = write(fd, &note, sizeof note);
	error = n < 0 ? -errno : n < (ssize_t)sizeof note ? -ENOSPC : 0;
	close(fd);
	if (error)
		armed_remove(folder, facts->number);
	return error;
}

void armed_remove(int folder, uint64_t number)
{
	char name[32];
	name_note(number, name);
	unlinkat(folder, name, 0);
}

static bool read_note(int folder, uint64_t number, struct note *ret)
{
	char name[32];
	name_note(number, name);
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, ret, sizeof *ret);
	close(fd);
	return n == (ssize_t)sizeof *ret && ret->bytes == sizeof *ret && strcmp(ret->version, PROFD_VERSION) == 0 &&
	       ret->facts.number == number;
}

void armed_begin_file(struct store *store, const struct capture_facts *facts, const struct handoff *handoff,
		      uint64_t device, uint64_t inode)
{
	store_begin(store);
	store_put_facts(store, facts);
	store_meta_int(store, "segment_device", (int64_t)device);
	store_meta_int(store, "segment_inode", (int64_t)inode);
	handoff_write_begin(store, handoff);
	store_commit(store);
}

/* A file that the daemon had no time to fill is not a capture: it is removed. */
static bool has_file(int folder, const char *folder_path, uint64_t number)
{
	char name[32];
	snprintf(name, sizeof name, "%" PRIu64 ".db", number);
	if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	snprintf(name, sizeof name, "%" PRIu64 ".partial", number);
	struct store *store = faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) ? NULL : store_new(NULL);
	if (!store)
		return false;
	struct capture_facts facts = {0};
	int error = store_open(store, folder, folder_path, number);
	bool empty = store_schema(store) == 0 || (!error && store_get_facts(store, &facts) && !store_error(store));
	if (empty)
		store_discard(store);
	store_free(store);
	return !empty;
}

bool armed_make_file(int folder, const char *folder_path, uint64_t number)
{
	struct note note;
	bool wanted = read_note(folder, number, &note) && !has_file(folder, folder_path, number);
	struct store *store = wanted ? store_new(NULL) : NULL;
	if (store && !store_create(store, folder, folder_path, number))
		armed_begin_file(store, &note.facts, &note.handoff, note.device, note.inode);
	bool made = store && !store_error(store);
	if (store && !made)
		store_discard(store);
	store_free(store);
	armed_remove(folder, number);
	return made;
}
