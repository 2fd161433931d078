/* stack_owner.h - whose code a Python file is. Of all frames of a stack a reader knows those of the own program
 * best. */
#ifndef PROFD_STORE_STACK_OWNER_H
#define PROFD_STORE_STACK_OWNER_H

/* In this order: of a stack's frames those of the greatest one are its reader's. */
enum stack_owner { OWNER_PYTHON, OWNER_TORCH, OWNER_PACKAGE, OWNER_TEXT, OWNER_USER };

/* By its path, as Python has it; "" = not known. TEXT: code that was made from a text and has no file. */
enum stack_owner stack_owner(const char *file);

#endif
