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
		       offsetof(struct page, back.called) == 508 && offsetof(struct page, back.wait) == 512 &&
		       offsetof(struct page, own) == 528 && offsetof(struct page, own_device) == 592 &&
		       offsetof(struct page, own_inode) == 600 && offsetof(struct page, facts) == 608,
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
/* What the stopped thread runs; stopped_call() says why it waits. First what prepares the first page, which it cannot write to yet, and opens the file,
 * with what the function is to get on the stack:
 *   push rdi; push rsi; push rdx; push rcx
 *   mov eax, 10 (mprotect); mov rdi, r12; mov esi, 4096; mov edx, 3 (to be read and written); syscall; test rax, rax; js 5f
 *   cmp byte [r12+528], 0; je 2f
 *   mov eax, 257 (openat); mov edi, -100; lea rsi, [r12+528]; mov edx, 0x80000; xor r10d, r10d; syscall
 *   mov [r12+12], eax; test eax, eax; js 4f
 *   mov edi, eax; lea rsi, [r12+608]; mov eax, 5 (fstat); syscall; test rax, rax; jnz 4f
 *   mov rax, [r12+608]; cmp rax, [r12+592]; jne 4f; mov rax, [r12+616]; cmp rax, [r12+600]; jne 4f
 *   mov eax, [r12+12]; lea rdi, [r12+136]; mov ecx, 10
 * 1: xor edx, edx; div ecx; add dl, 48; dec rdi; mov [rdi], dl; test eax, eax; jnz 1b
 * 2: pop rcx; pop rdx; pop rsi; pop rdi
 * Then the call, where everything else begins:
 *   mov dword [r12+508], 1; call r13; mov [r12+480], rax
 * 3: mov dword [r12+504], 1
 * 6: mov eax, 271 (ppoll); xor edi, edi; xor esi, esi; lea rdx, [r12+512]; xor r10d, r10d; mov r8d, 8; syscall
 * 7: mov eax, 15 (rt_sigreturn); syscall; jmp 7b
 * It cannot have the file, or has nowhere to write:
 * 4: add rsp, 32; jmp 3b
 * 5: mov [rsp], rax; add rsp, 32; jmp 6b */
