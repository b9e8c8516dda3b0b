"""Producer: sends messages, reports their delivery."""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from kafka_native._native.arrow_producing import produce_rows
from kafka_native._native.arrow_report import ArrowReport
from kafka_native._native.engine import begin_exit
from kafka_native._native.enums import IDEMPOTENCE_OFF, IDEMPOTENCE_WANTED
from kafka_native._native.producing import ProducerCore
from kafka_native._native.relaying import Relay
from kafka_native.client import HANDLE_CLOSED_TEXT, Client, UninitializedClient, living
from kafka_native.config import Config, parse
from kafka_native.control.backoff import Backoff
from kafka_native.control.calls import Call
from kafka_native.control.coordinator import GROUP, TRANSACTION, Coordinator
from kafka_native.control.identity import Identity
from kafka_native.control.routing import Routing
from kafka_native.control.settings import (
    connection_settings,
    consumer_settings,
    producer_settings,
)
from kafka_native.control.transactions import TRANSACTION_VERSION, Transactions
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import STATUS_FATAL, STATUS_TOO_LARGE, KafkaError, KafkaException, from_status
from kafka_native.interceptors import Chain, ProducerHooks, intercept
from kafka_native.partitioners import partitioner_id
from kafka_native.statistics import ClientMetrics
from kafka_native.transacting import Transacting
from kafka_native.types import ClusterMetadata, Uuid

CLOSED_TEXT = "Producer has been closed"
PARTITIONS_WAIT_S = 60.0
"""How long one who has to know a topic's partitions waits for them unless max.block.ms is set: as Java."""


