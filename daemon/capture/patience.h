/* patience.h - how long the daemon waits for an agent. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_PATIENCE_H
#define PROFD_DAEMON_CAPTURE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct process;

/* An answer may take at least so long. */
#define PATIENCE_NS 2000000000ull

/* Has it kept us waiting for so long? Packets that it has sent, and that we have not read yet, are not its fault; an
 * agent that never stops sending gains little by this. process NULL: it is gone. */
bool patience_over(const struct process *process, uint64_t since, uint64_t patience, uint64_t now);
/* Has it left a question of that time unanswered? */
bool patience_is_silent(const struct process *process, uint64_t since, uint64_t now);
/* "the process is stopped", "it is gone", or how long the daemon has waited. Static. */
const char *patience_sentence(const struct process *process);

#endif
