from libc.stdint cimport int32_t, int64_t, uint64_t

from kafka_native._native.kn_engine cimport kn_cursor, kn_engine, kn_queue, kn_topic
from kafka_native._native.message cimport Pins


cdef inline double seconds(double timeout_s) except? -1:
    # A timeout of the application's, for kn_deadline_us(). kafka_native/deadlines.py says the same to Python code.
    if timeout_s != timeout_s:
        raise ValueError("the timeout isn't a number")
    return timeout_s


cdef class EngineHandle:
    cdef kn_engine *engine  # NULL once it is freed, and in a forked child, from the fork on


cdef class Engine:
    cdef kn_engine *engine  # the handle's; kn_engine_closed() once that is freed; NULL in a forked child, from the fork on
    cdef readonly EngineHandle handle
    cdef unsigned fork_count
    cdef readonly bint closed
    cdef readonly object error_of  # (status, error_code, text) -> KafkaError
    cdef readonly list topics  # Topic by token - 1
    cdef dict topics_by_name
    cdef readonly list cursors  # Cursor by token - 1, None once dropped
    cdef list free_tokens  # of dropped cursors: (token, the epoch that the next one begins with)
    cdef readonly object callbacks  # collections.deque of callables for the application's poll()
    cdef readonly Pins pins  # the memory that Messages of this client keep
    cdef readonly object notices  # collections.deque of (topic, partition, offset, error) for the consumer's poll()
    cdef int waiting
    cdef int users  # of the C engine: calls and objects that would be surprised if another thread's close() freed it
    cdef bint stopped  # there is no broker thread any more
    cdef bint released  # to be freed as soon as there are no `users`
    cdef bint freed  # `engine` is the one that is closed for ever

    cpdef object closed_error(self, str text)
    cdef int unuse(self) except -1
    cdef int free_if_unused(self) except -1
    cdef Topic topic_at(self, text)
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
    cdef public int position_epoch  # leader epoch of the batch that was handed out last, -1: unknown
    cdef readonly int32_t broker
    cdef readonly uint64_t token
