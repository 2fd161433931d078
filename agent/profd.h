/* profd.h - for programs that want to say where their steps and phases are.
 *
 * Link with libprofd_agent, or find the functions by dlsym and run with or without the agent. All functions may be called
 * from any thread at any time, never fail, never block, and cost a few tens of ns while nothing is being recorded.
 *
 *     for (;;) {
 *             profd_range_push("forward");
 *             ...
 *             profd_range_pop();
 *             profd_step();      // the step ends here, the next one begins
 *     }
 */
#ifndef PROFD_H
#define PROFD_H

#ifdef __cplusplus
extern "C" {
#endif

#define PROFD_VERSION_MAJOR 0
#define PROFD_VERSION_MINOR 1

/* One training iteration has ended. The steps of the first thread that calls it are counted; calls of other threads are
 * counted apart and reported. profd prefers these steps to any other source of steps. */
void profd_step(void);

/* Opens and closes a named interval on the calling thread; intervals nest. `name` is copied; NULL is an empty name. A pop
 * without a push is ignored. */
void profd_range_push(const char *name);
void profd_range_pop(void);

/* A named instant. */
void profd_mark(const char *name);

/* The agent's release ("0.1.0"): a static text. */
const char *profd_version(void);

#ifdef __cplusplus
}
#endif
#endif
