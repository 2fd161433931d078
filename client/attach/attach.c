/* attach.c - see attach.h.
 *
 * A stopped thread makes a memfd, two pages, and one call: Py_AddPendingCall in a Python process, so that its main thread loads the library
 * between two bytecodes; pthread_create in another, so that a new thread does. It never loads anything itself. The loader's code
 * lies in the second page, what it works on in the first. Where Python's main thread does not come to it, another page has a
 * new thread load it: nothing of that takes the interpreter's lock. The first page is claimed before: what is queued finds it taken. */
#include "attach.h"

#include "choose.h"
#include "client/ui/clock.h"
#include "client/ui/failure.h"
#include "halt.h"
#include "slot.h"
#include "stopped.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)

#define PAGE 4096
#define SOCKET_BYTES 256
#define SEAL_EXEC 0x20 /* F_SEAL_EXEC, Linux 6.3 */
/* How long a main thread gets to see what is queued, before it is queued once more; four times as long from then on. */
#define AGAIN_NS 20000000ll
#define AFTER_CANCEL_NS 1000000000ll
/* How much of the patience it gets in all, before a new thread is taken; and that one gets at least so long. */
#define QUEUED_TENTHS 3
#define START_LEAST_NS 3000000000ll
#define CHOOSE_LEAST_NS 500000000ll
/* How long a main thread gets to come to the script in its slot, before the other way is taken. */
#define SLOT_NS 1000000000ll
#define WAITS_FOR_PYTHON "its main thread to come back to Python, which then loads the agent"

/* The first page, as the code in the second one sees it. */
struct page {
	uint32_t started, cancelled, done, fd;
	uint64_t handle, result;
	uint64_t dlopen, dlsym, close, detach; /* detach 0: no thread of our own */
	char path[128], entry[32], socket[SOCKET_BYTES];
	uint64_t answer; /* of the call that the stopped thread made */
	uint64_t thread; /* pthread_t of the new one */
	uint64_t direct; /* profd_attach of a library that is there already; 0: it has to be loaded */
	struct stopped_return back;
};
_Static_assert(offsetof(struct page, path) == 64 && offsetof(struct page, entry) == 192 &&
		       offsetof(struct page, socket) == 224 && offsetof(struct page, answer) == 480 &&
		       offsetof(struct page, direct) == 496 && offsetof(struct page, back) == 504 &&
		       offsetof(struct page, back.wait) == 512,
	       "the code below has these offsets");

/* int load(struct page *) or void *load(struct page *):
 *   push rbx; mov rbx, rdi
 *   mov rax, [rbx+56]; test rax, rax; jz 1f; mov rdi, fs:[16]; call rax
 * 1: mov eax, 1; xchg [rbx], eax; test eax, eax; jnz 5f; cmp dword [rbx+4], 0; jne 3f
 *   mov rax, [rbx+496]; test rax, rax; jnz 2f
 *   lea rdi, [rbx+64]; mov esi, 2; call [rbx+32]; mov [rbx+16], rax; test rax, rax; jz 3f
 *   mov rdi, rax; lea rsi, [rbx+192]; call [rbx+40]; test rax, rax; jz 3f
 * 2: mov [rbx+16], rax; lea rdi, [rbx+224]; call rax; mov [rbx+24], eax
 * 3: mov edi, [rbx+12]; test edi, edi; js 4f; call [rbx+48]
 * 4: mov dword [rbx+8], 1; 5: xor eax, eax; pop rbx; ret */
