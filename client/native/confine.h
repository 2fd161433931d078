/* confine.h - a process gives up what it does not need to read files and to write into a pipe. */
#ifndef PROFD_CLIENT_NATIVE_CONFINE_H
#define PROFD_CLIENT_NATIVE_CONFINE_H

/* What it keeps: a pipe that it may write to, and another process's memory, to read. */
enum { CONFINED_TO, CONFINED_MEMORY };

/* 0: of its descriptors it has these two, under those numbers. It ends with the thread that has made it. */
int confine_descriptors(int to, int memory);
/* 0: from here on it opens files to read them, maps them, has memory, and ends: so much of the processor's time, and so much memory. */
int confine_calls(void);

#endif
