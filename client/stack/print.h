/* print.h - stacks for people, and as JSON. */
#ifndef PROFD_CLIENT_STACK_PRINT_H
#define PROFD_CLIENT_STACK_PRINT_H

#include "ranks.h"
#include "read.h"

#include <cjson/cJSON.h>

/* All threads of a process. */
void stack_print(const struct stack_process *process);
/* The main threads of a job's processes, side by side: those that stand in one place below one headline. `whose`: what they are of. */
void stack_print_ranks(const struct stack_ranks *ranks, const char *whose);
/* Both as an object. `rank` NULL: the process is not compared with others. */
cJSON *stack_json(const struct stack_process *process, const struct stack_rank *rank);

#endif
