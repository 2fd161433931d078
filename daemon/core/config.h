/* config.h - the values of profd.conf, by the names of their keys. They are filled by setup/config_file.h, before the
 * loop runs and on SIGHUP; the loop's thread reads them. */
#ifndef PROFD_DAEMON_CORE_CONFIG_H
#define PROFD_DAEMON_CORE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define CONFIG_PATH_BYTES 256

struct config {
#define CONFIG_NUMBER(key, initial, least, most, live, help) uint64_t key;
#define CONFIG_SIZE(key, initial, least, most, live, help) uint64_t key;
#define CONFIG_DURATION(key, initial, least, most, live, help) uint64_t key;
#define CONFIG_FLAG(key, initial, live, help) bool key;
#define CONFIG_PATH(key, initial, live, help) char key[CONFIG_PATH_BYTES];
#include "config.def"
};

#endif
