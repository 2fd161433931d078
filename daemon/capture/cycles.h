/* cycles.h - a schedule's further cycles. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_CYCLES_H
#define PROFD_DAEMON_CAPTURE_CYCLES_H

struct capture;

/* Prepares the next cycle's segment, if there is to be one; once. */
void cycles_follow_up(struct capture *capture);
/* Drops the cycles that were prepared for a schedule that has ended with this one. */
void cycles_drop(const struct capture *ended);

#endif