static const unsigned char load_code[] = {
	0x53, 0x48, 0x89, 0xfb, 0x48, 0x8b, 0x43, 0x38, 0x48, 0x85, 0xc0, 0x74, 0x0b, 0x64, 0x48, 0x8b, 0x3c,
	0x25, 0x10, 0x00, 0x00, 0x00, 0xff, 0xd0, 0xb8, 0x01, 0x00, 0x00, 0x00, 0x87, 0x03, 0x85, 0xc0, 0x75,
	0x5a, 0x83, 0x7b, 0x04, 0x00, 0x75, 0x43, 0x48, 0x8b, 0x83, 0xf0, 0x01, 0x00, 0x00, 0x48, 0x85, 0xc0,
	0x75, 0x27, 0x48, 0x8d, 0x7b, 0x40, 0xbe, 0x02, 0x00, 0x00, 0x00, 0xff, 0x53, 0x20, 0x48, 0x89, 0x43,
	0x10, 0x48, 0x85, 0xc0, 0x74, 0x22, 0x48, 0x89, 0xc7, 0x48, 0x8d, 0xb3, 0xc0, 0x00, 0x00, 0x00, 0xff,
	0x53, 0x28, 0x48, 0x85, 0xc0, 0x74, 0x10, 0x48, 0x89, 0x43, 0x10, 0x48, 0x8d, 0xbb, 0xe0, 0x00, 0x00,
	0x00, 0xff, 0xd0, 0x89, 0x43, 0x18, 0x8b, 0x7b, 0x0c, 0x85, 0xff, 0x78, 0x03, 0xff, 0x53, 0x30, 0xc7,
	0x43, 0x08, 0x01, 0x00, 0x00, 0x00, 0x31, 0xc0, 0x5b, 0xc3,
};
/* What the stopped thread runs; stopped_call() says why it waits:
 *   call r13; mov [r12+480], rax; mov dword [r12+504], 1
 *   mov eax, 271 (ppoll); xor edi, edi; xor esi, esi; lea rdx, [r12+512]; xor r10d, r10d; mov r8d, 8; syscall
 * 1: mov eax, 15 (rt_sigreturn); syscall; jmp 1b */
static const unsigned char call_code[] = {
	0x41, 0xff, 0xd5, 0x49, 0x89, 0x84, 0x24, 0xe0, 0x01, 0x00, 0x00, 0x41, 0xc7, 0x84, 0x24,
	0xf8, 0x01, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0xb8, 0x0f, 0x01, 0x00, 0x00, 0x31, 0xff,
	0x31, 0xf6, 0x49, 0x8d, 0x94, 0x24, 0x00, 0x02, 0x00, 0x00, 0x45, 0x31, 0xd2, 0x41, 0xb8,
	0x08, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xeb, 0xf7,
};
/* long claim(struct page *): mov eax, 1; xchg [rdi], eax; ret */
static const unsigned char claim_code[] = {0xb8, 0x01, 0x00, 0x00, 0x00, 0x87, 0x07, 0xc3};
#define CALL_AT 256 /* in the second page */
#define CLAIM_AT 384
_Static_assert(sizeof load_code <= CALL_AT && CALL_AT + sizeof call_code <= CLAIM_AT, "they do not overlap");

/* What has been made in the process. */
struct parts {
	uint64_t pages; /* 0: none are */
	int fd;		/* of the memfd; -1: none is */
	ino_t file;
	bool queued;	 /* Python was asked for a call, which may still come */
	int32_t refused; /* what pthread_create, Py_AddPendingCall said */
	bool earlier;	 /* two pages of an earlier try are there as well */
	bool usable;	 /* the thread can be made to call more */
};

struct bringing {
	struct target *target;
	const void *library;
	size_t bytes;
	const char *socket;
	enum choose_what what;
	struct stops stops;
	struct parts parts;
	struct attachment *ret;
	char *sentence;
	size_t sentence_bytes;
};

/* What the loader needs of a library: up to the end of its last segment. Symbols for debuggers stay behind. */
static size_t needed_bytes(const unsigned char *library, size_t bytes)
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

/* Writes into the file that the process has under this number, if it is the empty memfd that it has just made: a hostile one may put
 * another file there, and we may be root. */
static int fill_memfd(int64_t pid, int fd, const unsigned char *library, size_t bytes, ino_t *made)
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
	/* Of all files only a memfd that may be sealed has no seal yet, but for the one that vm.memfd_noexec gives to each. */
	int seals = file < 0 ? -1 : fcntl(file, F_GET_SEALS);
	if (seals >= 0 && !(seals & ~SEAL_EXEC)) {
		error = 0;
		*made = facts.st_ino;
		for (size_t at = 0; at < bytes && !error;) {
			ssize_t n = write(file, library + at, bytes - at);

			if (n <= 0)
				error = n < 0 ? -errno : -EIO;
			else
				at += (size_t)n;
		}
	}
	if (file >= 0)
		close(file);
	close(handle);
	return error;
}

