/* stream.c - the output file. The stream's fields are written by the thread whose turn it is (`lock` guards whose that
 * is, and the first error); blocks belong to their threads. */
#include "stream.h"

#include "gzip.h"
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct stream {
	int fd;
	const char *path; /* as the user named it, for sentences */
	char *target;	  /* NULL: written in place, nothing to rename */
	char *temporary;
	bool gzip;
	unsigned threads;
	uint32_t crc;
	uint64_t bytes; /* of the text */
	struct block head;

	pthread_mutex_t lock;
	pthread_cond_t moved;
	uint64_t turn;	   /* job that may write */
	_Atomic int error; /* the first one; then nothing is written any more */
	int file_error;	   /* the file's own, where that is what went wrong */

	stream_job run;
	void *user;
	struct block *blocks; /* one a worker, while jobs run */
};

static int block_init(struct block *block, struct stream *stream)
{
	*block = (struct block){.stream = stream};
	if (stream->gzip && !(block->compressor = compressor_new()))
		return -ENOMEM;
	return 0;
}

static void block_deinit(struct block *block)
{
	block->compressor = compressor_free(block->compressor);
	buffer_deinit(&block->text);
}

/* Opens the temporary file, which only one program may write. One that exists and that nobody has locked was left
 * behind. */
static int open_temporary(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	bool made = fd >= 0;
	if (!made && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	struct stat st, there;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		close(fd);
		return -EBUSY;
	}
	if (fstat(fd, &st) < 0 || lstat(path, &there) < 0 || st.st_dev != there.st_dev || st.st_ino != there.st_ino ||
	    !S_ISREG(st.st_mode) || (!made && (st.st_uid != geteuid() || st.st_nlink != 1)) || ftruncate(fd, 0) < 0) {
		close(fd);
		return made ? -EIO : -EEXIST;
	}
	return fd;
}

static int open_file(struct stream *s)
{
	struct stat st;
	if (strcmp(s->path, "-") == 0) {
		s->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return s->fd < 0 ? -errno : 0;
	}
	if (stat(s->path, &st) == 0 && !S_ISREG(st.st_mode)) {
		s->fd = S_ISDIR(st.st_mode) ? -1 : open(s->path, O_WRONLY | O_CLOEXEC);
		return s->fd < 0 ? (S_ISDIR(st.st_mode) ? -EISDIR : -errno) : 0;
	}
	/* A link stays: the file that it names is replaced. */
	s->target = realpath(s->path, NULL);
	if (!s->target && errno == ENOENT)
		s->target = strdup(s->path);
	if (!s->target)
		return -errno;
	size_t bytes = strlen(s->target) + sizeof ".tmp";
	s->temporary = malloc(bytes);
	if (!s->temporary)
		return -ENOMEM;
	snprintf(s->temporary, bytes, "%s.tmp", s->target);
	s->fd = open_temporary(s->temporary);
	return s->fd < 0 ? s->fd : 0;
}

static void stream_free(struct stream *s)
{
	block_deinit(&s->head);
	pthread_cond_destroy(&s->moved);
	pthread_mutex_destroy(&s->lock);
	free(s->target);
	free(s->temporary);
	free(s);
}

static void write_all(struct stream *s, const char *bytes, size_t n)
{
	while (n && !s->error) {
		ssize_t written = write(s->fd, bytes, n);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			s->error = s->file_error = -errno;
			return;
		}
		bytes += written;
		n -= (size_t)written;
	}
}

int stream_open(struct stream **ret_stream, const char *path, bool gzip, unsigned threads, char *why, size_t why_bytes)
{
	struct stream *s = calloc(1, sizeof *s);
	if (!s) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	*s = (struct stream){.fd = -1, .path = path, .gzip = gzip, .threads = workers_count(threads)};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	int error = block_init(&s->head, s);
	if (!error)
		error = open_file(s);
	if (error) {
		if (error == -EBUSY)
			snprintf(why, why_bytes, "%s is being written by another profd", s->temporary);
		else
			snprintf(why, why_bytes, "cannot write %s: %s",
				 error == -EEXIST && s->temporary ? s->temporary : path, strerror(-error));
		stream_free(s);
		return error;
	}
	if (gzip)
		write_all(s, gzip_header, sizeof gzip_header);
	*ret_stream = s;
	return 0;
}

