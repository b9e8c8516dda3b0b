/* Status codes of all layers of csrc.
 *
 * A function that can fail returns an `int`: KN_OK (0) or one of these negative values. Python
 * alone decides which librdkafka error code the public API shows for each. */
#ifndef KN_BASE_STATUS_H
#define KN_BASE_STATUS_H

enum kn_status {
    KN_OK = 0,
    KN_ERR_NOMEM = -1,       /* malloc failed */
    KN_ERR_TRUNCATED = -2,   /* the input ends too early */
    KN_ERR_INVALID = -3,     /* malformed input: an impossible length, count or tag */
    KN_ERR_CRC = -4,         /* checksum doesn't match */
    KN_ERR_TOO_LARGE = -5,   /* over a limit (decompressed size, frame size, message size) */
    KN_ERR_CODEC = -6,       /* the compression library refused the data */
    KN_ERR_UNSUPPORTED = -7, /* a codec, magic or version that this build doesn't support */
    KN_ERR_FULL = -8,        /* the queue's limit of messages or bytes is reached */
    KN_ERR_TIMED_OUT = -9,
    KN_ERR_TRANSPORT = -10,   /* connect, read or write failed, or the peer closed */
    KN_ERR_CLOSED = -11,      /* the client is closed, or this process is a forked child */
    KN_ERR_INTERRUPTED = -12, /* a signal ended the wait */
    KN_ERR_UNKNOWN_PARTITION = -13,
    KN_ERR_RESOLVE = -14,  /* host name resolution failed */
    KN_ERR_PROTOCOL = -15, /* the peer doesn't speak Kafka: an impossible frame or correlation id */
    KN_ERR_STALE = -16,    /* out of date: belongs to an older epoch */
    KN_ERR_PURGED = -17,   /* purged while it waited */
    KN_ERR_PURGED_IN_FLIGHT = -18, /* purged while it was in flight: it may have arrived */
    /* the producer can't keep its guarantees, and accepts no more messages */
    KN_ERR_FATAL = -19,
    /* a transactional producer accepts messages only within a transaction */
    KN_ERR_NO_TRANSACTION = -20,
    KN_ERR_TLS = -21, /* the handshake failed, or a record was malformed */
    KN_ERR_UNKNOWN_TOPIC = -22,
    KN_ERR_UNKNOWN_SCHEMA = -23 /* no decoder of this schema is there yet */
};

/* A static English phrase for logs and exceptions; never NULL. */
const char *kn_status_text(int status);

#endif
