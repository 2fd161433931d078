/* print.h - stacks for people, and as JSON. */
#ifndef PROFD_CLIENT_STACK_PRINT_H
#define PROFD_CLIENT_STACK_PRINT_H

#include "read.h"

#include <cjson/cJSON.h>

/* All threads of a process. */
void stack_print(const struct stack_process *process);
/* The same as an object. */
cJSON *stack_json(const struct stack_process *process);

#endif
