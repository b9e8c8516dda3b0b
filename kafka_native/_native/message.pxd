from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kafka_native._native.kn_engine cimport kn_chunk
from kafka_native._native.kn_records cimport kn_record, kn_record_reader

cdef enum:  # the public constants of kafka_native.types
    TIMESTAMP_NOT_AVAILABLE = 0
    TIMESTAMP_CREATE_TIME = 1
    TIMESTAMP_LOG_APPEND_TIME = 2


cdef class Pins:
    # The chunks that the Messages of one client keep from their pool: counted, and bounded by what copying out the few that are kept can save.
    cdef readonly int64_t size_bytes
    cdef int64_t max_bytes  # message.pinned.max.kbytes
    cdef int64_t limit_bytes  # above it there is something to do; more than max_bytes when the last look has found that Messages fill what they keep
    cdef PyObject *batches  # the youngest Batch with a chunk, which knows its neighbours; no reference


cdef class Batch:
    # What the Messages of one record batch share, so that a Message fits into a cache line.
    cdef kn_chunk *chunk  # what their bytes are borrowed from; NULL: Messages made from Python objects, or copied out
    cdef Pins pins  # that the chunk counts in
    cdef PyObject *older  # in pins.batches, while there is a chunk
    cdef PyObject *younger
    cdef object topic
    cdef object error  # of a batch that was not delivered
    cdef int64_t base_offset
    cdef int32_t partition
    cdef int32_t leader_epoch
    cdef int8_t timestamp_type
    cdef int8_t status  # a MessageStatus, NO_STATUS for consumed records
    cdef bint hides_headers  # of delivery reports that are as in confluent_kafka
    cdef int16_t delivery_count  # of records of a share group, NO_COUNT for others
    cdef float latency_s  # of the message that was produced at created_ms
    cdef int64_t created_ms  # Unix time; -1: timestamps don't say when messages were produced

    @staticmethod
    cdef Batch of(kn_chunk *chunk, object topic, int32_t partition, Pins pins)

    cdef Batch copy(self)


cdef class Own:
    # What replaces a Message's borrowed fields: its error, and what the constructor or a setter put in.
    cdef object key
    cdef object value
    cdef object headers
    cdef object error
    cdef object copy  # bytes: the record, when it isn't the chunk's any more
    cdef bint has_key
    cdef bint has_value
    cdef bint has_headers
    cdef bint has_error


cdef class Message:
    cdef Batch _batch
    cdef PyObject *_own  # an Own, a reference; NULL for most
    cdef const uint8_t *_record  # where the record starts, in the chunk or `_own.copy`, for kn_record_reread(); NULL when `_own` has everything
    cdef const uint8_t *_value_data
    cdef int64_t _timestamp_ms
    cdef int32_t _offset_delta
    cdef int32_t _value_bytes


# Functions rather than methods: a method would cost every Message a pointer to a table.
cdef bint may_make_message() noexcept
cdef Message message_of(Batch batch, const uint8_t *start, const kn_record *record)
cdef int messages_of(list into, Py_ssize_t most, Batch batch, kn_record_reader *reader, int64_t from_offset, int64_t *position) except -1
cdef Message legacy_message_of(Batch batch, const kn_record *record)
cdef Message error_message_of(object topic, object partition, int64_t offset, object error)
cdef object error_of_message(Message self)
