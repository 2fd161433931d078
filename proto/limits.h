/* limits.h - every cap that two programs must agree on, with its reason. */
#ifndef PROFD_PROTO_LIMITS_H
#define PROFD_PROTO_LIMITS_H

/* One control packet. SEQPACKET delivers whole packets; 64 KiB stays below the default socket buffer (208 KiB), so that
 * one packet always fits into an empty queue. */
#define LIMIT_PACKET_BYTES 65536
/* Descriptors with one packet: a segment, and room to grow. */
#define LIMIT_PACKET_FDS 4

/* One event record. The longest known one is 144 bytes; 16 bits of length would allow 65535. */
#define LIMIT_EVENT_BYTES 512
/* One interned text. Kernel names of template libraries reach 8 KiB; a longer text is cut and counted. */
#define LIMIT_STRING_BYTES 16384
/* One interned inputs description (shapes and scalars of one operator call), in 32-bit words: seven lists of 30 tensors of
 * rank 4, as optimizers' operators take them, fit. */
#define LIMIT_INPUTS_WORDS 2048

/* One thread owns a chunk at a time. 64 KiB hold about 800 operators, so a thread needs a new chunk about once in a
 * millisecond at the highest rate, and 1,000 threads need less than 64 MiB. */
#define LIMIT_CHUNK_BYTES 65536
#define LIMIT_CHUNK_BYTES_MIN 4096
/* Chunks of one segment: 4 GiB at the default chunk size; this bounds the chunk table. */
#define LIMIT_CHUNKS 65536
/* Default and largest bytes of event data that one capture's segment may hold at one time (--max-bytes). It is the
 * daemon's memory, allocated as it is needed. */
#define LIMIT_SEGMENT_BYTES_DEFAULT (256u << 20)
#define LIMIT_SEGMENT_BYTES_MAX (4096ull << 20)
/* Arena of interned texts and inputs. */
#define LIMIT_STRINGS_BYTES (32u << 20)

/* Steps of one cycle: a capture is for a few steps, not for a whole job. */
#define LIMIT_STEPS 100000u
#define LIMIT_SCHEDULE_STEPS 1000000000u
/* Longest --duration, and the longest time a capture may take from its trigger. */
#define LIMIT_DURATION_NS (3600ull * 1000000000ull)

/* Samples of a thread's Python stack in a second (--stacks-rate): the most, and the default. The default is a prime
 * number, so that work of a job at a round rate does not have the same rhythm. */
#define LIMIT_STACKS_RATE 1000u
#define STACKS_RATE_USUAL 199u

/* Different Python stacks in one capture, counted with those of their callers. */
#define LIMIT_STACKS 65535u

/* Step times kept in the status page (a ring). */
#define LIMIT_STATUS_RING 256

/* How long an agent keeps a segment whose daemon is gone, in seconds. */
#define LIMIT_ORPHAN_SECONDS 600

/* Names of simulated devices begin so: figures of such a device are labelled simulated wherever they are shown. */
#define SIMULATED_DEVICE "Simulated "

/* Targets of one trigger. */
#define LIMIT_TARGETS 1024

#endif
