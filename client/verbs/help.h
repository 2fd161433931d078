/* help.h - the text of `profd VERB --help`, of `profd help`, and of `profd help TOPIC`. All fit 80 columns. */
#ifndef PROFD_CLIENT_VERBS_HELP_H
#define PROFD_CLIENT_VERBS_HELP_H

#include "topics.h"
#include "verbs.h"

#include <stdio.h>

void help_print_verb(const struct verb *verb, FILE *file);
void help_print_all(FILE *file);
void help_print_topic(const struct topic *topic, FILE *file);

#endif
