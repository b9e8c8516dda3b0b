/* Texts of the status codes.
 *
 * Thread: any. Lock: none. The texts are static. */
#include "base/status.h"

const char *kn_status_text(int status)
{
    switch (status) {
    case KN_OK: return "success";
    case KN_ERR_NOMEM: return "out of memory";
    case KN_ERR_TRUNCATED: return "input ends too early";
    case KN_ERR_INVALID: return "malformed input";
    case KN_ERR_CRC: return "checksum doesn't match";
    case KN_ERR_TOO_LARGE: return "larger than the limit";
    case KN_ERR_CODEC: return "corrupt compressed data";
    case KN_ERR_UNSUPPORTED: return "codec, magic or version not supported";
    case KN_ERR_FULL: return "queue full";
    case KN_ERR_TIMED_OUT: return "timed out";
    case KN_ERR_TRANSPORT: return "connection failed or was closed by the peer";
    case KN_ERR_CLOSED: return "client is closed";
    case KN_ERR_INTERRUPTED: return "interrupted by a signal";
    case KN_ERR_UNKNOWN_PARTITION: return "unknown topic or partition";
    case KN_ERR_RESOLVE: return "host name resolution failed";
    case KN_ERR_PROTOCOL: return "the peer doesn't speak the Kafka protocol";
    case KN_ERR_STALE: return "superseded by a newer epoch";
    case KN_ERR_PURGED: return "purged from the queue";
    case KN_ERR_PURGED_IN_FLIGHT: return "purged while in flight";
    case KN_ERR_FATAL: return "the producer has met a fatal error";
    case KN_ERR_NO_TRANSACTION: return "outside of a transaction";
    case KN_ERR_TLS: return "TLS failed";
    case KN_ERR_UNKNOWN_TOPIC: return "unknown topic";
    case KN_ERR_UNKNOWN_SCHEMA: return "unknown schema";
    default: return "unknown status";
    }
}
