/* entry.c - the ways in that others call: NVTX's and CUDA's injection, and dlopen, which shows that torch is loaded. */
#include "claim.h"
#include "core/life.h"
#include "enter.h"
#include "nvtx/nvtx.h"

#include "../proto/message.h"

#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjectionNvtx2(void *get_export_table);
EXPORT int InitializeInjectionNvtx(void *get_export_table);
EXPORT int profd_attach(const char *socket);

/* Called by the CUDA driver in cuInit. No CUDA call in here. */
EXPORT int InitializeInjection(void)
{
	enter_process(ENTRY_CUDA);
	return 1;
}

/* Called by each object that carries NVTX, at its first NVTX call. */
EXPORT int InitializeInjectionNvtx2(void *get_export_table)
{
	enter_watch_forks();
	enter_process(ENTRY_NVTX);
	/* 0: NVTX goes on without a tool. The copy that works here, or one that comes later, needs no call from NVTX to
	 * get these ranges. */
	if (claim_lost() || life_forked())
		return 0;
	int r = nvtx_inject(get_export_table);
	/* What HELLO says of NVTX has changed. */
	life_wake();
	return r;
}

EXPORT int InitializeInjectionNvtx(void *get_export_table)
{
	return InitializeInjectionNvtx2(get_export_table);
}

/* Called by the code that `profd attach` makes the process run, after the loader has loaded this library. Returns 1
 * where the agent runs. */
EXPORT int profd_attach(const char *socket)
{
	return enter_attached(socket);
}

/* This dlopen jumps to the real one, so that the loader sees the return address of the real caller: by it the loader
 * chooses the RUNPATH that it searches. It is in assembler, because a compiler need not make a tail call. */
void *dlopen_seen(const char *file) __attribute__((visibility("hidden"), used));

static void *real_dlopen;

/* For a program without libdl. It may take the presence of a dlopen, which is this one, as a sign that libdl is
 * there. */
static void *no_dlopen(const char *file, int mode)
{
	(void)file, (void)mode;
	return NULL;
}

/* Runs at the beginning, when hardly any second thread could fork while dlsym holds the loader's lock. */
static void __attribute__((constructor)) find_dlopen(void)
{
	void *(*const volatile find)(void *, const char *) = dlsym; /* weak: may not be there */
	void *real = find ? find(RTLD_NEXT, "dlopen") : NULL;
	__atomic_store_n(&real_dlopen, real ? real : (void *)no_dlopen, __ATOMIC_RELAXED);
}

void *dlopen_seen(const char *file)
{
	/* Constructors of other libraries may come before ours. */
	if (!__atomic_load_n(&real_dlopen, __ATOMIC_RELAXED))
		find_dlopen();
	enter_library_seen(file);
	return __atomic_load_n(&real_dlopen, __ATOMIC_RELAXED);
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen,@function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	".cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	".cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"	call dlopen_seen\n"
	"	add $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n"
	".cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n"
	".cfi_adjust_cfa_offset -8\n"
	"	jmp *%rax\n"
	".cfi_endproc\n"
	".size dlopen,.-dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen,%function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	stp x29, x30, [sp, #-32]!\n"
	".cfi_adjust_cfa_offset 32\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl dlopen_seen\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	".cfi_adjust_cfa_offset -32\n"
	"	br x16\n"
	".cfi_endproc\n"
	".size dlopen,.-dlopen\n");
#else
#error "the dlopen watch knows x86-64 and aarch64"
#endif
