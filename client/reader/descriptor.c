/* descriptor.c - see descriptor.h. Its state is that of the files, and the bytes of all temporary files together. */
#include "descriptor.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct descriptor {
	sqlite3_vfs vfs;
	sqlite3_vfs *system;
	struct bounds *bounds;
	_Atomic int64_t temporary; /* bytes of temporary files */
	char name[40];
};

struct main_file {
	sqlite3_file base;
	int fd;
};

static int file_close(sqlite3_file *file)
{
	(void)file; /* the descriptor is the reader's */
	return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *bytes, int amount, sqlite3_int64 offset)
{
	const struct main_file *f = (const struct main_file *)file;
	size_t have = 0, want = (size_t)amount;
	while (have < want) {
		ssize_t n = pread(f->fd, (char *)bytes + have, want - have, offset + (off_t)have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return SQLITE_IOERR_READ;
		if (n == 0) {
			memset((char *)bytes + have, 0, want - have);
			return SQLITE_IOERR_SHORT_READ;
		}
		have += (size_t)n;
	}
	return SQLITE_OK;
}

static int file_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
	(void)file, (void)bytes, (void)amount, (void)offset;
	return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	(void)file, (void)size;
	return SQLITE_READONLY;
}

static int file_number(sqlite3_file *file, int flags)
{
	(void)file, (void)flags;
	return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	struct stat st;
	if (fstat(((const struct main_file *)file)->fd, &st) < 0)
		return SQLITE_IOERR_FSTAT;
	*ret_size = st.st_size;
	return SQLITE_OK;
}

static int file_unlock(sqlite3_file *file, int level)
{
	(void)file, (void)level;
	return SQLITE_OK;
}

static int file_reserved(sqlite3_file *file, int *ret_reserved)
{
	(void)file;
	*ret_reserved = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int operation, void *argument)
{
	(void)file, (void)operation, (void)argument;
	return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *file)
{
	(void)file;
	return 4096;
}

/* A finished capture never changes: no locks to take, no journal to look for. */
static int file_device(sqlite3_file *file)
{
	(void)file;
	return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_number,
	.xFileSize = file_size,
	.xLock = file_unlock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_device,
};

/* --- temporary files: the system's, which stand behind ours in memory, and are counted --- */

struct temporary_file {
	sqlite3_file base;
	struct descriptor *owner;
	int64_t size;
};

static sqlite3_file *real_file(sqlite3_file *file)
{
	return (sqlite3_file *)((struct temporary_file *)file + 1);
}

static int temporary_close(sqlite3_file *file)
{
	struct temporary_file *f = (struct temporary_file *)file;
	atomic_fetch_sub(&f->owner->temporary, f->size);
	return real_file(file)->pMethods->xClose(real_file(file));
}

static int temporary_read(sqlite3_file *file, void *bytes, int amount, sqlite3_int64 offset)
{
	return real_file(file)->pMethods->xRead(real_file(file), bytes, amount, offset);
}

static int temporary_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
	struct temporary_file *f = (struct temporary_file *)file;
	int64_t more = offset + amount - f->size;
	if (more > 0) {
		f->size += more;
		if (atomic_fetch_add(&f->owner->temporary, more) + more > bounds_temporary(f->owner->bounds)) {
			bounds_exceed(f->owner->bounds);
			return SQLITE_FULL;
		}
	}
	return real_file(file)->pMethods->xWrite(real_file(file), bytes, amount, offset);
}

static int temporary_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	struct temporary_file *f = (struct temporary_file *)file;
	if (size < f->size) {
		atomic_fetch_sub(&f->owner->temporary, f->size - size);
		f->size = size;
	}
	return real_file(file)->pMethods->xTruncate(real_file(file), size);
}

static int temporary_sync(sqlite3_file *file, int flags)
{
	(void)file, (void)flags; /* nobody reads it after a crash */
	return SQLITE_OK;
}

static int temporary_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	return real_file(file)->pMethods->xFileSize(real_file(file), ret_size);
}

static int temporary_control(sqlite3_file *file, int operation, void *argument)
{
	return real_file(file)->pMethods->xFileControl(real_file(file), operation, argument);
}

