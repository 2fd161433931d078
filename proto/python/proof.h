/* proof.h - does this process's memory hold objects as dict.h reads them? Asked before such objects are used. */
#ifndef PROFD_PROTO_PYTHON_PROOF_H
#define PROFD_PROTO_PYTHON_PROOF_H

#include "python.h"

/* Looks up values that every Python has: sys.modules has the module `sys`; its `hexversion` is that of the release; the
 * attribute `name` of its `__spec__`, an object of a Python class, is "sys". NULL where all are found; else the missing
 * one, as a noun. */
const char *python_disproved(struct python *python);

#endif
