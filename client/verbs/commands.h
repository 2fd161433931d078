/* commands.h - the verbs' functions, each in client/command/VERB.c. They return the program's exit code. */
#ifndef PROFD_CLIENT_VERBS_COMMANDS_H
#define PROFD_CLIENT_VERBS_COMMANDS_H

struct arguments;

#define VERB(name, ...) int command_##name(struct arguments *arguments);
#include "verbs.def"

#endif
