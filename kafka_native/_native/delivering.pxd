from libc.stdint cimport int32_t, int64_t, uint8_t

from kafka_native._native.engine cimport Engine
from kafka_native._native.kn_engine cimport kn_batch, kn_chunk, kn_runs, kn_tally
from kafka_native._native.kn_records cimport kn_record, kn_record_reader
from kafka_native._native.message cimport Batch, Message


cdef list list_of_runs(const kn_runs *runs)


cdef class Report:
    cdef kn_batch *batch  # NULL once it is freed
    cdef kn_chunk *chunk  # its records
    cdef kn_record_reader reader
    cdef int32_t index  # of the next message
    cdef int32_t token  # of the next message that may be a tally's row
    cdef bint ready  # error and shared are there
    cdef object error
    cdef Batch shared  # by its Messages

    cdef int open(self) except -1
    cdef int prepare(self, Engine engine) except -1
    cdef int take_tokens(self, Engine engine, error) except -1
    cdef Message message(self, int32_t index, const uint8_t *start, kn_record *record)


cdef class DeliveryCore:
    cdef readonly Engine engine
    cdef object _on_delivery  # client-wide callback or None
    cdef object _exception_of  # (status, text, where) -> the exception of what the engine refuses; _refusal() asks it
    cdef bint _closed
    cdef bint _was_full  # a message found no room since the last wait in poll()
    cdef bint _last_served  # nobody makes callbacks for what comes to `deliveries` any more
    cdef list _reports  # Report, the oldest first; more than one only when threads meet

    cdef Report _next_report(self)
    cdef _finish(self, Report report)
    cdef int _serve(self) except -1
    cdef int _serve_first(self, int64_t deadline) except -1
    cdef int _serve_report(self, Report report) except -1
    cdef int _serve_tally(self, kn_batch *ticket) except -1
    cdef int _end_tally(self, kn_tally *tally, int64_t rows, bint discard) except -1
    cdef object _refusal(self, int status, text=*, where=*)
    cdef _check_open(self)
