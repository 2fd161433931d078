/* help.h - the text of `profd VERB --help`, and of `profd help`. */
#ifndef PROFD_CLIENT_VERBS_HELP_H
#define PROFD_CLIENT_VERBS_HELP_H

#include "verbs.h"

#include <stdio.h>

void help_print_verb(const struct verb *verb, FILE *file);
void help_print_all(FILE *file);

#endif