/* The answer of the kernel: an error, or what *ret gets. */
static int system_call(struct bringing *bringing, struct stopped *thread, uint64_t function, long number,
		       const uint64_t arguments[6], int64_t *ret)
{
	int error = stopped_syscall(thread, function, number, arguments, ret);

	if (error)
		bringing->parts.usable = false;
	else if (*ret < 0)
		error = (int)*ret;
	return error;
}

static int make_pages(struct bringing *bringing, struct stopped *thread)
{
	struct target *target = bringing->target;
	int64_t at;
	const uint64_t map[6] = {
		0, UINT64_C(2) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
	int error = system_call(bringing, thread, target->mmap, SYS_mmap, map, &at);

	if (error)
		return error;
	bringing->parts.pages = (uint64_t)at;
	uint64_t code = bringing->parts.pages + PAGE;
	if (!process_memory_write(&target->process, code, load_code, sizeof load_code) ||
	    !process_memory_write(&target->process, code + CALL_AT, call_code, sizeof call_code) ||
	    !process_memory_write(&target->process, code + CLAIM_AT, claim_code, sizeof claim_code))
		return -EFAULT;
	const uint64_t protect[6] = {code, PAGE, PROT_READ | PROT_EXEC};
	return system_call(bringing, thread, target->mprotect, SYS_mprotect, protect, &at);
}

static int make_memfd(struct bringing *bringing, struct stopped *thread)
{
	/* As a path it ends like the library's, by which others know it. */
	static const char name[] = "profd/libprofd_agent.so";
	struct target *target = bringing->target;
	struct parts *parts = &bringing->parts;
	int64_t at;

	if (!process_memory_write(&target->process, parts->pages + offsetof(struct page, path), name, sizeof name))
		return -EFAULT;
	const uint64_t make[6] = {SYS_memfd_create, parts->pages + offsetof(struct page, path),
				  MFD_CLOEXEC | MFD_ALLOW_SEALING};
	int error = system_call(bringing, thread, target->syscall, SYS_memfd_create, make, &at);
	if (error)
		return error;
	parts->fd = (int)at;
	return fill_memfd(target->pid, parts->fd, bringing->library, bringing->bytes, &parts->file);
}

static bool write_page(const struct bringing *bringing)
{
	const struct target *target = bringing->target;
	int fd = bringing->parts.fd;
	struct page page = {.fd = (uint32_t)fd,
			    .dlopen = target->dlopen,
			    .dlsym = target->dlsym,
			    .close = target->close,
			    .detach = bringing->what == CHOOSE_TO_QUEUE ? 0 : target->pthread_detach,
			    .direct = target->agent,
			    .entry = "profd_attach"};
	char spelling[TARGET_SPELLING_BYTES];

	target_spell(spelling);
	snprintf(page.path, sizeof page.path, "/proc/self/fd/%s%d", spelling, fd);
	snprintf(page.socket, sizeof page.socket, "%s", bringing->socket);
	return process_memory_write(&target->process, bringing->parts.pages, &page, sizeof page);
}

/* Has the thread call a function; its answer stands in the page then. -ECANCELED: Python has ended since it was looked at. */
static int call(struct target *target, struct stopped *thread, uint64_t pages, uint64_t function,
		const uint64_t arguments[4])
{
	const struct stopped_stub stub = {.begin = pages + PAGE + CALL_AT,
					  .end = pages + PAGE + CALL_AT + sizeof call_code,
					  .data = pages,
					  .back = pages + offsetof(struct page, back)};

	if (target->python && !target_python_runs(target))
		return -ECANCELED;
	return stopped_call(thread, &stub, function, arguments);
}

/* What it answered; an error where that was none. */
static int answered(struct bringing *bringing, struct stopped *thread, uint64_t function, const uint64_t arguments[4],
		    int32_t *answer)
{
	struct target *target = bringing->target;
	uint64_t pages = bringing->parts.pages;
	int error = call(target, thread, pages, function, arguments);

	if (!error &&
	    !python_read(&target->process.memory, pages + offsetof(struct page, answer), answer, sizeof *answer))
		error = -EFAULT;
	/* One that has gone home by itself, or stands because the job was stopped, calls nothing more. */
	bringing->parts.usable = !error && stopped_waits(thread);
	return error;
}

/* The page of what is still queued: whoever takes it first is the only one to load from it. Its file is ours then. */
static int claim(struct bringing *bringing, struct stopped *thread, const struct parts *before)
{
	const uint64_t page[4] = {before->pages};
	int32_t taken;
	int error = answered(bringing, thread, bringing->parts.pages + PAGE + CLAIM_AT, page, &taken);

	if (!error && !bringing->parts.usable)
		error = -EBUSY;
	if (!error && !taken) {
		bringing->parts.fd = before->fd;
		bringing->parts.file = before->file;
	}
	return error;
}

static bool is_our_file(const struct target *target, const struct parts *parts)
{
	struct stat facts;
	char path[64];

	snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)target->pid, parts->fd);
	return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && !facts.st_nlink && facts.st_ino == parts->file;
}

