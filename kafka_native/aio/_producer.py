"""AIOProducer: see the package."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafka_native._native.arrow_report import ArrowReport
from kafka_native._native.coroutines import AIOProducerCore, flush_begin, flush_end
from kafka_native._native.delivery import Delivery
from kafka_native._native.engine import Engine
from kafka_native._native.message import Message
from kafka_native._native.methods import implemented_by
from kafka_native._native.producer_core import ProducerCore
from kafka_native.aio._callbacks import CALLBACKS, Callbacks, called, serve
from kafka_native.aio._loop import Line, Waiter, call_in_loop, end_threads, running_loop, wait_for
from kafka_native.client_core import ClientCore, new_role
from kafka_native.config import check_is_mapping
from kafka_native.control.main_thread import bound_s
from kafka_native.control.producer.transaction_calls import Kind
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.pending_call import PendingCall
from kafka_native.producer import (
    CLOSED_TEXT,
    PARTITIONS_WAIT_S,
    Producer,
    begin_partitions_of,
    checked_owner,
    wait_s,
)
from kafka_native.types import (
    ClusterMetadata,
    ConsumerGroupMetadata,
    Data,
    Headers,
    OnDelivery,
    PreparedTxnState,
    TopicPartition,
    Uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from kafka_native.aio._consumer import AIOConsumer
    from kafka_native.codecs.encoded_rows import ColumnCodec, Columns
    from kafka_native.interceptors import Chain
    from kafka_native.statistics import ClientMetrics

T = TypeVar("T")

ABORT_MAX_S: Final = 5.0
"""How long close() waits for an abort that continues in the background."""


class AIOProducer(Callbacks, AIOProducerCore):
    """Sends messages in an event loop: `kafka_native.Producer`, whose calls are awaited.

        async with AIOProducer({"bootstrap.servers": "localhost:9092"}) as producer:
            delivery = await producer.produce("greetings", "hello", headers=[("kind", b"first")])
            message = await delivery
            print(message.offset())

    `produce()` queues a message and returns its delivery report as a future. You may await it now,
    later, several times, or not at all. Reports that arrive together are served together. Callbacks
    may be functions or coroutine functions. The loop runs them as soon as they are due, without
    `poll()`. The loop's exception handler gets their exceptions. Leaving the ``async with`` block
    flushes.

    Several tasks of one loop may use it at the same time. After ``fork()`` the child has to create
    its own producer.
    """

    _core: Core
    _host: ClientCore | None = None  # the shared client of which this is a role, in the constructor

    def __init__(
        self,
        producer_conf: Mapping[str, Any],
        max_workers: int = 4,
        executor: Executor | None = None,
        batch_size: int = 1000,
        buffer_timeout: float = 1.0,
    ) -> None:
        """Creates a producer.

        KafkaException: _INVALID_ARG names an unknown property or invalid value.

        Parameters
        ----------
        producer_conf : Mapping[str, Any]
            librdkafka's properties (docs/CONFIGURATION.md). ``delivery.report.only.error`` is
            ignored: every message has its report. If the queue is full, calls wait for up to
            ``max.block.ms``; without it, until there is room.
        max_workers, executor, batch_size, buffer_timeout : int
            For compatibility with confluent_kafka. There are no workers here, and the engine makes
            the batches (``batch.size``, ``linger.ms``).
        """
        check_is_mapping(producer_conf)
        conf = dict(producer_conf)
        conf["delivery.report.only.error"] = False
        self._tasks = {}
        for name in CALLBACKS:
            if callable(conf.get(name)):
                conf[name] = partial(called, weakref.ref(self), conf[name])
        given = (conf.get(name) for name in ("on_delivery", "dr_msg_cb", "dr_cb"))
        self._on_delivery: OnDelivery | None = next(
            (each for each in given if each is not None), None
        )
        core = self._make_core(conf)
        self._core = core
        self._exception_of = KafkaException
        self._chain: Chain | None = getattr(core, "_chain", None)  # with interceptors
        self._slow = (
            core.has_partitioner or self._on_delivery is not None or self._chain is not None
        )
        self._served = 0
        self._waiter = Waiter(
            core._client.engine, deliveries=True, on_readable=partial(serve, weakref.ref(self))
        )
        self._line = Line()  # calls that wait for room in the queue
        self._closing = None
        # continues an abort after its block was cancelled again
        self._abort: asyncio.Task[None] | None = None

    def _make_core(self, conf: Mapping[str, Any]) -> Core:
        return new_role(Core, self._host, conf)

    # --- producing ---

    @implemented_by(AIOProducerCore.produce)
    def produce(  # type: ignore[empty-body]
        self,
        topic: str,
        value: Data | None = None,
        key: Data | None = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> Coroutine[Any, Any, Delivery]:
        """Queues one message. Await the call: a full queue is waited for.

        The arguments are those of `Producer.produce`. With ``max.block.ms``, the wait for room is
        no longer than that; without, it lasts until there is room. Waiting calls continue in the
        order in which they began to wait.

        Returns
        -------
        Delivery
            The delivery report, a future. Await it for the Message, or for KafkaException.

        Raises
        ------
        BufferError
            There was no room within ``max.block.ms``, or there will never be.
        KafkaException
            MSG_SIZE_TOO_LARGE (over ``message.max.bytes``), _FATAL. The future's error is
            _UNKNOWN_PARTITION if there is no such partition.
        RuntimeError
            The producer is closed.
        TypeError
            A value, key or header has another type.
        """

    async def _produce_slowly(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int,
        on_delivery: OnDelivery | None,
        timestamp: int,
        headers: object,
    ) -> Delivery:
        """Runs `produce()` if it can't complete at once."""
        self._check_open()
        self._loop = self._waiter.attach()
        delivery = Delivery(self._loop, KafkaException)
        report: OnDelivery = delivery
        wanted = self._on_delivery if on_delivery is None else on_delivery
        if wanted is not None:
            if not callable(wanted):
                raise TypeError(f"on_delivery must be callable, not {type(wanted).__name__}")
            report = partial(_report, weakref.ref(self), wanted, delivery)
        message = (topic, value, key, partition, None, report, timestamp, headers)
        if self._chain is None:
            await self._queue(*message)
        else:
            await self._queue_intercepted(self._chain, *message)
        # afterwards, so that messages are queued in the order of the calls
        if self._turns.is_over():
            await asyncio.sleep(0)
            self._turns.begin()
        return delivery

    async def _queue_intercepted(self, chain: Chain, *message: Any) -> None:
        """Queues a message as the interceptors change it."""
        topic, value, key, partition, callback, report, timestamp, headers = message
        sent = chain.on_produce(topic, value, key, partition, headers, timestamp)
        report = partial(chain.deliver, report, False)
        changed = sent.topic, sent.value, sent.key, sent.partition, callback, report
        try:
            await self._queue(*changed, sent.timestamp, sent.headers)
        except (Exception, asyncio.CancelledError) as error:
            chain.raised(sent, error)
            raise

    async def _queue(self, *message: Any) -> None:
        """Queues a message now, or when there is room."""
        try:
            await self._queue_with_partitions(*message)
        except BufferError:
            await self._queue_later(*message)

    async def _queue_with_partitions(self, *message: Any) -> None:
        """Queues a message.

        If partitioner_cb needs the topic's partition count, waits for it first.
        """
        counts = self._core.partition_counts
        while True:
            try:
                ProducerCore.produce(self._core, *message)
                return
            except PartitionsUnknownError as error:
                topic = error.topic
            finally:
                counts.clear()  # the count is valid only now
            counts[topic] = await self._core.count_partitions(topic)
            self._check_open()

    async def _queue_later(self, *message: object) -> None:
        """Queues a message when there is room and it is its turn. Every report makes room."""
        core = self._core
        deadline = deadline_of(core.block_s or None)
        in_time = True
        flush_begin(core)
        try:
            async with self._line.turn(deadline):
                while True:
                    self._check_open()
                    try:
                        await self._queue_with_partitions(*message)
                        return
                    except BufferError:
                        if not in_time or len(core) == 0:
                            raise
                    in_time = await self._waiter.wait(deadline)
        finally:
            self._turns.begin()
            flush_end(core)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise RuntimeError(CLOSED_TEXT)

    async def produce_arrow(
        self,
        topic: str | None,
        data: Any,
        *,
        value: str | int | ColumnCodec | None = "value",
        key: str | int | ColumnCodec | None = None,
        value_columns: Columns | None = None,
        key_columns: Columns | None = None,
        headers: str | int | None = None,
        timestamp: str | int | None = None,
        partition: str | int | None = None,
        topic_column: str | int | None = None,
        on_delivery: Callable[[ArrowReport], object] | None = None,
        timeout: float | None = None,
    ) -> Delivery[ArrowReport]:
        """Queues each row of Arrow columns as a message; see `Producer.produce_arrow`.

        A thread reads ``data``, encodes it and waits while the queue is full, so other tasks run
        meanwhile. Don't change ``data`` before the call returns. When the call is cancelled or the
        producer is closed, the thread queues no further chunk of rows. Queued rows are sent, and
        ``on_delivery`` gets their report.

        Parameters
        ----------
        topic, data, value, key, value_columns, key_columns : Any
            As of `Producer.produce_arrow`, like the next ones.
        headers, timestamp, partition, topic_column, timeout : Any
            Columns, or values for all rows; seconds to wait for room.
        on_delivery : callable, optional
            A function or coroutine function, called once with the `ArrowReport`. The producer's own
            ``on_delivery`` isn't called for rows.

        Returns
        -------
        Delivery
            A future, returned when all rows are queued. Await it for the `ArrowReport`, which also
            has the failed rows.

        Raises
        ------
        BufferError, KafkaException, EncodeError, OSError, SchemaError, SchemaRegistryError
            As of `Producer.produce_arrow`, with the attribute ``queued``. A row that is too large
            is among the report's ``failed``.
        RuntimeError
            The producer is closed, perhaps by another task during the call.
        TypeError, ValueError
            As of `Producer.produce_arrow`.
        """
        core = self._core
        core._client.check_open(CLOSED_TEXT)
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be callable, not {type(on_delivery).__name__}")
        self._loop = self._waiter.attach()
        delivery: Delivery[ArrowReport] = Delivery(self._loop, KafkaException)
        report = partial(_report_rows, weakref.ref(self), on_delivery, delivery)
        is_cancelled = False

        def check_stop() -> None:
            if is_cancelled or self._closing is not None:
                raise RuntimeError(CLOSED_TEXT)

        check_stop()
        columns = {"value": value, "key": key, "headers": headers, "topic_column": topic_column}
        typed = {"value": value_columns, "key": key_columns}
        options = timestamp, partition, report, timeout
        try:
            await asyncio.to_thread(
                core._produce_columns, topic, data, columns, typed, options, check_stop
            )
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            self._turns.begin()
        return delivery

    async def poll(self, timeout: float = 0) -> int:
        """Waits until callbacks or delivery reports were served; the loop also does that by itself.

        Parameters
        ----------
        timeout : float
            Seconds. 0 only lets other tasks run; negative waits without limit.

        Returns
        -------
        int
            How many were served since the last call.

        Raises
        ------
        RuntimeError
            The producer is closed.
        """
        self._core._client.check_open(CLOSED_TEXT)
        deadline = deadline_of(timeout)
        self._loop = self._waiter.attach()
        await asyncio.sleep(0)
        self._serve()
        while (
            not self._served
            and timeout != 0
            and not self._core._client.closed
            and await self._waiter.wait(deadline)
        ):
            pass
        self._turns.begin()
        served, self._served = self._served, 0
        return served

    async def flush(self, timeout: float = -1) -> int:
        """Sends all queued messages without lingering, and waits until none is outstanding.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits without limit.

        Returns
        -------
        int
            How many messages are still queued or in flight.
        """
        return await self._wait_for_reports(timeout)

    async def _wait_for_reports(self, timeout: float) -> int:
        core = self._core
        core._client.check_open(CLOSED_TEXT)
        deadline = deadline_of(timeout)
        self._loop = self._waiter.attach()
        in_time = True
        flush_begin(core)
        try:
            while True:
                self._serve()
                left = len(core)
                if left == 0 or not in_time or core._client.closed:
                    break
                in_time = await self._waiter.wait(deadline)
        finally:
            self._turns.begin()
            flush_end(core)
        return left

    async def _wait_for(self, call: PendingCall[T]) -> T:
        """Waits for a call's result. Meanwhile callbacks run in this loop."""
        self._loop = self._waiter.attach()
        return await wait_for(call)

    async def purge(
        self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True
    ) -> None:
        """Drops messages that are not delivered yet; their reports fail. See `Producer.purge`."""
        await self._wait_for(self._core._begin_purge(in_queue, in_flight, blocking))

    async def metrics(self) -> ClientMetrics:
        """Returns this client's statistics; see `Producer.metrics`."""
        return await self._wait_for(self._core._client.begin_metrics(CLOSED_TEXT))

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `Producer.set_sasl_credentials`."""
        self._core.set_sasl_credentials(username, password)

    async def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs; see `Producer.brokers_add`."""
        return await self._wait_for(self._core._client.begin_brokers_add(brokers))

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Asks a broker for brokers, topics and partitions; see `Producer.list_topics`."""
        return await self._wait_for(self._core._client.begin_list_topics(topic, timeout))

    async def cluster_id(self, timeout: float = -1) -> str | None:
        """Asks a broker for the cluster's id; see `Producer.cluster_id`."""
        return await self._wait_for(self._core._client.begin_cluster_id(timeout))

    async def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id under which metrics are pushed; see `Producer.client_instance_id`."""
        return await self._wait_for(self._core._client.begin_client_instance_id(timeout))

    # --- transactions ---

    async def init_transactions(
        self, timeout: float = -1, *, keep_prepared_txn: bool = False
    ) -> None:
        """Registers the transactional id; call it first. See `Producer.init_transactions`."""
        await self._wait_for(self._core._begin_init(timeout, keep_prepared_txn))

    async def begin_transaction(self) -> None:
        """Begins a transaction; see `Producer.begin_transaction`."""
        await self._wait_for(self._core._begin_new_transaction())

    async def send_offsets_to_transaction(
        self,
        positions: list[TopicPartition],
        group_metadata: ConsumerGroupMetadata,
        timeout: float = -1,
    ) -> None:
        """Adds a consumer's offsets to it; see `Producer.send_offsets_to_transaction`."""
        await self._wait_for(self._core._begin_send_offsets(positions, group_metadata, timeout))

    async def commit_transaction(self, timeout: float = -1) -> None:
        """Delivers the produced messages, then commits; see `Producer.commit_transaction`."""
        await self._end_transaction(timeout, abort=False)

    async def abort_transaction(self, timeout: float = -1) -> None:
        """Drops messages that aren't sent yet, then aborts; see `Producer.abort_transaction`."""
        if self._abort is not None and self._abort is not asyncio.current_task():
            self._abort.cancel()  # this call continues it
        await self._end_transaction(timeout, abort=True)

    async def prepare_transaction(self, timeout: float = -1) -> PreparedTxnState:
        """Delivers its messages; another party decides. See `Producer.prepare_transaction`."""
        core, deadline = self._core, deadline_of(timeout)
        while (
            found := await self._wait_for(core._begin_prepare_at_once(left_s(deadline)))
        ) is None:
            core._waits_on(await self._wait_for_reports(wait_s(deadline)), deadline, abort=False)
        return found

    async def complete_transaction(
        self, prepared_state: PreparedTxnState, timeout: float = -1
    ) -> None:
        """Commits or aborts the prepared transaction; see `Producer.complete_transaction`."""
        deadline = deadline_of(timeout)
        kind = await self._wait_for(self._core._begin_complete_at_once(prepared_state, timeout))
        if kind is not None:
            await self._end_transaction(left_s(deadline), abort=kind is Kind.ABORT)

    async def _end_transaction(self, timeout: float, *, abort: bool) -> None:
        core = self._core
        deadline = deadline_of(timeout)
        if abort:
            await self._wait_for(core._begin_refusing())
            await self._wait_for(core._begin_purge(True, False, True))
        elif await self._wait_for(core._begin_commit_at_once(timeout)):
            return
        while (left := await self._wait_for_reports(wait_s(deadline))) and core._waits_on(
            left, deadline, abort=abort
        ):
            if abort:
                await self._wait_for(core._begin_purge(True, False, True))
        await self._wait_for(core._begin_end(left_s(deadline), abort=abort))

    @asynccontextmanager
    async def transaction(
        self, consumer: AIOConsumer | None = None, timeout: float = -1
    ) -> AsyncIterator[None]:
        """A transaction as an ``async with`` block.

        It is committed at the end of the block, and aborted if the block raises or is cancelled. If
        the task is cancelled again during the abort, the abort continues in the background. The
        next block waits for its end.

        Parameters
        ----------
        consumer : AIOConsumer, optional
            Its positions become part of the transaction.
        timeout : float
            Seconds for each call; negative waits without limit.
        """
        if self._abort is not None:
            await asyncio.wait({self._abort}, timeout=bound_s(timeout))
        begun = self._core._begin_new_transaction()
        try:
            await wait_for(begun)
            yield
            if consumer is not None:
                metadata = await consumer.consumer_group_metadata()
                owner = checked_owner(metadata, await consumer.subscription())
                # afterwards: after a rebalance the coordinator refuses the owner
                positions = await consumer.position(await consumer.assignment())
                await self.send_offsets_to_transaction(positions, owner, timeout)
            await self.commit_transaction(timeout)
        except BaseException as error:
            # in a task of its own: another cancel must not end it between two steps
            abort = asyncio.get_running_loop().create_task(self._abort_block(begun, error, timeout))
            try:
                await asyncio.shield(abort)
            finally:
                if not abort.done():
                    self._abort = abort
            raise

    async def _abort_block(
        self, begun: PendingCall[None], error: BaseException, timeout: float
    ) -> None:
        """Aborts the transaction of a block that has raised ``error``."""
        try:
            await wait_for(begun)  # the block may have been cancelled before that
        except KafkaException:
            return  # an open transaction isn't the block's own
        if await wait_for(self._core._begin_may_abort(error)):
            await self.abort_transaction(timeout)

    def fatal_error(self) -> KafkaError | None:
        """Returns the fatal error, None if there is none; see `Producer.fatal_error`."""
        return self._core.fatal_error()

    def __len__(self) -> int:
        """How many messages are queued or in flight, or wait for their report."""
        return len(self._core)

    def __bool__(self) -> bool:
        """True, even if no message is queued."""
        return True

    # --- the end ---

    async def close(self, timeout: float = -1) -> None:
        """Flushes for up to ``timeout`` seconds, then closes.

        From the call on, no message can be produced. Messages of a transaction that has to be
        aborted aren't waited for: their reports have its error. Messages that are still queued when
        the time is up are dropped: their reports fail with _PURGE_QUEUE, and a warning in the log
        has their number. A call that is cancelled continues in the background. A second call waits
        for the first one.

        Then it waits for coroutines of callbacks that still run, for up to 60 seconds. In a
        callback, or in a task that a callback has started, it doesn't wait for them.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits until all messages are delivered.
        """
        if self._closing is None and self._core._client.closed:
            return
        self._slow = True  # so that produce() sees `_closing`
        await self._close_once(partial(self._close, timeout))

    async def _close(self, timeout: float) -> None:
        core = self._core
        deadline: float | None = 0.0  # if it can't be computed: don't wait
        try:
            deadline = deadline_of(timeout)
            core._fail_lost()
            if timeout != 0:
                await self._wait_for_reports(timeout)
            if self._abort is not None:
                left = ABORT_MAX_S if deadline is None else min(left_s(deadline), ABORT_MAX_S)
                await asyncio.wait({self._abort}, timeout=left)
        finally:
            self._waiter.detach()
            try:
                if not core._client.closed:
                    await end_threads(core._client, core._client.begin_push_last(left_s(deadline)))
            finally:
                core._warn_of_dropped()
                core._shut()  # serves the last reports
                self._waiter.end()

    async def __aenter__(self) -> Self:
        """The producer itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flushes and closes.

        After CancelledError and the like, it closes without a flush.
        """
        await self.close(-1 if kind is None or issubclass(kind, Exception) else 0)

    def __del__(self) -> None:
        """Stops a producer that was dropped without close(). Queued messages are lost.

        Their reports fail, so that waiting tasks continue.
        """
        core = getattr(self, "_core", None)
        if (
            core is not None
            and not core._client.closed
            and self._loop is not None
            and self._loop.is_running()
        ):
            if self._loop is running_loop():
                _drop(core, self._loop)
            else:  # the loop may be serving this producer now
                call_in_loop(self._loop, _drop, core, self._loop)

    def __repr__(self) -> str:
        """The producer's name, state and number of messages."""
        return f"<AIO{repr(self._core)[1:]}"


