# cython: freethreading_compatible=True
"""Delivery: the awaitable report of a message. delivery_core.pyx gives it the report.

Thread: the event loop's. A Delivery is like an `asyncio.Future`: only the loop's thread may use it.
As with a Future, a call of another thread damages nothing.
"""
cimport cython
from contextvars import copy_context
from functools import partial
from types import GenericAlias

from cpython.exc cimport PyErr_SetObject
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF, PyObject

from kafka_native._native.free_threading cimport *


cdef enum:
    PENDING = 0
    DELIVERED = 1
    FAILED = 2
    CANCELLED = 3


def _wake(waiter, _):
    if not waiter.done():
        waiter.set_result(None)


@cython.final
@cython.freelist(1024)
cdef class Delivery:
    """The awaitable report of one message: the delivered Message, or KafkaException.

    The result of `AIOProducer.produce_arrow()` is the ArrowReport of its rows.
    It has all methods of an `asyncio.Future` that readers use, at a fraction of the cost.
    `asyncio.gather()`, `wait()` and similar functions accept it. Any number of tasks may await it.
    A cancelled task doesn't cancel it for the others, unlike a Future. `cancel()` does, but the
    message is sent all the same. A failure that nothing retrieves goes to the loop's exception
    handler.
    """

    def __init__(self, loop not None, exception_of not None):
        self.loop = loop
        self.exception_of = exception_of
        self._asyncio_future_blocking = False

    @classmethod
    def __class_getitem__(cls, item):
        """Return the type with the type of its result, for annotations."""
        return GenericAlias(cls, item)

    def __call__(self, error, message):
        """Take the engine's report."""
        self.settle(error, message)

    cdef int settle(self, error, message) except -1:
        if kn_flag_exchange(&self.has_ended, True):
            return 0  # cancelled
        if error is None:
            self.outcome = message
            self._end(DELIVERED)
        else:
            self.outcome = self.loop.create_future()
            self.outcome.set_exception(self.exception_of(error))
            self._end(FAILED)
        return 0

    cdef inline int state_now(self) noexcept:
        return kn_state_of(&self.state)

    cdef _end(self, int state):
        cdef list callbacks
        kn_object_lock_take(&self.lock)
        callbacks = self.callbacks
        kn_state_set(&self.state, state)
        self.callbacks = None
        kn_object_lock_release(&self.lock)
        if callbacks is not None and not self.loop.is_closed():
            for function, context in callbacks:
                self.loop.call_soon(function, self, context=context)

    def __await__(self):
        # With a report it is its own iterator, which yields nothing.
        return self._wait().__await__() if self.state_now() == PENDING else self

    __iter__ = __await__

    def __next__(self):  # kn_set_send() replaces it by _next()
        raise StopIteration(self.result())

    async def _wait(self):
        waiter = self.loop.create_future()
        # no closure: it would be in a cycle with this coroutine, and keep the message alive
        wake = partial(_wake, waiter)
        self.add_done_callback(wake)
        try:
            await waiter
        finally:
            self.remove_done_callback(wake)
        return self.result()

    def result(self):
        """Return the Message.

        Raises KafkaException, or CancelledError and InvalidStateError like a Future.
        """
        return self.outcome_now()

    cdef inline object outcome_now(self):
        if self.state_now() == DELIVERED:
            return self.outcome
        self._check_done()
        return self.outcome.result()

    def exception(self):
        """Return the KafkaException, or None if the message was delivered."""
        if self.state_now() == DELIVERED:
            return None
        self._check_done()
        return self.outcome.exception()

    cdef _check_done(self):
        cdef int state = self.state_now()
        if state == DELIVERED or state == FAILED:
            return
        import asyncio  # here, because synchronous clients don't need it

        if state == CANCELLED:
            raise asyncio.CancelledError()
        raise asyncio.InvalidStateError("the message has no report yet")

    def _make_cancelled_error(self):
        import asyncio

        return asyncio.CancelledError()

    def done(self):
        """Return whether there is a report, or it was cancelled."""
        return self.state_now() != PENDING

    def cancel(self, msg=None):
        """Cancel the report. Returns False if it exists already."""
        if kn_flag_exchange(&self.has_ended, True):
            return False
        self._end(CANCELLED)
        return True

    def cancelled(self):
        """Return whether `cancel()` was called before there was a report."""
        return self.state_now() == CANCELLED

    def add_done_callback(self, function, *, context=None):
        """Make the loop call ``function(self)`` once there is a report."""
        if context is None:
            context = copy_context()
        if not self._add(function, context):
            self.loop.call_soon(function, self, context=context)

    cdef bint _add(self, function, context) except -1:
        # Return False if there is a report.
        cdef tuple callback = (function, context)
        kn_object_lock_take(&self.lock)
        try:
            if self.state != PENDING:
                return False
            if self.callbacks is None:
                self.callbacks = [callback]
            else:
                self.callbacks.append(callback)
        finally:
            kn_object_lock_release(&self.lock)
        return True

    def remove_done_callback(self, function):
        """Remove a callback, and return how often it was there."""
        cdef list callbacks, kept
        cdef bint fits = False
        while not fits:
            kn_object_lock_take(&self.lock)
            callbacks = self.callbacks
            kn_object_lock_release(&self.lock)
            if callbacks is None:
                return 0
            found = callbacks[:]
            kept = [each for each in found if each[0] != function]  # it may run code
            kn_object_lock_take(&self.lock)
            fits = self.callbacks is callbacks and len(callbacks) == len(found)
            if fits:
                self.callbacks = kept
            kn_object_lock_release(&self.lock)
        return len(found) - len(kept)

    def get_loop(self):
        """Return the event loop in which the message was produced."""
        return self.loop

    def __repr__(self):
        return f"<Delivery {('pending', 'delivered', 'failed', 'cancelled')[self.state_now()]}>"


cdef int _send(object delivery, object value, PyObject **result) except -1:
    outcome = (<Delivery>delivery).outcome_now()
    Py_INCREF(outcome)
    result[0] = <PyObject *>outcome
    return SEND_RETURN


cdef PyObject *_next(object delivery) except? NULL:
    PyErr_SetObject(StopIteration, (<Delivery>delivery).outcome_now())
    return NULL


kn_set_send(<PyTypeObject *>Delivery, <void *>_send, <void *>_next)
