/* generate.c - writes the bytes of every event record and message as this release lays them out, one file each, into the
 * folder given. Run by hand, once a release, or where records were added: `build/tests/compat_generate
 * tests/compat/VERSION`; of what it writes, files that an earlier version has just so are deleted again. What is there is
 * never written again. Bytes of numbers are 13 * type + 7 * offset + 1; each text is
 * "MEMBER \xc3\xa9". */
#include "proto/events.h"
#include "proto/message.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed;

static void pattern(void *record, size_t at, size_t end, unsigned type)
{
	for (; at < end; at++)
		((unsigned char *)record)[at] = (unsigned char)(13 * type + 7 * at + 1);
}

static void write_file(const char *folder, const char *what, const char *name, const void *bytes, size_t n)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s-%s.bin", folder, what, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) {
		perror(path);
		failed = 1;
	}
	if (fd >= 0)
		close(fd);
}

static void events(const char *folder)
{
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	{                                                                                                              \
		struct event_##name record = {.head = {sizeof record, number, 5, 77}};                                 \
		pattern(&record, sizeof record.head, sizeof record, number);                                           \
		write_file(folder, "event", #name, &record, sizeof record);                                            \
	}
#include "proto/events.def"
}

static void messages(const char *folder)
{
#define MESSAGE(number, NAME, name, from, fds, description)                                                            \
	{                                                                                                              \
		struct message_##name record = MESSAGE_INIT(NAME, name);                                               \
		pattern(&record, sizeof record.head, sizeof record, number);
#define TEXT(name, member, bytes, description)                                                                         \
	memset(record.member, 0, bytes);                                                                               \
	memcpy(record.member, #member " \xc3\xa9", sizeof #member " \xc3\xa9");
#define END_MESSAGE(NAME, name, first, size)                                                                           \
	write_file(folder, "message", #name, &record, sizeof record);                                                  \
	}
#include "proto/messages.def"
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: compat_generate FOLDER\n");
		return 2;
	}
	events(argv[1]);
	messages(argv[1]);
	return failed;
}
