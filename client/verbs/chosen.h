/* chosen.h - which collectors a command line asks for: by the table of proto/collectors.def, --preset, and --activities. The command line
 * goes before a recipe, both before a preset. A verb need not have all of these options. */
#ifndef PROFD_CLIENT_VERBS_CHOSEN_H
#define PROFD_CLIENT_VERBS_CHOSEN_H

#include "arguments.h"

/* A bit set of enum collector. */
uint32_t chosen_collectors(const struct arguments *arguments);
/* The same of a preset alone; 0: there is none of this name. */
uint32_t preset_collectors(const char *preset);
/* "+stacks", "-gpu": adds to *on or *off. False where the word is none of these. */
bool chosen_change(const char *word, uint32_t *on, uint32_t *off);
/* Was the option given that asks for a collector, or leaves it out? */
bool chosen_by_option(const struct arguments *arguments, const struct collector_facts *collector);
/* Says what excludes each other of these options: EXIT_USAGE after the sentence, else EXIT_DONE. */
int chosen_check(const struct arguments *arguments);

#endif
