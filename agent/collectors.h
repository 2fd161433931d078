/* collectors.h - arms, starts, polls and stops all collectors of a capture in turn, and tells the daemon about them.
 * The agent's thread only. */
#ifndef PROFD_AGENT_COLLECTORS_H
#define PROFD_AGENT_COLLECTORS_H

#include "../proto/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A capture begins: the daemon has been told nothing about its collectors. */
void collectors_forget(void);
/* Arms the collectors, which may take long. Called after ARMED has been sent, so that it does not fall into a step that
 * somebody waits for. */
void collectors_arm(void);
/* Gets the memory and switches the armed collectors on. 0, or a negative errno: there is no memory, and no collector is
 * on. */
int collectors_start(void);
/* Does an armed collector want the step thread to stand while it is switched on? */
bool collectors_want_still(void);
/* Polls the collectors. Returns when they want to be polled again. */
uint64_t collectors_poll(uint64_t now);
/* How much memory they hold. */
uint64_t collectors_bytes(void);
/* Switches them off; they get `time` ns to drain. */
void collectors_stop(uint64_t now, uint64_t time);
void collectors_disarm(void);

/* What the daemon was told about each collector in this capture: COLLECTOR_COUNT messages. A new daemon is told the
 * same again. */
struct message_collector *collectors_told(void);
/* Can one of these bits not be recorded here? Then the sentence says which one, and why. */
bool collectors_refuse(uint32_t bits, char *sentence, size_t bytes);
/* Does another profiler record in this process? */
bool collectors_others(char *sentence, size_t bytes);
/* Tells the daemon which collectors can record in this process, and why the others cannot. */
void collectors_probe(void);

#endif
