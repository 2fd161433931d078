/* test_segment.c - segments and status pages: their life between two processes, and what hostile ones are answered. */
#include "proto/limits.h"
#include "proto/segment.h"
#include "proto/socket.h"
#include "proto/status.h"
#include "proto/system.h"
#include "proto/version.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CHUNK LIMIT_CHUNK_BYTES_MIN

static uint64_t memory_of(int fd)
{
	struct stat status;
	assert_int_equal(system_fstat(fd, &status), 0);
	return (uint64_t)status.st_blocks * 512;
}

static void create(struct segment *segment, uint64_t event_bytes)
{
	assert_int_equal(segment_create(segment, 42, event_bytes, CHUNK), 0);
}

static void is_small_until_provided(void **state)
{
	(void)state;
	struct segment s;
	assert_int_equal(segment_create(&s, 42, LIMIT_SEGMENT_BYTES_DEFAULT, LIMIT_CHUNK_BYTES), 0);
	assert_int_equal(s.chunk_count, LIMIT_SEGMENT_BYTES_DEFAULT / LIMIT_CHUNK_BYTES);
	assert_int_equal(s.header->capture, 42);
	assert_int_equal(s.header->version, SEGMENT_VERSION);
	assert_int_equal(atomic_load(&s.header->chunks_ready), 2);
	assert_int_equal(atomic_load(&s.header->chunks_free), 2);
	assert_int_equal(atomic_load(&s.header->strings_ready), 65536);
	assert_int_equal(atomic_load(&s.header->strings_used), SEGMENT_STRINGS_FIRST);
	assert_true(memory_of(s.fd) < 256 * 1024);
	assert_int_equal(fcntl(s.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(ftruncate(s.fd, 4096), -1);
	assert_int_equal(ftruncate(s.fd, (off_t)s.map_bytes * 2), -1);

	uint64_t before = memory_of(s.fd);
	assert_int_equal(segment_provide(&s, 17, 0), 0);
	assert_int_equal(atomic_load(&s.header->chunks_ready), 17);
	assert_int_equal(atomic_load(&s.header->chunks_free), 17);
	/* What must be there is what the daemon says, but never more than is usual. */
	assert_false(segment_has_room(&s));
	atomic_store(&s.header->chunks_room, 17);
	assert_true(segment_has_room(&s));
	atomic_store(&s.header->chunks_room, UINT32_MAX);
	assert_false(segment_has_room(&s));
	assert_int_equal(memory_of(s.fd) - before, 15 * LIMIT_CHUNK_BYTES);
	/* Never back, never beyond. */
	assert_int_equal(segment_provide(&s, 3, 100), 0);
	assert_int_equal(atomic_load(&s.header->chunks_ready), 17);
	assert_int_equal(atomic_load(&s.header->strings_ready), 65536);
	before = memory_of(s.fd);
	assert_int_equal(segment_provide(&s, 17, UINT32_MAX), 0);
	assert_int_equal(atomic_load(&s.header->strings_ready), LIMIT_STRINGS_BYTES);
	assert_int_equal(memory_of(s.fd) - before, LIMIT_STRINGS_BYTES - 65536);
	segment_deinit(&s);
	assert_int_equal(s.fd, -1);
}

static void sizes(void **state)
{
	(void)state;
	struct segment s;
	assert_int_equal(segment_create(&s, 1, 1 << 20, CHUNK - 8), -EINVAL);
	assert_int_equal(segment_create(&s, 1, 1 << 20, LIMIT_CHUNK_BYTES + 8), -EINVAL);
	assert_int_equal(segment_create(&s, 1, 1 << 20, CHUNK + 4), -EINVAL);
	create(&s, 0);
	assert_int_equal(s.chunk_count, 1);
	segment_deinit(&s);
	create(&s, 3 * CHUNK + 1);
	assert_int_equal(s.chunk_count, 3);
	assert_false(segment_has_room(&s));
	assert_int_equal(segment_provide(&s, UINT32_MAX, 0), 0);
	assert_int_equal(atomic_load(&s.header->chunks_ready), 3);
	assert_true(segment_has_room(&s));
	segment_deinit(&s);
	create(&s, UINT64_MAX);
	assert_int_equal(s.chunk_count, LIMIT_CHUNKS);
	segment_deinit(&s);
	assert_int_equal(segment_create(&s, 1, UINT64_MAX, LIMIT_CHUNK_BYTES), 0);
	assert_int_equal(s.chunk_count, LIMIT_CHUNKS);
	struct segment other;
	int fd = dup(s.fd);
	assert_int_equal(segment_map(&other, fd, UINT64_MAX), 0);
	segment_deinit(&other);
	segment_deinit(&s);
}

static void parts_do_not_overlap(void **state)
{
	(void)state;
	struct segment s;
	create(&s, 300 * CHUNK);
	assert_int_equal(segment_provide(&s, UINT32_MAX, UINT32_MAX), 0);
	struct segment_header before;
	memcpy(&before, s.header, sizeof before);
	memset(s.table, 1, s.chunk_count * sizeof *s.table);
	memset(s.strings, 2, s.strings_bytes);
	memset(s.chunks, 3, (size_t)s.chunk_count * s.chunk_bytes);
	assert_memory_equal(&before, s.header, sizeof before);
	assert_int_equal(((unsigned char *)s.table)[s.chunk_count * sizeof *s.table - 1], 1);
	assert_int_equal(s.strings[0], 2);
	assert_int_equal(s.strings[s.strings_bytes - 1], 2);
	assert_true(s.chunks + (size_t)s.chunk_count * s.chunk_bytes <= (unsigned char *)s.map + s.map_bytes);
	segment_deinit(&s);
}

static void chunks(void **state)
{
	(void)state;
	struct segment s;
	create(&s, 4 * CHUNK);
	assert_int_equal(segment_provide(&s, 4, 0), 0);
	unsigned char to[CHUNK];
	uint32_t sequence = 9, thread = 9;
	assert_int_equal(segment_copy_chunk(&s, 0, to, &sequence, &thread), 0);
	assert_int_equal(sequence, 0);

	memset(s.chunks + CHUNK, 7, CHUNK);
	atomic_store(&s.table[1].state, CHUNK_FULL);
	atomic_store(&s.table[1].sequence, 5);
	atomic_store(&s.table[1].thread, 77);
	atomic_fetch_sub(&s.header->chunks_free, 1);
	static const uint32_t said[] = {0, 7, 8, 12, CHUNK - 8, CHUNK, CHUNK + 8, UINT32_MAX};
	static const uint32_t copied[] = {0, 0, 8, 8, CHUNK - 8, CHUNK, CHUNK, CHUNK};
	for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
		memset(to, 0, sizeof to);
		atomic_store(&s.table[1].used, said[i]);
		assert_int_equal(segment_copy_chunk(&s, 1, to, &sequence, &thread), copied[i]);
		assert_int_equal(sequence, 5);
		assert_int_equal(thread, 77);
		for (uint32_t b = 0; b < CHUNK; b++)
			assert_int_equal(to[b], b < copied[i] ? 7 : 0);
	}
	segment_free_chunk(&s, 1);
	assert_int_equal(atomic_load(&s.table[1].state), CHUNK_FREE);
	assert_int_equal(atomic_load(&s.table[1].used), 0);
	assert_int_equal(atomic_load(&s.table[1].sequence), 0);
	assert_int_equal(atomic_load(&s.header->chunks_free), 4);
	/* There is none of this number. */
	assert_int_equal(segment_copy_chunk(&s, 4, to, &sequence, &thread), 0);
	assert_int_equal(segment_copy_chunk(&s, UINT32_MAX, to, &sequence, &thread), 0);
	segment_free_chunk(&s, 4);
	segment_free_chunk(&s, UINT32_MAX);
	assert_int_equal(atomic_load(&s.header->chunks_free), 4);
	segment_deinit(&s);
}

static uint32_t put_string(struct segment *s, uint32_t type, uint32_t bytes, const void *text, uint32_t copy)
{
	uint32_t at = atomic_load(&s->header->strings_used);
	struct segment_string entry = {.bytes = bytes, .type = type};
	memcpy(s->strings + at, &entry, sizeof entry);
	if (copy)
		memcpy(s->strings + at + sizeof entry, text, copy);
	atomic_store(&s->header->strings_used, at + SEGMENT_STRING_SIZE(copy));
	return at / 8;
}

static void strings(void **state)
{
	(void)state;
	struct segment s;
	create(&s, CHUNK);
	static char to[LIMIT_STRING_BYTES], longest[LIMIT_STRING_BYTES];
	uint32_t at = 0, id, type, bytes;
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 0);
	memset(longest, 'n', sizeof longest);
	uint32_t first = put_string(&s, STRING_TEXT, 5, "aten:", 5);
	uint32_t second = put_string(&s, STRING_INPUTS, 8, "\1\0\0\0\2\0\0\0", 8);
	uint32_t third = put_string(&s, STRING_TEXT, 0, "", 0);
	uint32_t fourth = put_string(&s, 9, sizeof longest, longest, sizeof longest);
	assert_int_equal(first, 1);
	assert_int_equal(second, 3);
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 1);
	assert_int_equal(id, first);
	assert_int_equal(type, STRING_TEXT);
	assert_int_equal(bytes, 5);
	assert_memory_equal(to, "aten:", 5);
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 1);
	assert_int_equal(id, second);
	assert_int_equal(type, STRING_INPUTS);
	assert_int_equal(bytes, 8);
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 1);
	assert_int_equal(id, third);
	assert_int_equal(bytes, 0);
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 1);
	assert_int_equal(id, fourth);
	assert_int_equal(type, 9);
	assert_memory_equal(to, longest, sizeof longest);
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 0);
	/* More came meanwhile: the walk goes on where it was. */
	uint32_t fifth = put_string(&s, STRING_TEXT, 1, "x", 1);
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 1);
	assert_int_equal(id, fifth);
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 0);
	segment_deinit(&s);
}

