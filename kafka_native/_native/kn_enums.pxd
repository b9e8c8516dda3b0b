# The enums and codes of csrc: bindings use these names, and enums.pyx exports them to Python.

cdef extern from "net/events.h" nogil:
    enum kn_event_kind:
        KN_EVENT_CONNECTED
        KN_EVENT_DISCONNECTED
        KN_EVENT_REPLY
        KN_EVENT_PARTITION
        KN_EVENT_CURSOR
        KN_EVENT_TOPIC_WANTED
        KN_EVENT_THROTTLED
        KN_EVENT_OUT_OF_SEQUENCE
        KN_EVENT_FATAL
        KN_EVENT_REPLICA
        KN_EVENT_TXN_PARTITION
        KN_EVENT_TXN_FAILED
        KN_EVENT_LOG
        KN_EVENT_WORKING

cdef extern from "net/events.h" nogil:
    enum:
        KN_PEER_CLOSED_IDLE
        KN_PEER_CLOSED
        KN_PEER_CLOSED_IN_FLIGHT

cdef extern from "net/broker.h" nogil:
    enum:
        KN_BROKER_INIT
        KN_BROKER_DOWN
        KN_BROKER_CONNECTING
        KN_BROKER_HANDSHAKE
        KN_BROKER_UP
        KN_BROKER_STOPPED

cdef extern from "net/counting.h" nogil:
    enum:
        KN_MEAN_QUEUED
        KN_MEAN_PRODUCE
        KN_MEAN_FETCH
        KN_MEAN_OTHER

cdef extern from "records/codec.h" nogil:
    enum:
        KN_CODEC_NONE
        KN_CODEC_GZIP
        KN_CODEC_SNAPPY
        KN_CODEC_LZ4
        KN_CODEC_ZSTD
        KN_CODEC_COUNT
        KN_CODEC_LEVEL_DEFAULT
        KN_DECOMPRESSED_MAX_BYTES
    const char *kn_codec_name(int id)

cdef extern from "produce/partitioner.h" nogil:
    enum kn_partitioner:
        KN_PARTITIONER_CONSISTENT_RANDOM
        KN_PARTITIONER_CONSISTENT
        KN_PARTITIONER_RANDOM
        KN_PARTITIONER_MURMUR2
        KN_PARTITIONER_MURMUR2_RANDOM
        KN_PARTITIONER_FNV1A
        KN_PARTITIONER_FNV1A_RANDOM
        KN_PARTITIONER_ROUND_ROBIN
        KN_PARTITIONER_STICKY

cdef extern from "produce/producer.h" nogil:
    enum:
        KN_IDEMPOTENCE_OFF
        KN_IDEMPOTENCE_DEMANDED
        KN_IDEMPOTENCE_WANTED

cdef extern from "base/status.h" nogil:
    enum:
        KN_OK
        KN_ERR_NOMEM
        KN_ERR_TRUNCATED
        KN_ERR_INVALID
        KN_ERR_CRC
        KN_ERR_TOO_LARGE
        KN_ERR_CODEC
        KN_ERR_UNSUPPORTED
        KN_ERR_FULL
        KN_ERR_TIMED_OUT
        KN_ERR_TRANSPORT
        KN_ERR_CLOSED
        KN_ERR_INTERRUPTED
        KN_ERR_UNKNOWN_PARTITION
        KN_ERR_RESOLVE
        KN_ERR_PROTOCOL
        KN_ERR_STALE
        KN_ERR_PURGED
        KN_ERR_PURGED_IN_FLIGHT
        KN_ERR_FATAL
        KN_ERR_NO_TRANSACTION
        KN_ERR_TLS
        KN_ERR_UNKNOWN_TOPIC
        KN_ERR_UNKNOWN_SCHEMA

cdef extern from "produce/batch.h" nogil:
    enum:
        KN_NOT_PERSISTED
        KN_POSSIBLY_PERSISTED
        KN_PERSISTED

cdef extern from "consume/consumer.h" nogil:
    enum:
        KN_ISOLATION_READ_UNCOMMITTED
        KN_ISOLATION_READ_COMMITTED

cdef extern from "net/log.h" nogil:
    enum:
        KN_LOG_CONTEXT_COUNT
    enum kn_log_context:
        pass
    const char *kn_log_context_name(kn_log_context context)

cdef extern from "produce/accumulator.h" nogil:
    enum:
        KN_PRODUCER_WAIVED

cdef extern from "consume/cursor.h" nogil:
    enum:
        KN_OFFSET_UNKNOWN

cdef extern from "produce/produce_codec.h" nogil:
    enum:
        KN_PRODUCE_VERSION_MIN
        KN_PRODUCE_VERSION_MAX

cdef extern from "consume/fetch_codec.h" nogil:
    enum:
        KN_FETCH_VERSION_MIN
        KN_FETCH_VERSION_MAX
