/* space.c - see space.h. */
#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

void space_look(int folder, const struct space_floor *floor, struct space *ret)
{
	struct statvfs facts;
	*ret = (struct space){.inodes = UINT64_MAX};
	if (fstatvfs(folder, &facts))
		return;
	uint64_t block = facts.f_frsize ? facts.f_frsize : facts.f_bsize;
	ret->known = true;
	ret->free = facts.f_bavail * block;
	if (facts.f_files)
		ret->inodes = facts.f_favail;
	if (!floor)
		return;
	uint64_t most = facts.f_blocks * block / 100 * atomic_load(&floor->percent);
	ret->floor = atomic_load(&floor->bytes);
	if (ret->floor > most)
		ret->floor = most;
}

uint64_t space_missing(const struct space *space)
{
	return space->known && space->free < space->floor ? space->floor - space->free : 0;
}

#define RESERVE_BYTES (256u << 10)

static int open_folder(const char *directory, struct space *ret)
{
	int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	space_look(folder, NULL, ret);
	return folder;
}

int space_reserve_take(const char *directory)
{
	struct space space;
	int folder = open_folder(directory, &space);
	if (folder < 0)
		return folder;
	int error = 0;
	if (space.known && space.free < RESERVE_BYTES && unlinkat(folder, "reserve", 0) && errno != ENOENT)
		error = -errno;
	close(folder);
	return error;
}

int space_reserve_keep(const char *directory)
{
	struct space space;
	int folder = open_folder(directory, &space);
	if (folder < 0)
		return folder;
	int error = -ENOSPC;
	if (!space.known || space.free >= 4ull * RESERVE_BYTES) {
		int fd = openat(folder, "reserve", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
				0600); /* O_NONBLOCK: opening a pipe would wait */
		error = fd < 0 || fallocate(fd, 0, 0, RESERVE_BYTES) ? -errno : 0;
		if (fd >= 0)
			close(fd);
		if (error)
			unlinkat(folder, "reserve", 0);
	}
	close(folder);
	return error;
}

const char *space_text(uint64_t bytes, char ret[SPACE_TEXT_BYTES])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned unit = 0;
	double value = (double)bytes;
	for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
		value /= 1024;
	snprintf(ret, SPACE_TEXT_BYTES, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return ret;
}

void space_low_sentence(const struct space *space, const char *path, char *to, size_t to_bytes)
{
	char free_text[SPACE_TEXT_BYTES], floor_text[SPACE_TEXT_BYTES];
	snprintf(to, to_bytes,
		 "no space is left above the floor: %s are free where captures go, and %s are to stay free "
		 "(free_space of profd.conf); delete captures with `profd rm`, or other files on the file system of "
		 "%s",
		 space_text(space->free, free_text), space_text(space->floor, floor_text), path);
}

void space_ended_sentence(const struct space *space, char *to, size_t to_bytes)
{
	char free_text[SPACE_TEXT_BYTES], floor_text[SPACE_TEXT_BYTES];
	snprintf(to, to_bytes,
		 "no space is left above the floor: %s are free where captures go, %s are to stay free (free_space of "
		 "profd.conf; `profd rm` makes room); it was ended",
		 space_text(space->free, free_text), space_text(space->floor, floor_text));
}

bool space_error_sentence(int folder, const char *path, int error, uint64_t needed, char *to, size_t to_bytes)
{
	struct space space;
	char free_text[SPACE_TEXT_BYTES], needed_text[SPACE_TEXT_BYTES], room[96] = "";
	space_look(folder, NULL, &space);
	if (space.known && needed)
		snprintf(room, sizeof room, " (%s free, %s needed)", space_text(space.free, free_text),
			 space_text(needed, needed_text));
	else if (space.known)
		snprintf(room, sizeof room, " (%s free)", space_text(space.free, free_text));
	switch (error) {
	case ENOSPC:
		if (space.inodes == 0)
			snprintf(to, to_bytes,
				 "no space is left: the file system of %s has no inode for another file; delete "
				 "captures with `profd rm`, or other files there",
				 path);
		else
			snprintf(to, to_bytes,
				 "no space is left on the disk of the store%s; delete captures with `profd rm`, or "
				 "other files on the file system of %s",
				 room, path);
		return true;
	case EDQUOT:
		snprintf(to, to_bytes,
			 "no space is left in the disk quota of the daemon's user%s; delete captures with `profd rm`, "
			 "or ask for a larger quota on the file system of %s",
			 room, path);
		return true;
	case EROFS:
		snprintf(to, to_bytes,
			 "the store cannot be written: its file system is read-only (`dmesg` may say why); make it "
			 "writable again, that of %s",
			 path);
		return true;
	case EIO:
		snprintf(to, to_bytes,
			 "the store cannot be written: its disk reports an error (`dmesg` may say more), that under %s",
			 path);
		return true;
	default:
		return false;
	}
}