/* What has been made, as nothing will come of it; in the same stop. */
static void take_back(struct bringing *bringing, struct stopped *thread)
{
	struct parts *parts = &bringing->parts;
	const uint64_t shut[6] = {SYS_close, (uint64_t)parts->fd},
		       unmap[6] = {SYS_munmap, parts->pages, UINT64_C(2) * PAGE};
	uint64_t function = bringing->target->syscall;
	int64_t none;

	if (parts->usable && parts->fd >= 0 && is_our_file(bringing->target, parts) &&
	    system_call(bringing, thread, function, SYS_close, shut, &none) == 0)
		parts->fd = -1;
	if (parts->usable && parts->pages && system_call(bringing, thread, function, SYS_munmap, unmap, &none) == 0)
		parts->pages = 0;
}

/* With the thread standing. `before`: of an earlier try. */
static int make_parts(struct bringing *bringing, struct stopped *thread, const struct parts *before)
{
	struct target *target = bringing->target;
	struct parts *parts = &bringing->parts;
	bool queue = bringing->what == CHOOSE_TO_QUEUE;
	int error = make_pages(bringing, thread);

	if (!error && before->pages)
		error = claim(bringing, thread, before);
	if (!error && !target->agent && parts->fd < 0)
		error = make_memfd(bringing, thread);
	if (!error && !write_page(bringing))
		error = -EFAULT;
	if (error)
		return error;
	const uint64_t to_queue[4] = {parts->pages + PAGE, parts->pages};
	const uint64_t to_start[4] = {parts->pages + offsetof(struct page, thread), 0, parts->pages + PAGE,
				      parts->pages};
	parts->queued = true;
	error = answered(bringing, thread, queue ? target->add_pending_call : target->pthread_create,
			 queue ? to_queue : to_start, &parts->refused);
	parts->queued = error || !parts->refused;
	return error ? error : parts->refused ? -ENOTRECOVERABLE : 0;
}

static int prepare(struct bringing *bringing, struct stopped *thread, const struct parts *before)
{
	static const uint32_t yes = 1;
	struct parts *parts = &bringing->parts;

	*parts = (struct parts){.fd = -1, .usable = true, .earlier = before->pages != 0};
	int error = make_parts(bringing, thread, before);
	/* What has been asked for may still come: it is told to do nothing. */
	if (error && parts->queued)
		process_memory_write(&bringing->target->process, parts->pages + offsetof(struct page, cancelled), &yes,
				     sizeof yes);
	if (error && !parts->queued)
		take_back(bringing, thread);
	return error;
}

static uint32_t word_of(struct target *target, uint64_t pages, size_t offset)
{
	uint32_t value = 0;

	python_read(&target->process.memory, pages + offset, &value, sizeof value);
	return value;
}

/* CPython to 3.12 has its main thread look at what is queued only if that thread queues it, or takes the interpreter's lock next: one
 * that computes and that nobody wants the lock of does not. So it is stopped, and queues it once more; what is run a second time does
 * nothing. */
static void queue_again(struct target *target, uint64_t pages, struct stops *stops)
{
	const uint64_t queue[4] = {pages + PAGE, pages};
	struct stopped thread;

	if (choose_main(target, CHOOSE_TO_QUEUE, stops, &thread))
		return;
	call(target, &thread, pages, target->add_pending_call, queue);
	choose_end(stops, &thread);
}

