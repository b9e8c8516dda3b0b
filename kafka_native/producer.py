"""Producer: sends messages, reports their delivery, supports transactions (KIP-98, KIP-447)."""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kafka_native._native.delivery_core import DeliveryCore
from kafka_native._native.engine import begin_exit
from kafka_native._native.enums import (
    PARTITIONER_STICKY,
    STATUS_FATAL,
    STATUS_NO_TRANSACTION,
    STATUS_TOO_LARGE,
)
from kafka_native._native.methods import implemented_by
from kafka_native._native.producer_core import ProducerCore
from kafka_native.client_core import (
    ClientCore,
    UninitializedClient,
    existing,
    own_client,
    settings_of,
)
from kafka_native.control.positions import Key, OffsetPosition, position_of
from kafka_native.control.producer.transaction_calls import OUTSTANDING, Kind, Shared
from kafka_native.control.requests import Call
from kafka_native.control.settings import (
    connection_settings,
    consumer_settings,
    producer_settings,
)
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import KafkaError, KafkaException, from_status
from kafka_native.partitioners import partitioner_id
from kafka_native.pending_call import PendingCall, ReadyCall, raise_error
from kafka_native.producer_managers import managers_of
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

    from kafka_native._native.arrow_report import ArrowReport
    from kafka_native.codecs.encoded_rows import ColumnCodec, Columns
    from kafka_native.control.producer.transactions import Transactions
    from kafka_native.statistics import ClientMetrics

T = TypeVar("T")

CLOSED_TEXT = "Producer has been closed"
PARTITIONS_WAIT_S = 60.0
"""How long produce() waits for a topic's partitions if max.block.ms isn't set, as in Java."""
PARTITIONER_HINT = (
    "partitioner_cb has to know how many partitions there are: "
    "produce() waits for it, see max.block.ms"
)
CHECK_INTERVAL_S = 0.1
"""The interval at which a commit that waits for messages checks whether it still has to wait."""
NOT_CONFIGURED = "transactions need `transactional.id`"


class Reader(Protocol):
    """The methods of a `Consumer` that its offsets in a transaction need."""

    def assignment(self) -> list[TopicPartition]:
        """The partitions that the consumer reads."""

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The consumer's next offsets."""

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """The consumer's identity in its group."""

    def subscription(self) -> list[str]:
        """The topics that the consumer subscribes to."""


