/* glob.h - names that match a pattern. Pure. */
#ifndef PROFD_AGENT_CORE_GLOB_H
#define PROFD_AGENT_CORE_GLOB_H

#include <stddef.h>

/* 1 where `name` (bytes long) matches the glob (with * and ?). "" matches nothing. */
int glob_match(const char *glob, const char *name, size_t bytes);

#endif
