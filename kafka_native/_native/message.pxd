from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from kafka_native._native.kn_engine cimport kn_chunk
from kafka_native._native.kn_records cimport kn_record, kn_record_reader

cdef enum:  # the public constants of kafka_native.types, which are literals for static typing
    TIMESTAMP_NOT_AVAILABLE = 0
    TIMESTAMP_CREATE_TIME = 1
    TIMESTAMP_LOG_APPEND_TIME = 2


cdef class Pins:
    # The chunks that the Messages of one client pin: their number of bytes, and its limit. Above it Messages are copied out, where that saves memory.
    cdef readonly int64_t size_bytes
    cdef int64_t max_bytes  # message.pinned.max.kbytes
    cdef int64_t limit_bytes  # above it a search for chunks begins; more than max_bytes if the last search freed too little
    cdef PyTypeObject *kind  # of the client's Messages
    cdef PyObject *batches  # the youngest Batch with a chunk, which links to the others; no reference


cdef class Batch:
    # The data that the Messages of one record batch share, so that a Message fits into a cache line.
    cdef kn_chunk *chunk  # owns their bytes; NULL: Messages made from Python objects, or copied out
    cdef Pins pins  # counts the chunk
    cdef PyObject *older  # in pins.batches, while there is a chunk
    cdef PyObject *younger
    cdef PyTypeObject *kind  # of its Messages
    cdef object topic
    cdef object error  # of a batch that was not delivered
    cdef int64_t base_offset
    cdef int32_t partition
    cdef int32_t leader_epoch
    cdef int32_t timestamp_type
    cdef int8_t status  # a MessageStatus, NO_STATUS for consumed records
    cdef bint hides_headers  # of delivery reports that are as in confluent_kafka
    cdef int16_t delivery_count  # of records of a share group, NO_COUNT for others
    cdef double latency_s  # of a message produced at created_ms
    cdef int64_t created_ms  # Unix time; -1: the timestamps aren't the times of produce()

    @staticmethod
    cdef Batch of(kn_chunk *chunk, object topic, int32_t partition, Pins pins)

    cdef Batch copy(self)


cdef class Overrides:
    # Replaces the borrowed fields of a Message: its error, and the arguments of the constructor or a setter.
    cdef object key
    cdef object value
    cdef object headers
    cdef object error
    cdef object copy  # bytes: the record, after it was copied out of the chunk
    cdef bint has_key
    cdef bint has_value
    cdef bint has_headers
    cdef bint has_error


cdef class Message:
    cdef Batch _batch
    cdef PyObject *_overrides  # an Overrides, a reference; NULL for most Messages
    cdef const uint8_t *_record  # start of the record in the chunk or in `_overrides.copy`, for kn_record_reread(); NULL: `_overrides` has all fields
    cdef const uint8_t *_value_data
    cdef int64_t _timestamp_ms
    cdef int32_t _offset_delta
    cdef int32_t _value_bytes


cdef class ConfluentMessage(Message):
    pass


# Functions rather than methods: a method would cost every Message a pointer to a table.
cdef Message message_of(Batch batch, kn_record_reader *reader, const uint8_t *start, const kn_record *record)
cdef int messages_of(list into, Py_ssize_t count_max, Batch batch, kn_record_reader *reader, int64_t from_offset, int64_t *position) except -1
cdef Message legacy_message_of(Batch batch, kn_record_reader *reader, const uint8_t *start, const kn_record *record)
cdef Message error_message_of(Pins pins, object topic, object partition, int64_t offset, object error)
cdef object error_of_message(Message self)