/* Until the library is there. False: it is not, and will not be loaded any more, unless *loading. */
static bool await(struct bringing *bringing, int64_t patience, bool *loading)
{
	struct target *target = bringing->target;
	uint64_t pages = bringing->parts.pages;
	const struct timespec nap = {0, 200000};
	const uint32_t yes = 1;
	int64_t began = clock_now(), until = began + patience, pause = AGAIN_NS;
	bool told = false;

	*loading = false;
	for (;;) {
		if (word_of(target, pages, offsetof(struct page, done)))
			return !told || word_of(target, pages, offsetof(struct page, handle));
		if (!target_same(target))
			return false;
		if (bringing->what == CHOOSE_TO_QUEUE && !told && clock_now() > began + pause &&
		    !word_of(target, pages, offsetof(struct page, started))) {
			queue_again(target, pages, &bringing->stops);
			pause *= 4;
		}
		if (clock_now() > until && told)
			return false;
		if (!told && (clock_now() > until || halt_asked())) {
			/* First the word, then a look whether it was too late. */
			process_memory_write(&target->process, pages + offsetof(struct page, cancelled), &yes,
					     sizeof yes);
			told = true;
			*loading = word_of(target, pages, offsetof(struct page, started)) != 0;
			if (!*loading)
				return false;
			until = clock_now() + AFTER_CANCEL_NS;
		}
		nanosleep(&nap, NULL);
	}
}

/* What of it is left in the process. */
static const char *left_of(const struct parts *parts, char *text, size_t bytes)
{
	int pages = (parts->pages ? 2 : 0) + (parts->earlier ? 2 : 0);

	/* The call under way may have made it, or not. */
	if (!parts->usable && (!pages || parts->fd < 0))
		return "two pages of memory and a memory file may be left there";
	if (!pages && parts->fd < 0)
		return "nothing of it is left there";
	if (!pages)
		return "a memory file (a descriptor) is left there";
	snprintf(text, bytes, "%s pages of memory%s are left there", pages == 4 ? "four" : "two",
		 parts->fd < 0 ? "" : " and a memory file (a descriptor)");
	return text;
}

/* Nothing has been called. */
static int told_of_choice(const struct bringing *bringing, int error)
{
	long long pid = bringing->target->pid;
	char *sentence = bringing->sentence;
	size_t bytes = bringing->sentence_bytes;

	switch (error) {
	case -EPERM:
		return refuse_with(
			sentence, bytes, EXIT_NOT_PERMITTED,
			"the kernel does not let you trace process %lld: somebody traces it, or a rule forbids it",
			pid);
	case -ESRCH:
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "process %lld has ended", pid);
	case -EAGAIN:
		return refuse_with(
			sentence, bytes, EXIT_BUSY,
			"process %lld came to no place where it can be made to load the agent; nothing was changed: try again",
			pid);
	case -ETIME:
		return refuse_with(
			sentence, bytes, EXIT_TIMED_OUT,
			"a thread of process %lld could not be stopped in time, as it does not get the processor; nothing was "
			"changed: try again",
			pid);
	default:
		return refuse_with(sentence, bytes, EXIT_FAILED,
				   "process %lld could not be prepared: %s; nothing was changed", pid,
				   strerror(-error));
	}
}

/* `back`: what came of putting the thread back. */
static int told_of_call(const struct bringing *bringing, int error, const struct stopped *thread, int back)
{
	const struct parts *parts = &bringing->parts;
	long long pid = bringing->target->pid;
	char *sentence = bringing->sentence, text[128];
	size_t bytes = bringing->sentence_bytes;
	const char *left = left_of(parts, text, sizeof text);

	if (error == -ESRCH)
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "process %lld has ended", pid);
	if (error == -ECANCELED)
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "the Python of process %lld has ended", pid);
	if (error == -ENOTRECOVERABLE && bringing->what == CHOOSE_TO_QUEUE)
		return refuse_with(sentence, bytes, EXIT_BUSY,
				   "the Python of process %lld has too many calls queued already; %s: try again", pid,
				   left);
	if (error == -ENOTRECOVERABLE)
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"process %lld can start no thread (%s: a limit of threads or of memory?), and the agent is one; %s",
			pid, strerror(parts->refused), left);
	if (error == -ETIMEDOUT && (back == -ETIMEDOUT || thread->left))
		return refuse_with(
			sentence, bytes, EXIT_TIMED_OUT,
			"a thread of process %lld did not come back in time from what it was made to call, and is not stopped "
			"in the middle of it; it goes on where it was as soon as it comes out of it; %s",
			pid, left);
	if (error == -ETIMEDOUT)
		return refuse_with(
			sentence, bytes, EXIT_TIMED_OUT,
			"a thread of process %lld did not come back in time from what it was made to call; it was put "
			"back to where it was; %s",
			pid, left);
	return refuse_with(sentence, bytes, EXIT_FAILED,
			   "process %lld could not be prepared: %s; it goes on as before, %s", pid, strerror(-error),
			   left);
}