static void lying_strings(void **state)
{
	(void)state;
	static char to[LIMIT_STRING_BYTES];
	uint32_t id, type, bytes;
	static const struct {
		uint32_t bytes, type, used;
		int answer;
	} cases[] = {
		{5, STRING_TEXT, SEGMENT_STRINGS_FIRST + 16, 1},
		{5, 0, SEGMENT_STRINGS_FIRST + 16, -EPROTO},
		{5, STRING_TEXT, SEGMENT_STRINGS_FIRST + 8, -EPROTO},
		{5, STRING_TEXT, SEGMENT_STRINGS_FIRST + 4, -EPROTO},
		{9, STRING_TEXT, SEGMENT_STRINGS_FIRST + 16, -EPROTO},
		{LIMIT_STRING_BYTES + 1, STRING_TEXT, UINT32_MAX, -EPROTO},
		{UINT32_MAX, STRING_TEXT, UINT32_MAX, -EPROTO},
		{UINT32_MAX - 7, STRING_TEXT, UINT32_MAX, -EPROTO},
		{0x80000000u, STRING_TEXT, UINT32_MAX, -EPROTO},
		{5, STRING_TEXT, 0, 0},
		{5, STRING_TEXT, SEGMENT_STRINGS_FIRST, 0},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct segment s;
		create(&s, CHUNK);
		put_string(&s, cases[i].type, cases[i].bytes, "hello", 5);
		atomic_store(&s.header->strings_used, cases[i].used);
		uint32_t at = 0;
		assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), cases[i].answer);
		segment_deinit(&s);
	}
	/* A used that reaches into what has no memory is cut there, and reading allocates nothing. */
	struct segment s;
	create(&s, CHUNK);
	for (uint32_t i = 0; i < 65536 / 16 - 1; i++)
		put_string(&s, STRING_TEXT, 8, "12345678", 8);
	atomic_store(&s.header->strings_used, UINT32_MAX);
	uint64_t memory = memory_of(s.fd);
	uint32_t at = 0, count = 0;
	int more;
	while ((more = segment_next_string(&s, &at, to, &id, &type, &bytes)) == 1)
		count++;
	assert_int_equal(more, -EPROTO);
	assert_int_equal(count, 65536 / 16 - 1);
	assert_int_equal(memory_of(s.fd), memory);
	at = 12;
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), -EPROTO);
	at = UINT32_MAX;
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), 0);
	segment_deinit(&s);
}

