/* columns.h - the statement that makes the table of an event kind. No state. */
#ifndef PROFD_PROTO_COLUMNS_H
#define PROFD_PROTO_COLUMNS_H

/* The statement that makes its table, NULL for a number that nothing writes. Where the file is of profd, its tables are made by
 * this very text. */
const char *event_create_table(unsigned kind);

#endif
