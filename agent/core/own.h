/* own.h - OWN marks variables that several files of the agent share. The compiler cannot know from a declaration that a variable is the
 * library's own, and looks its address up in a table at each use; -fvisibility does not change that. On the paths that a job pays
 * for these are many. */
#ifndef PROFD_AGENT_CORE_OWN_H
#define PROFD_AGENT_CORE_OWN_H

#define OWN extern __attribute__((visibility("hidden")))

#endif