static int temporary_sector(sqlite3_file *file)
{
	return real_file(file)->pMethods->xSectorSize(real_file(file));
}

static int temporary_device(sqlite3_file *file)
{
	return real_file(file)->pMethods->xDeviceCharacteristics(real_file(file));
}

static const sqlite3_io_methods temporary_methods = {
	.iVersion = 1,
	.xClose = temporary_close,
	.xRead = temporary_read,
	.xWrite = temporary_write,
	.xTruncate = temporary_truncate,
	.xSync = temporary_sync,
	.xFileSize = temporary_size,
	.xLock = file_unlock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_reserved,
	.xFileControl = temporary_control,
	.xSectorSize = temporary_sector,
	.xDeviceCharacteristics = temporary_device,
};

static int open_temporary(struct descriptor *owner, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	struct temporary_file *f = (struct temporary_file *)file;
	int error = owner->system->xOpen(owner->system, name, real_file(file), flags, ret_flags);
	if (error != SQLITE_OK) {
		if (real_file(file)->pMethods)
			real_file(file)->pMethods->xClose(real_file(file));
		return error;
	}
	*f = (struct temporary_file){.base = {.pMethods = &temporary_methods}, .owner = owner};
	return SQLITE_OK;
}

/* --- the VFS --- */

/* The main file is named by its descriptor's number; everything else is a temporary file. */
static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	struct descriptor *descriptor = vfs->pAppData;
	file->pMethods = NULL;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return open_temporary(descriptor, name, file, flags, ret_flags);
	char *end;
	long fd = name ? strtol(name, &end, 10) : -1;
	if (fd < 0)
		return SQLITE_CANTOPEN;
	struct main_file *f = (struct main_file *)file;
	f->base.pMethods = &file_methods;
	f->fd = (int)fd;
	if (ret_flags)
		*ret_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
	return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
	sqlite3_vfs *system = ((struct descriptor *)vfs->pAppData)->system;
	return system->xDelete(system, name, sync_directory);
}

/* There is a main file alone. Files beside it would not be the capture's. */
static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_exists)
{
	(void)vfs, (void)name, (void)flags;
	*ret_exists = 0;
	return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int bytes, char *ret_path)
{
	(void)vfs;
	sqlite3_snprintf(bytes, ret_path, "%s", name);
	return SQLITE_OK;
}

struct descriptor *descriptor_new(struct bounds *bounds)
{
	sqlite3_vfs *system = sqlite3_vfs_find(NULL);
	struct descriptor *d = system ? calloc(1, sizeof *d) : NULL;
	if (!d)
		return NULL;
	snprintf(d->name, sizeof d->name, "profd-descriptor-%p", (void *)d);
	d->system = system;
	d->bounds = bounds;
	d->vfs = *system;
	d->vfs.iVersion = 1;
	d->vfs.pNext = NULL;
	d->vfs.zName = d->name;
	d->vfs.pAppData = d;
	d->vfs.szOsFile += (int)sizeof(struct temporary_file);
	if (d->vfs.szOsFile < (int)sizeof(struct main_file))
		d->vfs.szOsFile = (int)sizeof(struct main_file);
	d->vfs.xOpen = vfs_open;
	d->vfs.xDelete = vfs_delete;
	d->vfs.xAccess = vfs_access;
	d->vfs.xFullPathname = vfs_full_path;
	if (sqlite3_vfs_register(&d->vfs, 0) == SQLITE_OK)
		return d;
	free(d);
	return NULL;
}

void descriptor_free(struct descriptor *descriptor)
{
	if (!descriptor)
		return;
	sqlite3_vfs_unregister(&descriptor->vfs);
	free(descriptor);
}

int descriptor_open(struct descriptor *descriptor, int fd, sqlite3 **ret_db)
{
	char name[24];
	snprintf(name, sizeof name, "%d", fd);
	/* NOMUTEX: a connection belongs to one thread at a time. */
	int error = sqlite3_open_v2(name, ret_db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, descriptor->name);
	return error == SQLITE_OK ? 0 : error == SQLITE_NOMEM ? -ENOMEM : -EIO;
}
