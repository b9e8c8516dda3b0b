# cython: freethreading_compatible=True
"""The cores' interface for coroutines: calls without waiting, descriptors.

Thread: the event loop's. No function here blocks, except `MessageSource.give_back()` for one turn of
the control thread. delivery.pyx has the awaitable reports.
"""
cimport cython
import sys
from asyncio import get_running_loop

from cpython.exc cimport PyErr_SetObject, PyErr_WarnEx
from cpython.long cimport PyLong_AsUnsignedLong
from cpython.object cimport PyTypeObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject

from libc.stdint cimport int64_t

from kafka_native._native.consumer_core cimport ConsumerCore
from kafka_native._native.delivery cimport SEND_NEXT, SEND_RETURN, Delivery, PyIter_Send, kn_set_send
from kafka_native._native.delivery_core cimport DeliveryCore
from kafka_native._native.engine cimport Engine, EngineHandle, handle_of
from kafka_native._native.free_threading cimport *
from kafka_native._native.kn_engine cimport *
from kafka_native._native.kn_enums cimport *
from kafka_native._native.message cimport Message, error_of_message

cdef int64_t TURN_US = 5000  # a coroutine that never waits yields to the others after this time
cdef int CALLS_PER_CLOCK_CHECK = 16  # calls between two reads of the clock
# Each call of get_running_loop() asks the kernel for the process id, which costs more than produce().
cdef bint ASKS_KERNEL = sys.version_info < (3, 12)


cdef bint _runs_here(loop) except -1:
    # Return whether the calling thread runs this event loop.
    if ASKS_KERNEL:
        thread = getattr(loop, "_thread_id", None)  # of asyncio's own loops, while they run
        if thread is not None:
            return PyLong_AsUnsignedLong(thread) == PyThread_get_thread_ident()
    return get_running_loop() is loop


@cython.final
cdef class Turns:
    """Makes a coroutine yield to its event loop in time, even if its waits all end at once."""

    cdef int calls
    cdef int64_t since_us

    def __cinit__(self):
        self.since_us = kn_clock_us()

    cdef bint over(self) noexcept:
        self.calls += 1
        return self.calls % CALLS_PER_CLOCK_CHECK == 0 and kn_clock_us() - self.since_us > TURN_US

    def is_over(self):
        """Return whether the coroutine should yield now."""
        return kn_clock_us() - self.since_us > TURN_US

    def begin(self):
        """Start a new turn, after the coroutine has yielded."""
        self.since_us = kn_clock_us()
        self.calls = 0


@cython.final
cdef class WakeupFd:
    """A queue of the engine as an event loop watches it.

    It is readable when the engine has added something to the queue, and after a kick. Its
    descriptor stays open until `close()`, even if the client is closed earlier, because a loop may
    still watch it.
    """

    cdef Engine engine
    cdef EngineHandle handle  # None once it is closed
    cdef char guard  # of `handle`
    cdef kn_queue *queue
    cdef int fd

    def __cinit__(self, Engine engine not None, bint deliveries):
        # With `deliveries` the queue of delivery reports, else the queue of fetched segments.
        cdef EngineHandle handle = handle_of(engine)
        if handle.engine == NULL:
            raise engine.closed_error("the client is closed")
        self.engine = engine
        self.queue = &handle.engine.deliveries if deliveries else &handle.engine.fetched
        self.fd = self.queue.wake.read_fd
        self.handle = handle

    def close(self):
        """Release the descriptor, because no loop watches it any more. A second call does nothing.
        """
        cdef EngineHandle _handle  # its last reference frees the engine after the guard is unlocked
        kn_guard_lock(&self.guard)
        _handle = self.handle
        self.handle = None
        kn_guard_unlock(&self.guard)

    def fileno(self):
        """Return the descriptor to watch."""
        return self.fd

    def clear(self):
        """Make the descriptor unreadable until the next event. Call it before you check the queue.
        """
        cdef EngineHandle handle
        kn_guard_lock(&self.guard)
        handle = self.handle
        kn_guard_unlock(&self.guard)
        if handle is not None and handle.engine != NULL:
            kn_wake_clear(&self.queue.wake)

    @property
    def gone(self):
        """Whether this is a forked child.

        It shares the loop's selector with its parent, so it must not change the selector.
        """
        return self.engine.is_forked()


