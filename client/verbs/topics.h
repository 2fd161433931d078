/* topics.h - what `profd help TOPIC` explains besides the verbs. */
#ifndef PROFD_CLIENT_VERBS_TOPICS_H
#define PROFD_CLIENT_VERBS_TOPICS_H

#include <stddef.h>

struct topic {
	const char *name;
	const char *summary;
	const char *parts[4]; /* the text, one part behind the other; NULL ends it */
};

const struct topic *topic_table(size_t *ret_count);

#endif
