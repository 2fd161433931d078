/* nvtx.h - the functions of the NVTX collector that the agent calls, besides those in collector_nvtx. */
#ifndef PROFD_AGENT_NVTX_NVTX_H
#define PROFD_AGENT_NVTX_NVTX_H

/* Called by InitializeInjectionNvtx2, and by InitializeInjectionNvtx, which old copies of libnvToolsExt call if they do
 * not find the former. `get_export_table` is NVTX's argument. Called once for each object that carries NVTX, by the
 * thread that makes the first NVTX call there. Always returns 1: with 0 NVTX would dlclose the agent. Keeps errno. */
int nvtx_inject(void *get_export_table);

/* Tells the value of NVTX_INJECTION64_PATH when the agent was loaded (NULL: not set), and whether it names the agent.
 * Called by the agent's constructor, or not at all; only the sentences for users depend on it. */
void nvtx_environment(const char *path, int ours);

/* The agent has come to a process that runs: finds the objects that carry NVTX. The agent's thread, before it talks to a daemon. */
void nvtx_attached(void);
/* The agent leaves: takes our functions out of all objects. The agent's thread. */
void nvtx_release(void);

/* Number of objects with NVTX that are hooked and have not been seen to vanish. */
unsigned nvtx_object_count(void);

#endif