@cython.final
cdef class MessageSource:
    """A consumer's messages, without waiting."""

    cdef ConsumerCore core
    cdef readonly Turns turns
    cdef dict first  # (topic, partition) -> the first offset that fill() has taken
    # callbacks are running, or an exception has to be raised, so `quick()` returns None
    cdef public bint held

    def __init__(self, ConsumerCore core not None):
        self.core = core
        self.turns = Turns()
        self.first = {}

    cdef Message _one(self):
        cdef Message message = self.core._take_message()
        if message is not None:
            kn_flag_set(&self.core._has_message, error_of_message(message) is None)
        return message

    def quick(self):
        """Return the next message, or None if there is none or something else is due first."""
        if self.held or self.core._is_over() or self.core.engine.callbacks or self.turns.over():
            return None
        kn_count_add64(&self.core.polls, 1)
        return self._one()

    def one(self):
        """Return the next queued message, or None."""
        return self._one()

    def fill(self, list into not None, Py_ssize_t count_max):
        """Append queued messages until the list has ``count_max``."""
        if not into:
            self.first = {}
        self.core._take_messages(into, count_max, self.first)
        self.core._hand_over(self.first)

    def give_back(self, list messages not None):
        """Give undelivered messages back. The consumer returns them again.

        It waits for the control thread, so positions are right when it returns.
        """
        self.core._give_back(messages)

    @property
    def closed(self):
        """Whether the consumer is closed, or close() is running."""
        return self.core._is_over()

    def check(self):
        """Raise RuntimeError if the consumer is closed."""
        self.core._check_open()

    @property
    def default_max(self):
        """The value of ``max.poll.records``."""
        return self.core._max

    def fatal(self):
        """Return the exception that ends iterations for good, or None."""
        return self.core._fatal_of()

    def exception_of(self, error):
        """Return the exception that an iteration raises for the error of a Message, or None."""
        return self.core._exception_of(error)

    def begin(self):
        """Note that a coroutine waits for messages from now on (``max.poll.interval.ms``)."""
        self.core._begin_call()
        cdef EngineHandle handle = handle_of(self.core.engine)
        if handle.engine != NULL:
            kn_queue_idle_begin(&handle.engine.fetched)

    def end(self):
        """Note that the coroutine no longer waits."""
        kn_count_add(&self.core.polling, -1)
        cdef EngineHandle handle = handle_of(self.core.engine)
        if handle.engine != NULL:
            kn_queue_idle_end(&handle.engine.fetched)

    def touch(self):
        """Note that a callback has returned, so the application is alive."""
        self.core._note_progress()

    def hold(self, int more):
        """Count one more (1) or one less (-1) waiter that holds messages."""
        kn_count_add(&self.core.holding, more)


def flush_begin(DeliveryCore core not None):
    """Send batches without linger until `flush_end()`."""
    cdef EngineHandle handle
    core._check_open()
    handle = handle_of(core.engine)
    kn_engine_flush_begin(handle.engine)


def flush_end(DeliveryCore core not None):
    """End `flush_begin()`."""
    cdef EngineHandle handle = handle_of(core.engine)
    if handle.engine != NULL:
        kn_engine_flush_end(handle.engine)


