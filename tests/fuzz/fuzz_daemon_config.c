/* fuzz_daemon_config.c - a configuration file: an error has its sentence, and what is accepted is the same after --print-config
 * has written it and it is read again. */
#include "daemon/setup/config_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct config config, again;
	char sentence[CONFIG_SENTENCE_BYTES] = "", *text = malloc(n ? n : 1), *printed = NULL;
	size_t bytes = 0;
	if (!text)
		return 0;
	memcpy(text, data, n);
	config_init(&config);
	int error = config_parse(&config, "fuzz.conf", text, n, sentence);
	if (error && !*sentence)
		abort();
	FILE *file = error ? NULL : open_memstream(&printed, &bytes);
	if (file) {
		config_print(&config, file);
		fclose(file);
		config_init(&again);
		if (config_parse(&again, "printed.conf", printed, bytes, sentence) != 0) {
			fprintf(stderr, "%s\n%s\n", sentence, printed);
			abort();
		}
#define CONFIG_NUMBER(key, initial, least, most, live, help)                                                           \
	if (config.key != again.key)                                                                                   \
		abort();
#define CONFIG_SIZE CONFIG_NUMBER
#define CONFIG_DURATION CONFIG_NUMBER
#define CONFIG_FLAG(key, initial, live, help) CONFIG_NUMBER(key, initial, 0, 1, live, help)
#define CONFIG_PATH(key, initial, live, help)                                                                          \
	if (strcmp(config.key, again.key) != 0)                                                                        \
		abort();
#include "daemon/core/config.def"
	}
	free(printed);
	free(text);
	return 0;
}
