/* version.h - the release, and the versions of the things that outlive a process. */
#ifndef PROFD_PROTO_VERSION_H
#define PROFD_PROTO_VERSION_H

#define PROFD_VERSION "0.1.0"

/* Control protocol between daemon and agents or clients. Another major is refused; a peer with an older minor works. */
#define PROTOCOL_MAJOR 1
#define PROTOCOL_MINOR 5

/* Layout of the segment. An agent refuses another major. */
#define SEGMENT_VERSION 2

/* PRAGMA user_version of capture files and of the catalogue. A newer one is refused with a sentence. */
#define CAPTURE_SCHEMA_VERSION 4
#define CATALOGUE_SCHEMA_VERSION 2

#endif
