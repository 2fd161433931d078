/* told.h - why an attachment came to nothing, in sentences. Each returns its exit code. x86-64. */
#ifndef PROFD_CLIENT_ATTACH_TOLD_H
#define PROFD_CLIENT_ATTACH_TOLD_H

#include "parts.h"

/* Nothing has been called. */
int told_of_choice(const struct bringing *bringing, int error);
int told_of_call(const struct bringing *bringing, int error, const struct stopped *thread, int back);
int told_of_halt(const struct bringing *bringing);
int told_of_loading(int64_t pid, char *sentence, size_t bytes);
int told_of_idle(int64_t pid, char *sentence, size_t bytes);
int told_of_waiting(const struct bringing *bringing);
int told_of_end(const struct bringing *bringing);

#endif
