from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kafka_native._native.kn_engine cimport kn_chunk
from kafka_native._native.kn_records cimport kn_record


cdef class Chunk:
    cdef kn_chunk *chunk

    @staticmethod
    cdef Chunk of(kn_chunk *chunk)


cdef class Own:
    # What replaces a Message's borrowed fields: its error, and what the constructor or a setter put in.
    cdef object key
    cdef object value
    cdef object headers
    cdef object error
    cdef bint has_key
    cdef bint has_value
    cdef bint has_headers


cdef class Message:
    # What the record's bytes are borrowed from; None for a Message made from Python objects.
    cdef Chunk _chunk
    cdef const uint8_t *_key_data
    cdef const uint8_t *_value_data
    cdef const uint8_t *_headers_data
    cdef int32_t _key_bytes
    cdef int32_t _value_bytes
    cdef int32_t _headers_bytes
    cdef int32_t _header_count
    cdef int32_t _partition
    cdef int32_t _leader_epoch
    cdef int64_t _offset
    cdef int64_t _timestamp_ms
    cdef int8_t _timestamp_type
    cdef object _topic
    cdef Own _own  # None for most
    cdef float _latency_s

    cdef Own _owning(self)
    cdef object _error_or_none(self)
    cdef int _fail(self, object error) except -1

    @staticmethod
    cdef Message of(Chunk chunk, object topic, int32_t partition, const kn_record *record, int32_t leader_epoch)

    @staticmethod
    cdef Message of_error(object topic, object partition, int64_t offset, object error)
