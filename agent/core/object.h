/* object.h - which object that the loader has mapped holds an address. */
#ifndef PROFD_AGENT_CORE_OBJECT_H
#define PROFD_AGENT_CORE_OBJECT_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* 1 where [at, at + bytes) lies in one loaded part of the object that has all of `flags` (PF_...). Inside a gate_iterate(). */
int object_has(const struct dl_phdr_info *info, const void *at, size_t bytes, ElfW(Word) flags);

/* A fingerprint of the object's address and program headers, never 0. Another object that is mapped there later has
 * another fingerprint. */
uint64_t object_print(const struct dl_phdr_info *info);

/* File name, without its folder, of the object in whose code `at` lies; `name` stays as it is where there is none. The
 * agent's thread. */
void object_name_at(const void *at, char *name, size_t bytes);

#endif
