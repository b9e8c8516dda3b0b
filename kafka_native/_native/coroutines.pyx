# cython: freethreading_compatible=False
"""What coroutines need of the cores: to take without waiting, reports to await, and a descriptor for their event loop to watch.

Thread: the event loop's, under the interpreter lock. Nothing in here blocks.
"""
cimport cython
from asyncio import CancelledError, InvalidStateError, get_running_loop
from contextvars import copy_context
from functools import partial

from cpython.exc cimport PyErr_SetObject, PyErr_WarnEx
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject

from libc.stdint cimport int64_t

from kafka_native._native.consumer_core cimport ConsumerCore
from kafka_native._native.delivery_core cimport DeliveryCore
from kafka_native._native.engine cimport Engine
from kafka_native._native.kn_engine cimport *

cdef int64_t TURN_US = 5000  # how long one coroutine may go on without a wait before it lets the others run
cdef int CALLS_PER_CLOCK_CHECK = 16  # calls between two looks at the clock


@cython.final
cdef class Turns:
    """Sees to it that a coroutine whose every wait ends at once doesn't keep its loop to itself."""

    cdef int calls
    cdef int64_t since_us

    def __cinit__(self):
        self.since_us = kn_clock_us()

    cdef bint over(self) noexcept:
        self.calls += 1
        return self.calls % CALLS_PER_CLOCK_CHECK == 0 and kn_clock_us() - self.since_us > TURN_US

    def is_over(self):
        """Whether it is time to let others run."""
        return kn_clock_us() - self.since_us > TURN_US

    def begin(self):
        """Others have run."""
        self.since_us = kn_clock_us()
        self.calls = 0


@cython.final
@cython.no_gc_clear  # the end takes the engine
cdef class WakeupFd:
    """A queue of the engine as an event loop watches it: readable when something was put into it, and after a kick.

    Its descriptor stays open until `close()`, also if the client is closed before: until then a loop may watch it.
    """

    cdef Engine engine
    cdef kn_queue *queue
    cdef bint open

    def __cinit__(self, Engine engine not None, bint deliveries):
        # `deliveries`: the queue of delivery reports, else that of what was fetched
        if engine.engine == NULL:
            raise engine.closed_error("the client is closed")
        self.engine = engine
        self.queue = &engine.engine.deliveries if deliveries else &engine.engine.fetched
        engine.users += 1
        self.open = True

    def __dealloc__(self):
        if self.open:
            self._close()

    cdef int _close(self) except -1:
        self.open = False
        return self.engine.unuse()

    def close(self):
        """No loop watches any more. Harmless when called twice."""
        if self.open:
            self._close()

    def fileno(self):
        """The descriptor to watch."""
        return self.queue.wake.read_fd

    def clear(self):
        """It isn't readable until the next time. To be called before looking at what there is."""
        if self.open and self.engine.engine != NULL:
            kn_wake_clear(&self.queue.wake)

    @property
    def gone(self):
        """Whether this is a forked child, which shares the loop's selector with its parent and must leave it alone."""
        return self.engine.engine == NULL


@cython.final
cdef class MessageSource:
    """A consumer's messages, without waiting for any."""

    cdef ConsumerCore core
    cdef readonly Turns turns
    cdef public bint held  # callbacks are being made, or messages given back: `quick()` finds nothing meanwhile

    def __init__(self, ConsumerCore core not None):
        self.core = core
        self.turns = Turns()

    def quick(self):
        """The next message, or None: also when something has to be seen to first, so that it makes sense to go the slow way."""
        if self.held or self.core._closed or self.core.engine.engine == NULL or self.core.engine.callbacks or self.turns.over():
            return None
        self.core.polls += 1
        return self.core._one()

    def one(self):
        """The next message of what is queued, or None."""
        return self.core._one()

    def fill(self, list into not None, Py_ssize_t most):
        """Appends what is queued, until there are ``most``."""
        self.core._take(into, most)

    def give_back(self, list messages not None):
        """Messages that were taken, and couldn't be handed out, come again."""
        self.core._give_back(messages)

    @property
    def closed(self):
        """Whether the consumer is closed, or being closed."""
        return self.core._is_over()

    def check(self):
        """RuntimeError when it is closed."""
        self.core._check_open()

    @property
    def default_max(self):
        """``max.poll.records``."""
        return self.core._max

    def fatal(self):
        """The exception that ends iterations for good, None."""
        return self.core._fatal_of()

    def exception_of(self, error):
        """What an iteration raises for the error of a Message, None: nothing."""
        return self.core._exception_of(error)

    def begin(self):
        """A coroutine of the application waits for messages from now on (``max.poll.interval.ms``)."""
        self.core.polls += 1
        self.core.polling += 1
        if self.core.engine.engine != NULL:
            kn_queue_idle_begin(&self.core.engine.engine.fetched)

    def end(self):
        """It doesn't any more."""
        self.core.polling -= 1
        if self.core.engine.engine != NULL:
            kn_queue_idle_end(&self.core.engine.engine.fetched)

    def touch(self):
        """A callback has returned: the application is alive."""
        self.core.polls += 1

    def hold(self, int more):
        """One more (1) or less (-1) waits with messages in hand."""
        self.core.holding += more