static int memfd(const void *bytes, size_t n, int64_t size, int seals)
{
	int fd = system_memfd("test", SYSTEM_MFD_CLOEXEC | SYSTEM_MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, 0), (ssize_t)n);
	assert_int_equal(ftruncate(fd, size), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void refuse(int fd)
{
	struct segment s = {.fd = -7};
	assert_int_equal(segment_adopt(&s, fd), -EPROTO);
	assert_int_equal(segment_map(&s, fd, UINT64_MAX), -EPROTO);
	assert_int_equal(s.fd, -7);
	/* Not taken. */
	assert_int_equal(close(fd), 0);
}

static void hostile_segments(void **state)
{
	(void)state;
	struct segment good;
	create(&good, 8 * CHUNK);
	_Alignas(64) unsigned char page[32768];
	memcpy(page, good.map, sizeof page);
	struct segment_header *header = (struct segment_header *)page;
	int64_t size = (int64_t)good.map_bytes;
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	segment_deinit(&good);

	struct segment s;
	int fd = memfd(page, sizeof page, size, seals);
	assert_int_equal(segment_adopt(&s, fd), 0);
	assert_int_equal(s.fd, fd);
	segment_deinit(&s);

	refuse(memfd(page, sizeof page, size, 0));
	refuse(memfd(page, sizeof page, size, F_SEAL_SHRINK));
	refuse(memfd(page, sizeof page, size, F_SEAL_GROW));
	refuse(memfd(page, sizeof page, size, seals | F_SEAL_WRITE));
	refuse(memfd(page, sizeof page, size - 65536, seals));
	refuse(memfd(page, sizeof page, size + 65536, seals));
	refuse(memfd(page, 100, 100, seals));
	refuse(memfd(page, 0, 0, seals));
	refuse(memfd(page, sizeof page, INT64_MAX / 2, seals));
	refuse(open("/dev/null", O_RDWR | O_CLOEXEC));
	refuse(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	assert_int_equal(segment_adopt(&s, -1), -EBADF);

#define LIE(member, value)                                                                                             \
	do {                                                                                                           \
		struct segment_header kept = *header;                                                                  \
		header->member = (value);                                                                              \
		refuse(memfd(page, sizeof page, size, seals));                                                         \
		*header = kept;                                                                                        \
	} while (0)
	LIE(magic, SEGMENT_MAGIC + 1);
	LIE(version, SEGMENT_VERSION + 1);
	LIE(version, 0);
	LIE(header_bytes, sizeof *header - 8);
	LIE(header_bytes, UINT32_MAX);
	LIE(total_bytes, header->total_bytes - 8);
	LIE(total_bytes, UINT64_MAX);
	LIE(chunk_bytes, 0);
	LIE(chunk_bytes, CHUNK - 8);
	LIE(chunk_bytes, CHUNK + 4);
	LIE(chunk_bytes, LIMIT_CHUNK_BYTES);
	LIE(chunk_bytes, UINT32_MAX);
	LIE(chunk_count, 0);
	LIE(chunk_count, 1u << 16);
	LIE(chunk_count, UINT32_MAX);
	LIE(table_at, 0);
	LIE(table_at, header->table_at + 8);
	LIE(table_at, header->strings_at);
	LIE(table_at, UINT64_MAX - 63);
	LIE(strings_at, 0);
	LIE(strings_at, header->strings_at + 4);
	LIE(strings_at, header->chunks_at);
	LIE(strings_at, UINT64_MAX - 7);
	LIE(strings_bytes, 0);
	LIE(strings_bytes, LIMIT_STRINGS_BYTES + 8);
	LIE(chunks_at, header->chunks_at - 8);
	LIE(chunks_at, header->chunks_at + 65536);
	LIE(chunks_at, UINT64_MAX - 7);

	/* What a peer may rewrite later is not believed either. */
	atomic_store(&header->chunks_ready, UINT32_MAX);
	atomic_store(&header->strings_ready, UINT32_MAX);
	atomic_store(&header->strings_used, UINT32_MAX);
	fd = memfd(page, sizeof page, size, seals);
	assert_int_equal(segment_adopt(&s, fd), 0);
	static char to[LIMIT_STRING_BYTES];
	uint32_t at = 0, id, type, bytes;
	assert_int_equal(segment_next_string(&s, &at, to, &id, &type, &bytes), -EPROTO);
	assert_int_equal(segment_provide(&s, 8, UINT32_MAX), 0);
	segment_deinit(&s);
}

/* The whole path: made here, passed to another process, written there, read here after its death. */
static void two_processes(void **state)
{
	(void)state;
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	struct segment s;
	create(&s, 8 * CHUNK);
	assert_int_equal(segment_provide(&s, 2, 0), 0);
	struct status_page *page;
	int status_fd = status_create(&page);
	assert_true(status_fd >= 0);
	int fds[2] = {s.fd, status_fd};
	assert_int_equal(socket_send(pair[0], "arm", 3, fds, 2), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct segment mine;
		struct status_page *my_page;
		char packet[16];
		int got[4];
		unsigned n = 4;
		if (socket_receive(pair[1], packet, sizeof packet, got, &n, 0) != 3 || n != 2 ||
		    segment_map(&mine, got[0], UINT64_MAX) != 0 || status_map(got[1], &my_page) != 0)
			_exit(1);
		atomic_store(&my_page->steps, 123);
		struct event_thread record = {.head = {sizeof record, EVENT_THREAD, 0, 0}, .thread = 7};
		record.name = put_string(&mine, STRING_TEXT, 4, "main", 4);
		atomic_store(&mine.table[1].state, CHUNK_OWNED);
		atomic_store(&mine.table[1].sequence, 1);
		memcpy(mine.chunks + CHUNK, &record, sizeof record);
		atomic_store(&mine.table[1].used, sizeof record);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(atomic_load(&page->steps), 123);

	_Alignas(8) unsigned char to[CHUNK];
	uint32_t sequence, thread;
	uint32_t n = segment_copy_chunk(&s, 1, to, &sequence, &thread);
	assert_int_equal(sequence, 1);
	size_t at = 0;
	union event_any event;
	assert_int_equal(event_read(to, n, &at, &event), EVENT_OK);
	assert_int_equal(event.thread.thread, 7);
	static char text[LIMIT_STRING_BYTES];
	uint32_t string_at = 0, id, type, bytes;
	assert_int_equal(segment_next_string(&s, &string_at, text, &id, &type, &bytes), 1);
	assert_int_equal(id, event.thread.name);
	assert_memory_equal(text, "main", 4);

	uint64_t device, inode, other_device, other_inode;
	int copy = fcntl(s.fd, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(segment_identity(s.fd, &device, &inode), 0);
	assert_int_equal(segment_identity(copy, &other_device, &other_inode), 0);
	assert_true(device == other_device && inode == other_inode);
	assert_int_equal(segment_identity(status_fd, &other_device, &other_inode), 0);
	assert_false(device == other_device && inode == other_inode);
	assert_int_equal(segment_identity(-1, &device, &inode), -EBADF);
	close(copy);
	status_unmap(page);
	close(status_fd);
	segment_deinit(&s);
	close(pair[0]);
	close(pair[1]);
}

static void status_pages(void **state)
{
	(void)state;
	struct status_page *page, *mapped = NULL;
	int fd = status_create(&page);
	assert_true(fd >= 0);
	assert_int_equal(atomic_load(&page->steps), 0);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(status_map(fd, &mapped), 0);
	atomic_store(&mapped->last, 5);
	assert_int_equal(atomic_load(&page->last), 5);
	status_unmap(mapped);
	mapped = NULL;
	unsigned char bytes[STATUS_BYTES];
	memcpy(bytes, page, sizeof bytes);
	status_unmap(page);
	close(fd);

	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	static const struct {
		int64_t size;
		int seals, flip;
	} bad[] = {{STATUS_BYTES, F_SEAL_SHRINK, -1},
		   {STATUS_BYTES, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, -1},
		   {STATUS_BYTES - 1, F_SEAL_SHRINK | F_SEAL_GROW, -1},
		   {0, F_SEAL_SHRINK | F_SEAL_GROW, -1},
		   {STATUS_BYTES, F_SEAL_SHRINK | F_SEAL_GROW, 0},
		   {STATUS_BYTES, F_SEAL_SHRINK | F_SEAL_GROW, 8}};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (bad[i].flip >= 0)
			bytes[bad[i].flip] ^= 1;
		fd = memfd(bytes, sizeof bytes, bad[i].size, bad[i].seals);
		if (bad[i].flip >= 0)
			bytes[bad[i].flip] ^= 1;
		assert_int_equal(status_map(fd, &mapped), -EPROTO);
		assert_null(mapped);
		close(fd);
	}
	fd = memfd(bytes, sizeof bytes, STATUS_BYTES, seals);
	assert_int_equal(status_map(fd, &mapped), 0);
	status_unmap(mapped);
	close(fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(status_map(fd, &mapped), -EPROTO);
	close(fd);
	assert_int_equal(status_map(-1, &mapped), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_small_until_provided),
		cmocka_unit_test(sizes),
		cmocka_unit_test(parts_do_not_overlap),
		cmocka_unit_test(chunks),
		cmocka_unit_test(strings),
		cmocka_unit_test(lying_strings),
		cmocka_unit_test(hostile_segments),
		cmocka_unit_test(two_processes),
		cmocka_unit_test(status_pages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