def _drop(core: Core, loop: asyncio.AbstractEventLoop) -> None:
    """Ends a producer without an owner. Its last reports come in the loop."""
    core._mark_closed()
    core._warn_of_loss("the producer was dropped")
    core._client.drop(partial(call_in_loop, loop, core.report_last))


class Core(Producer):
    """The synchronous producer of an AIOProducer. It never waits for room itself."""

    def _end_with_interpreter(self) -> None:
        """Warns of lost messages at exit. The event loop for their reports is gone."""
        self._warn_of_loss("the interpreter exits")

    block_s: float
    """``max.block.ms``; 0: no limit."""
    has_partitioner: bool

    def _open(
        self,
        engine: Engine,
        on_delivery: Callable[..., object] | None,
        exception_of: Callable[[int, str | None, str | None], BaseException],
        block_s: float,
        partitioner: Callable[[str, bytes | None, int], int] | None,
        partitions_of: Callable[[str], int],
    ) -> None:
        self.block_s = block_s
        self.has_partitioner = partitioner is not None
        self.partition_counts: dict[str, int] = {}
        known = partial(_known_partitions, self.partition_counts)
        super()._open(engine, on_delivery, exception_of, 0.0, partitioner, known)

    async def count_partitions(self, topic: str) -> int:
        """Waits for the number of a topic's partitions and returns it."""
        return await wait_for(
            begin_partitions_of(self._client, self.block_s or PARTITIONS_WAIT_S, topic)
        )

    def report_last(self) -> None:
        """Fails the reports of a dropped client after its end. Event loop only."""
        self._serve_last()
        self._drain()
        self._client.release()


class PartitionsUnknownError(Exception):
    """`produce()` needs the topic's partition count, and a coroutine has to wait for it."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


def _known_partitions(counts: dict[str, int], topic: str) -> int:
    """The partition count that was just requested."""
    count = counts.get(topic)
    if count is None:
        raise PartitionsUnknownError(topic)
    return count


def _report(
    reference: weakref.ref[AIOProducer],
    callback: OnDelivery,
    delivery: Delivery,
    error: KafkaError | None,
    message: Message,
) -> None:
    """Serves the report of a message that also has a callback."""
    delivery(error, message)
    called(reference, callback, error, message)


def _report_rows(
    reference: weakref.ref[AIOProducer],
    callback: Callable[[ArrowReport], object] | None,
    delivery: Delivery[ArrowReport],
    report: ArrowReport,
) -> None:
    """Serves the report of the rows of one call."""
    delivery(None, report)
    if callback is not None:
        called(reference, callback, report)
