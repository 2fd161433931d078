/* own.h - OWN marks variables that several files of the agent share. Without it the compiler does not know from a
 * declaration that the variable is in this library, and loads its address from a table at each use. -fvisibility does
 * not change that. The job would pay for these loads at each event. */
#ifndef PROFD_AGENT_CORE_OWN_H
#define PROFD_AGENT_CORE_OWN_H

#define OWN extern __attribute__((visibility("hidden")))

#endif