static int told_of_halt(const struct bringing *bringing)
{
	return refuse_with(
		bringing->sentence, bringing->sentence_bytes, EXIT_CANCELLED,
		"interrupted: process %lld does not get the agent; what it was asked to do is taken back, and it goes on as before",
		(long long)bringing->target->pid);
}

static int told_of_loading(int64_t pid, char *sentence, size_t bytes)
{
	return refuse_with(sentence, bytes, EXIT_TIMED_OUT,
			   "process %lld is still loading the agent: `profd ps` shows when it is there",
			   (long long)pid);
}

static int told_of_idle(int64_t pid, char *sentence, size_t bytes)
{
	return refuse_with(
		sentence, bytes, EXIT_FAILED,
		"the agent cannot run in process %lld (another copy of it works there?); it stays idle there",
		(long long)pid);
}

/* By Python's own slot. False: not there, or not in time. */
static bool by_slot(struct target *target, const void *library, size_t needed, const char *socket, int64_t patience,
		    struct attachment *ret, int *code, char *sentence, size_t bytes)
{
	int64_t began = clock_now(), most = patience / 4 < SLOT_NS ? patience / 4 : SLOT_NS;

	ret->waits_for = WAITS_FOR_PYTHON;
	enum slot_result result = slot_attach(target, library, needed, socket, most);

	ret->way = "slot";
	ret->loaded_ns = clock_now() - began;
	if (result == SLOT_LOADING)
		*code = told_of_loading(target->pid, sentence, bytes);
	else
		*code = result == SLOT_IDLE ? told_of_idle(target->pid, sentence, bytes) : 0;
	return result != SLOT_NOT;
}

/* The main thread has not come to the call. */
static int told_of_waiting(const struct bringing *bringing)
{
	return refuse_with(
		bringing->sentence, bringing->sentence_bytes, EXIT_TIMED_OUT,
		bringing->what == CHOOSE_TO_QUEUE
			? "the main thread of process %lld did not come back to Python in time (it waits, or "
			  "computes in one call), and no thread sleeps where it can be made to start another one; it was told not to load "
			  "the agent any more, and two pages of memory are left there: try again"
			: "the thread that process %lld was made to start did not load the agent in time; it was told not "
			  "to any more: try again",
		(long long)bringing->target->pid);
}

static int told_of_end(const struct bringing *bringing)
{
	return refuse_with(bringing->sentence, bringing->sentence_bytes, EXIT_NO_TARGET,
			   "the Python of process %lld has ended", (long long)bringing->target->pid);
}

/* By one stop: 0, or the code of a sentence. */
static int ask(struct bringing *bringing, int64_t most, const struct parts *before, int64_t *asked)
{
	struct stopped thread;

	bringing->ret->waits_for = "a thread of it to come to a place where it can be stopped for a moment";
	int error = choose_thread(bringing->target, bringing->what, most, &bringing->stops, &thread);

	bringing->ret->stood_ns = bringing->stops.ns;
	if (error)
		return halt_asked() && error == -EAGAIN ? told_of_halt(bringing) : told_of_choice(bringing, error);
	error = prepare(bringing, &thread, before);
	int back = choose_end(&bringing->stops, &thread);
	bringing->ret->tid = thread.tid;
	bringing->ret->stood_ns = bringing->stops.ns;
	*asked = thread.until;
	/* The word that it is not to came too late. */
	if (error && bringing->parts.queued &&
	    word_of(bringing->target, bringing->parts.pages, offsetof(struct page, started)))
		error = 0;
	return error ? told_of_call(bringing, error, &thread, back) : 0;
}