static const unsigned char call_code[] = {
	0x57, 0x56, 0x52, 0x51, 0xb8, 0x0a, 0x00, 0x00, 0x00, 0x4c, 0x89, 0xe7, 0xbe, 0x00, 0x10, 0x00, 0x00, 0xba,
	0x03, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x48, 0x85, 0xc0, 0x0f, 0x88, 0xee, 0x00, 0x00, 0x00, 0x41, 0x80, 0xbc,
	0x24, 0x10, 0x02, 0x00, 0x00, 0x00, 0x0f, 0x84, 0x8d, 0x00, 0x00, 0x00, 0xb8, 0x01, 0x01, 0x00, 0x00, 0xbf,
	0x9c, 0xff, 0xff, 0xff, 0x49, 0x8d, 0xb4, 0x24, 0x10, 0x02, 0x00, 0x00, 0xba, 0x00, 0x00, 0x08, 0x00, 0x45,
	0x31, 0xd2, 0x0f, 0x05, 0x41, 0x89, 0x44, 0x24, 0x0c, 0x85, 0xc0, 0x0f, 0x88, 0xb0, 0x00, 0x00, 0x00, 0x89,
	0xc7, 0x49, 0x8d, 0xb4, 0x24, 0x60, 0x02, 0x00, 0x00, 0xb8, 0x05, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x48, 0x85,
	0xc0, 0x0f, 0x85, 0x96, 0x00, 0x00, 0x00, 0x49, 0x8b, 0x84, 0x24, 0x60, 0x02, 0x00, 0x00, 0x49, 0x3b, 0x84,
	0x24, 0x50, 0x02, 0x00, 0x00, 0x0f, 0x85, 0x80, 0x00, 0x00, 0x00, 0x49, 0x8b, 0x84, 0x24, 0x68, 0x02, 0x00,
	0x00, 0x49, 0x3b, 0x84, 0x24, 0x58, 0x02, 0x00, 0x00, 0x75, 0x6e, 0x41, 0x8b, 0x44, 0x24, 0x0c, 0x49, 0x8d,
	0xbc, 0x24, 0x88, 0x00, 0x00, 0x00, 0xb9, 0x0a, 0x00, 0x00, 0x00, 0x31, 0xd2, 0xf7, 0xf1, 0x80, 0xc2, 0x30,
	0x48, 0xff, 0xcf, 0x88, 0x17, 0x85, 0xc0, 0x75, 0xf0, 0x59, 0x5a, 0x5e, 0x5f, 0x41, 0xc7, 0x84, 0x24, 0xfc,
	0x01, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x41, 0xff, 0xd5, 0x49, 0x89, 0x84, 0x24, 0xe0, 0x01, 0x00, 0x00,
	0x41, 0xc7, 0x84, 0x24, 0xf8, 0x01, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0xb8, 0x0f, 0x01, 0x00, 0x00, 0x31,
	0xff, 0x31, 0xf6, 0x49, 0x8d, 0x94, 0x24, 0x00, 0x02, 0x00, 0x00, 0x45, 0x31, 0xd2, 0x41, 0xb8, 0x08, 0x00,
	0x00, 0x00, 0x0f, 0x05, 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xeb, 0xf7, 0x48, 0x83, 0xc4, 0x20, 0xeb,
	0xc9, 0x48, 0x89, 0x04, 0x24, 0x48, 0x83, 0xc4, 0x20, 0xeb, 0xcb,
};
#define CALL_BEHIND 0xc1 /* what prepares */
/* long claim(struct page *): mov eax, 1; xchg [rdi], eax; ret */
static const unsigned char claim_code[] = {0xb8, 0x01, 0x00, 0x00, 0x00, 0x87, 0x07, 0xc3};
#define CALL_AT 256 /* in the second page */
#define CLAIM_AT 640
#define CODE_BYTES (CLAIM_AT + sizeof claim_code)
_Static_assert(sizeof load_code <= CALL_AT && CALL_AT + sizeof call_code <= CLAIM_AT, "they do not overlap");
#define WAY "/proc/self/fd/"
#define FILL "//////////" /* room for the digits of any number; more slashes are no other path */
_Static_assert(offsetof(struct page, path) + sizeof WAY - 1 + TARGET_SPELLING_BYTES - 1 + sizeof FILL - 1 == 136,
	       "the code above writes the number's digits in front of that");

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

static void write_code(unsigned char code[CODE_BYTES])
{
	memset(code, 0, CODE_BYTES);
	memcpy(code, load_code, sizeof load_code);
	memcpy(code + CALL_AT, call_code, sizeof call_code);
	memcpy(code + CLAIM_AT, claim_code, sizeof claim_code);
}

static int map_pages(struct bringing *bringing, struct stopped *thread, int protection)
{
	int64_t at;
	const uint64_t map[6] = {0, UINT64_C(2) * PAGE, (uint64_t)protection, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1,
				 0};
	int error = system_call(bringing, thread, bringing->target->mmap, SYS_mmap, map, &at);

	if (!error)
		bringing->parts.pages = (uint64_t)at;
	return error;
}

static int protect(struct bringing *bringing, struct stopped *thread, uint64_t at, uint64_t bytes, int protection)
{
	const uint64_t arguments[6] = {at, bytes, (uint64_t)protection};
	int64_t none;

	return system_call(bringing, thread, bringing->target->mprotect, SYS_mprotect, arguments, &none);
}

