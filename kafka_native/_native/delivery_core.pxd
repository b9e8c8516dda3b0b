from libc.stdint cimport int32_t, int64_t, uint8_t

from kafka_native._native.arrow_report cimport ArrowReport
from kafka_native._native.engine cimport Engine
from kafka_native._native.kn_engine cimport kn_batch, kn_chunk, kn_runs, kn_delivery_counter
from kafka_native._native.kn_records cimport kn_record, kn_record_reader
from kafka_native._native.message cimport Batch, Message


cdef list list_of_runs(const kn_runs *runs)


cdef struct CallbackSlot:
    int64_t uses  # number of messages with this callback; 0: free
    int32_t next_free


cdef class CallbackTable:
    cdef list objects  # by slot; None: free
    cdef CallbackSlot *slots
    cdef int32_t capacity
    cdef int32_t first_free  # -1: none
    cdef int32_t last  # the slot of the last callback; -1: it is free

    cdef void *hold(self, callback) except NULL
    cdef void *_hold_new(self, callback) except NULL
    cdef int _grow(self) except -1
    cdef void hold_more(self, const void *token, int64_t count) noexcept
    cdef object take(self, const void *token)
    cdef object give_back(self, const void *token, int64_t count)
    cdef void clear(self)


cdef class Report:
    cdef kn_batch *batch  # NULL once it is freed
    cdef kn_chunk *chunk  # its records
    cdef kn_record_reader reader
    cdef int32_t index  # of the next message
    cdef int32_t token  # of the next message that may be a counter's row
    cdef bint ready  # `error` and `shared` are set
    cdef object error
    cdef Batch shared  # the Batch of its Messages

    cdef int open(self) except -1
    cdef int prepare(self, DeliveryCore core) except -1
    cdef int _prepare(self, DeliveryCore core) except -1
    cdef int take_tokens(self, DeliveryCore core, error) except -1
    cdef Message message(self, int32_t index, const uint8_t *start, kn_record *record)


cdef class DeliveryCore:
    cdef Engine engine
    cdef CallbackTable _callbacks  # callbacks of single messages, and of reports for many
    cdef object _on_delivery  # client-wide callback or None
    cdef object _exception_of  # (status, text, where) -> the exception for a refused message; for _refusal()
    cdef bint _confluent  # arguments and reports are as in confluent_kafka
    cdef bint _closed
    cdef bint _was_full  # a message found no room since the last wait in poll()
    cdef bint _last_served  # no thread runs callbacks for later entries of `deliveries`
    cdef list _reports  # Reports, the oldest first; several only if several threads poll

    cdef Report _next_report(self)
    cdef _finish(self, Report report)
    cdef int _serve(self) except -1
    cdef int _serve_first(self, int64_t deadline) except -1
    cdef int _serve_report(self, Report report) except -1
    cdef int _take_counter(self, kn_batch *completion, ArrowReport report) except -1
    cdef int _serve_counter(self, kn_batch *completion, ArrowReport report) except -1
    cdef int _end_counter(self, kn_delivery_counter *counter, ArrowReport report, int64_t rows, bint discard) except -1
    cdef object _refusal(self, int status, text=*, where=*)
    cdef _check_open(self)
