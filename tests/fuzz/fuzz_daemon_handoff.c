/* fuzz_daemon_handoff.c - what a partial file says of the capture that another daemon had begun: texts in place of messages. What is
 * taken is a message that an agent or a daemon may send. The input is the texts, with a newline between. */
#include "daemon/capture/handoff.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct store *store;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char folder[] = "/tmp/fuzz_handoff.XXXXXX", path[64];
	(void)argc, (void)argv;
	snprintf(path, sizeof path, "%s/1.db", mkdtemp(folder) ? folder : "/nowhere");
	store = store_new(NULL);
	if (!store || store_create_at(store, path)) {
		fprintf(stderr, "%s\n", store ? store_sentence(store) : "out of memory");
		return 1;
	}
	unlink(store_path(store));
	rmdir(folder);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct handoff handoff;
	union message_any checked;
	const char *why;
	char *text = malloc(n + 1), *rest = text;
	if (!text)
		return 0;
	memcpy(text, data, n);
	text[n] = 0;
	store_begin(store);
	for (unsigned i = 0; i <= COLLECTOR_COUNT && rest; i++) {
		char key[40], *line = strsep(&rest, "\n");
		snprintf(key, sizeof key, i ? "handoff_collector_%u" : "handoff_arm", i - 1);
		store_meta_text(store, key, line);
		store_meta_text(store, "handoff_deadline", line);
	}
	handoff_read(store, &handoff);
	store_rollback(store);
	if (handoff.arm.head.size && message_check(&handoff.arm, handoff.arm.head.size, 0, &checked, &why))
		abort();
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (handoff.collectors[bit].head.size &&
		    (handoff.collectors[bit].collector != bit ||
		     message_check(&handoff.collectors[bit], handoff.collectors[bit].head.size, 1, &checked, &why)))
			abort();
	free(text);
	return 0;
}
