"""The control thread of one client, and the door to it for application threads.

Runs the managers: their calls go to the broker pool, the engine's events come back to them. Application threads hand
work over with `run()`
and wait for the outcome; nothing of the control plane is touched by another thread.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kafka_native._native.engine import exits_elsewhere
from kafka_native._native.enums import (
    EVENT_CONNECTED,
    EVENT_CURSOR,
    EVENT_DISCONNECTED,
    EVENT_FATAL,
    EVENT_LOG,
    EVENT_OUT_OF_SEQUENCE,
    EVENT_PARTITION,
    EVENT_REPLICA,
    EVENT_REPLY,
    EVENT_THROTTLED,
    EVENT_TOPIC_WANTED,
    EVENT_TXN_FAILED,
    EVENT_TXN_PARTITION,
    EVENT_WORKING,
)
from kafka_native.control.consumer.consumer_control import ConsumerControl
from kafka_native.control.consumer.fetches import FetchManager
from kafka_native.control.context import ManagerContext
from kafka_native.control.producer.identity import Identity
from kafka_native.control.producer.produce_router import ProduceRouter
from kafka_native.control.producer.transactions import Transactions
from kafka_native.control.requests import NEVER, Call, Manager
from kafka_native.deadlines import seconds
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import CONTEXTS, DEBUG
from kafka_native.protocol import ApiKey
from kafka_native.protocol.schema import Request
from kafka_native.threads import Thread, new_future

if TYPE_CHECKING:
    from kafka_native._native.engine import EngineHandle, Event

T = TypeVar("T")

Make: TypeAlias = Callable[[float, Callable[[T | KafkaError], None]], list[Call]]
"""Makes calls that have to be answered by a deadline, and gives their outcome to a function."""

Handler: TypeAlias = "Callable[[Event, float], None]"
"""Takes an event of the engine, and the time (monotonic seconds)."""

JOIN_TIMEOUT_S = 10.0
DEFECT_PAUSE_S = 1.0
"""After a manager has raised, until it is asked again."""
ORPHANED_S = 1.0
"""How long a thread whose client is being collected waits for its owner's destructor, before it ends by itself."""


def bound_s(timeout: float) -> float | None:
    """How long to wait for calls that have to be answered within a timeout; None: for ever."""
    timeout_s = seconds(timeout)
    return None if timeout_s < 0 else timeout_s + 1.0


def end_of(timeout_s: float) -> float:
    """When a timeout that `seconds()` has read is over; `NEVER` if it is negative."""
    return NEVER if timeout_s < 0 else time.monotonic() + timeout_s


class _Link:
    """What the thread holds while it sleeps: nothing that leads to a callback of the user's.

    So an object that owns a client and is called back by it is a cycle that the collector sees as a whole.
    """

    def __init__(self, main: MainThread) -> None:
        self.handle: EngineHandle = main.engine.handle
        self.main: Callable[[], MainThread | None] = weakref.ref(main)

    def run(self) -> None:
        """The thread: one turn after the other."""
        wait_s = 0.0
        while True:
            if wait_s and not self.handle.wait_for_events(wait_s):
                return  # a forked child
            main = self.main()
            if main is None:
                wait_s = -1.0  # it is being collected: `MainThread.__del__` hands it over to its end
                continue
            if main.engine.forked:  # by what was called in the last turn: there is no client here
                return
            if main.stopping:
                break
            wait_s = main.turn()
            main = None  # before it sleeps
        self.main = _gone
        main.end()


def _gone() -> None:
    """In place of a MainThread that has ended."""


@dataclass(frozen=True, slots=True)
class Managers:
    """The managers of one kind of client, besides metadata and the broker pool."""

    router: ProduceRouter | None = None
    identity: Identity | None = None
    transactions: Transactions | None = None
    consumer: ConsumerControl | None = None
    others: Sequence[Manager] = ()
    """Polled before those above."""
    on_close: Sequence[Callable[[KafkaError], None]] = ()
    """Called when the control thread ends, with the error for what is still waited for."""
    leave_group: Callable[[Callable[[], None]], None] | None = None
    """Control thread: has a member leave its group without its application, then calls its argument."""

    @classmethod
    def of_consumer(cls, control: ConsumerControl) -> Managers:
        """Those of a consumer."""
        return cls(consumer=control, others=control.managers, on_close=[control.on_close], leave_group=control.quit)

    @property
    def fetches(self) -> FetchManager | None:
        """A consumer's; None for other clients."""
        return None if self.consumer is None else self.consumer.fetches


