/* columns.h - the statement that makes the table of an event kind. No state. */
#ifndef PROFD_PROTO_COLUMNS_H
#define PROFD_PROTO_COLUMNS_H

/* The statement that makes the kind's table; NULL for a number that nothing writes. Every capture file that profd
 * writes has its tables from this text. */
const char *event_create_table(unsigned kind);

#endif
