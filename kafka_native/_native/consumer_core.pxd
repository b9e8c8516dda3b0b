cimport cython
from libc.stdint cimport int32_t, int64_t

from kafka_native._native.engine cimport Cursor, Engine
from kafka_native._native.kn_engine cimport kn_segment
from kafka_native._native.kn_records cimport kn_record_reader
from kafka_native._native.message cimport Batch, Message


cdef class Taker:
    # What a call collects: Messages here, columns in arrow_consumer. ConsumerCore._gather() asks it again and again.
    cdef bint in_hand  # something has been taken, which must neither be lost nor wait for ever
    cdef bint enough  # no more is wanted by this call
    cdef bint ended  # the call was ended by wakeup() or close()

    cdef int take(self, ConsumerCore core) except -1
    cdef int give_back(self, ConsumerCore core) except -1


cdef class PositionTaker(Taker):
    # Collects what isn't Messages, by partition; ends of partitions come as Messages beside it.
    cdef dict positions  # (topic, partition) -> the next offset
    cdef dict first  # (topic, partition) -> the first offset in hand
    cdef list ends

    cdef int check_fatal(self, ConsumerCore core) except -1
    cdef int take_error(self, ConsumerCore core) except -1


cdef class ConsumerCore:
    cdef Engine engine
    cdef int64_t polls  # how often the application has asked for messages, or come back from a callback
    cdef int polling  # how many of its threads are asking now, and not inside a callback
    cdef int holding  # how many of these wait for more with messages in hand
    cdef object _error_for  # (end of partition?, status, error_code, cursor, offset, next_offset) -> KafkaError
    cdef object _exception_of  # (KafkaError) -> the exception that iteration raises, None to go on
    cdef object _check_usable  # raises when closed or forked
    cdef object _fatal_of  # () -> the exception that iteration raises for ever, or None
    cdef object _give_back  # (messages): they were taken, but couldn't be handed out
    cdef object _later  # what to do once the callback that runs now has returned, None
    cdef Py_ssize_t _max  # max.poll.records
    cdef bint _keeps_batches  # they aren't opened: only relay.take_batches() can have them
    cdef bint _closed
    cdef bint _woken  # wakeup() has been called, and nothing has returned for it yet
    cdef unsigned long _server  # the thread that makes callbacks, NOBODY
    cdef int _patient  # how many threads wait for its callbacks to end
    # The segment being handed out, and where in it we are.
    cdef kn_segment *_segment
    cdef Cursor _cursor
    cdef Batch _batch
    cdef kn_record_reader _reader
    cdef bint _reading
    cdef int64_t _segments  # how many were begun
    cdef int64_t _segments_end  # begin no more than this many; negative: no limit

    cdef void _own(self, kn_segment *segment) noexcept
    cdef kn_segment *_disown(self) noexcept
    cdef void _drop_segment(self) noexcept
    cdef kn_segment *_borrow_segment(self, kn_record_reader *reader, bint *reading) noexcept
    cdef int _return_segment(self, kn_segment *segment, const kn_record_reader *reader, bint reading) except -1
    cdef int _check_opens(self) except -1
    cdef bint _next_segment(self) except -1
    cdef Message _one(self)
    cdef int _take(self, list into, Py_ssize_t most) except -1
    cdef unsigned long _acquire(self)
    cdef void _release(self, unsigned long before)
    cdef bint _is_over(self)
    cdef int _gather(self, Taker taker, double timeout, bint first_will_do) except -1
    # The ones that only this module calls.
    cdef Message _notice(self)
    cdef Batch _batch_at(self, int32_t number)
    cdef bint _next_batch(self) except -1
    cdef Message _malformed(self, int status)
    cdef _check_open(self)
    cdef _serve_callbacks(self)
    cdef _call_back(self, bint closing)
    cdef bint _may_take(self)
    cdef bint _wait(self, int64_t deadline) except -1
    cdef Message _await_one(self, double timeout, bint iterating)
    cdef Message _next_message(self, double timeout, bint iterating)
    cdef int _gather_into(self, Taker taker, double timeout, bint first_will_do) except -1
    cdef list _collect(self, Py_ssize_t most, double timeout, bint first_will_do)

    @cython.final
    cdef Message _quick(self)
