/* collectors.h - what is done to all collectors of a capture in turn: armed, started, looked after, stopped; and what the daemon is told of
 * them. The agent's thread only. */
#ifndef PROFD_AGENT_COLLECTORS_H
#define PROFD_AGENT_COLLECTORS_H

#include "../proto/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A capture begins: nothing has been told of it. */
void collectors_forget(void);
/* After ARMED has been sent: what may take long, so that it does not fall into a step that somebody waits for. */
void collectors_arm(void);
/* Gets the memory and switches on those that are armed. 0 or a negative errno: there is no memory, and nothing is on. */
int collectors_start(void);
/* Does one that is armed want the step thread to stand while it is switched on? */
bool collectors_want_still(void);
/* Returns when they want to be looked after again. */
uint64_t collectors_poll(uint64_t now);
/* How much memory they hold. */
uint64_t collectors_bytes(void);
/* Switches them off; they get `time` ns to drain. */
void collectors_stop(uint64_t now, uint64_t time);
void collectors_disarm(void);

/* What has been told of each in this capture: COLLECTOR_COUNT messages. Another daemon is told again. */
struct message_collector *collectors_told(void);
/* Can one of these bits not be recorded here? Then the sentence says which one, and why. */
bool collectors_refuse(uint32_t bits, char *sentence, size_t bytes);
/* Does another profiler record in this process? */
bool collectors_others(char *sentence, size_t bytes);
/* Tells which of them there are in this process, and why the others are not. */
void collectors_probe(void);

#endif
