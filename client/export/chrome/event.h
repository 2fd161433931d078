/* event.h - the parts that trace events are put together from. No state but the buffer. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_EVENT_H
#define PROFD_CLIENT_EXPORT_CHROME_EVENT_H

#include "client/export/buffer.h"
#include "chrome.h"

/* Up to the name, which follows. */
static inline void event_begin(struct buffer *b, char phase, const char *category)
{
	BUFFER_PUT(b, ",\n{\"ph\":\"");
	buffer_put(b, &phase, 1);
	BUFFER_PUT(b, "\",\"cat\":\"");
	buffer_put(b, category, strlen(category));
	BUFFER_PUT(b, "\",\"name\":\"");
}

/* Behind the name: track of the process, and time. */
static inline void event_place(const struct chrome *c, struct buffer *b, int64_t track, int64_t time)
{
	buffer_put(b, c->place, c->place_bytes);
	buffer_put_int(b, track);
	BUFFER_PUT(b, ",\"ts\":");
	buffer_put_micros(b, time - c->origin);
}

/* The same, of another process: a device. */
static inline void event_place_at(const struct chrome *c, struct buffer *b, int64_t process, int64_t track,
				  int64_t time)
{
	BUFFER_PUT(b, "\",\"pid\":");
	buffer_put_int(b, process);
	BUFFER_PUT(b, ",\"tid\":");
	buffer_put_int(b, track);
	BUFFER_PUT(b, ",\"ts\":");
	buffer_put_micros(b, time - c->origin);
}

/* Of the two halves of an asynchronous pair. "local" is the process's: a plain "id" is the whole machine's,
 * and viewers put such events outside of every process. */
static inline void event_pair_id(struct buffer *b, int64_t id)
{
	BUFFER_PUT(b, ",\"id2\":{\"local\":\"0x");
	buffer_put_hex(b, (uint64_t)id, 1);
	BUFFER_PUT(b, "\"}");
}

/* Behind the place of one end of a flow. */
static inline void event_flow_end(struct buffer *b, char phase, uint64_t id)
{
	BUFFER_PUT(b, ",\"id\":");
	buffer_put_uint(b, id);
	if (phase == 'f')
		BUFFER_PUT(b, ",\"bp\":\"e\"");
	BUFFER_PUT(b, "}");
}

/* A metadata record up to the value of its argument. */
static inline void event_metadata(struct buffer *b, const char *record, const char *argument, int64_t process,
				  int64_t track)
{
	BUFFER_PUT(b, ",\n{\"ph\": \"M\", \"name\": \"");
	buffer_put(b, record, strlen(record));
	BUFFER_PUT(b, "\", \"ts\": 0.000, \"pid\": ");
	buffer_put_int(b, process);
	BUFFER_PUT(b, ", \"tid\": ");
	buffer_put_int(b, track);
	BUFFER_PUT(b, ", \"args\": {\"");
	buffer_put(b, argument, strlen(argument));
	BUFFER_PUT(b, "\": ");
}

/* `,"KEY":VALUE` */
#define EVENT_PUT_INT(b, key, value)                                                                                   \
	do {                                                                                                           \
		BUFFER_PUT(b, ",\"" key "\":");                                                                        \
		buffer_put_int(b, value);                                                                              \
	} while (0)

#endif
