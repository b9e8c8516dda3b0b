from libc.stdint cimport int32_t, int64_t, uint64_t

from kafka_native._native.kn_engine cimport kn_cursor, kn_engine, kn_queue, kn_topic
from kafka_native._native.message cimport Pins


cdef inline double seconds(double timeout_s) except? -1:
    # Check a timeout of the application, for kn_deadline_us(). kafka_native/deadlines.py does it for Python code.
    if timeout_s != timeout_s:
        raise ValueError("the timeout isn't a number")
    return timeout_s


cdef class EngineHandle:
    cdef kn_engine *engine  # NULL once it is freed, and in a forked child


cdef class Engine:
    cdef kn_engine *engine  # the handle's; kn_engine_closed() once it is freed; NULL in a forked child
    cdef readonly EngineHandle handle
    cdef readonly int number  # of the events of this engine, among engines with one control queue
    cdef unsigned fork_count
    cdef readonly bint closed
    cdef readonly object error_of  # (status, error_code, text) -> KafkaError
    cdef readonly list topics  # Topic by token - 1
    cdef dict topics_by_name
    cdef readonly list cursors  # Cursor by token - 1, None once dropped
    cdef list free_tokens  # of dropped cursors: (token, first epoch of the token's next cursor)
    cdef readonly object callbacks  # collections.deque of callables for the application's poll()
    cdef readonly Pins pins  # the memory that Messages of this client keep
    cdef readonly object notices  # collections.deque of (topic, partition, offset, error) for the consumer's poll()
    cdef int waiting
    cdef int users  # number of calls and objects that use the C engine: another thread's close() doesn't free it meanwhile
    cdef bint stopped  # all broker threads have ended
    cdef bint released  # freed once `users` is 0
    cdef bint freed  # `engine` is kn_engine_closed()

    cpdef object closed_error(self, str text)
    cdef int unuse(self) except -1
    cdef int free_if_unused(self) except -1
    cdef Topic topic_at(self, text, bint may_be_empty=*)
    cdef bint wait(self, kn_queue *queue, int64_t deadline) except -1
    cdef _check(self, int status)
    cdef kn_engine *_alive(self) except NULL


cdef class Topic:
    cdef kn_topic *topic
    cdef readonly Engine owner
    cdef readonly str name


cdef class Cursor:
    cdef kn_cursor *cursor
    cdef readonly Engine owner
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly bytes topic_id
    cdef public int64_t position
    cdef public int position_epoch  # leader epoch of the last delivered batch; -1: unknown
    cdef readonly int32_t broker
    cdef readonly uint64_t token
