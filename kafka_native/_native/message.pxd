from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kafka_native._native.kn_engine cimport kn_chunk
from kafka_native._native.kn_records cimport kn_record


cdef class Chunk:
    cdef kn_chunk *chunk

    @staticmethod
    cdef Chunk of(kn_chunk *chunk)


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
    # The field has been replaced by an object of its own (set_key, the constructor).
    cdef bint _own_key
    cdef bint _own_value
    cdef bint _own_headers
    cdef object _topic
    cdef object _key
    cdef object _value
    cdef object _headers
    cdef object _error
    cdef double _latency_s

    @staticmethod
    cdef Message of(Chunk chunk, object topic, int32_t partition, const kn_record *record, int32_t leader_epoch)
    @staticmethod
    cdef Message of_error(object topic, object partition, int64_t offset, object error)
