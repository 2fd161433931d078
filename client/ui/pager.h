/* pager.h - what is longer than the terminal goes through a pager, as with git: PROFD_PAGER, else PAGER, else less. */
#ifndef PROFD_CLIENT_UI_PAGER_H
#define PROFD_CLIENT_UI_PAGER_H

/* Sends what standard output gets from now on through the pager. Does nothing where standard input or output is no terminal, the pager is
 * "cat" or empty, or there is no such program. pager_end() is called at the end of the program in any case. */
void pager_begin(void);
/* Waits until the user has left the pager. */
void pager_end(void);

#endif
