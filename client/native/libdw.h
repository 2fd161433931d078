/* libdw.h - elfutils' libdw, which unwinds native stacks by the tables that compilers leave for exceptions (.eh_frame). It is loaded when
 * it is asked for: every distribution has it, systemd and perf use it, and nothing else of profd needs it. Its interface has been the same
 * since elfutils 0.158 (2013). */
#ifndef PROFD_CLIENT_NATIVE_LIBDW_H
#define PROFD_CLIENT_NATIVE_LIBDW_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LIBDW_READ_MMAP 8 /* ELF_C_READ_MMAP */
#define LIBDW_OK 0	  /* DWARF_CB_OK */
#define LIBDW_STOP 1	  /* DWARF_CB_ABORT */

struct Elf;
struct Dwfl;
struct Dwfl_Module;
struct Dwfl_Thread;
struct Dwfl_Frame;
struct Dwarf_CFI;
struct Dwarf_Frame;

/* Dwfl_Callbacks */
struct dwfl_callbacks {
	int (*find_elf)(struct Dwfl_Module *module, void **user, const char *name, uint64_t base, char **file,
			struct Elf **elf);
	int (*find_debuginfo)(struct Dwfl_Module *module, void **user, const char *name, uint64_t base,
			      const char *file, const char *link, uint32_t crc, char **found);
	void *section_address;
	char **debuginfo_path;
};

/* Dwfl_Thread_Callbacks */
struct dwfl_thread_callbacks {
	pid_t (*next_thread)(struct Dwfl *dwfl, void *arg, void **thread_arg);
	bool (*get_thread)(struct Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg);
	bool (*memory_read)(struct Dwfl *dwfl, uint64_t address, uint64_t *word, void *arg);
	bool (*set_initial_registers)(struct Dwfl_Thread *thread, void *thread_arg);
	void (*detach)(struct Dwfl *dwfl, void *arg);
	void (*thread_detach)(struct Dwfl_Thread *thread, void *thread_arg);
};

/* Dwarf_Op */
struct libdw_operation {
	uint8_t atom;
	uint64_t number, number2, offset;
};

struct libdw {
#define FUNCTION(returns, name, arguments) returns(*name) arguments;
#include "libdw.def"
};

/* The library, loaded once; NULL: this machine has none, and libdw_failure() says why. */
const struct libdw *libdw_load(void);
const char *libdw_failure(void);

/* What to install, for a sentence. */
#define LIBDW_WANTED "libdw.so.1 (Debian and Ubuntu: libdw1; Fedora and RHEL: elfutils-libs)"

#endif
