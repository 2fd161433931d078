/* nvtx_late.c - a program whose NVTX was there before the agent was, for test_attach_nvtx.py.
 *
 *     nvtx_late HOW N
 *
 * Makes N steps of 5 ms, and then on, uncounted, while there is a file of the name in STAY (workload.h). Each is a range `step` around
 * three ranges `inner`, a mark, a range that starts and ends, one in a domain of its own, and two `part` of libnvtx_part.so (beside
 * this program) where HOW has one. It says `ready` first; at the end, how many steps it has made.
 *
 * HOW: used      one step is made before `ready`         unused   none, and none before there is a file of the name in GO
 *      with      `used`, with the library                fixed    `with`, and the library's data is write-protected
 *      later     `used`, the library comes with GO       churn    `later`, and goes again in each step
 *      locked    `with`, and the library's data is write-protected with GO
 *      hidden    `with`, and the library's data cannot even be read from GO on; it is not called any more
 *      forged    `used`, with data that looks much like nvtxGlobals, but is none; the end says whether it is as it was
 * A step waits for `ready` to be read; NVTX is called by one thread alone. */
#include "workload.h"

#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <nvtx3/nvToolsExt.h>

typedef void work(int pairs);
static void *library;
static work *part;

static void *waits(void *unused)
{
	(void)unused;
	for (;;)
		poll(NULL, 0, 1000);
	return NULL;
}

static void open_library(void)
{
	char beside[4096];
	ssize_t length = readlink("/proc/self/exe", beside, sizeof beside - 64);
	beside[length > 0 ? length : 0] = 0;
	char *slash = strrchr(beside, '/');
	snprintf(slash + 1, 64, "libnvtx_part.so");
	library = dlopen(beside, RTLD_NOW | RTLD_LOCAL);
	if (!library || !(*(void **)&part = dlsym(library, "part_work"))) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
}

/* The library's data; at the end the loader writes there. */
static int protect(struct dl_phdr_info *info, size_t size, void *how)
{
	(void)size;
	if (!strstr(info->dlpi_name, "libnvtx_part"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t low = (info->dlpi_addr + p->p_vaddr) & ~4095ul;
		if (p->p_type == PT_LOAD && p->p_flags & PF_W &&
		    mprotect((void *)low, info->dlpi_addr + p->p_vaddr + p->p_memsz - low, *(int *)how) < 0)
			exit(1);
	}
	return 0;
}

static void ranges(void)
{
	static nvtxDomainHandle_t domain;
	nvtxEventAttributes_t a = {.version = NVTX_VERSION,
				   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
				   .messageType = NVTX_MESSAGE_TYPE_ASCII,
				   .message.ascii = "of a domain"};
	nvtxRangePushA("step");
	for (int i = 0; i < 3; i++) {
		nvtxRangePushA("inner");
		nvtxRangePop();
	}
	nvtxMarkA("mark");
	nvtxRangeEnd(nvtxRangeStartA("started"));
	if (!domain)
		domain = nvtxDomainCreateA("own");
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
	if (part)
		part(2);
	nvtxRangePop();
}

/* --- data that is nearly nvtxGlobals: one word of it differs, another one in each, or it is a copy from elsewhere --- */

#define WORDS (sizeof(nvtxGlobals_t) / sizeof(uint64_t))
#define FIRST_TABLE (offsetof(nvtxGlobals_t, functionTable_CORE) / sizeof(uint64_t))
/* In what the file has of the data, as the real one. */
static uint64_t forged[WORDS + 2][WORDS] = {{1}}, was[WORDS + 2][WORDS];

static void forge(void)
{
	const uint64_t *real = (const uint64_t *)&nvtxGlobals_v3;
	for (size_t f = 0; f < WORDS + 2; f++) {
		uint64_t shift = (uint64_t)(uintptr_t)forged[f] - (uint64_t)(uintptr_t)real;
		memcpy(forged[f], real, sizeof forged[f]);
		/* The last one is a plain copy, whose tables lead to the real one. */
		for (size_t w = FIRST_TABLE; w < WORDS && f <= WORDS; w++)
			forged[f][w] += forged[f][w] ? shift : 0;
		int is_function = f == 2 || (f >= 5 && f < FIRST_TABLE);
		if (f == 0 || f == 4) /* what is 0 in the upper half of the word */
			forged[f][f] ^= 1ull << 40;
		else if (is_function) /* another object's */
			forged[f][f] = (uint64_t)(uintptr_t)&puts;
		else if (f < WORDS)
			forged[f][f] += 8;
		else if (f == WORDS)
			forged[f][0] = 3; /* there is no such state */
	}
	memcpy(was, forged, sizeof was);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	const char *how = argc > 1 ? argv[1] : "used", *go = getenv("GO");
	long counted = argc > 2 ? strtol(argv[2], NULL, 10) : 0, done = 0;
	double next = seconds();
	int is_forged = !strcmp(how, "forged"), churn = !strcmp(how, "churn"), later = churn || !strcmp(how, "later"),
	    unused = !strcmp(how, "unused"), hidden = !strcmp(how, "hidden"), closes = hidden || !strcmp(how, "locked");
	if (!strcmp(how, "with") || !strcmp(how, "fixed") || closes)
		open_library();
	if (!unused)
		ranges();
	if (!strcmp(how, "fixed"))
		dl_iterate_phdr(protect, &(int){PROT_READ});
	if (is_forged)
		forge();
	if (pthread_create(&thread, NULL, waits, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	while (done < counted || stays()) {
		int going = go && access(go, F_OK) == 0;
		if (later && going && !library)
			open_library();
		if (closes == 1 && going) {
			closes = 2;
			part = hidden ? NULL : part;
			dl_iterate_phdr(protect, &(int){hidden ? PROT_NONE : PROT_READ});
		}
		if (!unused || going)
			ranges();
		if (churn && library) {
			dlclose(library);
			library = NULL;
			part = NULL;
		}
		pace(&next, 0.005);
		done += done < counted;
	}
	if (!strcmp(how, "fixed") || closes)
		dl_iterate_phdr(protect, &(int){PROT_READ | PROT_WRITE});
	printf("%ld steps%s\n", done, is_forged && memcmp(was, forged, sizeof was) ? ", forgeries were changed" : "");
	return 0;
}