/* What has been asked for comes within this time, or not at all (*not_come). */
static int await_agent(struct bringing *bringing, int64_t patience, int64_t asked, bool *not_come)
{
	struct target *target = bringing->target;
	long long pid = target->pid;
	bool loading;

	bringing->ret->waits_for =
		bringing->what == CHOOSE_TO_QUEUE ? WAITS_FOR_PYTHON : "a new thread of it to load the agent";
	bool there = await(bringing, patience, &loading);

	bringing->ret->stood_ns = bringing->stops.ns;
	bringing->ret->loaded_ns = clock_now() - asked;
	*not_come = !there && !loading;
	if (!there && loading)
		return told_of_loading(pid, bringing->sentence, bringing->sentence_bytes);
	if (!there && target->python && !target_python_runs(target))
		return told_of_end(bringing);
	if (!there && halt_asked() && target_same(target))
		return told_of_halt(bringing);
	if (!there)
		return told_of_waiting(bringing);
	if (!word_of(target, bringing->parts.pages, offsetof(struct page, handle)))
		return refuse_with(
			bringing->sentence, bringing->sentence_bytes, EXIT_FAILED,
			"the loader of process %lld refused the agent's library; the process goes on as before, with two "
			"pages of memory more: start it with `profd run`",
			pid);
	return word_of(target, bringing->parts.pages, offsetof(struct page, result))
		       ? 0
		       : told_of_idle(pid, bringing->sentence, bringing->sentence_bytes);
}

/* Python's main thread waits, or computes in one call, and what it was to load it has been told not to: a thread that sleeps starts
 * another one for that. */
static int by_new_thread(struct bringing *bringing, int64_t until)
{
	const struct parts queued = bringing->parts;
	int64_t left = until - clock_now(), asked;
	bool not_come;
	int code;

	bringing->what = CHOOSE_TO_START_ASLEEP;
	code = ask(bringing, left < CHOOSE_LEAST_NS ? CHOOSE_LEAST_NS : left, &queued, &asked);
	if (code == EXIT_BUSY) {
		bringing->what = CHOOSE_TO_QUEUE;
		return told_of_waiting(bringing);
	}
	left = until - clock_now();
	bringing->ret->way = "thread";
	return code ? code : await_agent(bringing, left < START_LEAST_NS ? START_LEAST_NS : left, asked, &not_come);
}

static int load_agent(struct target *target, const void *library, size_t library_bytes, const char *socket,
		      int64_t patience, struct attachment *ret, char *sentence, size_t bytes)
{
	static const struct parts none = {.fd = -1};
	size_t needed = needed_bytes(library, library_bytes);
	struct bringing bringing = {
		target, library,    needed, socket,   target->python ? CHOOSE_TO_QUEUE : CHOOSE_TO_START,
		{0},	{.fd = -1}, ret,    sentence, bytes};
	int64_t asked, until = clock_now() + patience;
	bool not_come;
	int code;

	if (!needed || strlen(socket) >= SOCKET_BYTES)
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"the agent's library was not built for this machine, or the socket's path is too long");
	if (by_slot(target, library, needed, socket, patience, ret, &code, sentence, bytes))
		return code;
	ret->way = target->python ? "pending call" : "thread";
	code = ask(&bringing, patience > CHOOSE_LEAST_NS ? patience : CHOOSE_LEAST_NS, &none, &asked);
	if (code)
		return code;
	if (target->python)
		patience = patience / 10 * QUEUED_TENTHS;
	code = await_agent(&bringing, patience, asked, &not_come);
	if (code == EXIT_TIMED_OUT && not_come && target->python)
		code = by_new_thread(&bringing, until);
	return code;
}

#else

static int load_agent(struct target *target, const void *library, size_t library_bytes, const char *socket,
		      int64_t patience, struct attachment *ret, char *sentence, size_t bytes)
{
	(void)library, (void)library_bytes, (void)socket, (void)patience, (void)ret;
	/* target_open() has refused it already. */
	return refuse_with(sentence, bytes, EXIT_FAILED, "process %lld runs on another machine than x86-64",
			   (long long)target->pid);
}

#endif

int attach(struct target *target, const void *library, size_t library_bytes, const char *socket, int64_t patience,
	   struct attachment *ret, char *sentence, size_t bytes)
{
	return target_told(target, load_agent(target, library, library_bytes, socket, patience, ret, sentence, bytes),
			   sentence, bytes);
}
