"""The control thread of one client, and the functions by which application threads use it.

The control thread runs the managers. It passes their calls to the broker pool, and the engine's
events to them. Application threads pass work with `run()` and wait for the result. Only the control
thread touches the managers' state.

The control thread of a shared client also runs the managers of its roles: see `role_thread`.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

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
    LOG_CONTEXTS,
)
from kafka_native.control.requests import NEVER, Call, Manager
from kafka_native.deadlines import seconds
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import DEBUG
from kafka_native.protocol import ApiKey
from kafka_native.threads import RLock, Thread, new_future

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine, EngineHandle, Event
    from kafka_native.control.consumer.consumer_control import ConsumerControl
    from kafka_native.control.consumer.fetches import FetchManager
    from kafka_native.control.context import ManagerContext
    from kafka_native.control.producer.identity import Identity
    from kafka_native.control.producer.produce_router import ProduceRouter
    from kafka_native.control.producer.transactions import Transactions

T = TypeVar("T")

Make: TypeAlias = Callable[[float, Callable[[T | KafkaError], None]], list[Call]]
"""Makes calls for a deadline, and passes their result to a function."""

Handler: TypeAlias = "Callable[[Event, float], None]"
"""Handles an engine event at a time (monotonic seconds)."""

JOIN_TIMEOUT_S = 10.0
DEFECT_PAUSE_S = 1.0
"""After an exception in a manager, the time until its next poll."""
ORPHANED_S = 1.0
"""How long the thread of an orphaned client waits for its owner before it closes the client.
"""


def bound_s(timeout: float) -> float | None:
    """How many seconds to wait for calls with this timeout; None: for ever."""
    timeout_s = seconds(timeout)
    return None if timeout_s < 0 else timeout_s + 1.0


def end_of(timeout_s: float) -> float:
    """The deadline of a timeout that `seconds()` has returned; `NEVER` if it is negative."""
    return NEVER if timeout_s < 0 else time.monotonic() + timeout_s


class _Link:
    """The thread's only reference while it sleeps. It leads to none of the user's callbacks.

    An object may own a client whose callbacks refer back to it. Because of this link, the garbage
    collector can free that cycle.
    """

    def __init__(self, main: MainThread) -> None:
        self._handle: EngineHandle | None = main.engine.handle
        self.main: Callable[[], MainThread | None] = weakref.ref(main)

    def run(self) -> None:
        """The thread's function: runs one iteration after the other."""
        wait_s = 0.0
        handle = self._handle
        assert handle is not None
        while True:
            if wait_s and not handle.wait_for_events(wait_s):
                return  # this is a forked child
            main = self.main()
            if main is None:
                # garbage collection: `MainThread.__del__` calls `hold()`, so that `end()` runs
                wait_s = -1.0
                continue
            # a callback of the last iteration has forked: this process has no client
            if main.engine.forked:
                return
            if main.stopping:
                break
            wait_s = main.turn()
            main = None  # no reference while the thread sleeps
        self.main = _gone
        del handle
        main.end()

    def drop_engine(self) -> None:
        """Ends the thread's use of the C engine, which the last user frees."""
        self._handle = None


def _gone() -> None:
    """Stands for a MainThread that has ended."""


class Managers(NamedTuple):
    """The managers that depend on the kind of client (metadata and the broker pool don't)."""

    router: ProduceRouter | None = None
    identity: Identity | None = None
    transactions: Transactions | None = None
    consumer: ConsumerControl | None = None
    others: Sequence[Manager] = ()
    """Polled before the managers above."""
    on_close: Sequence[Callable[[KafkaError], None]] = ()
    """Called when the control thread ends, with the error for unfinished calls."""
    leave_group: Callable[[Callable[[], None]], None] | None = None
    """Leaves the group without the application's help, then calls its argument.

    Control thread only.
    """

    @classmethod
    def of_consumer(cls, control: ConsumerControl) -> Managers:
        """The managers of a consumer."""
        return cls(
            consumer=control,
            others=control.managers,
            on_close=[control.on_close],
            leave_group=control.quit,
        )

    @property
    def fetches(self) -> FetchManager | None:
        """A consumer's fetch manager; None for other clients."""
        return None if self.consumer is None else self.consumer.fetches


class Role(Protocol):
    """The control plane of a role, as its host's control thread sees it: see `role_thread`."""

    engine: Engine
    touched: bool
    """Its managers are polled in the next iteration."""

    @property
    def get_if_alive(self) -> Callable[[], Role | None]:
        """A function that returns the role, or None while the garbage collector frees it."""

    def touch(self) -> None:
        """Polls the managers in the next iteration."""

    def pending_work(self) -> int:
        """The number of queued functions."""

    def step_if_due(self, work: int) -> float:
        """Runs the role if it has something to do. Returns the time of the next step."""

    def take_event(self, event: Event) -> None:
        """Handles an event of the role's engine."""

    def begin_stop(self) -> None:
        """Asks the role to end in its next step."""


