/* search.h - finds the objects that carry NVTX and were loaded before the agent came (`profd attach`). It looks in
 * their writable data for the variable that NVTX's headers put there (globals.h). The agent's thread. */
#ifndef PROFD_AGENT_NVTX_SEARCH_H
#define PROFD_AGENT_NVTX_SEARCH_H

#include <stdint.h>

struct nvtx_searched {
	uint32_t others;   /* another tool has them */
	uint32_t left;	   /* made no call so far, and NVTX_INJECTION64_PATH names another tool for the first one */
	uint32_t fixed;	   /* cannot be written, was busy for too long, or there was no room */
	uint32_t unread;   /* regions of data that could not be read */
	int old_library;   /* libnvToolsExt.so is loaded: NVTX before version 3, whose data is not known */
	char holder[64];   /* for `others`: the file of one of these tools */
	char variable[64]; /* for `left`: the file that the variable names */
};

/* Looks at all mapped objects, and takes in those with NVTX. An object without NVTX is looked at twice, and not
 * again. */
void nvtx_search(void);
/* What the last search saw. */
const struct nvtx_searched *nvtx_searched(void);

/* During the recording: searches again if anything has been loaded since the last search. Returns 1 where ranges may
 * have been missed: an object with NVTX has been loaded, or an object has been loaded and unloaded. */
int nvtx_search_again(void);

#endif