const char *stream_path(const struct stream *stream)
{
	return stream->temporary;
}

unsigned stream_threads(const struct stream *stream)
{
	return stream->threads;
}

struct block *stream_head(struct stream *stream)
{
	return &stream->head;
}

int block_wait(struct block *block)
{
	struct stream *s = block->stream;
	pthread_mutex_lock(&s->lock);
	if (block != &s->head) {
		while (s->turn != block->job && !s->error)
			pthread_cond_wait(&s->moved, &s->lock);
		block->in_turn = true;
	}
	int error = s->error;
	pthread_mutex_unlock(&s->lock);
	return error;
}

int block_flush(struct block *block)
{
	struct stream *s = block->stream;
	const char *bytes = block->text.bytes;
	size_t n = block->text.used, text = n;
	uint32_t crc = 0;
	int error = block->text.failed ? -ENOMEM : 0;
	/* Compressing is most of the work, so it is done before the turn comes. */
	if (!error && n && block->compressor)
		error = compressor_run(block->compressor, block->text.bytes, text, &bytes, &n, &crc);
	int failed = block->in_turn ? s->error : block_wait(block);
	if (!error)
		error = failed;
	if (!error && text) {
		write_all(s, bytes, n);
		if (block->compressor)
			s->crc = gzip_crc_join(s->crc, crc, text);
		s->bytes += text;
		error = s->error;
	}
	block->text.used = 0;
	return error;
}

static int run_job(void *user, unsigned worker, uint64_t job)
{
	struct stream *s = user;
	struct block *block = &s->blocks[worker];
	block->job = job;
	block->in_turn = false;
	int error = s->run(s->user, worker, block);
	if (!error)
		error = block_flush(block);
	pthread_mutex_lock(&s->lock);
	if (error && !s->error)
		s->error = error;
	/* A job that fails out of turn does not move `turn`. The error wakes the threads that wait for it. */
	if (s->turn == job)
		s->turn = job + 1;
	pthread_cond_broadcast(&s->moved);
	pthread_mutex_unlock(&s->lock);
	return error;
}

int stream_jobs(struct stream *s, uint64_t jobs, stream_job run, void *user)
{
	int error = block_flush(&s->head);
	if (error)
		return error;
	struct block *blocks = calloc(s->threads, sizeof *blocks);
	if (!blocks)
		return -ENOMEM;
	for (unsigned i = 0; i < s->threads && !error; i++)
		error = block_init(&blocks[i], s);
	s->blocks = blocks;
	s->run = run;
	s->user = user;
	s->turn = 0;
	if (!error)
		error = workers_run(s->threads, jobs, run_job, s);
	for (unsigned i = 0; i < s->threads; i++)
		block_deinit(&blocks[i]);
	free(blocks);
	s->blocks = NULL;
	return error ? error : s->error;
}

int stream_close(struct stream *s, bool whole, char *why, size_t why_bytes)
{
	bool renamed = false;
	if (whole) {
		int error = block_flush(&s->head);
		if (!s->error)
			s->error = error;
		if (s->gzip) {
			char trailer[GZIP_TRAILER_BYTES];
			gzip_trailer(trailer, s->crc, s->bytes);
			write_all(s, trailer, sizeof trailer);
		}
		if (s->temporary && !s->error) {
			if (rename(s->temporary, s->target) < 0)
				s->error = -errno;
			else
				renamed = true;
		}
	}
	if (s->temporary && !renamed)
		unlink(s->temporary);
	if (close(s->fd) < 0 && errno != EINTR && !s->error)
		s->error = -errno;
	int error = whole ? s->error : s->file_error;
	if (error)
		snprintf(why, why_bytes, "cannot write %s: %s", strcmp(s->path, "-") ? s->path : "to standard output",
			 strerror(-error));
	stream_free(s);
	return error;
}
