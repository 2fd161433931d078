/* parts.c - see parts.h. The library is written into the memory file from outside. The loader's code lies in the second page, what it works on in the
 * first. */
#include "parts.h"

#include "fill.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)

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

static bool is_our_file(const struct target *target, const struct parts *parts)
{
	struct stat facts;
	char path[64];

	snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)target->pid, parts->fd);
	return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && !facts.st_nlink && facts.st_ino == parts->file;
}

static int make_memfd(struct bringing *bringing, struct stopped *thread)
{
	static const char name[] = PARTS_NAME;
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
	return fill_memfd(target->pid, parts->fd, bringing->image, bringing->bytes, &parts->file);
}

/* Opens ours. Where it cannot (a rule of the machine) or what it has is another one, it makes one of its own. */
static int open_own(struct bringing *bringing, struct stopped *thread)
{
	struct target *target = bringing->target;
	uint64_t at = bringing->parts.pages + offsetof(struct page, path);
	struct stat facts;
	char path[64];
	int64_t fd;

	snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)getpid(), bringing->own);
	if (bringing->own < 0 || fstat(bringing->own, &facts))
		return -ENOENT;
	if (!process_memory_write(&target->process, at, path, sizeof path))
		return -EFAULT;
	const uint64_t open_it[6] = {SYS_openat, (uint64_t)AT_FDCWD, at, O_RDONLY | O_CLOEXEC};
	int error = system_call(bringing, thread, target->syscall, SYS_openat, open_it, &fd);
	if (error)
		return error;
	bringing->parts.fd = (int)fd;
	bringing->parts.file = facts.st_ino;
	if (is_our_file(target, &bringing->parts))
		return 0;
	bringing->parts.fd = -1;
	return -EBADF;
}

static int make_file(struct bringing *bringing, struct stopped *thread)
{
	int error = open_own(bringing, thread);

	return error && bringing->parts.usable ? make_memfd(bringing, thread) : error;
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
	/* These take a lock at most. */
	bool few = function == target->add_pending_call || function == pages + PAGE + CLAIM_AT;
	const struct stopped_stub stub = {.begin = pages + PAGE + CALL_AT,
					  .end = pages + PAGE + CALL_AT + sizeof call_code,
					  .data = pages,
					  .back = pages + offsetof(struct page, back)};

	if (target->python && !target_python_runs(target))
		return -ECANCELED;
	return stopped_call(thread, &stub, function, arguments, few);
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
		error = make_file(bringing, thread);
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

int parts_prepare(struct bringing *bringing, struct stopped *thread, const struct parts *before)
{
	struct parts *parts = &bringing->parts;

	*parts = (struct parts){.fd = -1, .usable = true, .earlier = before->pages != 0};
	int error = make_parts(bringing, thread, before);
	/* What has been asked for may still come: it is told to do nothing. */
	if (error && parts->queued)
		parts_cancel(bringing->target, parts->pages);
	if (error && !parts->queued)
		take_back(bringing, thread);
	return error;
}

void parts_queue(struct target *target, struct stopped *thread, uint64_t pages)
{
	const uint64_t queue[4] = {pages + PAGE, pages};

	call(target, thread, pages, target->add_pending_call, queue);
}

void parts_cancel(struct target *target, uint64_t pages)
{
	static const uint32_t yes = 1;

	process_memory_write(&target->process, pages + offsetof(struct page, cancelled), &yes, sizeof yes);
}

uint32_t parts_word(struct target *target, uint64_t pages, size_t offset)
{
	uint32_t value = 0;

	python_read(&target->process.memory, pages + offset, &value, sizeof value);
	return value;
}

#endif
