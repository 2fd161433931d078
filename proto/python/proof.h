/* proof.h - does this process's memory hold objects as dict.h reads them? Asked before anything read is believed. */
#ifndef PROFD_PROTO_PYTHON_PROOF_H
#define PROFD_PROTO_PYTHON_PROOF_H

#include "python.h"

/* Looks up what is known of every Python: that sys.modules has `sys`, that this is a module whose `hexversion` says the release, and that the
 * attribute `name` of its `__spec__`, an object of a class of Python's own, says "sys". NULL where all of it is found; else what was not, as a
 * noun. */
const char *python_disproved(struct python *python);

#endif
