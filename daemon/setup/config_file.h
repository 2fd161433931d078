/* config_file.h - reads and writes profd.conf. At the start and on SIGHUP: before the loop runs, or on its thread (a few
 * small local files). Lines are `key = value`; # begins a comment line; later files win over earlier ones. */
#ifndef PROFD_DAEMON_SETUP_CONFIG_FILE_H
#define PROFD_DAEMON_SETUP_CONFIG_FILE_H

#include "daemon/core/config.h"

#include <stddef.h>
#include <stdio.h>

#define CONFIG_SENTENCE_BYTES 640

/* The defaults. */
void config_init(struct config *ret);

/* The defaults, then `file`; without one what the system (/etc/profd/profd.conf, /etc/profd/conf.d/ *.conf by name) or,
 * with `user`, the user ($XDG_CONFIG_HOME/profd/profd.conf, else ~/.config) has; files that do not exist are skipped.
 * `file` must exist. 0, or a negative errno with a sentence that says file, line and column; *ret is then not to be
 * used. */
int config_load(struct config *ret, bool user, const char *file, char sentence[CONFIG_SENTENCE_BYTES]);

/* One text, as from a file called `name`. As config_load; keys that are not named keep their values. */
int config_parse(struct config *config, const char *name, const char *text, size_t n,
		 char sentence[CONFIG_SENTENCE_BYTES]);

/* Takes over what may change while the daemon runs. `told`, if not NULL, is called with each key that needs a restart. */
void config_take(struct config *config, const struct config *fresh, void (*told)(void *context, const char *key),
		 void *context);

/* Writes a file that says what `config` holds, with the help, bounds and default of each key; as a comment where it is
 * the default. */
void config_print(const struct config *config, FILE *to);

#endif
