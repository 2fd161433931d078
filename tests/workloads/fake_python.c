/* fake_python.c - a process that plays Python 3.11 for whoever reads its memory, to make the reader crash, loop or wait. It prints a line
 * and then waits for the end of its input.
 *
 *   fake_python frames    a frame leads to itself          threads    a thread leads to itself
 *   fake_python marks     a million frames, all different  huge       names and tables of lines of 2^62 bytes
 *   fake_python nowhere   pointers into nothing            negative   lengths below 0, lines that run over
 *   fake_python random    every pointer leads into random bytes that lead into themselves
 *   fake_python offsets   3.13, whose table of offsets leads far out of each structure
 *   fake_python free      the same of a free-threaded build, which the table says it is; it steps, for an agent in it
 *   fake_python names     as many threads, frames and names as can be read, all of them long
 *   fake_python nobody    a thread that the kernel does not know
 *   fake_python held      reading waits for ever (userfaultfd; where the kernel forbids it the program ends with 77) */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define AT(object, offset) (*(uint64_t *)((char *)(object) + (offset)))

EXPORT char _PyRuntime[8192];
EXPORT unsigned long Py_Version = 0x030b00f0;

static char interpreter[4096], thread[4096], cframe[64], frame[256], code[512], name[1024], table[256];

static void text_of(char *object, const char *text)
{
	AT(object, 16) = strlen(text);
	*(uint32_t *)(object + 32) = 1 << 2 | 1 << 5 | 1 << 6;
	snprintf(object + 48, 64, "%s", text);
}

static void honest(void)
{
	AT(_PyRuntime, 40) = (uint64_t)interpreter;
	AT(interpreter, 16) = (uint64_t)thread;
	AT(thread, 56) = (uint64_t)cframe;
	AT(thread, 160) = (uint64_t)getpid();
	AT(cframe, 8) = (uint64_t)frame;
	AT(frame, 32) = (uint64_t)code;
	AT(frame, 56) = (uint64_t)code + 184;
	text_of(name, "honest");
	AT(code, 112) = AT(code, 128) = (uint64_t)name;
	AT(code, 136) = (uint64_t)table;
	AT(code, 72) = 7;
}

static void many_frames(void)
{
	size_t n = 1000000;
	char *all = mmap(NULL, n * 128, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i + 1 < n; i++) {
		AT(all + i * 128, 32) = (uint64_t)code;
		AT(all + i * 128, 48) = (uint64_t)(all + (i + 1) * 128);
	}
	AT(cframe, 8) = (uint64_t)all;
}

static void random_memory(void)
{
	size_t n = 1 << 20;
	uint64_t *all = mmap(NULL, n * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	srandom(1);
	for (size_t i = 0; i < n; i++)
		all[i] = (uint64_t)(all + (size_t)random() % (n - 1024));
	AT(_PyRuntime, 40) = all[0];
}

/* Each thread leads to one more, and has a stack that leads into itself: what is kept of it is bounded by the reader alone. */
static void many_names(void)
{
	size_t n = 8000;
	char *all = mmap(NULL, n * 256, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < n; i++) {
		AT(all + i * 256, 8) = i + 1 < n ? (uint64_t)(all + (i + 1) * 256) : 0;
		AT(all + i * 256, 56) = (uint64_t)cframe;
	}
	AT(interpreter, 16) = (uint64_t)all;
	AT(frame, 48) = (uint64_t)frame;
	AT(name, 16) = 500;
	memset(name + 48, 1, sizeof name - 48);
}

static void far_offsets(int free_threaded)
{
	uint64_t *words = (uint64_t *)_PyRuntime;

	Py_Version = 0x030d00f0;
	memcpy(words, "xdebugpy", 8);
	words[1] = Py_Version;
	words[2] = (uint64_t)free_threaded;
	for (int i = 3; i < 160; i++)
		words[i] = 1000000;
}

static void held(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {{(uint64_t)page, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		_exit(77);
	AT(cframe, 8) = (uint64_t)page;
}

/* Until something comes. */
static void steps(void)
{
	void (*step)(void) = (void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "profd_step");
	struct pollfd input = {STDIN_FILENO, POLLIN, 0};

	while (step && poll(&input, 1, 5) == 0)
		step();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "honest";

	honest();
	if (strcmp(how, "frames") == 0)
		AT(frame, 48) = (uint64_t)frame;
	else if (strcmp(how, "threads") == 0)
		AT(thread, 8) = (uint64_t)thread;
	else if (strcmp(how, "marks") == 0)
		many_frames();
	else if (strcmp(how, "huge") == 0)
		AT(name, 16) = AT(table, 16) = (uint64_t)1 << 62;
	else if (strcmp(how, "nowhere") == 0)
		AT(code, 112) = AT(code, 128) = AT(frame, 48) = 0x123456789000;
	else if (strcmp(how, "negative") == 0)
		AT(name, 16) = AT(table, 16) = ~0ull, AT(code, 72) = 0x7fffffff;
	else if (strcmp(how, "random") == 0)
		random_memory();
	else if (strcmp(how, "offsets") == 0 || strcmp(how, "free") == 0)
		far_offsets(strcmp(how, "free") == 0);
	else if (strcmp(how, "names") == 0)
		many_names();
	else if (strcmp(how, "nobody") == 0)
		AT(thread, 160) = INT32_MAX;
	else if (strcmp(how, "held") == 0)
		held();
	puts("ready");
	fflush(stdout);
	if (strcmp(how, "free") == 0)
		steps();
	return getchar() == EOF ? 0 : 1;
}