class MainThread:
    """Owns the control plane of one client.

    Its thread holds a reference to it only during an iteration, and from `begin_stop()` to the end.
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
        """Creates the control plane; `start()` starts its thread.

        ``common`` are the managers of every kind of client; they are polled first. ``on_close`` is
        called before the ``on_close`` of ``managers``. ``on_fatal`` gets a producer's fatal error.
        ``on_orphaned`` closes a client whose owner was garbage collected without closing it.
        """
        self.engine = context.engine
        self.pool = context.pool
        self.metadata = context.metadata
        self.router = managers.router
        self.identity = managers.identity
        self.transactions = managers.transactions
        self.fetches = managers.fetches
        # the managers without an attribute of their own, polled first
        self._managers: list[Manager] = [*common, *managers.others]
        # called when the thread ends, with the error for unfinished calls
        self._on_close = [*on_close, *managers.on_close]
        self._on_fatal = on_fatal
        self._on_orphaned = on_orphaned
        self._on_end: Callable[[], None] | None = None
        self._handlers = {
            **self._connection_handlers(),
            **self._producer_handlers(),
            **self._consumer_handlers(),
        }
        self._orphaned_at = NEVER
        self._logs = self.pool.logs
        self._logger = self._logs["generic"]
        self._work = context.work
        self.stopping = False
        self._link = _Link(self)
        self._thread = Thread(self._link.run, f"kafka-native {self._logs.name}")
        # by the number of their engine; weak, as `Link.main`
        self._roles: dict[int, Callable[[], Role | None]] = {}
        self._starting = RLock()  # guards `stopping`: no role joins a host that ends
        self._touches_roles = False  # this iteration may have changed the state of any role

    def start(self) -> None:
        """Starts the thread. It keeps the C engine in use, even after `stop()` has timed out."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread.

        Unfinished calls fail with _DESTROY. Don't call this on the control thread.
        """
        self.begin_stop()
        if not self.started:
            return  # the client's constructor has failed
        self._thread.join(JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            self._logger.error("the control thread has not ended within %.0f s", JOIN_TIMEOUT_S)

    def begin_stop(self, at_end: Callable[[], None] | None = None) -> None:
        """Asks the thread to stop. It then fails the unfinished calls and calls ``at_end``."""
        if at_end is not None:
            self._on_close.append(lambda _: self.post(at_end))
        with self._starting:
            is_first = not self.stopping
            self.stopping = True
        if is_first:
            self.hold()
        self.engine.kick_control()

    def hold(self, on_end: Callable[[], None] | None = None) -> None:
        """Keeps this object alive until its thread ends. Destructors call this.

        The thread calls ``on_end`` last of all, because no destructor waits for the end.
        """
        self._on_end = on_end or self._on_end
        if self.started:
            self._link.main = lambda: self

    def __del__(self) -> None:
        """The garbage collector frees the client.

        Normally the owner's destructor closes it now. Without that, the thread calls `on_orphaned`
        after `ORPHANED_S`.
        """
        if self.started and not self.stopping and not self.engine.closed:
            self._orphaned_at = time.monotonic() + ORPHANED_S
            self.hold()
            self.engine.kick_control()

    @property
    def started(self) -> bool:
        """Whether the thread was ever started."""
        return self._thread.started

    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return self._thread.is_current()

    # --- for application threads ---

    def post(self, work: Callable[[], None]) -> None:
        """Queues ``work`` for the control thread."""
        self._work.post(work)

    def run(self, work: Callable[[], T]) -> T:
        """Runs ``work`` on the control thread; returns its result or raises its exception."""
        return self.outcome(self.begin_run(work), None)

    def begin_run(self, work: Callable[[], T]) -> Future[T]:
        """Starts ``work`` on the control thread; `outcome()` waits for its result."""
        future: Future[T] = new_future()

        def step() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        self.post(step)
        return future

    def begin_gather(self, make: Make[T], timeout_s: float) -> Future[T]:
        """Makes calls on the control thread.

        The first value that ``done`` gets is the outcome. The future raises a KafkaError.
        """
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
        """Waits for the result for ``timeout_s`` seconds (None: without a limit) and returns it."""
        self.check_running()
        return self.outcome_now(future, timeout_s)

    def outcome_now(self, future: Future[T], timeout_s: float | None = 0) -> T:
        """The same for a caller that has waited already; the client may be closed meanwhile."""
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
        except KafkaException as error:
            if error.args[0].code() == KafkaError._DESTROY and exits_elsewhere():
                raise SystemExit from None
            raise

    def check_running(self) -> None:
        """Raises RuntimeError once the thread is stopping: it may never run newly posted work."""
        if self.stopping or self.engine.forked:
            raise self.engine.closed_error("the client is closed")

    # --- the thread ---

    def add(self, manager: Manager, on_close: Callable[[KafkaError], None] | None = None) -> None:
        """Also polls ``manager`` from now on, for managers that few clients need.

        Control thread only.
        """
        self._managers.append(manager)
        if on_close is not None:
            self._on_close.append(on_close)

    def _polled(self) -> list[Manager]:
        # without a produced message, no identity is needed
        produces = self.router is not None and self.router.produces
        optional: list[Manager | None] = [
            self.fetches,
            self.router,
            self.identity if produces else None,
        ]
        return [
            *self._managers,
            *(each for each in optional if each is not None),
            self.metadata,
            self.pool,
        ]

    def turn(self) -> float:
        """Handles events, then runs what is due.

        Returns the seconds to sleep, negative: until an event.
        """
        self.handle_events()
        roles = [(role, role.pending_work()) for role in self._live_roles()]
        work = len(self._work)
        if work or any(count for _, count in roles):
            self.handle_events()  # all that were sent before this work was posted
        if self._touches_roles:
            self._touches_roles = False
            for role, _ in roles:
                role.touch()
        wake_up = min((role.step_if_due(count) for role, count in roles), default=NEVER)
        wake_up = min(wake_up, self.step(work))  # after the roles, which may have asked for more
        self._touches_roles |= work > 0 and bool(self._roles)
        if self._touches_roles or any(role.touched for role, _ in roles):
            return 0.0
        return -1.0 if wake_up == NEVER else max(0.0, wake_up - time.monotonic())

    def step(self, work: int) -> float:
        """Runs this number of queued functions and what is due.

        Returns the time (monotonic seconds) of the next step.
        """
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
        return 0.0 if self._work else wake_up

    def end(self) -> None:
        """Writes the remaining log lines and fails the unfinished calls."""
        try:
            self._end()
        finally:
            self._link.drop_engine()
            if self._on_end is not None:
                self._on_end()

    def _end(self) -> None:
        self._take_last_lines()
        self._report_dropped()
        closed = KafkaError(KafkaError._DESTROY, "the client is closed")
        self._do_all()  # queued work may begin calls; they fail with the others
        for role in self._live_roles():
            role.begin_stop()
            role.step_if_due(0)
        self.pool.fail_all(closed)
        if self.router is not None:
            self.router.close(closed)
        for listener in self._on_close:
            listener(closed)
        self._do_all()

    def _take_last_lines(self) -> None:
        for event in self.engine.next_events():
            if event.kind == EVENT_LOG:
                self._guarded(event)

    def _do_all(self) -> None:
        while self._work:
            try:
                self._work.run_one()
            except Exception:
                self._logger.exception(
                    "the control thread has met an unexpected error and continues to stop"
                )

    def _report_dropped(self) -> None:
        """Broker threads drop log lines when the queue is full; the log gets their number."""
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
            if calls:
                self._send_all(calls, self._on_defect)
                wake_up = 0.0  # a call may have failed at once: poll again
            elif at < wake_up:
                wake_up = at
        return 0.0 if self._work else wake_up

    def _send_all(self, calls: Iterable[Call], on_error: Callable[[BaseException], None]) -> None:
        """Sends each call.

        If one can't be sent, ``on_error`` gets the exception and the others are still sent. The
        call that can't be sent gets an error as its reply.
        """
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
        """Logs the exception that is being handled. The client goes on with its other work."""
        self._logger.exception("the control thread has met an unexpected error and goes on")

    def handle_events(self) -> None:
        """Handles all events that the engine has queued."""
        for event in self.engine.next_events():
            if event.engine != self.engine.number:  # of a role, which may have left meanwhile
                find = self._roles.get(event.engine)
                role = None if find is None else find()
                if role is not None:
                    role.take_event(event)
            else:
                self._touches_roles |= bool(self._roles) and event.kind != EVENT_LOG
                self._guarded(event)

    # --- roles: control thread only, except for the first function ---

    def adopt(self, role: Role) -> None:
        """Runs the managers of a role from now on. Any thread.

        RuntimeError: the client is closed.
        """
        with self._starting:
            self.check_running()
            self._roles[role.engine.number] = role.get_if_alive

    def release(self, role: Role) -> None:
        """Forgets a role that has ended."""
        self._roles.pop(role.engine.number, None)

    def touch_roles(self) -> None:
        """Polls all roles in the next iteration: something has changed that concerns them."""
        self._touches_roles = True

    def _live_roles(self) -> list[Role]:
        """The roles. One that the garbage collector is freeing comes back: see `hold()`."""
        if not self._roles:
            return []
        found = (role() for role in list(self._roles.values()))
        return [role for role in found if role is not None]

    def _guarded(self, event: Event) -> None:
        try:
            self._on_event(event)
        except Exception:
            self._logger.exception("the control thread could not handle %r", event)

    def _on_event(self, event: Event) -> None:
        handler = self._handlers.get(event.kind)
        if handler is not None:  # other events have no handler in this kind of client
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
                engine.error_of(event.status, event.error_code, None),
                event.offset,
                refused=event.attempts > 0,
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
        """Logs a line that a broker thread has sent."""
        broker = self.pool.by_handle(event.broker)
        who = f"broker handle {event.broker}" if broker is None else broker.name
        what = "" if event.api_key < 0 else f"{ApiKey(event.api_key).name} "
        self._logs.say(
            DEBUG,
            LOG_CONTEXTS[event.status],
            f"{who}: {what}{event.text}",
            thread="kn-broker" if broker is None else f"kn-broker-{broker.node_id}",
            created=time.time() - (now - event.token / 1e6),
        )
