cimport cython
from libc.stdint cimport int32_t, int64_t

from kafka_native._native.engine cimport Cursor, Engine, EngineHandle
from kafka_native._native.free_threading cimport kn_object_lock
from kafka_native._native.kn_engine cimport kn_queue, kn_route, kn_segment
from kafka_native._native.kn_records cimport kn_record_reader
from kafka_native._native.message cimport Batch, Message


cdef class Taker:
    # Collects the results of a call: Messages here, columns in arrow_consumer. ConsumerCore._gather() calls it repeatedly.
    cdef bint in_hand  # results were taken: they must not be lost, and must reach the caller in time
    cdef bint enough  # the call needs no more results
    cdef bint ended  # wakeup() or close() has ended the call
    cdef dict first  # (topic, partition) -> the first offset taken

    cdef int take(self, ConsumerCore core) except -1
    cdef int give_back(self, ConsumerCore core) except -1


cdef class PositionTaker(Taker):
    # Collects results other than Messages, by partition. Ends of partitions are Messages in `ends`.
    cdef dict positions  # (topic, partition) -> the next offset
    cdef list ends

    cdef int check_fatal(self, ConsumerCore core) except -1
    cdef int take_error(self, ConsumerCore core) except -1


cdef class Notice:
    cdef Cursor cursor
    cdef bint at_end
    cdef int status, error_code
    cdef int64_t offset, next_offset


cdef class ConsumerCore:
    cdef Engine engine
    cdef bint _serves  # it runs callbacks and returns notices
    cdef int64_t polls  # number of calls for messages and of returns from callbacks
    cdef int64_t _progress  # of `polls`: those that are no calls
    # Times of calls that leave the open batch. The calls since the previous one share the time.
    cdef int64_t _called_us  # the last such call; 0: none
    cdef int64_t _between_us  # sum of the times between them
    cdef int64_t _between_calls  # number of calls in these times
    cdef int64_t _between_max_us  # the longest time of a call, since `_poll_times(True)`
    cdef int polling  # number of threads in such a call, without those inside a callback
    cdef int holding  # number of these threads that hold messages and wait for more
    cdef object _error_for  # (end of partition?, status, error_code, cursor, offset, next_offset) -> KafkaError
    cdef object _exception_of  # (KafkaError) -> the exception that iteration raises, or None to continue
    cdef object _check_usable  # raises if the consumer is closed or forked
    cdef object _fatal_of  # () -> the exception that ends all iterations, or None
    cdef object _give_back  # (messages): takes back undelivered messages
    cdef object _later  # a callable for the end of the running callback, or None
    cdef Py_ssize_t _max  # max.poll.records
    cdef bint _keeps_batches  # batches stay unopened, for relay.take_batches()
    cdef bint _closed
    cdef bint _has_message  # the last call has returned one message
    cdef dict _first  # of the messages of the last call, if it returns several: see Taker
    cdef bint _woken  # wakeup() was called, and no call has returned for it yet
    cdef unsigned long _callback_thread  # the thread that runs callbacks, or NO_THREAD
    cdef int _callback_waiters  # number of threads that wait for the end of its callbacks
    cdef kn_object_lock _lock  # of the current segment and others, see consumer_core.pyx
    # The current segment, and the position in it.
    cdef kn_segment *_segment
    cdef EngineHandle _held  # the engine of `_segment`
    cdef Cursor _cursor
    cdef Batch _batch
    cdef kn_record_reader _reader
    cdef bint _reading
    cdef int64_t _segments  # number of segments that were begun

    cdef EngineHandle _handle(self)
    cdef void _drop_segment(self) noexcept
    cdef kn_segment *_borrow_segment(self, kn_record_reader *reader, bint *reading) noexcept
    cdef int _return_segment(self, EngineHandle handle, kn_segment *segment, const kn_record_reader *reader, bint reading) except -1
    cdef int _check_opens(self) except -1
    cdef kn_queue *_source(self, EngineHandle handle) noexcept
    cdef bint _next_segment(self, int64_t segments_end) except -1
    cdef Message _take_message(self)
    cdef void _hand_over(self, dict first) noexcept
    cdef Message _take_upto(self, int64_t segments_end)
    cdef object _take_next(self, int64_t segments_end)
    cdef Message _take_end(self)
    cdef int _take_rest(self, list into, Py_ssize_t count_max) except -1
    cdef int _take_messages(self, list into, Py_ssize_t count_max, dict first) except -1
    cdef bint _acquire(self, unsigned long *before) noexcept
    cdef int _release(self, unsigned long before) except -1
    cdef bint _await_callbacks(self) noexcept
    cdef void _count_waiter(self, int more) noexcept
    cdef void _begin_call(self) noexcept
    cdef void _note_progress(self) noexcept
    cdef bint _is_over(self)
    cdef int _gather(self, Taker taker, double timeout, bint return_early) except -1
    # Methods that only this module calls.
    cdef Message _error_message(self, object topic, object partition, int64_t offset, object error)
    cdef void _note_call(self) noexcept
    cdef Notice _notice(self)
    cdef Message _notice_message(self, Notice notice)
    cdef Batch _batch_at(self, int32_t number)
    cdef bint _next_batch(self) except -1
    cdef Notice _malformed(self, int status)
    cdef _check_open(self)
    cdef _serve_callbacks(self)
    cdef _call_back(self, bint closing)
    cdef bint _may_take(self) noexcept
    cdef bint _wait(self, int64_t deadline) except -1
    cdef Message _wait_for_message(self, double timeout, bint iterating)
    cdef Message _next_message(self, double timeout, bint iterating)
    cdef int _gather_into(self, Taker taker, double timeout, bint return_early) except -1
    cdef list _collect(self, Py_ssize_t count_max, double timeout, bint return_early)

    @cython.final
    cdef Message _next_in_batch(self)

    @cython.final
    cdef Message _read_in_batch(self)


cdef class PartitionCore(ConsumerCore):
    cdef ConsumerCore _main  # the consumer
    cdef kn_route *_route  # NULL once it is closed
    cdef EngineHandle _route_handle  # the engine of `_route`
    cdef char _guard  # of both
    cdef bint _lost  # the partition isn't assigned any more
    cdef object _lost_error  # () -> the exception of calls after that
    cdef int64_t _held_from  # the first offset that the last call has returned; -1: none

    cdef kn_route *_route_now(self) noexcept
    cdef void _hold(self, Message message)
    cdef void _hold_from(self, int64_t offset) noexcept
