"""AIOShareConsumer: see the package."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafka_native._native.arrow_consumer import MissingSchema
from kafka_native._native.message import Message
from kafka_native.aio._loop import Waiter, end_threads, wait_for
from kafka_native.arrow import Columns, Decode, OnError, ShareArrowBatch, share_request
from kafka_native.client_core import ClientCore, new_role
from kafka_native.codecs.codec import Codec
from kafka_native.config import merged_conf
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
)
from kafka_native.share_consumer import (
    CLOSE_S,
    CLOSED_TEXT,
    ShareConsumer,
    Taken,
    exception_of,
    timeout_s_of,
)
from kafka_native.types import AcknowledgeType, AnyMessage, Messages, TopicPartition, Uuid

if TYPE_CHECKING:
    from typing_extensions import Self

    from kafka_native.statistics import ClientMetrics

CommitCallback = Callable[
    [dict[TopicPartition, set[int]], KafkaException | None], Awaitable[object] | object
]

_serving: ContextVar[object] = ContextVar("kafka_native_aio_share_serving", default=None)
"""The run of callbacks that the current task belongs to."""


class AIOShareConsumer:
    """Takes records of a share group in an event loop: `ShareConsumer`, whose calls are awaited.

        conf = {"bootstrap.servers": "localhost:9092", "group.id": "workers"}
        async with AIOShareConsumer(conf) as consumer:
            await consumer.subscribe(["jobs"])
            async for message in consumer:
                await work_on(message.value())

    To wait, the loop watches a descriptor; there is no thread pool. Several tasks of one loop may
    use the consumer at the same time, but only one of them may poll. For example, other tasks
    acknowledge records while one waits for the next ones. A cancelled call loses no record.

    The acknowledgement commit callback may be a function or a coroutine function. It runs in the
    loop, inside `poll()`, `consume_arrow()`, iteration, `commit_sync()`, `commit_async()`,
    `unsubscribe()` and `close()`. The call that runs it raises its exceptions. It must not call the
    consumer.
    """

    _core: ShareConsumer
    _host: ClientCore | None = None  # the shared client of which this is a role, in the constructor

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """Creates a share consumer.

        Parameters
        ----------
        config : Mapping[str, Any]
            See `ShareConsumer`.
        **kwargs : Any
            More properties.

        Raises
        ------
        KafkaException, ValueError
            See `ShareConsumer`.
        """
        self._core = core = new_role(ShareConsumer, self._host, merged_conf(config, kwargs))
        self._engine = core._client.engine
        self._kicks = Waiter(self._engine, deliveries=True)
        self._is_polling = False
        self._runs: set[object] = set()
        self._busy: asyncio.Task[None] | None = None
        self._raised: deque[BaseException] = deque()
        self._closing: asyncio.Task[None] | None = None

    # --- the group ---

    async def subscribe(self, topics: list[str]) -> None:
        """Joins the group and takes records of these topics; see `ShareConsumer.subscribe`."""
        self._check()
        if isinstance(topics, list) and not topics:
            await self.unsubscribe()  # the core's would block the loop
        else:
            self._core.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Leaves the group; see `ShareConsumer.unsubscribe`."""
        self._check()
        core = self._core
        with core._access():
            if not core._topics:
                return
            core._topics = []
        await self._leave(core._control.unsubscribe, CLOSE_S)

    async def subscription(self) -> list[str]:
        """Returns the topics of the subscription."""
        self._check()
        return self._core.subscription()

    # --- records ---

    async def poll(self, timeout: float = -1) -> Messages:
        """Acquires records, and sends the acknowledgements of earlier ones to the brokers.

        Parameters
        ----------
        timeout : float
            Seconds to wait for the first record. Negative waits without limit; 0 only lets other
            tasks run.

        Returns
        -------
        Messages
            See `ShareConsumer.poll`. Empty also if the consumer was closed during the call.

        Raises
        ------
        ConcurrentModificationException
            Another task polls.
        IllegalStateException, KafkaException
            See `ShareConsumer.poll`.
        """
        return Messages(await self._poll(timeout, self._core._take))

    async def consume_arrow(
        self,
        timeout: float = -1,
        *,
        columns: Columns = None,
        value: Codec | None = None,
        key: Codec | None = None,
        on_error: OnError = "raise",
        flatten: bool = False,
    ) -> ShareArrowBatch:
        """Acquires records as Arrow columns; see `ShareConsumer.consume_arrow`.

        Parameters
        ----------
        timeout : float
            As of `poll()`.
        columns, value, key, on_error, flatten : Any
            As of `ShareConsumer.consume_arrow`. A thread asks the schema registry, so other tasks
            run meanwhile.
        """
        request = share_request(columns, Decode(value, key, on_error, flatten))
        deadline = deadline_of(timeout_s_of(timeout))
        if request.is_decoded:
            self._check()
            topics = self._core.subscription()
            plan = await asyncio.to_thread(request.plan, lambda: topics)
        else:
            plan = request.plan(list)
        take = partial(self._core._take_columns, plan)
        while True:
            try:
                return await self._poll(left_s(deadline), take)
            except MissingSchema as missing:
                await asyncio.to_thread(missing.look_up)

    async def _poll(self, timeout: float, take: Callable[[], Taken]) -> Taken:
        """Waits until ``take()`` has taken something, or until the time is up."""
        self._check()
        core, inbox = self._core, self._core._inbox
        deadline = deadline_of(timeout_s_of(timeout))
        if self._is_polling:
            raise ConcurrentModificationException("another task polls this share consumer")
        with core._access():
            core._check_poll()
        self._is_polling = inbox.is_polling = True
        inbox.polls += 1
        try:
            if timeout == 0:
                await asyncio.sleep(0)
            while True:
                in_time = await self._serve(inbox.ready, core._begin_fetch(), deadline)
                if self._closing is not None:
                    self._drop_arrived()
                taken = take()
                if len(taken):
                    return taken  # a wakeup() is for the next call
                if inbox.is_woken or self._closing is not None or not in_time:
                    inbox.is_woken = False
                    return taken
        finally:
            self._is_polling = inbox.is_polling = False

    async def _serve(
        self, ready: Callable[[], bool], failed: list[BaseException], deadline: float | None
    ) -> bool:
        """Runs callbacks until ``ready``, until the work has failed or the consumer is closed.

        False: not in time.
        """
        in_time = True
        while True:
            is_ready = ready() or self._closing is not None
            await self._serve_callbacks()  # also those that became due with it
            if failed:
                raise failed[0]
            if is_ready:
                return True
            if not in_time:
                return False
            in_time = await self._kicks.wait(deadline)

    def _drop_arrived(self) -> None:
        """Drops what has arrived: the consumer is being closed, so its records are released."""
        self._core._inbox.fetched.clear()
        self._engine.notices.clear()

    def __aiter__(self) -> Self:
        """The share consumer itself."""
        return self

    async def __anext__(self) -> Message:
        """Waits for the next message that isn't an error; an error is raised as KafkaException.

        After all messages of the last `poll()`, it calls `poll()` again. The iteration ends after
        `wakeup()` and when the consumer is closed.
        """
        core = self._core
        while True:
            if self._closing is not None:
                raise StopAsyncIteration  # close() releases the remaining messages
            message = next(core._batch, None)
            if message is None:
                messages = await self.poll()
                if messages.is_empty():
                    raise StopAsyncIteration
                core._batch = iter(messages)
            elif message.error() is not None:
                raise exception_of(message)
            else:
                return message

    def wakeup(self) -> None:
        """Ends the wait of `poll()` or an iteration, or else of the next call.

        Any thread may call it.
        """
        self._core.wakeup()

    # --- acknowledging ---

    def acknowledge(
        self, message: AnyMessage, ack_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Sets the outcome of a record, without waiting; see `ShareConsumer.acknowledge`."""
        self._check()
        self._core.acknowledge(message, ack_type)

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        ack_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Sets the outcome of a record; see `ShareConsumer.acknowledge_offset`."""
        self._check()
        self._core.acknowledge_offset(topic, partition, offset, ack_type)

    def acknowledge_arrow(
        self,
        batch: ShareArrowBatch,
        ack_type: AcknowledgeType | Any = AcknowledgeType.ACCEPT,
        mask: Any = None,
    ) -> None:
        """Sets the outcomes of rows; see `ShareConsumer.acknowledge_arrow`."""
        self._check()
        self._core.acknowledge_arrow(batch, ack_type, mask)

    async def commit_sync(self, timeout: float = 60) -> dict[TopicPartition, KafkaException | None]:
        """Sends the outcomes of records to the brokers, and waits for their answers.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits without limit.

        Returns
        -------
        dict
            For each partition None, or the error; see `ShareConsumer.commit_sync`.
        """
        self._check()
        deadline = deadline_of(timeout_s_of(timeout))
        with self._core._access():
            commit = self._core._begin_commit()
        await self._serve(commit.is_done, commit.failed, deadline)
        return commit.results()

    async def commit_async(self) -> None:
        """Sends the outcomes of records as `commit_sync()` does, without waiting."""
        self._check()
        with self._core._access():
            self._core._post_commit()
        await self._serve_callbacks()

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Sets ``callback(offsets, exception)`` for the brokers' answers to acknowledgements.

        Parameters
        ----------
        callback : callable, optional
            A function or a coroutine function; see
            `ShareConsumer.set_acknowledgement_commit_callback`. None removes the callback.
        """
        self._check()
        self._core.set_acknowledgement_commit_callback(callback)

    # --- callbacks ---

    def _check(self) -> None:
        """Raises if the consumer is closed, or in a callback of the consumer."""
        if self._closing is not None:
            raise IllegalStateException(CLOSED_TEXT)
        self._check_callback()

    def _check_callback(self) -> None:
        if _serving.get() in self._runs:
            raise IllegalStateException(
                "Share consumer methods are not accessible from user-defined acknowledgement "
                "commit callback"
            )

    async def _serve_callbacks(self) -> None:
        """Runs due callbacks and raises their exceptions.

        They run in a separate task, so that a cancelled call doesn't interrupt them.
        """
        while self._engine.callbacks or self._busy or self._raised:
            if self._raised:
                raise self._raised.popleft()
            if self._busy is None:
                self._busy = asyncio.get_running_loop().create_task(self._call_back())
            busy = self._busy
            await asyncio.wait([busy])
            if self._busy is busy:
                self._busy = None

    async def _call_back(self) -> None:
        """Runs the due callbacks. An exception leaves the remaining ones to the next call."""
        run = object()
        self._runs.add(run)
        _serving.set(run)
        callbacks = self._engine.callbacks
        try:
            while callbacks:
                outcome = callbacks.popleft()()
                if inspect.isawaitable(outcome):
                    await outcome
        except Exception as error:
            self._raised.append(error)
        finally:
            self._runs.discard(run)

    # --- the client ---

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `Producer.set_sasl_credentials`."""
        self._check()
        self._core.set_sasl_credentials(username, password)

    async def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs; see `Consumer.brokers_add`."""
        self._check()
        return await wait_for(self._core._client.begin_brokers_add(brokers))

    async def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id under which metrics are pushed; see `Producer.client_instance_id`."""
        self._check()
        return await wait_for(self._core._client.begin_client_instance_id(timeout_s_of(timeout)))

    async def metrics(self) -> ClientMetrics:
        """Returns this client's statistics; see `Producer.metrics`."""
        return await wait_for(self._core._client.begin_metrics(CLOSED_TEXT))

    def fatal_error(self) -> KafkaError | None:
        """Returns the fatal error of this consumer, None if it has none."""
        return self._core.fatal_error()

    # --- the end ---

    async def close(self, timeout: float = CLOSE_S) -> None:
        """Commits acknowledged records, releases the others, leaves the group and ends all threads.

        It calls the acknowledgement commit callback, and ends `poll()` in other tasks. A second
        call does nothing. A call that is cancelled continues in the background.

        Parameters
        ----------
        timeout : float
            Seconds. When they are over, the consumer is closed as it is; negative waits without
            limit.
        """
        self._check_callback()
        if self._closing is None:
            if self._core._client.closed:
                return
            self._closing = asyncio.get_running_loop().create_task(self._close(timeout))
        elif self._closing.done():
            return
        await asyncio.shield(self._closing)

    async def _close(self, timeout: float) -> None:
        core = self._core
        deadline: float | None = 0.0  # if it can't be computed: don't wait
        try:
            deadline = deadline_of(timeout)
            core._topics = []
            if not core._client.forked:
                await self._leave(core._control.close, timeout)
        finally:
            try:
                if not core._client.closed:
                    await end_threads(core._client, core._client.begin_push_last(left_s(deadline)))
            finally:
                core._shut()
                self._kicks.end()

    async def _leave(
        self, begin: Callable[[Callable[[], None], float], None], timeout: float
    ) -> None:
        """Ends sessions and membership. Runs the callbacks, then raises their first exception."""
        core = self._core
        leaving = core._begin_leave(begin)
        self._engine.kick()  # ends the wait of polls in other tasks
        deadline = deadline_of(timeout)
        raised: BaseException | None = None
        in_time = True
        while True:
            is_over = leaving.is_over()
            try:
                await self._serve_callbacks()
            except Exception as error:
                raised = raised or error
                continue
            if is_over or not in_time:
                break
            in_time = await self._kicks.wait(deadline)
        core._end_leave(leaving, raised, in_time=leaving.is_over(), timeout=timeout)

    async def __aenter__(self) -> Self:
        """The share consumer itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the share consumer."""
        await self.close()

    def __repr__(self) -> str:
        """The share consumer's name and state."""
        return f"<AIO{repr(self._core)[1:]}"
