"""AIOConsumer: see the package."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import operator
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from kafka_native._native.arrow_consumer import (
    ColumnBatch,
    ColumnCollector,
    ColumnPlan,
    MissingSchema,
)
from kafka_native._native.coroutines import MessageSource
from kafka_native._native.message import Message
from kafka_native.aio._loop import Waiter, end_threads, wait_for
from kafka_native.arrow import (
    ArrowBatch,
    ColumnRequest,
    Columns,
    Decode,
    OnError,
    checked_records,
)
from kafka_native.client_core import ClientCore, new_role
from kafka_native.consumer import CLOSE_S, Consumer
from kafka_native.consumer_calls import CLOSED_TEXT
from kafka_native.consumer_events import OnCommit
from kafka_native.control.group.rebalance import Kind, Listener, Step
from kafka_native.control.positions import Key
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.pending_call import PendingCall
from kafka_native.types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    AnyMessage,
    ClusterMetadata,
    ConsumerGroupMetadata,
    TopicPartition,
    Uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from kafka_native.codecs.codec import Codec
    from kafka_native.statistics import ClientMetrics

T = TypeVar("T")
OnRebalance = Callable[["AIOConsumer", list[TopicPartition]], Awaitable[object] | object]

STEP_ROWS = 8192  # rows that are taken as columns at once, between two checks of the task's turn
CHANGE_CHECK_S = 0.001  # how often a call checks whether a change of the assignment has run

serving: ContextVar[object] = ContextVar("kafka_native_aio_serving", default=None)
"""The run of callbacks that the current task belongs to.

