from libc.stdint cimport int32_t, int64_t

from kafka_native._native.arrow_report cimport ArrowReport
from kafka_native._native.delivery cimport Delivery
from kafka_native._native.engine cimport Engine, EngineHandle
from kafka_native._native.kn_engine cimport kn_batch, kn_chunk, kn_runs, kn_delivery_counter
from kafka_native._native.kn_records cimport kn_record_reader
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

    cdef void *hold(self, callback, int64_t count) except NULL
    cdef void *_hold_locked(self, callback, int64_t count) except NULL
    cdef void *_hold(self, callback, int64_t count) except NULL
    cdef void *_hold_new(self, callback, int64_t count) except NULL
    cdef int _grow(self) except -1
    cdef object take(self, const void *token)
    cdef object _take_locked(self, const void *token)
    cdef object _take(self, const void *token)
    cdef object peek(self, const void *token)
    cdef object give_back(self, const void *token, int64_t count)
    cdef object _give_back(self, const void *token, int64_t count)
    cdef void clear(self)
    cdef list _clear(self)


cdef struct Taken:
    # The next piece of a report. NOTHING: another thread has taken the rest. AGAIN: ask once more.
    int kind
    void *token  # MESSAGE: of the callback, or of a counter's row; NULL: none
    kn_delivery_counter *counter  # COUNTER
    kn_batch *batch  # ALL: nothing is left, and the caller frees the batch


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
    cdef int prepare(self, DeliveryCore core, EngineHandle handle) except -1
    cdef int take_tokens(self, DeliveryCore core, EngineHandle handle, error) except -1
    cdef int use_partition(self, int32_t partition) except -1
    cdef Message read(self, bint wanted)


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
    cdef int _taking  # without an interpreter lock: threads that have a message, but not its callback yet

    cdef bint _queue_at_once(self, topic, value, key, partition, timestamp, headers, Delivery delivery) except -1
    cdef Report _next_report(self, EngineHandle handle)
    cdef int _serve(self) except -1
    cdef int _serve_first(self, int64_t deadline) except -1
    cdef int _serve_report(self, Report report, EngineHandle handle) except -1
    cdef Message _take_locked(self, Report report, bint by_default, bint quiet, Taken *taken)
    cdef Message _take(self, Report report, bint by_default, bint quiet, Taken *taken)
    cdef int _take_counter(self, kn_delivery_counter *counter, ArrowReport report) except -1
    cdef int _serve_counter(self, kn_delivery_counter *counter, ArrowReport report) except -1
    cdef int _end_counter(self, kn_delivery_counter *counter, ArrowReport report, int64_t rows, bint discard) except -1
    cdef bint _are_served(self, EngineHandle handle)
    cdef kn_batch *_take_unserved(self, EngineHandle handle, int32_t *served) except? NULL
    cdef object _refusal(self, int status, text=*, where=*)
    cdef _check_open(self)
