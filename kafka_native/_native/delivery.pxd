from cpython.object cimport PyTypeObject
from cpython.ref cimport PyObject

from kafka_native._native.free_threading cimport kn_object_lock

cdef extern from *:
    """
    /* Sets the functions that `await` calls, so that a result needs no StopIteration: am_send up to
     * Python 3.11 and in tasks, tp_iternext from 3.12 on. */
    static void kn_set_send(PyTypeObject *type, void *send, void *next)
    {
        type->tp_as_async->am_send = (sendfunc)send;
        type->tp_iternext = (iternextfunc)next;
    }
    """
    void kn_set_send(PyTypeObject *type, void *send, void *next)
    int PyIter_Send(object iterator, object value, PyObject **result) except -1

cdef enum:  # PySendResult
    SEND_RETURN = 0
    SEND_NEXT = 1


cdef class Delivery:
    cdef object loop
    cdef object exception_of  # (KafkaError) -> the exception
    # the Message, or for a failure a Future, which logs an unretrieved exception; it never changes
    # after `state`
    cdef object outcome
    cdef list callbacks  # (function, context) pairs, or None
    cdef kn_object_lock lock  # of `callbacks`, and of the change of `state`
    cdef bint has_ended  # a flag: a thread is about to set `state`, or has set it
    cdef int state  # read it with state_now()
    cdef readonly object _asyncio_future_blocking  # False: asyncio recognizes futures by this field

    cdef int settle(self, error, message) except -1
    cdef int state_now(self) noexcept
    cdef object outcome_now(self)
    cdef _end(self, int state)
    cdef _check_done(self)
    cdef bint _add(self, function, context) except -1