class Producer(ProducerCore):
    """An asynchronous producer.

    ``produce()`` queues a message and returns; background threads batch, compress and send.
    ``poll()`` and ``flush()`` serve the delivery reports.

        with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
            report = lambda error, message: print(error or message.offset())
            producer.produce("greetings", "hello", on_delivery=report)

    Leaving the ``with`` block flushes. Configuration: librdkafka's properties
    (docs/CONFIGURATION.md), as a dict, keywords, or both.

    With a ``transactional.id``, messages are part of transactions:

        conf = {"bootstrap.servers": "localhost:9092", "transactional.id": "billing-1"}
        producer = Producer(conf)
        producer.init_transactions()
        with producer.transaction():
            producer.produce("invoices", "42")

    The transaction calls raise KafkaException. Its KafkaError says what to do:

    - ``retriable()``: make the same call again. It continues the operation.
    - ``txn_requires_abort()``: call `abort_transaction()`, then begin a new transaction.
    - ``fatal()``: close the producer.

    Their timeouts are in seconds; negative waits without limit. After _TIMED_OUT the operation
    continues in the background. The same call waits for it again.

    Several threads may use a producer. After ``fork()`` the child has to create its own producer.
    """

    _client = UninitializedClient()
    _eager = False  # whether to connect without work, see `ClientCore`
    _host: ClientCore | None = None  # the shared client of which this is a role, in the constructor

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """Raises KafkaException (_INVALID_ARG) for an unknown property or an invalid value."""
        settings = settings_of(self, config, kwargs, "producer")
        on_delivery = settings.function("on_delivery")
        interceptors: Any = settings["interceptors"]
        report_all = on_delivery is not None or interceptors is not None
        partitioner = settings.function("partitioner_cb")
        # partitioner_cb may leave the choice to the client, as for a message without a key
        named = partitioner_id(settings.text("partitioner"))
        built_in = named if partitioner is None else PARTITIONER_STICKY
        everything = {
            **connection_settings(settings),
            **consumer_settings(settings),
            **producer_settings(settings, built_in, report_all),
        }
        if interceptors is not None:
            # Interceptors get every message. They filter for on_delivery.
            everything["report_errors_only"] = False
        self._client = ClientCore(
            settings,
            "producer",
            everything,
            partial(managers_of, settings, everything),
            eager=self._eager,
            host=self._host,
        )
        if interceptors is not None:
            from kafka_native.interceptors import Chain, ProducerHooks, intercept

            chain = Chain(interceptors, self._client.logs["interceptor"])
            self._errors_only = bool(settings["delivery.report.only.error"])
            on_delivery = partial(chain.deliver, on_delivery, self._errors_only)
            intercept(self, ProducerHooks, chain)
        exception_of = partial(_exception_of, self._client, not self._like_confluent)
        block_s = settings.integer("max.block.ms") / 1000
        partitions_of = partial(
            _partitions_of, self._client, block_s or PARTITIONS_WAIT_S, hint=PARTITIONER_HINT
        )
        self._open(
            self._client.engine, on_delivery, exception_of, block_s, partitioner, partitions_of
        )
        self._block_s = block_s
        self._needs_partition = partitioner is not None
        _producers.add(self)
        self._client.main.start()

    # --- producing; the code of most of these calls is in _native/producer_core.pyx ---

    @implemented_by(ProducerCore.produce)
    def produce(
        self,
        topic: str,
        value: Data | None = None,
        key: Data | None = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Queues one message and returns at once.

        Parameters
        ----------
        topic : str
            Name of the topic.
        value, key : bytes, str, any contiguous buffer, or None
            A str is encoded as UTF-8. None is a null.
        partition : int
            -1 (PARTITION_UA) leaves the choice to ``partitioner_cb``, or else to the
            ``partitioner``. A message
            for a partition that isn't known yet waits for it. If the partition isn't there after
            ``topic.metadata.propagation.max.ms``, the message is reported with _UNKNOWN_PARTITION.
        callback, on_delivery : callable, optional
            Delivery report of this message: ``f(error, message)``. `poll()` or `flush()` calls it
            with None or a KafkaError, and with the Message as it was delivered.
        timestamp : int
            Milliseconds since 1970 (CreateTime); 0 is now.
        headers : list of (str, bytes | str | None), or dict
            Headers of the message.

        Raises
        ------
        BufferError
            The queue is full (``queue.buffering.max.messages`` or ``.max.kbytes``), also after
            ``max.block.ms``. Call `poll()` and try again.
        KafkaException
            MSG_SIZE_TOO_LARGE: the message is over ``message.max.bytes``. With ``partitioner_cb``
            also: the topic's partitions aren't known, and why.
        RuntimeError
            The producer is closed.
        TypeError
            A value, key or header has another type, or ``partitioner_cb`` returned no int.
        ValueError
            ``partitioner_cb`` returned no partition of the topic.
        """

    @implemented_by(ProducerCore.produce_many)
    def produce_many(  # type: ignore[empty-body]
        self,
        topic: str,
        values: Sequence[Data | None],
        keys: Sequence[Data | None] | None = None,
        partition: int | Sequence[int] = -1,
        headers: Sequence[Headers | None] | None = None,
        timestamps: int | Sequence[int] | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> int:
        """Queues many messages for one topic, at a fraction of the cost of `produce()` calls.

        Other Python threads wait during the call, so pass thousands of messages rather than
        millions.

        Parameters
        ----------
        topic : str
            Name of the topic.
        values : sequence of bytes, str, any contiguous buffer, or None
            One value a message.
        keys : sequence of the same, optional
            One key a value.
        partition : int or sequence of int
            One for all, or one a value. -1 leaves the choice to the ``partitioner``.
        headers : sequence, optional
            One item a value: the type of ``produce(headers=)``, or None.
        timestamps : int or sequence of int, optional
            Milliseconds since 1970: one for all, or one a value. 0 and None are now.
        on_delivery : callable, optional
            Called for each message, as with `produce()`.

        Returns
        -------
        int
            How many messages were queued, always the first ones. If it is less than the number of
            values, the queue is full and had no room within ``max.block.ms``: call `poll()` and
            continue with ``values[n:]``.

        Raises
        ------
        BufferError
            The queue is full and no message was queued.
        KafkaException
            MSG_SIZE_TOO_LARGE. The error text names the message: all messages before it are queued,
            and none after it. The exception's attribute ``queued`` is their number.
        RuntimeError
            The producer is closed.
        TypeError, ValueError, OverflowError
            An argument has another type or length: no message is queued. Or one item has another
            type or is out of range: the text names the message, and the messages before it are
            queued.
        """

    @implemented_by(ProducerCore.produce_batch)
    def produce_batch(  # type: ignore[empty-body]
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> int:
        """Queues messages for one topic that come as dicts, as in confluent_kafka.

        `produce_many()` is faster.

        Parameters
        ----------
        topic : str
            Name of the topic.
        messages : list of dict
            Each with any of ``value``, ``key``, ``headers``, ``partition``, ``timestamp``,
            ``callback`` and ``on_delivery``, as the arguments of `produce()`. If a message
            can't be queued (full queue, too large, unknown partition), the call stores the
            KafkaError as its ``_error`` and continues with the next. If a message is queued, an
            ``_error`` of an earlier call is removed.
        partition : int
            For messages that have no ``partition``.
        callback, on_delivery : callable, optional
            For messages that have none.

        Returns
        -------
        int
            How many messages were queued.

        Raises
        ------
        RuntimeError
            The producer is closed.
        TypeError, ValueError, OverflowError
            Not a list of dicts, an unknown key, or a value of another type. The text names the
            message's index. No message is queued.
        """

    def produce_arrow(
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
    ) -> int:
        """Queues each row of Arrow columns as a message.

        The call makes no Python object per row, and it runs without the interpreter lock. It waits
        while the queue is full. Each chunk of the input is checked as a whole before its first row
        is queued.

        Every exception, KeyboardInterrupt included, has the attribute ``queued``: how many of the
        first rows were queued before it. Queued rows are sent and reported.

        Parameters
        ----------
        topic : str, optional
            For rows that name no topic. None if ``topic_column`` names one for each row.
        data : Arrow data
            Any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a pyarrow Table,
            RecordBatch or RecordBatchReader, a polars DataFrame, a DuckDB relation, a pandas
            DataFrame, an `ArrowBatch`. A single column is the value.
        value, key : str or int, optional
            Columns (names or indices) of binary or string: also large, view, fixed-size and
            dictionary types. A null in the column is a null. ``value=None``: every value is null.
            Or a codec, such as `kafka_native.codecs.Avro`, which encodes typed columns. Its schema
            is registered or looked up before a row is queued.
        value_columns, key_columns : str, int, or sequence of them, optional
            With a codec: one column to encode, or a sequence of columns that are the fields of a
            record. Default: the column ``value`` or ``key``; if there is no column ``value``, all
            columns that this call doesn't use otherwise.
        headers : str or int, optional
            A column of list<struct<key, value>> or map. A null or an empty list means no headers.
        timestamp : str or int, optional
            The name of a column of timestamps of any unit, or of int64 milliseconds since 1970
            (null and 0 are now); or an int for all rows.
        partition : str or int, optional
            The name of a column of integers (null and -1: the partitioner chooses); or an int for
            all rows.
        topic_column : str or int, optional
            A column of strings. Where it is null, ``topic`` is used.
        on_delivery : callable, optional
            ``f(report)``: `poll()` or `flush()` calls it once, with an `ArrowReport`, when every
            row has its outcome. Without it, each row is reported like any other message
            (``on_delivery`` of the producer).
        timeout : float, optional
            How many seconds the whole call may wait for room; negative: no limit. None:
            ``max.block.ms`` for each time that nothing moves, if it is set, else no limit.

        Returns
        -------
        int
            How many rows were taken, which is all of them. With ``on_delivery``, a row that can't
            be queued (over ``message.max.bytes``) counts as taken, and is among the report's
            ``failed``.

        Raises
        ------
        BufferError
            There was no room in time.
        KafkaException
            Without ``on_delivery``: a row is over ``message.max.bytes`` (MSG_SIZE_TOO_LARGE). Or
            the producer has a fatal error. Or it has interceptors, which would have to be called
            for each row.
        EncodeError
            With a codec: a value doesn't fit the schema. No row of its chunk is queued.
        OSError
            The stream of ``data`` failed.
        RuntimeError
            The producer is closed, perhaps by another thread during the call.
        SchemaError
            With a codec: the columns don't fit the schema. No row is queued.
        SchemaRegistryError
            With a codec: the registry refuses the schema, doesn't have it, or doesn't answer.
        TypeError
            ``data`` isn't Arrow, or a column has another type.
        ValueError
            There is no such column. Or a chunk is invalid: a timestamp or partition is out of
            range, or a header's key is null or not UTF-8. The text names column and row. No row of
            the chunk is queued.
        """
        columns = {"value": value, "key": key, "headers": headers, "topic_column": topic_column}
        typed = {"value": value_columns, "key": key_columns}
        options = timestamp, partition, on_delivery, timeout
        return self._produce_columns(topic, data, columns, typed, options)

    def _produce_columns(
        self,
        topic: str | None,
        data: Any,
        columns: dict[str, Any],
        typed_columns_of: dict[str, Columns | None],
        options: tuple[Any, Any, Any, Any],
        check_stop: Callable[[], object] | None = None,
    ) -> int:
        """The body of `produce_arrow()`. ``check_stop()`` raises an exception to end the call."""
        self._client.check_open(CLOSED_TEXT)
        # not at the top: most producers send no columns
        from kafka_native._native.arrow_producer import produce_rows
        from kafka_native.codecs.encoded_rows import produce_encoded, typed_columns

        produce = partial(
            produce_rows,
            self,
            topic,
            check_stop=check_stop,
            block_s=self._block_s,
            needs_partition=self._needs_partition,
        )
        typed = typed_columns(columns, typed_columns_of)
        if typed:
            return produce_encoded(produce, topic, data, columns, typed, options)
        taken: int = produce(data, columns, *options)
        return taken

    # --- reports ---

    @implemented_by(DeliveryCore.poll)
    def poll(self, timeout: float = -1) -> int:  # type: ignore[empty-body]
        """Serves delivery reports and other callbacks; returns as soon as it has served one.

        A batch that the broker has acknowledged, or that has failed, ends the wait even if its
        messages have no callback. So ``poll(1)`` after a `BufferError` returns as soon as there may
        be room. During that wait, queued messages don't linger (``linger.ms``).

        Parameters
        ----------
        timeout : float
            Seconds to wait for the first event. 0 doesn't wait; negative or more than a year waits
            without limit.

        Returns
        -------
        int
            How many events were served: batches of messages with an outcome, and calls of
            ``error_cb``, ``stats_cb`` and other callbacks.

        Raises
        ------
        Exception
            The exception of a callback. The remaining reports wait for the next call.
        RuntimeError
            The producer is closed.
        ValueError
            The timeout is NaN.
        """

    @implemented_by(DeliveryCore.flush)
    def flush(self, timeout: float = -1) -> int:  # type: ignore[empty-body]
        """Sends all queued messages without lingering, and serves callbacks until none is left.

        Parameters
        ----------
        timeout : float
            Seconds. Negative or more than a year waits without limit.

        Returns
        -------
        int
            How many messages are still queued or in flight.

        Raises
        ------
        ValueError
            The timeout is NaN.
        """

    @implemented_by(DeliveryCore.__len__)
    def __len__(self) -> int:  # type: ignore[empty-body]
        """How many messages are queued or in flight, or wait for `poll()` to report them."""

    @implemented_by(DeliveryCore.__bool__)
    def __bool__(self) -> bool:  # type: ignore[empty-body]
        """True, also when nothing is queued."""

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drops messages that are not delivered yet; the next poll() or flush() reports them.

        Parameters
        ----------
        in_queue : bool
            Drop messages that wait to be sent. They are reported with _PURGE_QUEUE.
        in_flight : bool
            Drop messages that are in flight. They are reported with _PURGE_INFLIGHT, and may have
            arrived all the same. Their connections are closed and opened again.
        blocking : bool
            Return when the queues are empty. Messages in flight are dropped a moment later in any
            case.
        """
        self._begin_purge(in_queue, in_flight, blocking).result()

    def _begin_purge(self, in_queue: bool, in_flight: bool, blocking: bool) -> PendingCall[None]:
        self._client.check_open(CLOSED_TEXT)
        work = partial(self._client.engine.purge, in_queue, in_flight)
        if blocking:
            return self._begin(work)
        self._client.main.post(work)
        return ReadyCall(None)

    # --- transactions ---

    def init_transactions(self, timeout: float = -1, *, keep_prepared_txn: bool = False) -> None:
        """Registers the transactional id; call it once, before any other transaction call.

        It fences an older instance of the producer, and aborts the transaction that the older one
        left.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits without limit.
        keep_prepared_txn : bool
            Keep the transaction that the older instance prepared. `complete_transaction()` or
            `abort_transaction()`, which comes next, ends it (KIP-939). Needs
            ``transaction.two.phase.commit.enable``.

        Raises
        ------
        KafkaException
            See the class. _NOT_CONFIGURED: there is no ``transactional.id``. _INVALID_ARG:
            ``keep_prepared_txn`` without two-phase commit.
        """
        self._begin_init(timeout, keep_prepared_txn).result()

    def _begin_init(self, timeout: float, keep_prepared_txn: bool) -> PendingCall[None]:
        return self._begin_step(
            partial(self._transactions().init, keep_prepared=keep_prepared_txn), timeout
        )

    def begin_transaction(self) -> None:
        """Begins a transaction: all messages until its end are part of it.

        Raises
        ------
        KafkaException
            _STATE: `init_transactions()` wasn't called, or there is a transaction already.
        """
        self._begin_new_transaction().result()

    def _begin_new_transaction(self) -> PendingCall[None]:
        return self._begin(self._transactions().begin).then(raise_error)

    def send_offsets_to_transaction(
        self,
        positions: list[TopicPartition],
        group_metadata: ConsumerGroupMetadata | bytes,
        timeout: float = -1,
    ) -> None:
        """Makes a consumer's offsets part of the transaction (KIP-447).

        They are committed if the transaction is, and only then.

        Parameters
        ----------
        positions : list of TopicPartition
            The next offset to read of each partition, see `Consumer.position()`. Offsets below 0
            are left out.
        group_metadata : ConsumerGroupMetadata or bytes
            The result of `Consumer.consumer_group_metadata()`.
        timeout : float
            Seconds; negative waits without limit.
        """
        self._begin_send_offsets(positions, group_metadata, timeout).result()

    def _begin_send_offsets(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float
    ) -> PendingCall[None]:
        self._client.check_open(CLOSED_TEXT)
        member, offsets = _member_of(group_metadata), _offsets_of(positions)
        manager = self._transactions()
        if not offsets:
            return ReadyCall(None)
        return self._begin_step(partial(manager.send_offsets, offsets, member), timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Delivers the transaction's messages, then commits it.

        Consumers with ``isolation.level=read_committed`` see all of its messages from then on.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits without limit.
        """
        deadline = deadline_of(timeout)
        if self._begin_commit_at_once(timeout).result():
            return
        while (left := self.flush(wait_s(deadline))) and self._waits_on(
            left, deadline, abort=False
        ):
            pass
        self._begin_end(left_s(deadline), abort=False).result()

    def abort_transaction(self, timeout: float = -1) -> None:
        """Drops messages that aren't sent yet, waits for those in flight, then aborts.

        Dropped messages are reported with _PURGE_QUEUE.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits without limit.
        """
        deadline = deadline_of(timeout)
        self._begin_refusing().result()
        self.purge(in_queue=True, in_flight=False)
        while (left := self.flush(wait_s(deadline))) and self._waits_on(left, deadline, abort=True):
            # messages that were returned for a retry meanwhile
            self.purge(in_queue=True, in_flight=False)
        self._begin_end(left_s(deadline), abort=True).result()

    def prepare_transaction(self, timeout: float = -1) -> PreparedTxnState:
        """Delivers the transaction's messages; another party decides on its end (KIP-939).

        After it, only `complete_transaction()`, `commit_transaction()` or `abort_transaction()` can
        be called. No timeout ends the transaction, and `close()` doesn't either: consumers with
        ``read_committed`` wait until a producer with this transactional id ends it.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits without limit.

        Returns
        -------
        PreparedTxnState
            The identity of the transaction. Store it together with the decision.

        Raises
        ------
        KafkaException
            See the class. _STATE: ``transaction.two.phase.commit.enable`` is off.
        """
        deadline = deadline_of(timeout)
        while (found := self._begin_prepare_at_once(left_s(deadline)).result()) is None:
            self._waits_on(self.flush(wait_s(deadline)), deadline, abort=False)
        return found

    def complete_transaction(self, prepared_state: PreparedTxnState, timeout: float = -1) -> None:
        """Commits the prepared transaction if ``prepared_state`` names it, or aborts it (KIP-939).

        A new instance calls it after ``init_transactions(keep_prepared_txn=True)``, with the state
        that was stored last. Without a prepared transaction the call does nothing.

        Parameters
        ----------
        prepared_state : PreparedTxnState
            The result of `prepare_transaction()`. ``PreparedTxnState()``: commit none.
        timeout : float
            Seconds; negative waits without limit.

        Raises
        ------
        KafkaException
            See the class. _STATE: no transaction is prepared.
        """
        deadline = deadline_of(timeout)
        kind = self._begin_complete_at_once(prepared_state, timeout).result()
        if kind is Kind.COMMIT:
            self.commit_transaction(left_s(deadline))
        elif kind is Kind.ABORT:
            self.abort_transaction(left_s(deadline))

    @contextmanager
    def transaction(self, consumer: Reader | None = None, timeout: float = -1) -> Iterator[None]:
        """A transaction as a ``with`` block: committed at its end, aborted if the block raises.

        Parameters
        ----------
        consumer : Consumer, optional
            Its positions become part of the transaction.
        timeout : float
            Seconds for each call; negative waits without limit.
        """
        self.begin_transaction()
        try:
            yield
            if consumer is not None:
                owner = owner_of(consumer)  # first: after a rebalance the coordinator refuses it
                positions = consumer.position(consumer.assignment())
                self.send_offsets_to_transaction(positions, owner, timeout)
            self.commit_transaction(timeout)
        except BaseException as error:
            if self._begin_may_abort(error).result():
                self.abort_transaction(timeout)
            raise

    # --- the steps of these calls, for threads and coroutines ---

    def _transactions(self) -> Transactions:
        self._client.check_open(CLOSED_TEXT)
        found = self._client.main.transactions
        if found is None:
            raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED, NOT_CONFIGURED))
        return found

    def _begin_commit_at_once(self, timeout: float) -> PendingCall[bool]:
        """Begins a commit: accepts no more messages. True: all are delivered, and it is done."""
        begun = self._begin_step(self._transactions().shut_and_commit, timeout)
        return begun.then(lambda outcome: outcome is not OUTSTANDING)

    def _begin_prepare_at_once(self, timeout: float) -> PendingCall[PreparedTxnState | None]:
        """Begins a prepare: accepts no more messages. None: messages are outstanding."""
        begun = self._begin_step(self._transactions().shut_and_prepare, timeout)
        return begun.then(lambda outcome: None if outcome is OUTSTANDING else outcome)

    def _begin_complete_at_once(
        self, prepared_state: object, timeout: float
    ) -> PendingCall[Kind | None]:
        """Ends a transaction that only the coordinator knows. A `Kind`: make that call instead."""
        manager = self._transactions()
        if not isinstance(prepared_state, PreparedTxnState):
            raise TypeError(
                f"prepared_state must be PreparedTxnState, not {type(prepared_state).__name__}"
            )
        return self._begin_step(partial(manager.complete, prepared_state), timeout)

    def _begin_refusing(self) -> PendingCall[None]:
        """Begins an abort: the producer accepts no more messages."""
        manager = self._transactions()
        return self._begin(lambda: manager.shut(abort=True)).then(raise_error)

    def _waits_on(self, left: int, deadline: float | None, *, abort: bool) -> bool:
        """Between two checks of a flush: whether to wait for ``left`` outstanding messages."""
        if not abort and self._transactions().error is not None:
            return False  # their transaction can't be committed, so don't wait for them
        if left_s(deadline) == 0:
            text = f"{left} messages of the transaction are still to be delivered: call again"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text, retriable=True))
        return True

    def _begin_may_abort(self, error: BaseException) -> PendingCall[bool]:
        """Whether the transaction can be aborted after an exception in its block.

        It can't after a fatal error, or while a commit is running.
        """
        manager = self._transactions()
        if is_fatal(error):
            return ReadyCall(False)
        return self._begin(lambda: not manager.committing)

    def _begin_end(self, timeout: float, *, abort: bool) -> PendingCall[None]:
        """Ends a transaction by a commit or an abort."""
        manager = self._transactions()
        return self._begin_step(manager.abort if abort else manager.commit, timeout)

    def _begin_step(
        self, start: Callable[[Callable[[Any], None], float], None], timeout: float
    ) -> PendingCall[Any]:
        """Starts work on the control thread, which itself reports when the time is over."""

        def make(deadline: float, done: Callable[[Any], None]) -> list[Call]:
            start(done, deadline)
            return []

        return PendingCall.settle(self._client.main, make, timeout)

    def _begin(self, work: Callable[[], T]) -> PendingCall[T]:
        return PendingCall.run(self._client.main, work)

    # --- the cluster ---

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password for PLAIN and SCRAM.

        The next authentication uses them; authenticated connections stay. Other mechanisms, and
        connections without SASL, ignore them.

        Parameters
        ----------
        username, password : str
            The new credentials.

        Raises
        ------
        TypeError
            One of them is not a str.
        """
        self._client.set_sasl_credentials(username, password)

    def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs (librdkafka: ``rd_kafka_brokers_add()``).

        The client tries them like those of ``bootstrap.servers``: when it has no other broker, and
        for a rebootstrap. The call doesn't wait for a connection.

        Parameters
        ----------
        brokers : str
            Comma-separated servers, as in ``bootstrap.servers``.

        Returns
        -------
        int
            The number of servers in ``brokers``, also those that the client knows already.

        Raises
        ------
        KafkaException
            _INVALID_ARG: an entry is not a valid server, or has another protocol than
            ``security.protocol``. No server is added then.
        TypeError
            ``brokers`` is not a str.
        """
        return self._client.brokers_add(brokers)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Asks a broker for the cluster's brokers, topics and partitions.

        Parameters
        ----------
        topic : str, optional
            Only this topic; None for all.
        timeout : float
            Seconds to wait; negative waits without limit.

        Returns
        -------
        ClusterMetadata
            Brokers, topics and partitions.

        Raises
        ------
        KafkaException
            No broker answered in time.
        """
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """Asks a broker for the cluster's id (KIP-78).

        Parameters
        ----------
        timeout : float
            Seconds to wait; negative waits without limit.

        Returns
        -------
        str or None
            None: the cluster is older than 0.10.1.

        Raises
        ------
        KafkaException
            No broker answered in time.
        """
        return self._client.cluster_id(timeout)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id under which this client pushes its metrics to the cluster (KIP-714).

        The id never changes.

        Parameters
        ----------
        timeout : float
            Seconds to wait until a broker has assigned one; negative waits without limit.

        Returns
        -------
        Uuid
            The id.

        Raises
        ------
        KafkaException
            _UNSUPPORTED_FEATURE: the brokers take no client metrics. _STATE: enable.metrics.push is
            false. Or no broker answered in time, or the broker refused.
        """
        return self._client.client_instance_id(timeout)

    def metrics(self) -> ClientMetrics:
        """Returns this client's statistics: the document of ``stats_cb``, typed.

        It works without ``statistics.interval.ms``, but then the windows of latencies and batch
        sizes are empty. With it they cover the time since the last call, or, with a ``stats_cb``,
        since its last document.

        Returns
        -------
        ClientMetrics
            The statistics.

        Raises
        ------
        RuntimeError
            The client is closed.
        """
        return self._client.metrics(CLOSED_TEXT)

    def fatal_error(self) -> KafkaError | None:
        """Returns the fatal error of this producer, None if it has none.

        After a fatal error the producer can't keep its guarantees. ``error_cb`` gets the error,
        too. From then on `produce()` raises KafkaException with _FATAL, and queued messages are
        reported with _PURGE_QUEUE. Messages in flight get the broker's answer: call `flush()`, then
        close.
        """
        return self._client.fatal

    # --- the end ---

    def close(self, timeout: float = -1) -> bool:
        """Flushes for up to ``timeout`` seconds, then closes.

        Messages of a transaction that has to be aborted aren't waited for: their reports have its
        error. Messages that are still queued after that are dropped: their callbacks are called
        with _PURGE_QUEUE, and a warning in the log has their number. To know the number before,
        call `flush()`.

        Parameters
        ----------
        timeout : float
            Seconds; negative waits until all messages are delivered.

        Returns
        -------
        bool
            True, also when the producer is closed already.
        """
        if not self._client.closed:
            deadline = deadline_of(timeout)
            self._fail_lost()
            if timeout != 0:
                self.flush(timeout)
            self._mark_closed()
            self._warn_of_dropped()
            try:
                self._client.push_last(left_s(deadline))
            finally:
                self._shut()
        return True

    def _fail_lost(self) -> None:
        """Before close() flushes: fails the messages of a transaction that can't be committed."""
        main = self._client.main
        manager = main.transactions
        if manager is not None:
            main.post(partial(manager.give_up, self._client.fail_queued))

    def _warn_of_dropped(self) -> None:
        """Before close(): warns of messages that will be dropped."""
        left = len(self)
        if left and not self._client.closed:
            text = "closed with %d messages outstanding: undelivered messages are dropped"
            self._client.logger.warning(text, left)

    def _warn_of_loss(self, what: str) -> int:
        """Warns of messages that are lost without a close(). Returns their number."""
        left = self._client.engine.unsettled
        if left:
            text = "%s with %d messages that aren't delivered: they are lost. "
            text += "Call flush() or close() before"
            self._client.logger.warning(text, what, left)
        return left

    def _end_with_interpreter(self) -> None:
        """At exit: drops queued messages and calls the last delivery callbacks."""
        if not self._warn_of_loss("the interpreter exits"):
            return
        try:
            self._shut()
        except Exception:
            self._client.logger.exception(
                "a delivery callback has raised while the interpreter exits"
            )

    def _shut(self) -> None:
        self._mark_closed()
        try:
            self._client.close()
            if not self._client.forked:
                self._serve_last()
        finally:
            if not self._client.forked:
                self._drain()
                self._client.release()

    def __enter__(self) -> Self:
        """The producer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flushes and closes. After KeyboardInterrupt and the like, it closes without a flush."""
        self.close(-1 if kind is None or issubclass(kind, Exception) else 0)

    def __del__(self) -> None:
        """Stops the threads of a producer that was dropped without close().

        Queued messages are lost. No callbacks are called, because the garbage collector may run
        this on any thread. A warning in the log has the number of lost messages.
        """
        client = own_client(self)
        if client is not None and not client.closed:
            self._mark_closed()
            self._warn_of_loss("the producer was dropped")
            self._drain()  # before the client goes: no callback gets its reports
            client.drop()

    def __repr__(self) -> str:
        """The producer's name, state and number of messages."""
        if own_client(self) is None:
            return object.__repr__(self)
        state = "closed" if self._client.closed else f"{len(self)} outstanding"
        return f"<Producer {self._client.name} ({state})>"


def _at_exit() -> None:
    """Ends open producers at exit.

    It runs before the exit function of `client`, because atexit calls later functions first.
    """
    begin_exit()
    for producer in existing(_producers):
        if not producer._client.closed:
            producer._end_with_interpreter()


_producers: weakref.WeakSet[Producer] = weakref.WeakSet()
atexit.register(_at_exit)


def share(producer: Producer) -> Shared:
    """The data with which other producers `adopt()` the next transaction.

    KafkaException (_STATE): the producer isn't initialized, or it is in a transaction.
    """
    found = producer._client.main.run(producer._transactions().share)
    if isinstance(found, KafkaError):
        raise KafkaException(found)
    return found


def adopt(producer: Producer, shared: Shared, *, tolerant: bool = False) -> None:
    """Joins another producer's transaction, without ``init_transactions()``.

    ``tolerant``: messages that the broker refuses because they are too large or invalid don't fail
    the transaction. Their delivery reports have the error.

    This is not for applications. No two producers may write to the same partition. Exactly one
    producer ends the transaction, after all have delivered; the others only flush.
    KafkaException: the producer has a fatal error, or an unfinished call.
    """
    manager = producer._transactions()
    error = producer._client.main.run(lambda: manager.adopt(shared, tolerant=tolerant))
    if error is not None:
        raise KafkaException(error)


def transaction_error(producer: Producer) -> KafkaError | None:
    """Why the producer's transaction can't be committed; None: no error is known."""
    return producer._transactions().error


def owner_of(consumer: Reader) -> ConsumerGroupMetadata:
    """The identity for a commit; see `checked_owner`."""
    return checked_owner(consumer.consumer_group_metadata(), consumer.subscription())


def checked_owner(group_metadata: object, subscription: list[str]) -> ConsumerGroupMetadata:
    """The identity for a commit. ``KafkaException``: the group has removed this member.

    It joins again in its next poll(). Until then it must not commit: others may own its partitions.
    Without this check, brokers would accept such offsets while the group is empty.
    """
    identity = _member_of(group_metadata)
    if identity.generation < 0 and subscription:
        text = f"group {identity.group_id} has given this member's partitions away"
        raise KafkaException(KafkaError(KafkaError._ASSIGNMENT_LOST, text, txn_requires_abort=True))
    return identity


def _member_of(given: object) -> ConsumerGroupMetadata:
    if isinstance(given, bytes):
        return ConsumerGroupMetadata.from_bytes(given)
    if isinstance(given, ConsumerGroupMetadata):
        return given
    wanted = "what Consumer.consumer_group_metadata() returns"
    raise TypeError(f"group_metadata must be {wanted}, not {type(given).__name__}")


def wait_s(deadline: float | None) -> float:
    """How long to wait for messages before the next check whether to wait for them."""
    left = left_s(deadline)
    return CHECK_INTERVAL_S if left < 0 else min(left, CHECK_INTERVAL_S)


def is_fatal(error: BaseException) -> bool:
    """Whether the error is fatal: not even an abort is possible."""
    return (
        isinstance(error, KafkaException)
        and isinstance(error.args[0], KafkaError)
        and error.args[0].fatal()
    )


def _offsets_of(positions: list[TopicPartition]) -> dict[Key, OffsetPosition]:
    if not isinstance(positions, list | tuple) or not all(
        isinstance(each, TopicPartition) for each in positions
    ):
        raise TypeError("positions must be a list of TopicPartition")
    return {
        (each.topic, each.partition): position_of(each) for each in positions if each.offset >= 0
    }


def _partitions_of(
    client: ClientCore, timeout_s: float, topic: str, hint: str | None = None
) -> int:
    """Waits for the number of a topic's partitions and returns it."""
    return begin_partitions_of(client, timeout_s, topic, hint).result()


def begin_partitions_of(
    client: ClientCore, timeout_s: float, topic: str, hint: str | None = PARTITIONER_HINT
) -> PendingCall[int]:
    """Begins to ask the control thread for the number of a topic's partitions."""
    router = client.main.router

    def ask(deadline: float, done: Callable[[Any], None]) -> list[Call]:
        if router is not None:
            router.ask(topic, deadline, done, time.monotonic())
        return []

    def as_exception(cause: KafkaError) -> Exception:
        if cause.code() == KafkaError._DESTROY:
            return RuntimeError(CLOSED_TEXT)
        return KafkaException(cause, hint=hint)

    return PendingCall.gather(client.main, ask, timeout_s).catch(as_exception)


def _exception_of(
    client: ClientCore, marks_fatal: bool, status: int, text: str | None, where: str | None
) -> KafkaException:
    """The exception of `produce()` for an engine status.

    ``where`` names the message among several. ``marks_fatal``: the _FATAL error is ``fatal()``.
    """
    hint = None
    if status == STATUS_FATAL:
        cause = client.fatal
        if cause is not None:
            text = f"{KafkaError(KafkaError._FATAL).str()}: {cause.str()}"
        return KafkaException(
            KafkaError(KafkaError._FATAL, text, fatal=marks_fatal),
            hint="flush() for the last reports, close(), "
            "and decide by fatal_error() whether to make another producer",
        )
    if status == STATUS_TOO_LARGE:
        limit = client.config.integer("message.max.bytes")
        text = f"Broker: Message size too large: over message.max.bytes={limit}"
        hint = "raise message.max.bytes here and on the broker, or send less"
    if status == STATUS_NO_TRANSACTION:
        hint = "no transaction is open: init_transactions() once, then begin_transaction()"
    error = from_status(status, text)
    if where is not None:
        error = KafkaError(error.code(), f"{error.str()}: {where}")
    return KafkaException(error, hint=hint)