cdef class AIOProducerCore:
    """The compiled half of `kafka_native.aio.AIOProducer`."""

    cdef public DeliveryCore _core
    cdef public object _loop  # the event loop of the reports, or None before the first
    cdef public object _exception_of  # (KafkaError) -> the exception of a report
    # a message must await something before it is queued, or needs more than its report
    cdef public bint _slow
    cdef readonly Turns _turns

    def __cinit__(self, *args, **kwargs):
        self._turns = Turns()

    def produce(self, topic, value=None, key=None, partition=-1, callback=None, on_delivery=None, timestamp=0, headers=None):
        cdef ProduceCall call = ProduceCall.__new__(ProduceCall)
        call.core = self
        call.topic = topic
        call.value = value
        call.key = key
        call.partition = partition
        call.callback = on_delivery if callback is None else callback
        call.timestamp = timestamp
        call.headers = headers
        return call

    @cython.final
    cdef Delivery _at_once(self, ProduceCall call):
        # Return the message's report if it can be queued without a wait, else None.
        cdef Delivery delivery
        if self._slow or call.callback is not None or self._turns.over() or not _runs_here(self._loop):
            return None
        delivery = Delivery.__new__(Delivery)
        delivery.loop = self._loop
        delivery.exception_of = self._exception_of
        delivery._asyncio_future_blocking = False
        if not self._core._queue_at_once(call.topic, call.value, call.key, call.partition, call.timestamp, call.headers, delivery):
            return None
        return delivery


@cython.final
@cython.freelist(64)
cdef class ProduceCall:
    """A call of produce() with all methods of a coroutine.

    It starts when it is awaited, and ends at once if there is room.
    """

    cdef AIOProducerCore core
    cdef object topic
    cdef object value
    cdef object key
    cdef object partition
    cdef object callback
    cdef object timestamp
    cdef object headers
    cdef object waiting  # the waiting coroutine, or None
    cdef char guard  # of `waiting`
    cdef bint begun  # a flag

    def __dealloc__(self):
        if not self.begun:
            PyErr_WarnEx(RuntimeWarning, b"coroutine 'AIOProducer.produce' was never awaited", 1)

    cdef int advance(self, object value, PyObject **result) except -1:
        cdef Delivery delivery
        cdef object waiting = self.waiting_now()
        result[0] = NULL
        if waiting is None:
            if kn_flag_exchange(&self.begun, True):
                raise RuntimeError("cannot reuse already awaited coroutine")
            delivery = self.core._at_once(self)
            if delivery is not None:
                Py_INCREF(delivery)
                result[0] = <PyObject *>delivery
                return SEND_RETURN
            waiting = self.core._produce_slowly(
                self.topic, self.value, self.key, self.partition, self.callback, self.timestamp, self.headers)
            kn_guard_lock(&self.guard)
            self.waiting = waiting
            kn_guard_unlock(&self.guard)
        return PyIter_Send(waiting, value, result)

    cdef object waiting_now(self):
        cdef object waiting
        kn_guard_lock(&self.guard)
        waiting = self.waiting
        kn_guard_unlock(&self.guard)
        return waiting

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):  # kn_set_send() replaces it by _call_next()
        return self.send(None)

    def send(self, value):
        """Like the method of a coroutine."""
        cdef PyObject *result
        cdef int status = self.advance(value, &result)
        outcome = _owned(result)
        if status == SEND_RETURN:
            raise StopIteration(outcome)
        return outcome

    def throw(self, *args):
        """Like the method of a coroutine."""
        waiting = self.waiting_now()
        kn_flag_set(&self.begun, True)
        if waiting is not None:
            return waiting.throw(*args)
        kind = args[0]
        raise kind if len(args) < 2 or args[1] is None else args[1] if isinstance(args[1], BaseException) else kind(args[1])

    def close(self):
        """Like the method of a coroutine."""
        waiting = self.waiting_now()
        kn_flag_set(&self.begun, True)
        if waiting is not None:
            waiting.close()


cdef object _owned(PyObject *reference):
    # Return the object of a reference, and release the reference.
    outcome = <object>reference
    Py_DECREF(outcome)
    return outcome


cdef int _call_send(object call, object value, PyObject **result) except -1:
    return (<ProduceCall>call).advance(value, result)


cdef PyObject *_call_next(object call) except? NULL:
    cdef PyObject *result
    if (<ProduceCall>call).advance(None, &result) == SEND_NEXT:
        return result
    PyErr_SetObject(StopIteration, _owned(result))
    return NULL


kn_set_send(<PyTypeObject *>ProduceCall, <void *>_call_send, <void *>_call_next)