class Producer(Transacting, ProducerCore):
    """An asynchronous producer.

    ``produce()`` queues a message and returns; background threads batch, compress and send. ``poll()`` and
    ``flush()`` serve the delivery reports.

        with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
            producer.produce("greetings", "hello", on_delivery=lambda error, message: print(error or message.offset()))

    Leaving the ``with`` block flushes. Configuration: librdkafka's properties (docs/CONFIGURATION.md), as a dict,
    keywords, or both.

    Safe to use from several threads. After ``fork()`` the child has to make a producer of its own.
    """

    _client = UninitializedClient()

    def __init__(self, config: Mapping[str, Any] | None = None, /, **kwargs: Any) -> None:
        """KafkaException (_INVALID_ARG) names an unknown property or a value that can't be."""
        settings = parse({**(config or {}), **kwargs}, "producer")
        on_delivery = settings.function("on_delivery")
        interceptors: Any = settings["interceptors"]
        report_all = on_delivery is not None or interceptors is not None
        everything = {
            **connection_settings(settings),
            **consumer_settings(settings),
            **producer_settings(settings, partitioner_id(settings.text("partitioner")), report_all),
        }
        if interceptors is not None:
            everything["report_errors_only"] = (
                False  # they hear of every message, and tell on_delivery what it asked for
            )
        self._client = Client(settings, "producer", everything)
        if interceptors is not None:
            chain = Chain(interceptors, self._client.logs["interceptor"])
            self._errors_only = bool(settings["delivery.report.only.error"])
            on_delivery = partial(chain.deliver, on_delivery, self._errors_only)
            intercept(self, ProducerHooks, chain)
        exception_of = partial(_exception_of, self._client)
        block_s = settings.integer("max.block.ms") / 1000
        partitioner = settings.function("partitioner_cb")
        hint = "partitioner_cb has to know how many partitions there are: produce() waits for it, see max.block.ms"
        partitions_of = partial(_partitions_of, self._client, block_s or PARTITIONS_WAIT_S, hint=hint)
        self._open(self._client.engine, on_delivery, exception_of, block_s, partitioner, partitions_of)
        self._produce_rows = partial(produce_rows, block_s=block_s, needs_partition=partitioner is not None)
        main = self._client.main
        main.routing = Routing(self._client.engine, main.metadata, main.pool)
        if everything["transactional_id"]:
            main.transactions = self._make_transactions(settings)
            main.on_close.append(main.transactions.close)
        elif everything["idempotence"] != IDEMPOTENCE_OFF:
            delays = Backoff(settings.number("retry.backoff.ms") / 1000, settings.number("retry.backoff.max.ms") / 1000)
            timeout_s = settings.integer("socket.timeout.ms") / 1000
            waived = partial(_waived, self._client) if everything["idempotence"] == IDEMPOTENCE_WANTED else None
            log = self._client.logs["eos"]
            main.identity = Identity(self._client.engine, delays, timeout_s, self._client.on_fatal, waived, log)
        _producers.add(self)
        main.start()

    def _make_transactions(self, settings: Config) -> Transactions:
        main, engine = self._client.main, self._client.engine
        timeout_s = settings.integer("socket.timeout.ms") / 1000
        delays = (settings.number("retry.backoff.ms") / 1000, settings.number("retry.backoff.max.ms") / 1000)
        coordinators: dict[str, Coordinator] = {}

        def coordinator(key: str, key_type: int) -> Coordinator:
            made = Coordinator(main.pool, key, key_type=key_type, timeout_s=timeout_s, backoff=Backoff(*delays))
            main.managers.append(made)
            return made

        def of_group(group: str) -> Coordinator:
            if group not in coordinators:
                coordinators[group] = coordinator(group, GROUP)
            return coordinators[group]

        transactional_id = settings.text("transactional.id")
        made = Transactions(
            engine,
            coordinator(transactional_id, TRANSACTION),
            transactional_id,
            timeout_ms=settings.integer("transaction.timeout.ms"),
            request_s=timeout_s,
            backoff=Backoff(*delays),
            group_coordinator=of_group,
            version=lambda: main.pool.features.get(TRANSACTION_VERSION, 0),
            on_fatal=self._client.on_fatal,
            hear=main.hear,
            log=self._client.logs["eos"],
            two_phase=bool(settings["transaction.two.phase.commit.enable"]),
        )
        main.managers.append(made)
        return made

    def produce_arrow(
        self,
        topic: str | None,
        data: Any,
        *,
        value: str | int | None = "value",
        key: str | int | None = None,
        headers: str | int | None = None,
        timestamp: str | int | None = None,
        partition: str | int | None = None,
        topic_column: str | int | None = None,
        on_delivery: Callable[[ArrowReport], object] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Queues every row of Arrow columns as a message, without an object a row and without the interpreter lock.

        A full queue is waited for. Each chunk of the input is checked as a whole before its first row is queued.

        :param topic: For rows that name none; None if ``topic_column`` names one for each.
        :param data: Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a pyarrow Table, RecordBatch or
            RecordBatchReader, a polars DataFrame, a DuckDB relation, a pandas DataFrame, an `ArrowBatch`; or a single
            column, which is the value then.
        :param value, key: Columns (names or indices) of binary or string: large, view, fixed-size and dictionary, too.
            A null is a null. ``value=None``: every value is null.
        :param headers: A column of list<struct<key, value>> or map; a null or an empty list: no headers.
        :param timestamp: Name of a column of timestamps of any unit, or of int64 milliseconds since 1970 (null and
            0: now); or an int for all.
        :param partition: Name of a column of integers (null and -1: the partitioner's choice); or an int for all.
        :param topic_column: A column of strings; where it is null, ``topic``.
        :param on_delivery: ``f(report)``, called once, by `poll()` or `flush()`, with an `ArrowReport` when every row
            has its outcome. Without it, rows are reported as other messages are (``on_delivery`` of the producer).
        :param timeout: Seconds that the whole call may wait for room; negative: for ever. None: ``max.block.ms`` for
            each time that nothing moves, if it is set, else for ever.
        :return: How many rows were taken, which is all of them. With ``on_delivery``, a row that can't be queued (over
            ``message.max.bytes``) is taken as well, and among the report's ``failed``.
        :raises BufferError: No room in time.
        :raises KafkaException: Without ``on_delivery``: a row is over ``message.max.bytes`` (MSG_SIZE_TOO_LARGE). Or
            the producer has a fatal error, or interceptors, which would have to be called for each row.
        :raises OSError: The stream of ``data`` failed.
        :raises RuntimeError: The producer is closed, maybe by another thread meanwhile.
        :raises TypeError: ``data`` isn't Arrow, or a column has another type.
        :raises ValueError: No such column; or a chunk that can't be right, or has a timestamp or partition out of
            range, a header whose key is null or no UTF-8: the text names column and row. None of the chunk is queued.

        Every exception, also KeyboardInterrupt, has ``rows``: how many of the first rows were taken before it. What was
        taken is sent, and reported.
        """
        self._client.check_open(CLOSED_TEXT)
        columns = {"value": value, "key": key, "headers": headers, "topic_column": topic_column}
        taken: int = self._produce_rows(self, topic, data, columns, timestamp, partition, on_delivery, timeout)
        return taken

    def _relay(self, topic: str, partition: int) -> Relay:
        """For record batches as they were fetched, see `kafka_native._native.relaying`."""
        self._client.check_open(CLOSED_TEXT)
        relay = Relay(self, topic, partition)
        try:  # what comes before the partitions are known could not go whole
            _partitions_of(self._client, PARTITIONS_WAIT_S, topic)
        except BaseException:
            relay.close()
            raise
        return relay

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Takes another user name and password for PLAIN and SCRAM, from the next authentication on.

        Connections that are authenticated stay. Other mechanisms, and connections without SASL, have no use for it.

        :raises TypeError: One of them is no str.
        """
        self._client.check_open(HANDLE_CLOSED_TEXT)
        self._client.set_sasl_credentials(username, password)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions.

        :param topic: Only this topic; None for all.
        :param timeout: Seconds to wait; negative waits for ever.
        :raises KafkaException: No broker answered in time.
        """
        self._client.check_open(HANDLE_CLOSED_TEXT)
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """The cluster's id (KIP-78), None of one before 0.10.1.

        :param timeout: Seconds to wait; negative waits for ever.
        :raises KafkaException: No broker answered in time.
        """
        self._client.check_open(HANDLE_CLOSED_TEXT)
        return self._client.cluster_id(timeout)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """The id under which this client's metrics are pushed to the cluster (KIP-714); it stays the same.

        :param timeout: Seconds to wait until a broker has given one; negative waits for ever.
        :raises KafkaException: _UNSUPPORTED_FEATURE: the brokers take no client metrics; _STATE: enable.metrics.push is
            false; no broker answered in time, or it has refused.
        """
        self._client.check_open(HANDLE_CLOSED_TEXT)
        return self._client.client_instance_id(timeout)

    def metrics(self) -> ClientMetrics:
        """What this client has counted: the document of ``stats_cb``, typed.

        It works without ``statistics.interval.ms``; only the windows of latencies and batch sizes are empty then. With
        it they hold what came since the last call, or, with a ``stats_cb``, since its last document.

        :raises RuntimeError: The client is closed.
        """
        return self._client.metrics(CLOSED_TEXT)

    def fatal_error(self) -> KafkaError | None:
        """What has ended this producer for good: its guarantees can't be kept any more. None: nothing.

        ``error_cb`` is told of it, too. From then on `produce()` raises KafkaException with _FATAL, and what was queued
        is reported with _PURGE_QUEUE. What was in flight gets the broker's answer: `flush()`, then close.
        """
        return self._client.fatal

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Gives up messages that are not delivered yet. Their delivery reports come with the next poll() or flush().

        :param in_queue: Those that wait to be sent: reported with _PURGE_QUEUE.
        :param in_flight: Those that are on their way: reported with _PURGE_INFLIGHT. They may have arrived all the
            same. Their connections are closed for it, and made anew.
        :param blocking: Return when the queues are empty. What is in flight is given up a moment later in any case.
        """
        self._client.check_open(CLOSED_TEXT)
        work = partial(self._client.engine.purge, in_queue, in_flight)
        if blocking:
            self._client.main.run(work)
        else:
            self._client.main.post(work)

    def close(self, timeout: float = -1) -> bool:
        """Flushes for up to ``timeout`` seconds (negative: until done), then closes.

        Messages of a transaction that has to be aborted aren't waited for: their reports have its error.
        Messages that are still queued after that are given up: their callbacks are called with _PURGE_QUEUE, and a
        warning in the log has their number. `flush()` returns it, for who wants to know before.

        :return: True, also when it is closed already.
        """
        if not self._client.closed:
            deadline = deadline_of(timeout)
            self._give_up_lost()
            if timeout != 0:
                self.flush(timeout)
            self._mark_closed()
            self._report_the_rest()
            try:
                self._client.push_last(left_s(deadline))
            finally:
                self._shut()
        return True

    def _give_up_lost(self) -> None:
        """Before close() flushes: messages of a transaction that can't be committed aren't waited for."""
        main = self._client.main
        manager = main.transactions
        if manager is not None:
            main.post(partial(manager.give_up, self._client.give_up))

    def _report_the_rest(self) -> None:
        """Before close() gives up what is left."""
        left = len(self)
        if left and not self._client.closed:
            text = "closed with %d messages outstanding: what wasn't delivered is given up"
            self._client.logger.warning(text, left)

    def _warn_of_loss(self, what: str) -> int:
        """Of a producer that nobody has closed: how many messages are lost, also in the log."""
        left = self._client.engine.unsettled
        if left:
            text = "%s with %d messages that aren't delivered: they are lost. Call flush() or close() before"
            self._client.logger.warning(text, what, left)
        return left

    def _end_with_interpreter(self) -> None:
        """At exit: gives up what is queued, and makes the last reports."""
        if not self._warn_of_loss("the interpreter exits"):
            return
        try:
            self._shut()
        except Exception:
            self._client.logger.exception("a delivery callback has raised while the interpreter exits")

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

    def __enter__(self) -> Producer:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flushes and closes; after KeyboardInterrupt and the like without waiting for what can't be sent."""
        self.close(-1 if kind is None or issubclass(kind, Exception) else 0)

    def __del__(self) -> None:
        """A producer that was dropped without close() ends its threads. What was queued is lost, and no callback hears.

        A warning in the log has the number: callbacks may do anything, and the collector runs this anywhere.
        """
        client = vars(self).get("_client")
        if client is not None and not client.closed:
            self._mark_closed()
            self._warn_of_loss("the producer was dropped")
            self._drain()  # before: its reports come to nobody
            client.drop()

    def __repr__(self) -> str:
        """Name, state and what is queued."""
        if "_client" not in vars(self):
            return object.__repr__(self)
        state = "closed" if self._client.closed else f"{len(self)} outstanding"
        return f"<Producer {self._client.name} ({state})>"


def _at_exit() -> None:
    """Before `client` closes what nobody has closed: an atexit function that is registered later is called earlier."""
    begin_exit()
    for producer in living(_producers):
        if not producer._client.closed:
            producer._end_with_interpreter()


_producers: weakref.WeakSet[Producer] = weakref.WeakSet()
atexit.register(_at_exit)


def _waived(client: Client, error: KafkaError) -> None:
    """Control thread: enable.idempotence is only the default, and the brokers can't, or don't allow it."""
    client.logs["eos"].warning("enable.idempotence is off: no producer id: %s", error.str())


def _partitions_of(client: Client, timeout_s: float, topic: str, hint: str | None = None) -> int:
    """How many partitions a topic has; waits until the control thread knows."""
    routing = client.main.routing

    def ask(deadline: float, done: Callable[[Any], None]) -> list[Call]:
        if routing is not None:
            routing.ask(topic, deadline, done, time.monotonic())
        return []

    try:
        count: int = client.main.gather(ask, timeout_s)
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        if cause.code() == KafkaError._DESTROY:
            raise RuntimeError(CLOSED_TEXT) from None
        raise KafkaException(cause, hint=hint) from None
    return count


def _exception_of(client: Client, status: int, text: str | None, where: str | None) -> KafkaException:
    """The exception that `produce()` raises for a status of the engine. ``where`` names the message of several."""
    hint = None
    if status == STATUS_FATAL:
        cause = client.fatal
        if cause is not None:
            text = f"{KafkaError(KafkaError._FATAL).str()}: {cause.str()}"
        return KafkaException(
            KafkaError(KafkaError._FATAL, text, fatal=True),
            hint="flush() for the last reports, close(), and decide by fatal_error() whether to make another producer",
        )
    if status == STATUS_TOO_LARGE:
        limit = client.config.integer("message.max.bytes")
        text = f"Broker: Message size too large: over message.max.bytes={limit}"
        hint = "raise message.max.bytes here and on the broker, or send less"
    error = from_status(status, text)
    if where is not None:
        error = KafkaError(error.code(), f"{error.str()}: {where}")
    return KafkaException(error, hint=hint)