A callback may start tasks that continue after the run.
"""


class Core(Consumer):
    """The synchronous consumer of an AIOConsumer."""

    run: object = None
    """The current run of callbacks."""

    def _in_callback(self) -> bool:
        return self.run is not None and serving.get() is self.run


class AIOConsumer:
    """Reads messages in an event loop: `kafka_native.Consumer`, whose calls are awaited.

        conf = {"bootstrap.servers": "localhost:9092", "group.id": "readers"}
        async with AIOConsumer(conf) as consumer:
            await consumer.subscribe(["greetings"])
            async for message in consumer:
                print(message.value())

    A queued message is returned at once, without a turn of the loop. To wait, the loop watches a
    descriptor. Callbacks may be functions or coroutine functions. They run in the loop, inside
    `poll()`, `consume()`, iteration, `unsubscribe()` and `close()`. Their exceptions are raised by
    the call that runs them, CancelledError as RuntimeError. They may call all methods of the
    consumer. A cancelled call loses no message: the next call returns those that it had taken.

    Several tasks of one loop may use it at the same time: each message goes to one of them. After
    ``fork()`` the child has to create its own consumer.
    """

    _core: Core
    _host: ClientCore | None = None  # the shared client of which this is a role, in the constructor

    def __init__(
        self,
        consumer_conf: Mapping[str, Any],
        max_workers: int = 100,
        executor: Executor | None = None,
    ) -> None:
        """Creates a consumer.

        KafkaException: _INVALID_ARG names an unknown property or invalid value.

        Parameters
        ----------
        consumer_conf : Mapping[str, Any]
            librdkafka's properties (docs/CONFIGURATION.md). Callbacks may be coroutine functions.
        max_workers, executor : int
            For compatibility with confluent_kafka; there are no workers here.
        """
        if executor is None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")
        core = self._make_core(consumer_conf)
        if core._rebalance_cb is not None or core._client.config["consume_cb"] is not None:
            core.close()
            text = "AIOConsumer has no rebalance_cb and consume_cb: use subscribe() and poll()"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
        self._core = core
        self._source = MessageSource(core)
        self._quick = self._source.quick
        self._engine = core._client.engine
        self._fetched = Waiter(self._engine, deliveries=False)
        self._kicks = Waiter(self._engine, deliveries=True)
        self._chain = getattr(core, "_chain", None)
        if self._chain is not None:
            self._quick = lambda: None  # only _poll() calls the interceptors
        self._busy: asyncio.Task[None] | None = None
        self._raised: deque[BaseException] = deque()
        self._deferred_callback: Callable[[], object] | None = None
        self._undelivered: dict[int, list[Message]] = {}  # by id(), see `_holding()`
        self._changes_begun = self._changes_run = 0  # see `_change_assignment()`
        # by id(): how to get the messages of a suspended call, see `_in_hand()`
        self._suspended: dict[int, Callable[[], Sequence[AnyMessage]]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._close_is_reported = False  # a caller has the outcome of `_closing`
        self._deferred_close_s: float | None = None
        self._closing_run: asyncio.Task[None] | None = None  # its callback has called close()
        core._control.rebalance.in_application = partial(_step, weakref.ref(self))

    def _make_core(self, conf: Mapping[str, Any]) -> Core:
        return new_role(Core, self._host, conf)

    # --- messages ---

    async def poll(self, timeout: float | None = -1) -> Message | None:
        """Returns the next message.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for it. None or negative waits without limit; 0 only lets other tasks
            run.

        Returns
        -------
        Message or None
            None: the time is up, or the consumer was closed during the call. Check
            `Message.error()`, as with `Consumer.poll`.

        Raises
        ------
        RuntimeError
            The consumer is closed.
        """
        message = self._quick()
        return await self._poll(timeout, iterating=False) if message is None else message

    async def _poll(self, timeout: float | None, *, iterating: bool) -> Message | None:
        """Gets a message by the slow path: runs callbacks, waits, lets other tasks run."""
        source = self._source
        deadline = deadline_of(timeout)
        source.check()
        waits = await self._begin_call(timeout)
        source.begin()
        try:
            while True:
                await self._serve_callbacks()
                if source.closed:
                    return None
                message = source.one()
                if message is not None:
                    if self._chain is not None:
                        self._chain.on_consume((message,))
                    return message
                exception = source.fatal() if iterating else None
                if exception is not None:
                    raise exception
                if not waits:
                    return None
                waits = await self._wait(self._fetched, deadline)
        finally:
            source.end()

    async def consume(
        self, num_messages: int | None = 1, timeout: float | None = -1
    ) -> list[Message]:
        """Returns several messages at once.

        Parameters
        ----------
        num_messages : int, optional
            How many at most, 0 to 1,000,000. None: up to ``max.poll.records``, and the call returns
            as soon as it has one.
        timeout : float, optional
            Seconds to wait for that many messages. None or negative waits without limit; 0 only
            lets other tasks run.

        Returns
        -------
        list of Message
            Fewer than asked for, or none, when the time is up, and when a callback is due. The next
            call makes that callback.

        Raises
        ------
        ValueError
            ``num_messages`` isn't in its range.
        RuntimeError
            The consumer is closed.
        """
        source = self._source
        messages_max = source.default_max if num_messages is None else operator.index(num_messages)
        if not 0 <= messages_max <= 1000000:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        deadline = deadline_of(timeout)
        source.check()
        waits = await self._begin_call(timeout)
        messages: list[Message] = []
        source.begin()
        try:
            while True:
                if not messages:
                    await self._serve_callbacks()
                elif self._must_serve():
                    break  # for the next call: the callback may concern the taken messages
                if source.closed:
                    break
                if self._is_changing():
                    with self._in_hand(messages.copy if messages else None):
                        if await self._wait_for_change(deadline):
                            continue
                    break
                source.fill(messages, messages_max)
                if (
                    len(messages) == messages_max
                    or not waits
                    or (messages and num_messages is None)
                ):
                    break
                with self._in_hand(messages.copy if messages else None):
                    waits = await self._wait(self._fetched, deadline)
        except BaseException:
            if messages:
                self._take_back(messages)
            raise
        finally:
            source.end()
        if self._chain is not None:
            self._chain.on_consume(messages)
        return messages

    async def consume_arrow(
        self,
        max_records: int = 1_000_000,
        timeout: float | None = -1,
        *,
        columns: Columns = None,
        value: Codec | None = None,
        key: Codec | None = None,
        on_error: OnError = "raise",
        flatten: bool = False,
    ) -> ArrowBatch:
        """Returns records as Arrow columns; see `Consumer.consume_arrow`.

        A cancelled call loses no record: the next call returns those that it had taken.

        Parameters
        ----------
        max_records : int
            How many at most, 0 to 2,147,483,647.
        timeout : float, optional
            Seconds to wait for that many records. None or negative waits without limit; 0 only lets
            other tasks run. It doesn't limit requests to the schema registry.
        columns, value, key, on_error, flatten : Any
            As of `Consumer.consume_arrow`. A thread asks the schema registry, so other tasks run
            meanwhile.

        Returns
        -------
        ArrowBatch
            Fewer records than asked for, or none, when the time is up, and when a callback is due.
            The next call makes that callback.

        Raises
        ------
        KafkaException, ValueError, MessageDecodeError, SchemaError, SchemaLookupError
            As of `Consumer.consume_arrow`.
        RuntimeError
            The consumer is closed.
        """
        self._source.check()
        request = ColumnRequest(columns, Decode(value, key, on_error, flatten))
        records_max = checked_records(max_records)
        waits_s = -1.0 if timeout is None else timeout
        deadline_of(waits_s)  # raises for NaN
        self._core._check_columns()
        plan = await self._plan(request)
        self._source.check()
        return ArrowBatch(await self._take_columns(plan, records_max, waits_s))

    def arrow_stream(
        self,
        max_records: int = 100_000,
        timeout: float | None = -1,
        *,
        columns: Columns = None,
        value: Codec | None = None,
        key: Codec | None = None,
        on_error: OnError = "raise",
        flatten: bool = False,
    ) -> AIOArrowStream:
        """Returns batches of columns, one after the other, for ``async for``.

        Parameters
        ----------
        max_records : int
            How many records a batch has at most. A batch doesn't wait until it is full.
        timeout : float, optional
            Seconds. The stream ends when no record came for that long. None or negative: it has no
            end.
        columns, value, key, on_error, flatten : Any
            As of `consume_arrow()`. The schema of the result is looked up when the stream is first
            used.

        Returns
        -------
        AIOArrowStream
            Its records and errors are those of `consume_arrow()`.

        Raises
        ------
        RuntimeError
            The consumer is closed.
        ValueError
            A name, type or number is invalid.
        """
        self._source.check()
        request = ColumnRequest(columns, Decode(value, key, on_error, flatten))
        records_max = checked_records(max_records)
        if records_max == 0:
            raise ValueError("max_records must be 1 or more in a stream")
        waits_s = -1.0 if timeout is None else timeout
        deadline_of(waits_s)  # raises for NaN
        return AIOArrowStream(self, request, records_max, waits_s)

    async def _plan(self, request: ColumnRequest) -> ColumnPlan:
        """Makes the plan of columns. A thread asks the schema registry, if that is necessary."""
        topics_read = self._core._topics_read
        if not request.is_decoded:
            return request.plan(topics_read)
        self._source.begin()
        try:
            return await asyncio.to_thread(request.plan, topics_read)
        finally:
            self._source.end()
            self._source.turns.begin()

    async def _take_columns(
        self, plan: ColumnPlan, records_max: int, timeout: float, *, return_early: bool = False
    ) -> ColumnBatch:
        """Collects records as columns. ``return_early``: as soon as it has any."""
        source = self._source
        deadline = deadline_of(timeout)
        collector = ColumnCollector(self._core, plan, self._core._column_memory, records_max)
        waits = await self._begin_call(timeout)
        source.begin()
        try:
            while True:
                if not collector.in_hand:
                    await self._serve_callbacks()
                elif self._must_serve():
                    break  # for the next call: the callback may concern the taken records
                if source.closed:
                    break
                if self._is_changing():
                    with self._in_hand(collector.taken if collector.in_hand else None):
                        if await self._wait_for_change(deadline):
                            continue
                    break
                has_more = collector.take(STEP_ROWS)
                missing = collector.missing
                if missing is not None:
                    if not await self._look_up(missing, collector):
                        break
                    collector.resume()
                elif has_more:
                    with self._in_hand(collector.taken if collector.in_hand else None):
                        await self._yield_in_turn()
                elif collector.enough or not waits or (return_early and collector.in_hand):
                    break
                else:
                    with self._in_hand(collector.taken if collector.in_hand else None):
                        waits = await self._wait(self._fetched, deadline)
        except BaseException:
            if collector.in_hand:
                self._take_back(collector.taken())
            raise
        finally:
            source.end()
        return collector.batch()

    async def _look_up(self, missing: MissingSchema, collector: ColumnCollector) -> bool:
        """Asks the schema registry in a thread.

        False: it failed, and the call has records. The next call asks again and raises the error.
        """
        in_hand = collector.in_hand
        taken = collector.taken()
        try:
            with self._in_hand(taken.copy if in_hand else None), self._holding(taken):
                await asyncio.to_thread(missing.look_up)
        except Exception:
            if in_hand:
                return False
            raise
        finally:
            self._source.turns.begin()
        return True

    async def _yield_in_turn(self) -> None:
        """Lets other tasks run if it is their turn."""
        source = self._source
        if source.turns.is_over():
            try:
                await asyncio.sleep(0)
            finally:
                source.turns.begin()

    def __aiter__(self) -> Self:
        """The consumer itself."""
        return self

    async def __anext__(self) -> Message:
        """Waits for the next message that isn't an error.

        An error is raised as KafkaException; a fatal error is raised each time. The iteration ends
        when the consumer is closed.
        """
        while True:
            message = self._quick()
            if message is None:
                if self._source.closed:
                    raise StopAsyncIteration
                message = await self._poll(-1, iterating=True)
                if message is None:
                    raise StopAsyncIteration
            error = message.error()
            if error is None:
                return message
            exception = self._source.exception_of(error)
            if exception is not None:
                raise exception

    async def _begin_call(self, timeout: float | None) -> bool:
        """Lets other tasks run if it is their turn, or if the call doesn't wait.

        Returns whether it waits.
        """
        turns = self._source.turns
        waits = timeout is None or timeout != 0
        if not waits or turns.is_over():
            await asyncio.sleep(0)
            turns.begin()
        return waits

    async def _wait(self, waiter: Waiter, deadline: float | None) -> bool:
        """Waits until the caller should check again. False: the time is up, check a last time."""
        try:
            return await waiter.wait(deadline)
        finally:
            self._source.turns.begin()

    # --- callbacks, and giving back ---

    def _must_serve(self) -> bool:
        """Whether callbacks or exceptions come before messages.

        Not for calls from inside a callback.
        """
        return (
            bool(self._engine.callbacks or self._busy or self._raised)
            and not self._core._in_callback()
        )

    async def _serve_callbacks(self) -> None:
        """Runs due callbacks and raises their exceptions.

        The callbacks run in a separate task, so that a cancelled call doesn't interrupt them.
        """
        while self._must_serve():
            if self._raised:
                error = self._raised.popleft()
                self._source.held = bool(self._busy or self._raised)
                raise error
            busy = self._busy or self._acquire()
            # for max.poll.interval.ms, as the sync consumer does while callbacks run
            self._source.end()
            try:
                await asyncio.wait([busy])
                self._release(busy)  # in case its loop ended before the done callback ran
                if busy is self._closing_run:
                    await self._end_close()
            finally:
                self._source.begin()

    def _acquire(self) -> asyncio.Task[None]:
        """Runs the due callbacks in a task. No call takes messages until it is done."""
        self._source.held = True
        self._busy = task = asyncio.get_running_loop().create_task(self._call_back())
        task.add_done_callback(self._release)
        return task

    def _release(self, task: asyncio.Task[None]) -> None:
        if self._busy is not task:
            return
        self._busy = None
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._raised.append(error)
        self._source.held = bool(self._raised)
        later, self._deferred_close_s = self._deferred_close_s, None
        if later is not None and self._closing is None:
            self._closing_run = task
            self._closing = asyncio.get_running_loop().create_task(self._close(later))

    async def _call_back(self) -> None:
        """Runs the due callbacks.

        An exception ends the run: the remaining callbacks wait for the next call.
        """
        self._core.run = object()
        serving.set(self._core.run)
        callbacks = self._engine.callbacks
        try:
            while callbacks and self._deferred_close_s is None:
                outcome = callbacks.popleft()()
                if inspect.isawaitable(outcome):
                    await outcome
                self._source.touch()
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            # In the call that gets it, a CancelledError would look as if its task were cancelled.
            raise RuntimeError("a callback raised CancelledError") from error
        finally:
            self._core.run = None

    async def _run_step(self, step: Step, listener: Listener) -> None:
        """Runs a rebalance step: the user's callback from `_deferred`, then the end of the step."""
        rebalance = self._core._control.rebalance
        core = self._core
        handled = False
        try:
            if not step.dropped:
                step.begun = True
                listener(step.kind, step.keys)
                callback, self._deferred_callback = self._deferred_callback, None
                if callback is not None:
                    handled = await self._rebalanced(step.kind, callback)
        finally:  # also after an exception in the callback: the group goes on
            work = partial(rebalance.finish, step, handled)
            if step.kind is Kind.ASSIGN:
                core._client.main.post(work)
            else:  # no message may come from revoked partitions
                await self._wake_calls()  # they return their messages, because this run is due
                await self._change_assignment(lambda: PendingCall.run(core._client.main, work))

    async def _rebalanced(self, kind: Kind, callback: Callable[[], object]) -> bool:
        """Runs the user's callback. Returns whether it has changed the assignment."""
        core = self._core
        core._rebalancing, core._handled = kind, False
        try:
            outcome = callback()
            if inspect.isawaitable(outcome):
                await outcome
        finally:
            core._rebalancing = None
        return core._handled

    def _take_back(self, messages: list[Message]) -> None:
        """Returns messages of a cancelled call to the queue. They don't count as delivered.

        It waits for the control thread, so the task's next call doesn't count them either.
        """
        # After the control thread has stopped, nothing is delivered or committed any more.
        with contextlib.suppress(RuntimeError, KafkaException):
            self._source.give_back(messages)

    @contextlib.contextmanager
    def _in_hand(self, taken: Callable[[], Sequence[AnyMessage]] | None) -> Iterator[None]:
        """Notes that a call is suspended with messages that it has taken; None: with no messages.

        The call may yet be cancelled and give them back.
        """
        if taken is None:
            yield
            return
        self._source.hold(1)
        try:
            with self._noted(taken):
                yield
        finally:
            self._source.hold(-1)

    @contextlib.contextmanager
    def _noted(self, taken: Callable[[], Sequence[AnyMessage]]) -> Iterator[None]:
        """Notes the messages of a suspended call: no other call commits them."""
        self._suspended[id(taken)] = taken
        try:
            yield
        finally:
            del self._suspended[id(taken)]

    def _suspended_from(self) -> dict[Key, int]:
        """Returns the first offset of each partition that suspended calls hold."""
        first: dict[Key, int] = {}
        for taken in self._suspended.values():
            for each in taken():
                topic, partition, offset = each.topic(), each.partition(), each.offset()
                if topic is not None and partition is not None and offset is not None:
                    first[topic, partition] = min(offset, first.get((topic, partition), offset))
        return first

    def _begin_without(
        self, first: dict[Key, int], begin: Callable[[], PendingCall[T]]
    ) -> PendingCall[T]:
        """Begins work of the control thread that commits no messages from these offsets on."""
        leave_out, post = self._core._control.commits.leave_out, self._core._client.main.post
        post(partial(leave_out, first))
        try:
            return begin()
        finally:
            post(partial(leave_out, {}))

    async def _change_assignment(self, begin: Callable[[], PendingCall[T]]) -> T:
        """Runs a change of the assignment on the control thread. Returns its result.

        It commits no messages of suspended calls: a cancelled call can give none back to a
        partition that is gone. Until it has run, calls take no more messages.
        """
        if self._core._client.closed:
            return await wait_for(begin())  # it raises the exception
        self._changes_begun += 1
        try:
            pending = self._begin_without(self._suspended_from(), begin)
        finally:
            self._core._client.main.post(self._note_change)
        return await wait_for(pending)

    def _note_change(self) -> None:
        """Notes that a change of the assignment has run. Control thread only."""
        self._changes_run += 1

    def _is_changing(self) -> bool:
        return self._changes_run != self._changes_begun

    async def _wait_for_change(self, deadline: float | None) -> bool:
        """Waits until the changes of the assignment have run. False: the time is up before."""
        while self._is_changing() and not self._source.closed:
            if deadline is not None and left_s(deadline) <= 0:
                return False
            await asyncio.sleep(CHANGE_CHECK_S)
        return True

    @contextlib.contextmanager
    def _holding(self, messages: list[Message]) -> Iterator[None]:
        """Notes the messages of a call that waits for something outside of the consumer.

        `close()` can't end such a wait, so it gives these messages back before it commits.
        """
        self._undelivered[id(messages)] = messages
        try:
            yield
        finally:
            del self._undelivered[id(messages)]

    # --- the group ---

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `Producer.set_sasl_credentials`."""
        self._core.set_sasl_credentials(username, password)

    async def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs; see `Consumer.brokers_add`."""
        return await wait_for(self._core._client.begin_brokers_add(brokers))

    async def subscribe(
        self,
        topics: list[str],
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
        *,
        initial_offsets: Iterable[TopicPartition] = (),
    ) -> None:
        """Joins the group and reads the partitions that it assigns; see `Consumer.subscribe`.

        Parameters
        ----------
        topics : list of str
            At least one.
        on_assign, on_revoke, on_lost : callable, optional
            Functions or coroutine functions, called with (this consumer, partitions).
        initial_offsets : iterable of TopicPartition
            See `Consumer.subscribe`.
        """
        assign, revoke, lose = (self._deferred(each) for each in (on_assign, on_revoke, on_lost))
        await wait_for(self._core._begin_subscribe(topics, assign, revoke, lose, initial_offsets))

    def _deferred(self, callback: OnRebalance | None) -> Callable[..., object] | None:
        """Makes a callback that only stores the user's callback; `_run_step` awaits it."""
        if callback is None or not callable(callback):
            return callback
        return partial(_defer, weakref.ref(self), callback)

    async def unsubscribe(self) -> None:
        """Leaves the group.

        It calls ``on_revoke``, commits stored offsets, and reads no partition any more. It waits
        for that, except in a callback. Without a subscription it does nothing.
        """
        core = self._core
        core._check_open()
        if core._behaviour.unsubscribe_calls_back and not core._in_callback():
            await self._finish(core._control.unsubscribe, CLOSE_S)
        else:
            await wait_for(core._begin_unsubscribe())

    async def _finish(
        self,
        begin: Callable[[Callable[[], None], float], None],
        timeout: float,
    ) -> None:
        """Ends something on the control thread.

        Runs its callbacks, then raises their first exception.
        """
        core = self._core
        over = False

        def done() -> None:  # control thread
            nonlocal over
            over = True
            core._client.engine.kick()

        core._client.main.post(lambda: begin(done, time.monotonic()))
        deadline = deadline_of(timeout)
        in_time = True
        raised: BaseException | None = None
        self._source.begin()
        try:
            while True:
                try:
                    await self._serve_callbacks()
                except Exception as error:
                    raised = raised or error
                    continue
                if over or not in_time:
                    break
                in_time = await self._wait(self._kicks, deadline)
        finally:
            self._source.end()
        if not over:
            core._client.logger.warning("leaving the group took longer than %g s", timeout)
        if raised is not None:
            raise raised

    async def subscription(self) -> list[str]:
        """Returns the topics and patterns of the subscription."""
        return await wait_for(self._core._begin_subscription())

    def memberid(self) -> str | None:
        """Returns the member id that the coordinator assigned; None while it is no member."""
        return self._core.memberid()

    async def enforce_rebalance(self, reason: str = "") -> None:
        """Joins the group again; see `Consumer.enforce_rebalance`."""
        await wait_for(self._core._begin_enforce_rebalance(reason))

    async def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Returns this member's identity; see `Consumer.consumer_group_metadata`."""
        return await wait_for(self._core._begin_group_metadata())

    async def metrics(self) -> ClientMetrics:
        """Returns this client's statistics; see `Producer.metrics`."""
        return await wait_for(self._core._client.begin_metrics(CLOSED_TEXT))

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Asks a broker for brokers, topics and partitions; see `Producer.list_topics`."""
        return await wait_for(self._core._client.begin_list_topics(topic, timeout))

    async def cluster_id(self, timeout: float = -1) -> str | None:
        """Asks a broker for the cluster's id; see `Producer.cluster_id`."""
        return await wait_for(self._core._client.begin_cluster_id(timeout))

    async def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id under which metrics are pushed; see `Producer.client_instance_id`."""
        return await wait_for(self._core._client.begin_client_instance_id(timeout))

    def fatal_error(self) -> KafkaError | None:
        """Returns the fatal error, None if there is none; see `Consumer.fatal_error`."""
        return self._core.fatal_error()

    # --- assignment ---

    async def assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others; see `Consumer.assign`."""
        await self._change_assignment(lambda: self._core._begin_assign(partitions))

    async def unassign(self) -> None:
        """Reads no partition any more; see `Consumer.unassign`."""
        await self._change_assignment(self._core._begin_unassign)

    async def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions in addition; see `Consumer.incremental_assign`."""
        await wait_for(self._core._begin_incremental_assign(partitions))

    async def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Stops reading these partitions; see `Consumer.incremental_unassign`."""
        await self._change_assignment(lambda: self._core._begin_incremental_unassign(partitions))

    async def assignment(self) -> list[TopicPartition]:
        """Returns the assigned partitions; see `Consumer.assignment`."""
        return await wait_for(self._core._begin_assignment())

    # --- positions ---

    async def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Returns the next offset of each partition; see `Consumer.position`.

        Messages that a waiting call of another task has taken don't count yet.
        """
        found, first = self._core.position(partitions), self._suspended_from()
        for number, each in enumerate(found):
            offset = first.get((each.topic, each.partition), each.offset)
            if offset < each.offset:
                found[number] = TopicPartition(each.topic, each.partition, offset, each.metadata)
        return found

    async def seek(self, partition: TopicPartition | list[TopicPartition]) -> None:
        """Continues at ``partition.offset``; see `Consumer.seek`."""
        await wait_for(self._core._begin_seek(partition))

    async def seek_to_beginning(self, partitions: list[TopicPartition] | None = None) -> None:
        """Continues at the first message of each partition; see `Consumer.seek_to_beginning`."""
        await wait_for(self._core._begin_seek_all(partitions, OFFSET_BEGINNING))

    async def seek_to_end(self, partitions: list[TopicPartition] | None = None) -> None:
        """Continues after the last message of each partition; see `Consumer.seek_to_end`."""
        await wait_for(self._core._begin_seek_all(partitions, OFFSET_END))

    async def seek_to_time(
        self, timestamp_ms: int, partitions: list[TopicPartition] | None = None, timeout: float = -1
    ) -> None:
        """Continues at the first message that isn't older; see `Consumer.seek_to_time`."""
        await wait_for(self._core._begin_seek_to_time(timestamp_ms, partitions, timeout))

    async def pause(self, partitions: list[TopicPartition]) -> None:
        """Returns no messages of these partitions until `resume()`; see `Consumer.pause`."""
        await wait_for(self._core._begin_pause(partitions))

    async def resume(self, partitions: list[TopicPartition]) -> None:
        """Ends `pause()` for these partitions; see `Consumer.resume`."""
        await wait_for(self._core._begin_resume(partitions))

    async def paused(self) -> list[TopicPartition]:
        """Returns the assigned partitions that are paused."""
        return await wait_for(self._core._begin_paused())

    # --- offsets ---

    @overload
    async def commit(
        self, message: AnyMessage | None = ..., *, asynchronous: Literal[True] = ...
    ) -> None: ...

    @overload
    async def commit(
        self, *, offsets: list[TopicPartition] | None = ..., asynchronous: Literal[True] = ...
    ) -> None: ...

    @overload
    async def commit(
        self, message: AnyMessage | None = ..., *, asynchronous: Literal[False]
    ) -> list[TopicPartition]: ...

    @overload
    async def commit(
        self, *, offsets: list[TopicPartition] | None = ..., asynchronous: Literal[False]
    ) -> list[TopicPartition]: ...

    @overload
    async def commit(
        self, message: AnyMessage | None = ..., *, asynchronous: bool
    ) -> list[TopicPartition] | None: ...

    @overload
    async def commit(
        self, *, offsets: list[TopicPartition] | None = ..., asynchronous: bool
    ) -> list[TopicPartition] | None: ...

    async def commit(
        self,
        message: AnyMessage | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commits offsets to the group; see `Consumer.commit`.

        Without arguments, it commits the messages that calls have returned by now. Messages that a
        waiting call of another task has taken aren't among them.

        Parameters
        ----------
        message : Message, optional
            See `Consumer.commit`.
        offsets : list of TopicPartition, optional
            See `Consumer.commit`.
        asynchronous : bool
            True: don't wait for the outcome, which ``on_commit`` gets. False: return the
            partitions, each with its ``error`` or None.
        """
        begin = partial(self._core._begin_commit, message, offsets, asynchronous)
        if message is not None or offsets is not None or self._core._client.closed:
            return await wait_for(begin())
        # Other tasks may take messages before the control thread runs this.
        first = self._suspended_from()
        for key, assigned in self._core._control.fetches.assigned.copy().items():
            first.setdefault(key, assigned.position)
        return await wait_for(self._begin_without(first, begin))

    async def store_offsets(
        self, message: AnyMessage | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Stores offsets for the next commit; see `Consumer.store_offsets`."""
        await wait_for(self._core._begin_store_offsets(message, offsets))

    async def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Returns the group's committed offsets; see `Consumer.committed`."""
        return await wait_for(self._core._begin_committed(partitions, timeout))

    async def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Returns offsets by time; see `Consumer.offsets_for_times`."""
        return await wait_for(self._core._begin_offsets_for_times(partitions, timeout))

    async def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """Returns a partition's first and end offset; see `Consumer.get_watermark_offsets`."""
        return await wait_for(self._core._begin_watermarks(partition, timeout, cached))

    async def lag(self) -> dict[TopicPartition, int | None]:
        """Returns how far each assigned partition is behind its end; see `Consumer.current_lag`."""
        return await wait_for(self._core._begin_lag())

    async def lag_max(self) -> int | None:
        """Returns the largest known lag of the assigned partitions; see `Consumer.lag_max`."""
        return await wait_for(self._core._begin_lag_max())

    @property
    def on_commit(self) -> OnCommit | None:
        """Called with (error, partitions) after a commit; may be a coroutine function."""
        return self._core.on_commit

    @on_commit.setter
    def on_commit(self, callback: OnCommit | None) -> None:
        self._core.on_commit = callback

    # --- the end ---

    async def close(self, timeout: float = CLOSE_S) -> None:
        """Leaves the group, commits stored offsets (``enable.auto.commit``), and ends all threads.

        It calls ``on_revoke`` and ``on_commit``, and ends `poll()` in other tasks. A second call
        does nothing. In a callback, the consumer is closed as soon as the callback has returned, by
        the call that runs it. A call that is cancelled continues in the background.

        Parameters
        ----------
        timeout : float
            Seconds. When they are over, the consumer is closed as it is; negative waits without
            limit. If a callback raises, the consumer is closed all the same. Afterwards one call
            raises the exception.
        """
        if self._core._in_callback():
            self._deferred_close_s = timeout
            return
        if self._closing is None:
            if self._core._client.closed:
                return
            self._closing = asyncio.get_running_loop().create_task(self._close(timeout))
        await self._end_close()

    async def _end_close(self) -> None:
        """Waits until the consumer is closed. The first caller raises the exception."""
        closing = self._closing
        if closing is None or self._close_is_reported:
            return
        if not closing.done():
            await asyncio.wait([closing])
        if not self._close_is_reported:
            self._close_is_reported = True
            closing.result()

    async def _close(self, timeout: float) -> None:
        core = self._core
        core._mark_closed()
        deadline: float | None = 0.0  # if it can't be computed: don't wait
        try:
            deadline = deadline_of(timeout)
            if not core._client.forked:
                await self._end_calls()
                await self._finish(core._control.close, timeout)
        finally:
            try:
                if not core._client.closed:
                    await end_threads(core._client, core._client.begin_push_last(left_s(deadline)))
            finally:
                core._shut()
                self._fetched.end()
                self._kicks.end()

    async def _end_calls(self) -> None:
        """Ends the calls that have taken messages, before `close()` commits.

        Each returns its messages, or is cancelled and gives them back.
        """
        await self._wake_calls()
        for messages in list(self._undelivered.values()):
            self._take_back(messages)

    async def _wake_calls(self) -> None:
        """Lets the calls check again that wait with messages in hand."""
        if self._suspended:
            self._fetched.attach()
            self._fetched.handle_readable()
            await asyncio.sleep(0)  # they run before this task

    async def __aenter__(self) -> Self:
        """The consumer itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the consumer. After an exception, the messages of the last call come again."""
        self._hold_back(error)
        await self.close()

    def _hold_back(self, error: BaseException | None) -> None:
        self._core._hold_back(error)

    def __repr__(self) -> str:
        """The consumer's name and state."""
        return f"<AIO{repr(self._core)[1:]}"


class AIOArrowStream:
    """The records of a consumer as batches of columns, from `AIOConsumer.arrow_stream`.

        async for batch in consumer.arrow_stream(columns=["value"]):
            table = pyarrow.table(batch)

    Each batch has the records that are queued. Other tasks run while the stream waits for them. A
    cancelled wait loses no record. The stream ends when no record came for ``timeout`` seconds, and
    when the consumer is closed. After a timeout you can iterate again. An error is raised once; the
    next batch continues after it.
    """

    def __init__(
        self, consumer: AIOConsumer, request: ColumnRequest, records_max: int, timeout: float
    ) -> None:
        """`AIOConsumer.arrow_stream` makes the stream."""
        self._consumer = consumer
        self._request = request
        self._plan: ColumnPlan | None = None
        self._records_max = records_max
        self._timeout = timeout

    def __aiter__(self) -> AIOArrowStream:
        """The stream itself."""
        return self

    async def __anext__(self) -> ArrowBatch:
        """Waits for the next batch, with at least one record or one end of a partition."""
        consumer = self._consumer
        consumer._core._check_columns()
        if self._plan is None and not consumer._source.closed:
            self._plan = await consumer._plan(self._request)
        if self._plan is None or consumer._source.closed:
            raise StopAsyncIteration
        columns = await consumer._take_columns(
            self._plan, self._records_max, self._timeout, return_early=True
        )
        if not columns.record_count and not columns.ends:
            raise StopAsyncIteration
        return ArrowBatch(columns)


def _is_cancelled() -> bool:
    """Whether the current task was cancelled. Python 3.10 can't tell: False."""
    task = asyncio.current_task()
    cancelling: Callable[[], int] = getattr(task, "cancelling", lambda: 0)
    return cancelling() > 0


async def _step(reference: weakref.ref[AIOConsumer], step: Step, listener: Listener) -> None:
    """Runs a rebalance step for the application.

    The weak reference ensures that the threads don't keep the consumer alive.
    """
    consumer = reference()
    if consumer is not None:
        await consumer._run_step(step, listener)


def _defer(
    reference: weakref.ref[AIOConsumer],
    callback: OnRebalance,
    _: Consumer,
    partitions: list[TopicPartition],
) -> None:
    consumer = reference()
    if consumer is not None:
        consumer._deferred_callback = partial(callback, consumer, partitions)
