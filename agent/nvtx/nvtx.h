/* nvtx.h - what the rest of the agent calls of the NVTX collector, beside its vtable (collector_nvtx). */
#ifndef PROFD_AGENT_NVTX_NVTX_H
#define PROFD_AGENT_NVTX_NVTX_H

/* The body of InitializeInjectionNvtx2 (and of InitializeInjectionNvtx, which old copies of libnvToolsExt ask for where
 * they do not find the former): `get_export_table` is what NVTX passed. Called once per object that carries NVTX, from
 * the thread that made the first NVTX call there. Always 1: an answer of 0 makes NVTX dlclose the agent. Keeps
 * errno. */
int nvtx_inject(void *get_export_table);

/* What NVTX_INJECTION64_PATH held when the agent was loaded (NULL: not set), and whether that leads to the agent.
 * Called by the agent's constructor, if at all; only probe's sentence depends on it. */
void nvtx_environment(const char *path, int ours);

/* The agent has come to a process that runs: finds the objects that carry NVTX. The agent's thread, before it talks to a daemon. */
void nvtx_attached(void);
/* It leaves: nothing of ours stands in any object afterwards. The agent's thread. */
void nvtx_release(void);

/* Number of objects with NVTX that are hooked and have not been seen to vanish. */
unsigned nvtx_object_count(void);

#endif
