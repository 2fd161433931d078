/* steady.c - a process whose output tells whether anything has touched it: digests of what its threads compute, with malloc under way all
 * the time, and how often a call was interrupted, came back too early or with another errno.
 *
 *   steady busy SECONDS       one thread that computes and takes memory       sleep SECONDS   one thread that sleeps in pieces
 *   steady mixed SECONDS      threads that compute, and threads in poll, nanosleep, read, a condition, a semaphore
 *   steady crowd SECONDS      200 threads that sleep, one that computes
 *
 * Its end comes by the clock of the machine, with a further word `input` not before its standard input ends; what is computed does not depend on how far
 * it came. It prints "ready" first. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int over;
static atomic_int odd; /* what should not be */
static int pipe_of[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int turns;
static sem_t semaphore;
static int64_t until; /* of the thread that is alone; 0: none is */

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* The same numbers each time: a digest that differs from the first one is counted. */
static void *compute(void *unused)
{
	uint64_t wanted = 0;

	(void)unused;
	while (!over && (!until || now() < until)) {
		uint64_t digest = 1;
		double sum = 0;
		void *kept[64] = {0};

		errno = 77;
		for (int i = 0; i < 4000; i++) {
			size_t size = (size_t)(digest >> 40) % 5000 + 8;
			void **slot = &kept[i % 64];

			free(*slot);
			*slot = malloc(size);
			memset(*slot, (int)digest, size);
			digest = digest * 6364136223846793005u + ((unsigned char *)*slot)[size / 2];
			sum += 1.0 / (double)(digest >> 11 | 1);
		}
		for (int i = 0; i < 64; i++)
			free(kept[i]);
		uint64_t bits;
		memcpy(&bits, &sum, sizeof bits);
		digest ^= bits;
		wanted = wanted ? wanted : digest;
		odd += digest != wanted || errno != 77;
	}
	return (void *)(uintptr_t)wanted;
}

static void *in_poll(void *unused)
{
	(void)unused;
	while (!over) {
		int64_t began = now();
		int n = poll(NULL, 0, 30);

		odd += n != 0 || now() - began < 29000000;
	}
	return NULL;
}

static void *in_nanosleep(void *unused)
{
	(void)unused;
	while (!over) {
		const struct timespec nap = {0, 30000000};
		int64_t began = now();

		odd += nanosleep(&nap, NULL) != 0 || now() - began < 29000000;
	}
	return NULL;
}

static void *in_read(void *unused)
{
	char byte, next = 0;

	(void)unused;
	while (read(pipe_of[0], &byte, 1) == 1)
		odd += byte != next++;
	odd += !over;
	return NULL;
}

static void *in_condition(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!over) {
		int before = turns;

		while (before == turns && !over)
			pthread_cond_wait(&turn, &lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *in_semaphore(void *unused)
{
	(void)unused;
	while (!over)
		odd += sem_wait(&semaphore) != 0;
	return NULL;
}

static void *asleep(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!over)
		pthread_cond_wait(&turn, &lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int input_is_open(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	return poll(&input, 1, 0) == 0;
}

static void tick(int pieces, int awaits)
{
	char byte = 0;

	for (int i = 0; i < pieces || (awaits && input_is_open()); i++) {
		const struct timespec nap = {0, 10000000};

		while (nanosleep(&nap, NULL) != 0)
			odd++;
		pthread_mutex_lock(&lock);
		turns++;
		pthread_cond_broadcast(&turn);
		pthread_mutex_unlock(&lock);
		if (write(pipe_of[1], &byte, 1) == 1)
			byte++;
		sem_post(&semaphore);
	}
}

int main(int argc, char **argv)
{
	void *(*const mixed[])(void *) = {compute, in_poll, in_nanosleep, in_read, in_condition, in_semaphore, compute};
	const char *how = argc > 1 ? argv[1] : "mixed";
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 1;
	pthread_t threads[256];
	int count = 0;

	if (pipe(pipe_of) || sem_init(&semaphore, 0, 0))
		return 1;
	puts("ready");
	fflush(stdout);
	if (strcmp(how, "busy") == 0) {
		until = now() + (int64_t)(seconds * 1e9);
		compute(NULL);
		printf("odd %d\n", odd);
		return odd ? 1 : 0;
	}
	if (strcmp(how, "mixed") == 0)
		for (; count < 7; count++)
			pthread_create(&threads[count], NULL, mixed[count], NULL);
	if (strcmp(how, "crowd") == 0)
		for (; count < 200; count++)
			pthread_create(&threads[count], NULL, count ? asleep : compute, NULL);
	tick((int)(seconds * 100), argc > 3 && strcmp(argv[3], "input") == 0);
	over = 1;
	close(pipe_of[1]);
	sem_post(&semaphore);
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&turn);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("odd %d\n", odd);
	return odd ? 1 : 0;
}
