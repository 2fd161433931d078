/* foreign.c - see foreign.h. */
#include "foreign.h"

#include <stdio.h>
#include <string.h>

/* Files whose packer writes plain JSON to a pipe. */
static const struct {
	const char *magic;
	size_t bytes;
	const char *name, *command;
} packed[] = {
	{"\x28\xb5\x2f\xfd", 4, "zstd", "zstd -dc"},
	{"\xfd"
	 "7zXZ",
	 5, "xz", "xz -dc"},
	{"BZh", 3, "bzip2", "bzip2 -dc"},
	{"\x04\x22\x4d\x18", 4, "lz4", "lz4 -dc"},
	{"PK\x03\x04", 4, "zip", "unzip -p"},
};

/* What other programs write. */
static const char database[] =
	"it is an SQLite database. A capture file of profd needs no import: `profd show FILE` reads it. What nsys "
	"exports is another profiler's, and is not read here";
static const char pickle[] =
	"it is a Python pickle. Snapshots of torch's memory hold no timeline; pytorch.org/memory_viz draws them";

/* Some have no first bytes of their own. */
static const struct {
	const char *suffix, *sentence;
} suffixes[] = {
	{".nsys-rep",
	 "it is a report of nsys, another profiler, which is not read here: `nsys stats` and nsys-ui read it"},
	{".qdrep",
	 "it is a report of nsys, another profiler, which is not read here: `nsys stats` and nsys-ui read it"},
	{".ncu-rep", "it is a report of Nsight Compute, which is not read here: `ncu --import` reads it"},
	{".xplane.pb", "it is a profile of XLA, which is not read here: xprof reads it"},
};

static const char perfetto[] =
	"it is a trace in Perfetto's own format, which is not read here: export_chrome_trace() of "
	"torch.profiler writes JSON";

static bool ends_in(const char *path, const char *suffix)
{
	size_t n = strlen(path), length = strlen(suffix);
	return n > length && strcmp(path + n - length, suffix) == 0;
}

/* A list of packets: its tag is a line feed, with which JSON may begin, too; but the tags in the first packet are characters that JSON
 * does not have. */
static bool is_perfetto(const unsigned char *bytes, size_t n)
{
	if (n < 2 || bytes[0] != '\n')
		return false;
	for (size_t i = 1; i < n && i < 64; i++)
		if (bytes[i] < ' ' && !memchr("\t\r\n", bytes[i], 3))
			return true;
	return false;
}

static bool is_pickle(const unsigned char *bytes, size_t n)
{
	return n > 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
}

bool foreign_tell(const char *path, const unsigned char *bytes, size_t n, char *sentence, size_t room)
{
	bool named = path && strcmp(path, "-") != 0;
	for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
		if (n < packed[i].bytes || memcmp(bytes, packed[i].magic, packed[i].bytes) != 0)
			continue;
		snprintf(sentence, room,
			 "it is compressed by %s; unpack it on the way: `%s %.200s | profd import - --output NAME.db`",
			 packed[i].name, packed[i].command, named ? path : "FILE");
		return true;
	}
	const char *found = is_perfetto(bytes, n)				   ? perfetto
			    : is_pickle(bytes, n)				   ? pickle
			    : n >= 16 && memcmp(bytes, "SQLite format 3", 16) == 0 ? database
										   : NULL;
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && named && !found; i++)
		if (ends_in(path, suffixes[i].suffix))
			found = suffixes[i].sentence;
	if (found)
		snprintf(sentence, room, "%s", found);
	return found;
}