class MainThread:
    """Owns the control plane of one client.

    Its thread keeps it alive only during a turn, and from `begin_stop()` to the end.
    """

    def __init__(
        self,
        context: ManagerContext,
        managers: Managers,
        common: Sequence[Manager] = (),
        *,
        on_close: Sequence[Callable[[KafkaError], None]] = (),
        on_fatal: Callable[[KafkaError], None],
        on_orphaned: Callable[[], None],
    ) -> None:
        """Not running before `start()`.

        ``common`` are the managers that every kind of client has; they are polled first. ``on_close`` is called before
        that of ``managers``. ``on_fatal`` gets the error after which a producer can't go on. ``on_orphaned`` ends a
        client that is collected without the help of its owner.
        """
        self.engine = context.engine
        self.pool = context.pool
        self.metadata = context.metadata
        self.router = managers.router
        self.identity = managers.identity
        self.transactions = managers.transactions
        self.fetches = managers.fetches
        self._managers: list[Manager] = [*common, *managers.others]  # besides those above, and polled before them
        self.on_close = [*on_close, *managers.on_close]
        """Called when the thread ends, with the error for what is still waited for."""
        self._on_fatal = on_fatal
        self._on_orphaned = on_orphaned
        self._on_end: Callable[[], None] | None = None
        self._handlers = {**self._connection_handlers(), **self._producer_handlers(), **self._consumer_handlers()}
        self._orphaned_at = NEVER
        self._logs = self.pool.logs
        self._logger = self._logs["generic"]
        self._work = context.work
        self.stopping = False
        self._link = _Link(self)
        self._thread = Thread(self._link.run, f"kafka-native {self._logs.name}")

    def start(self) -> None:
        """Starts the thread. It keeps the C engine in use, also if `stop()` has given up waiting for it."""
        self.engine.enter()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; calls that are still open end with _DESTROY. Not from the control thread itself."""
        self.begin_stop()
        if not self.started:
            return  # its client's constructor has failed
        self._thread.join(JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            self._logger.error("the control thread has not ended within %.0f s", JOIN_TIMEOUT_S)

    def begin_stop(self) -> None:
        """Has the thread end soon; `on_close` hears of it."""
        if not self.stopping:
            self.stopping = True
            self.hold()
        self.engine.kick_control()

    def hold(self, on_end: Callable[[], None] | None = None) -> None:
        """The thread keeps this alive until its end, also if nobody else does: destructors hand it over so.

        ``on_end`` is called last of all, where nobody waits for the end.
        """
        self._on_end = on_end or self._on_end
        if self.started:
            self._link.main = lambda: self

    def __del__(self) -> None:
        """The client is being collected. Whoever owned it drops it now; where that doesn't come, `on_orphaned` does."""
        if self.started and not self.stopping and not self.engine.closed:
            self._orphaned_at = time.monotonic() + ORPHANED_S
            self.hold()
            self.engine.kick_control()

    @property
    def started(self) -> bool:
        """Whether there is, or was, a thread."""
        return self._thread.started

    def is_current(self) -> bool:
        """Whether the caller is on this thread."""
        return self._thread.is_current()

    # --- for application threads ---

    def post(self, work: Callable[[], None]) -> None:
        """Runs ``work`` on the control thread, some time soon."""
        self._work.post(work)

    def run(self, work: Callable[[], T]) -> T:
        """Runs ``work`` on the control thread and returns what it returns, or raises what it raises."""
        return self.outcome(self.begin_run(work), None)

    def begin_run(self, work: Callable[[], T]) -> Future[T]:
        """Runs ``work`` on the control thread; `outcome()` waits for it."""
        future: Future[T] = new_future()

        def step() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        self.post(step)
        return future

    def call(self, message: Request, target: int | None, timeout_s: float) -> Any:
        """Sends a request and waits for its response; KafkaException when there is none."""
        return self.gather(lambda deadline, done: [Call(message, target, deadline, done)], timeout_s)

    def gather(self, make: Make[T], timeout_s: float) -> T:
        """Makes calls on the control thread; what ``done`` is given first is the outcome, a KafkaError is raised."""
        return self.outcome(self.begin_gather(make, timeout_s), bound_s(timeout_s))

    def settle(self, make: Make[T], timeout_s: float) -> T:
        """The same, where only the control thread may say that the time is over, for it knows whether it has begun."""
        return self.outcome(self.begin_gather(make, timeout_s), None)

    def begin_gather(self, make: Make[T], timeout_s: float) -> Future[T]:
        """The same; `outcome()` waits for it."""
        future: Future[T] = new_future()
        wait_s = seconds(timeout_s)

        def done(reply: T | KafkaError) -> None:
            if future.done():
                return
            if isinstance(reply, KafkaError):
                future.set_exception(KafkaException(reply))
            else:
                future.set_result(reply)

        def fail(error: BaseException) -> None:
            if not future.done():
                future.set_exception(error)

        def start() -> None:
            try:
                calls = make(end_of(wait_s), done)
            except BaseException as error:
                fail(error)
            else:
                self._send_all(calls, fail)

        self.post(start)
        return future

    def outcome(self, future: Future[T], timeout_s: float | None) -> T:
        """What came of it, waited for so long (None: until it is there)."""
        self.check_running()
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
        except KafkaException as error:
            if error.args[0].code() == KafkaError._DESTROY and exits_elsewhere():
                raise SystemExit from None
            raise

    def check_running(self) -> None:
        """RuntimeError once the thread is ending: what is posted now may never be done."""
        if self.stopping or self.engine.forked:
            raise self.engine.closed_error("the client is closed")

    # --- the thread ---

    def add(self, manager: Manager, on_close: Callable[[KafkaError], None] | None = None) -> None:
        """Control thread: polls this one, too, from now on. For managers that few clients ever need."""
        self._managers.append(manager)
        if on_close is not None:
            self.on_close.append(on_close)

    def _polled(self) -> list[Manager]:
        produces = self.router is not None and self.router.produces  # before that, nobody needs an identity
        optional: list[Manager | None] = [self.fetches, self.router, self.identity if produces else None]
        return [*self._managers, *(each for each in optional if each is not None), self.metadata, self.pool]

    def turn(self) -> float:
        """Handles events, then what is due. Returns how many seconds to sleep, negative: until there is an event."""
        self.hear()
        work = len(self._work)
        if work:  # what is done for the application knows all that the engine had told by when it was posted
            self.hear()
        self._report_dropped()
        if time.monotonic() >= self._orphaned_at:
            self._orphaned_at = NEVER
            self._on_orphaned()
        if self.stopping:
            return 0.0
        try:
            wake_up = min(self._turn(work), self._orphaned_at)
        except Exception:
            self._on_defect()
            wake_up = time.monotonic() + DEFECT_PAUSE_S
        return 0.0 if self._work else -1.0 if wake_up == NEVER else max(0.0, wake_up - time.monotonic())

    def end(self) -> None:
        """Says what is left to say, and fails what is left to do."""
        try:
            self._end()
        finally:
            self.engine.leave()
            if self._on_end is not None:
                self._on_end()

    def _end(self) -> None:
        for event in self.engine.next_events():
            if event.kind == EVENT_LOG:
                self._guarded(event)
        self._report_dropped()
        closed = KafkaError(KafkaError._DESTROY, "the client is closed")
        self._do_all()  # so that what it begins is ended with the rest
        self.pool.fail_all(closed)
        if self.router is not None:
            self.router.close(closed)
        for listener in self.on_close:
            listener(closed)
        self._do_all()

    def _do_all(self) -> None:
        while self._work:
            try:
                self._work.run_one()
            except Exception:
                self._logger.exception("the control thread has met an unexpected error and ends all the same")

    def _report_dropped(self) -> None:
        """Broker threads don't wait to say something: what found no room is counted."""
        count = self.engine.take_dropped_lines() if self._logs.contexts else 0
        if count:
            self._logs.say_dropped(count)

    def _turn(self, work: int) -> float:
        for _ in range(work):
            self._work.run_one()
        wake_up = NEVER
        for manager in self._polled():
            try:
                calls, at = manager.poll(time.monotonic())
            except Exception:
                self._on_defect()
                calls, at = [], time.monotonic() + DEFECT_PAUSE_S
            wake_up = min(wake_up, at)
            if calls:
                self._send_all(calls, self._on_defect)
                wake_up = 0.0  # a call may have failed at once: poll again
        return 0.0 if self._work else wake_up

    def _send_all(self, calls: Iterable[Call], on_error: Callable[[BaseException], None]) -> None:
        """Sends each. One that can't be sent is told to ``on_error``, and answered: the others go out all the same."""
        for call in calls:
            try:
                self.pool.send(call)
            except Exception as error:
                on_error(error)
                text = f"the request could not be sent: {type(error).__name__}"
                self._guarded_answer(call, KafkaError(KafkaError._TRANSPORT, text))

    def _guarded_answer(self, call: Call, reply: KafkaError) -> None:
        try:
            call.answer(reply)
        except Exception:
            self._on_defect()

    def _on_defect(self, _: BaseException | None = None) -> None:
        """While an exception is handled: it must not end the client in silence, which goes on with what still works."""
        self._logger.exception("the control thread has met an unexpected error and goes on")

    def hear(self) -> None:
        """Handles what the engine has told by now."""
        for event in self.engine.next_events():
            self._guarded(event)

    def _guarded(self, event: Event) -> None:
        try:
            self._on_event(event)
        except Exception:
            self._logger.exception("the control thread could not handle %r", event)

    def _on_event(self, event: Event) -> None:
        handler = self._handlers.get(event.kind)
        if handler is not None:  # otherwise nobody here has asked for it
            handler(event, time.monotonic())

    def _connection_handlers(self) -> Mapping[int, Handler]:
        pool = self.pool
        return {
            EVENT_REPLY: lambda event, now: pool.on_reply(event),
            EVENT_CONNECTED: lambda event, now: pool.on_connected(event),
            EVENT_DISCONNECTED: self._on_disconnected,
            EVENT_WORKING: lambda event, now: pool.on_working(event),
            EVENT_THROTTLED: self._on_throttled,
            EVENT_LOG: self._on_log,
        }

    def _producer_handlers(self) -> Mapping[int, Handler]:
        handlers: dict[int, Handler] = {}
        router, identity, transactions = self.router, self.identity, self.transactions
        if router is not None:
            handlers[EVENT_TOPIC_WANTED] = router.on_topic_wanted
            handlers[EVENT_PARTITION] = router.on_partition_error
            handlers[EVENT_FATAL] = lambda event, now: self._on_fatal(router.fatal_error(event))
        if identity is not None:
            handlers[EVENT_OUT_OF_SEQUENCE] = lambda event, now: identity.on_out_of_sequence(event)
        if transactions is not None:
            engine = self.engine
            handlers[EVENT_OUT_OF_SEQUENCE] = lambda event, now: transactions.on_out_of_sequence(
                engine.error_of(event.status, event.error_code, None), event.offset, event.epoch
            )
            handlers[EVENT_TXN_PARTITION] = lambda event, now: transactions.on_partition(
                engine.topics[event.token - 1].name, event.partition, event.offset
            )
            handlers[EVENT_TXN_FAILED] = lambda event, now: transactions.on_failed(
                engine.error_of(event.status, event.error_code, None), event.offset
            )
        return handlers

    def _consumer_handlers(self) -> Mapping[int, Handler]:
        if self.fetches is None:
            return {}
        return {EVENT_CURSOR: self.fetches.on_cursor_error, EVENT_REPLICA: self.fetches.on_replica}

    def _on_disconnected(self, event: Event, now: float) -> None:
        self.pool.on_disconnected(event)
        if event.attempts:
            self.metadata.on_broker_down(now)
            if self.fetches is not None:
                self.fetches.on_broker_down(event.broker)

    def _on_throttled(self, event: Event, now: float) -> None:
        broker = self.pool.by_handle(event.broker)
        if broker is not None:
            self.pool.throttled(broker, event.throttle_ms)

    def _on_log(self, event: Event, now: float) -> None:
        """A line of a broker's thread."""
        broker = self.pool.by_handle(event.broker)
        who = f"broker handle {event.broker}" if broker is None else broker.name
        what = "" if event.api_key < 0 else f"{ApiKey(event.api_key).name} "
        self._logs.say(
            DEBUG,
            CONTEXTS[event.status],
            f"{who}: {what}{event.text}",
            thread="kn-broker" if broker is None else f"kn-broker-{broker.node_id}",
            created=time.time() - (now - event.token / 1e6),
        )
