/* recipe.h - options of a command line that come from a file: `--recipe FILE`. The file is one JSON object; its keys are the long
 * options of the verb, or torch.profiler's names of what they do. */
#ifndef PROFD_CLIENT_VERBS_RECIPE_H
#define PROFD_CLIENT_VERBS_RECIPE_H

#include "arguments.h"

/* Longer ones are refused. */
#define RECIPE_BYTES_MAX 65536

/* Adds what a recipe asks for to a command line that has been read; what the command line has itself stays as it is. The texts are the
 * arguments' (arguments_deinit). ARGUMENTS_OK, or ARGUMENTS_USAGE when the sentence has been printed. */
int recipe_add(struct arguments *arguments, const char *path);
/* The same of a text of `bytes` bytes, behind which a zero stands; `path` is what sentences call it. */
int recipe_parse(struct arguments *arguments, const char *path, const char *text, size_t bytes);

#endif