/* One call at a time. */
static int make_pages(struct bringing *bringing, struct stopped *thread)
{
	struct parts *parts = &bringing->parts;
	unsigned char code[CODE_BYTES];
	int error = parts->pages ? protect(bringing, thread, parts->pages, UINT64_C(2) * PAGE, PROT_READ | PROT_WRITE)
				 : map_pages(bringing, thread, PROT_READ | PROT_WRITE);

	if (error)
		return error;
	write_code(code);
	if (!process_memory_write(&bringing->target->process, parts->pages + PAGE, code, sizeof code))
		return -EFAULT;
	return protect(bringing, thread, parts->pages + PAGE, PAGE, PROT_READ | PROT_EXEC);
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

/* `fd` -1: the thread writes its digits. */
static struct page build_page(const struct bringing *bringing, int fd)
{
	const struct target *target = bringing->target;
	struct page page = {.fd = (uint32_t)fd,
			    .dlopen = target->dlopen,
			    .dlsym = target->dlsym,
			    .close = target->close,
			    .detach = bringing->what == CHOOSE_TO_QUEUE ? 0 : target->pthread_detach,
			    .direct = target->agent,
			    .entry = "profd_attach"};
	char spelling[TARGET_SPELLING_BYTES], digits[16] = FILL;

	target_spell(spelling);
	if (fd >= 0)
		snprintf(digits, sizeof digits, "%d", fd);
	snprintf(page.path, sizeof page.path, WAY "%s%s", spelling, digits);
	snprintf(page.socket, sizeof page.socket, "%s", bringing->socket);
	return page;
}

static bool write_page(const struct bringing *bringing)
{
	const struct page page = build_page(bringing, bringing->parts.fd);

	return process_memory_write(&bringing->target->process, bringing->parts.pages, &page, sizeof page);
}

/* Has the thread call a function; its answer stands in the page then. -ECANCELED: Python has ended since it was looked at. */
static int call(struct target *target, struct stopped *thread, uint64_t pages, uint64_t function,
		const uint64_t arguments[4], bool prepares)
{
	const struct stopped_stub stub = {.begin = pages + PAGE + CALL_AT,
					  .enter = pages + PAGE + CALL_AT + (prepares ? 0 : CALL_BEHIND),
					  .end = pages + PAGE + CALL_AT + sizeof call_code,
					  .data = pages,
					  .back = pages + offsetof(struct page, back)};

	if (target->python && !target_python_runs(target))
		return -ECANCELED;
	return stopped_call(thread, &stub, function, arguments);
}

/* What it answered; an error where that was none. */
static int answered(struct bringing *bringing, struct stopped *thread, uint64_t function, const uint64_t arguments[4],
		    bool prepares, int32_t *answer)
{
	struct target *target = bringing->target;
	uint64_t pages = bringing->parts.pages;
	int error = call(target, thread, pages, function, arguments, prepares);

	if (!error &&
	    !python_read(&target->process.memory, pages + offsetof(struct page, answer), answer, sizeof *answer))
		error = -EFAULT;
	/* A thread that has gone back by itself, or stands because the job was stopped, calls nothing more. */
	bringing->parts.usable = !error && stopped_waits(thread);
	return error;
}

/* The page of what is still queued: whoever takes it first is the only one to load from it. Its file is ours then. */
static int claim(struct bringing *bringing, struct stopped *thread, const struct parts *before)
{
	const uint64_t page[4] = {before->pages};
	int32_t taken;
	int error = answered(bringing, thread, bringing->parts.pages + PAGE + CLAIM_AT, page, false, &taken);

	if (!error && !bringing->parts.usable)
		error = -EBUSY;
	if (!error && !taken) {
		bringing->parts.fd = before->fd;
		bringing->parts.file = before->file;
	}
	return error;
}

/* Removes what has been made, as nothing will come of it; in the same stop. */
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

/* The one call: `prepares` says whether it comes after what prepares the page. */
static int ask_for_it(struct bringing *bringing, struct stopped *thread, bool prepares)
{
	struct target *target = bringing->target;
	struct parts *parts = &bringing->parts;
	bool queue = bringing->what == CHOOSE_TO_QUEUE;
	const uint64_t to_queue[4] = {parts->pages + PAGE, parts->pages};
	const uint64_t to_start[4] = {parts->pages + offsetof(struct page, thread), 0, parts->pages + PAGE,
				      parts->pages};

	parts->queued = true;
	return answered(bringing, thread, queue ? target->add_pending_call : target->pthread_create,
			queue ? to_queue : to_start, prepares, &parts->refused);
}

static int told_by_answer(struct parts *parts, int error)
{
	parts->queued = error || !parts->refused;
	return error ? error : parts->refused ? -ENOTRECOVERABLE : 0;
}

/* One after the other. With the thread standing. `before`: of an earlier try. */
static int make_parts(struct bringing *bringing, struct stopped *thread, const struct parts *before)
{
	struct parts *parts = &bringing->parts;
	int error = make_pages(bringing, thread);

	if (!error && before->pages)
		error = claim(bringing, thread, before);
	if (!error && !bringing->target->agent && parts->fd < 0)
		error = make_file(bringing, thread);
	if (!error && !write_page(bringing))
		error = -EFAULT;
	return error ? error : told_by_answer(parts, ask_for_it(bringing, thread, false));
}

/* After the thread has run through what prepares: the page says what it has, and whether it has called. */
static int take_prepared(struct bringing *bringing, struct stopped *thread, int error, ino_t own)
{
	struct parts *parts = &bringing->parts;
	struct page page;

	if (!python_read(&bringing->target->process.memory, parts->pages, &page, sizeof page))
		return told_by_answer(parts, error ? error : -EFAULT);
	if (own && (int32_t)page.fd >= 0) {
		parts->fd = (int)page.fd;
		parts->file = own;
	}
	/* One that waits, and has called nothing, can be made to call more. */
	if (!page.back.called && thread->between)
		parts->usable = stopped_waits(thread);
	if (page.back.called || (error && !parts->usable))
		return told_by_answer(parts, error);
	parts->queued = false;
	if (error)
		return error;
	/* It could not have ours, or what it has is another one. */
	parts->fd = -1;
	if (!parts->usable)
		return -EBADF;
	error = make_memfd(bringing, thread);
	if (!error && !write_page(bringing))
		error = -EFAULT;
	return error ? error : told_by_answer(parts, ask_for_it(bringing, thread, false));
}

/* All in one run: each stop in between would take as long as all the work. The pages are code when they are made, and
 * are written from outside, so that the thread can begin there. The thread makes the first page data itself. No page is
 * ever both. A kernel may forbid to write in this way (proc_mem.force_override). */
static int make_at_once(struct bringing *bringing, struct stopped *thread)
{
	unsigned char both[PAGE + CODE_BYTES] = {0};
	struct page page = build_page(bringing, -1);
	struct stat facts = {0};

	if (!bringing->target->agent) {
		if (fstat(bringing->own, &facts))
			return -errno;
		snprintf(page.own, sizeof page.own, "/proc/%lld/fd/%d", (long long)getpid(), bringing->own);
		page.own_device = facts.st_dev;
		page.own_inode = facts.st_ino;
	}
	memcpy(both, &page, sizeof page);
	write_code(both + PAGE);
	int error = map_pages(bringing, thread, PROT_READ | PROT_EXEC);
	if (error)
		return error;
	if (!process_memory_write(&bringing->target->process, bringing->parts.pages, both, sizeof both))
		return make_parts(bringing, thread, &(struct parts){.fd = -1});
	error = ask_for_it(bringing, thread, true);
	return take_prepared(bringing, thread, error, facts.st_ino);
}

int parts_prepare(struct bringing *bringing, struct stopped *thread, const struct parts *before)
{
	struct parts *parts = &bringing->parts;

	*parts = (struct parts){.fd = -1, .usable = true, .earlier = before->pages != 0};
	int error = !before->pages && (bringing->target->agent || bringing->own >= 0)
			    ? make_at_once(bringing, thread)
			    : make_parts(bringing, thread, before);
	/* A call that has been asked for may still come. It is told to do nothing. */
	if (error && parts->queued)
		parts_cancel(bringing->target, parts->pages);
	if (error && !parts->queued)
		take_back(bringing, thread);
	return error;
}

void parts_queue(struct target *target, struct stopped *thread, uint64_t pages)
{
	const uint64_t queue[4] = {pages + PAGE, pages};

	call(target, thread, pages, target->add_pending_call, queue, false);
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
