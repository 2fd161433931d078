/* stack_owner.h - whose code a Python file is. A reader knows the frames of the own program best. */
#ifndef PROFD_STORE_STACK_OWNER_H
#define PROFD_STORE_STACK_OWNER_H

/* In this order: the frames of a stack with the greatest owner are the reader's. */
enum stack_owner { OWNER_PYTHON, OWNER_TORCH, OWNER_PACKAGE, OWNER_TEXT, OWNER_USER };

/* By the file's path, as Python has it; "" = not known. TEXT: code that was made from a text and has no file. */
enum stack_owner stack_owner(const char *file);

#endif
