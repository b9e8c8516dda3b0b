from libc.stdint cimport int32_t, int64_t, uint64_t

from kafka_native._native.free_threading cimport FREE_THREADED, kn_guard_lock, kn_guard_unlock, kn_object_lock, kn_object_lock_release, kn_object_lock_take
from kafka_native._native.kn_engine cimport kn_cursor, kn_engine, kn_queue, kn_segment, kn_segment_is_stale, kn_topic
from kafka_native._native.message cimport Pins


cdef inline double seconds(double timeout_s) except? -1:
    # Check a timeout of the application, for kn_deadline_us(). kafka_native/deadlines.py does it for Python code.
    if timeout_s != timeout_s:
        raise ValueError("the timeout isn't a number")
    return timeout_s


cdef class EngineHandle:
    cdef kn_engine *engine  # NULL in a forked child
    cdef bint is_shared  # it is kn_engine_closed(), which nobody frees


cdef class Engine:
    cdef EngineHandle _handle  # get it with handle_of()
    cdef char guard  # of `_handle`
    cdef readonly int number  # of the events of this engine, among engines with one control queue
    cdef unsigned fork_count
    cdef readonly object error_of  # (status, error_code, text) -> KafkaError
    cdef kn_object_lock lock  # of `topics` and `topics_by_name`
    cdef readonly list topics  # Topic by token - 1
    cdef dict topics_by_name
    cdef readonly list cursors  # Cursor by token - 1, None once dropped
    cdef list free_tokens  # of dropped cursors: (token, first epoch of the token's next cursor)
    cdef readonly object callbacks  # collections.deque of callables for the application's poll()
    cdef readonly Pins pins  # the memory that Messages of this client keep
    cdef readonly object notices  # collections.deque of (topic, partition, offset, error) for the consumer's poll()
    # flags, see free_threading.pxd
    cdef bint is_closed
    cdef bint is_stopped  # all broker threads have ended
    cdef bint is_released

    cdef bint is_forked(self) noexcept
    cpdef object closed_error(self, str text)
    cdef Topic topic_at(self, text, bint may_be_empty=*)
    cdef Topic _known_topic(self, str name)
    cdef bint wait(self, kn_queue *queue, int64_t deadline) except -1
    cdef _check(self, int status)
    cdef EngineHandle _alive(self)


cdef inline EngineHandle handle_of(Engine engine):
    # The C engine is alive while the caller has this reference: keep the reference as long as a pointer into the engine.
    cdef EngineHandle handle
    kn_guard_lock(&engine.guard)
    handle = engine._handle
    kn_guard_unlock(&engine.guard)
    return handle


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
    cdef kn_object_lock lock  # of the positions
    cdef int64_t _position
    cdef int _position_epoch
    cdef readonly int32_t broker
    cdef readonly uint64_t token

    cdef unsigned int _next_epoch(self) noexcept


cdef inline bint move_position(Cursor cursor, kn_segment *segment, int64_t position) except -1:
    # The application takes the records of `segment` before this position. Returns False if the segment is stale.
    cdef bint fits = True
    kn_object_lock_take(&cursor.lock)
    if FREE_THREADED and kn_segment_is_stale(segment):
        fits = False
    else:
        cursor._position = position
    kn_object_lock_release(&cursor.lock)
    return fits


cdef inline int pass_end(Cursor cursor, kn_segment *segment) except -1:
    # All of the segment is taken: move the position past markers and gaps at its end.
    kn_object_lock_take(&cursor.lock)
    if segment.next_offset > cursor._position and not (FREE_THREADED and kn_segment_is_stale(segment)):
        cursor._position = segment.next_offset
    kn_object_lock_release(&cursor.lock)
    return 0


cdef inline int note_epoch(Cursor cursor, kn_segment *segment, int epoch) except -1:
    # The application takes records of a batch with this leader epoch.
    kn_object_lock_take(&cursor.lock)
    if not (FREE_THREADED and kn_segment_is_stale(segment)):
        cursor._position_epoch = epoch
    kn_object_lock_release(&cursor.lock)
    return 0
