/* mdoc.h - the tables' plain texts as mdoc, the language of manual pages. */
#ifndef PROFD_MANUAL_MDOC_H
#define PROFD_MANUAL_MDOC_H

#include <stdbool.h>
#include <stdio.h>

/* A text that the formatter fills. `words` in backticks become literals, --options flags, and words in capitals that
 * stand in `arguments` (a text of words with blanks between, may be NULL) arguments. A sentence ends its line. */
void mdoc_text(FILE *file, const char *text, const char *arguments);
/* The same for a phrase of an option's help: with a capital and a full stop. */
void mdoc_phrase(FILE *file, const char *phrase, const char *arguments);
/* One word as an argument of a macro: quotes, backslashes and leading dashes as mdoc wants them. */
void mdoc_word(FILE *file, const char *word, size_t length);
/* "[--limit N] (CAPTURE | FILE)..." behind a macro of its caller's; ends with a newline. */
void mdoc_usage(FILE *file, const char *usage);
/* "table|json|csv" as " Cm table | json | csv", without a newline. */
void mdoc_choices(FILE *file, const char *choices, const char *between);
/* Lines as they stand. Indented by `strip` blanks less. */
void mdoc_literal(FILE *file, const char *text, unsigned strip);

#endif