def flush_begin(DeliveryCore core not None):
    """Nothing lingers until `flush_end()`."""
    core._check_open()
    kn_engine_flush_begin(core.engine.engine)


def flush_end(DeliveryCore core not None):
    """See `flush_begin()`."""
    if core.engine.engine != NULL:
        kn_engine_flush_end(core.engine.engine)


cdef extern from *:
    """
    /* What awaiting calls, past the exceptions that a result would have to travel in: am_send up to Python 3.11 and in tasks, tp_iternext from 3.12 on. */
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
    """The report of one message: awaited, the Message as it was delivered, or KafkaException.

    It has everything that an `asyncio.Future` has for its readers, at a fraction of what one costs, and `asyncio.gather()`, `wait()` and their kin take it
    for one. Any number of tasks may await it. One that is cancelled meanwhile doesn't cancel it for the others, as it would with a Future; `cancel()` does,
    though the message is sent all the same. A failure that nobody asks for is told to the loop's exception handler.
    """

    cdef object loop
    cdef object exception_of  # (KafkaError) -> the exception
    cdef object outcome  # the Message; of a failure, a Future that sees to it that somebody asks
    cdef list callbacks  # (function, context), None: none
    cdef int state
    cdef readonly object _asyncio_future_blocking  # False: what asyncio knows futures by

    def __init__(self, loop not None, exception_of not None):
        self.loop = loop
        self.exception_of = exception_of
        self._asyncio_future_blocking = False

    def __call__(self, error, message):
        """The engine has the report."""
        if self.state != PENDING:
            return  # cancelled
        if error is None:
            self.outcome = message
            self._end(DELIVERED)
        else:
            self.outcome = self.loop.create_future()
            self.outcome.set_exception(self.exception_of(error))
            self._end(FAILED)

    cdef _end(self, int state):
        cdef list callbacks = self.callbacks
        self.state = state
        self.callbacks = None
        if callbacks is not None and not self.loop.is_closed():
            for function, context in callbacks:
                self.loop.call_soon(function, self, context=context)

    def __await__(self):
        cdef DeliveryOutcome told
        if self.state == PENDING:
            return self._wait().__await__()
        told = DeliveryOutcome.__new__(DeliveryOutcome)
        told.delivery = self
        return told

    __iter__ = __await__

    async def _wait(self):
        waiter = self.loop.create_future()
        wake = partial(_wake, waiter)  # no closure: it would be in a cycle with this coroutine, and keep the message
        self.add_done_callback(wake)
        try:
            await waiter
        finally:
            self.remove_done_callback(wake)
        return self.result()

    def result(self):
        """The Message. Raises KafkaException, or as a Future does CancelledError and InvalidStateError."""
        if self.state == DELIVERED:
            return self.outcome
        self._check_done()
        return self.outcome.result()

    def exception(self):
        """The KafkaException, None: it was delivered."""
        if self.state == DELIVERED:
            return None
        self._check_done()
        return self.outcome.exception()

    cdef _check_done(self):
        if self.state == PENDING:
            raise InvalidStateError("the message has no report yet")
        if self.state == CANCELLED:
            raise CancelledError()

    def _make_cancelled_error(self):
        return CancelledError()

    def done(self):
        """Whether there is a report, or it was cancelled."""
        return self.state != PENDING

    def cancel(self, msg=None):
        """Nobody wants the report any more; False: it is there already."""
        if self.state != PENDING:
            return False
        self._end(CANCELLED)
        return True

    def cancelled(self):
        """Whether `cancel()` was called before there was a report."""
        return self.state == CANCELLED

    def add_done_callback(self, function, *, context=None):
        """Has the loop call ``function(self)`` once there is a report."""
        if context is None:
            context = copy_context()
        if self.state != PENDING:
            self.loop.call_soon(function, self, context=context)
        elif self.callbacks is None:
            self.callbacks = [(function, context)]
        else:
            self.callbacks.append((function, context))

    def remove_done_callback(self, function):
        """Takes it back; how many there were."""
        cdef Py_ssize_t before = 0 if self.callbacks is None else len(self.callbacks)
        if before == 0:
            return 0
        self.callbacks = [each for each in self.callbacks if each[0] != function]
        return before - len(self.callbacks)

    def get_loop(self):
        """The event loop that the message was produced in."""
        return self.loop

    def __repr__(self):
        return f"<Delivery {('pending', 'delivered', 'failed', 'cancelled')[self.state]}>"


@cython.final
@cython.freelist(8)
cdef class DeliveryOutcome:
    """What awaiting a Delivery with an outcome iterates over: nothing."""

    cdef Delivery delivery

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):  # kn_set_send() puts _outcome_next() in its place
        raise StopIteration(self.delivery.result())


cdef int _outcome_send(object told, object value, PyObject **result) except -1:
    outcome = (<DeliveryOutcome>told).delivery.result()
    Py_INCREF(outcome)
    result[0] = <PyObject *>outcome
    return SEND_RETURN


cdef PyObject *_outcome_next(object told) except? NULL:
    PyErr_SetObject(StopIteration, (<DeliveryOutcome>told).delivery.result())
    return NULL


kn_set_send(<PyTypeObject *>DeliveryOutcome, <void *>_outcome_send, <void *>_outcome_next)


cdef class AIOProducerCore:
    """The compiled half of `kafka_native.aio.AIOProducer`."""

    cdef public object _queue  # Producer.produce
    cdef public object _loop  # the event loop that makes the reports; None: none yet
    cdef public object _exception_of  # (KafkaError) -> the exception of a report
    cdef public bint _slow  # something has to be awaited before a message is queued, or done beside its report
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
        # The message's report, if nothing has to be awaited for it to be queued; else None.
        cdef Delivery delivery
        if self._slow or call.callback is not None or self._turns.over() or get_running_loop() is not self._loop:
            return None
        delivery = Delivery.__new__(Delivery)
        delivery.loop = self._loop
        delivery.exception_of = self._exception_of
        delivery._asyncio_future_blocking = False
        try:
            self._queue(call.topic, call.value, call.key, call.partition, None, delivery, call.timestamp, call.headers)
        except BufferError:
            return None
        return delivery


@cython.final
@cython.freelist(64)
cdef class ProduceCall:
    """A call of produce(), which has all that a coroutine has: begun when it is awaited, over at once if there is room."""

    cdef AIOProducerCore core
    cdef object topic
    cdef object value
    cdef object key
    cdef object partition
    cdef object callback
    cdef object timestamp
    cdef object headers
    cdef object waiting  # the coroutine that waits, None: none does
    cdef bint begun

    def __dealloc__(self):
        if not self.begun:
            PyErr_WarnEx(RuntimeWarning, b"coroutine 'AIOProducer.produce' was never awaited", 1)

    cdef int advance(self, object value, PyObject **result) except -1:
        cdef Delivery delivery
        result[0] = NULL
        if self.waiting is None:
            if self.begun:
                raise RuntimeError("cannot reuse already awaited coroutine")
            self.begun = True
            delivery = self.core._at_once(self)
            if delivery is not None:
                Py_INCREF(delivery)
                result[0] = <PyObject *>delivery
                return SEND_RETURN
            self.waiting = self.core._produce_slowly(
                self.topic, self.value, self.key, self.partition, self.callback, self.timestamp, self.headers)
        return PyIter_Send(self.waiting, value, result)

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):  # kn_set_send() puts _call_next() in its place
        return self.send(None)

    def send(self, value):
        """As of a coroutine."""
        cdef PyObject *result
        cdef int status = self.advance(value, &result)
        outcome = _owned(result)
        if status == SEND_RETURN:
            raise StopIteration(outcome)
        return outcome

    def throw(self, *args):
        """As of a coroutine."""
        self.begun = True
        if self.waiting is not None:
            return self.waiting.throw(*args)
        kind = args[0]
        raise kind if len(args) < 2 or args[1] is None else args[1] if isinstance(args[1], BaseException) else kind(args[1])

    def close(self):
        """As of a coroutine."""
        self.begun = True
        if self.waiting is not None:
            self.waiting.close()


cdef object _owned(PyObject *reference):
    # The object of a reference that is ours to give up.
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
