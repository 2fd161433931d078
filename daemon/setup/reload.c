/* reload.c - see reload.h. Thread: the loop's. No locks. */
#include "reload.h"
#include "proto/base/log.h"
#include "config_file.h"
#include "daemon/catalogue/retention.h"
#include "daemon/core/server.h"
#include "daemon/metrics/metrics.h"
#include "service.h"

#include <stdio.h>

struct waiting {
	char keys[256];
	size_t n;
};

static void needs_restart(void *context, const char *key)
{
	struct waiting *waiting = context;
	if (waiting->n < sizeof waiting->keys)
		waiting->n += (size_t)snprintf(waiting->keys + waiting->n, sizeof waiting->keys - waiting->n, "%s%s",
					       waiting->n ? ", " : "", key);
}

void reload(struct server *server)
{
	struct config fresh;
	struct waiting waiting = {.n = 0};
	char sentence[CONFIG_SENTENCE_BYTES] = "";
	service_reloading(server);
	if (config_load(&fresh, server->user, server->config_file, sentence)) {
		log_line("the settings are refused, the old ones hold: %s", sentence);
	} else {
		*sentence = 0;
		config_take(&server->config, &fresh, needs_restart, &waiting);
		metrics_reload(server);
		log_is_verbose = server->verbose || server->config.verbose;
		log_line("settings read anew%s%s", waiting.n ? "; what takes a restart: " : "", waiting.keys);
		retention_look(server);
	}
	service_reloaded(server, sentence);
}
