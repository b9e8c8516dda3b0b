from libc.stdint cimport int32_t, uint8_t

from kafka_native._native.engine cimport Engine
from kafka_native._native.kn_engine cimport kn_batch
from kafka_native._native.kn_records cimport kn_record, kn_record_reader
from kafka_native._native.message cimport Batch, Message


cdef class DeliveryCore:
    cdef readonly Engine engine
    cdef object _on_delivery  # client-wide callback or None
    cdef bint _closed
    # The batch whose reports are being served. All of it advances before a callback runs, so that a callback may raise, or poll() itself.
    cdef kn_batch *_batch
    cdef Batch _shared  # by its Messages
    cdef kn_record_reader _reader
    cdef int32_t _index
    cdef object _batch_error
    cdef str _batch_topic

    cdef bint _next_batch(self) except -1
    cdef _finish_batch(self)
    cdef Message _message_of(self, kn_batch *batch, int32_t index, const uint8_t *start, kn_record *record)
    cdef int _serve(self) except -1
    cdef _check_open(self)
