/* search.h - finds the objects of the process that carry NVTX, where the agent came after they were loaded (`profd attach`): in their
 * writable data, by the form of the variable that NVTX's headers put there (globals.h). The agent's thread. */
#ifndef PROFD_AGENT_NVTX_SEARCH_H
#define PROFD_AGENT_NVTX_SEARCH_H

#include <stdint.h>

struct nvtx_searched {
	uint32_t others;   /* another tool has them */
	uint32_t left;	   /* made no call so far, and NVTX_INJECTION64_PATH names another tool for then */
	uint32_t fixed;	   /* not to be written, busy for too long, or one too many */
	uint32_t unread;   /* regions of data that could not be read */
	int old_library;   /* libnvToolsExt.so is loaded: NVTX before version 3, whose data nobody knows */
	char holder[64];   /* of `others`: the file of one of these tools */
	char variable[64]; /* of `left`: the file that is named */
};

/* Looks at what is mapped now, and takes in what it finds. Objects without NVTX are looked at twice in all. */
void nvtx_search(void);
/* What it saw last. */
const struct nvtx_searched *nvtx_searched(void);

/* While it records: has anything been loaded since the search? Then it searches again. Returns 1 where ranges may have been missed: an
 * object with NVTX has come since, or one has come and gone. */
int nvtx_search_again(void);

#endif
