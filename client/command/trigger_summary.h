/* trigger_summary.h - a capture's summary, which the daemon sends at its end, for people: the head of each table. */
#ifndef PROFD_CLIENT_COMMAND_TRIGGER_SUMMARY_H
#define PROFD_CLIENT_COMMAND_TRIGGER_SUMMARY_H

#include "client/link/follow.h"
#include "client/ui/screen.h"

#include <stdbool.h>
#include <stdint.h>

struct trigger_result {
	const struct followed *followed;
	cJSON *summary;
	int64_t wall;	 /* of all steps; 0 = not known */
	int64_t slowest; /* wall of the slowest step; 0 = not known */
	int64_t slowest_step;
	int64_t median; /* 0 = not known */
	double busy;	/* percent of the steps' time in which the devices worked; -1 = not recorded */
};

/* Did the collector run? */
bool trigger_collector_on(const cJSON *summary, const char *name);
/* Was the GPU a simulated one? */
bool trigger_simulated(const struct trigger_result *result);

/* Sentences on what the figures do not show. */
void trigger_print_notes(const struct trigger_result *result);
/* One line of the capture, its notes and its steps. */
void trigger_print_head(const struct trigger_result *result, const struct screen *screen);
void trigger_print_tables(const struct trigger_result *chosen, const struct screen *screen);

#endif
