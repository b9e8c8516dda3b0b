"""The clients of kafka-python as thin classes on kafka_native.

Change the import, and a program runs::

    from kafka_native.compat.kafka import KafkaConsumer, KafkaProducer

They have the calls that map one to one to `kafka_native`. docs/guide/from-kafka-python.md lists
them. An option without a counterpart raises `TypeError` with what to do. An option with a dot is a
property of kafka_native.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

import kafka_native
from kafka_native import Consumer, ConsumerGroupMetadata, Message, Producer
from kafka_native.compat._errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    check_committed,
    check_topic,
    committing,
    converted,
    error_of,
    seeking,
)
from kafka_native.compat._listener import (
    ConsumerRebalanceListener,
    Method,
    Ours,
    assign,
    callbacks_of,
)
from kafka_native.compat._options import (
    CONSUMER_DEFAULTS,
    DEFAULTS,
    KAFKA_CONSUMER,
    KAFKA_PRODUCER,
    check_records_max,
    checked_offset,
    function,
    pattern_of,
    properties,
)
from kafka_native.compat._records import (
    ConsumerRecord,
    OffsetAndMetadata,
    RecordMaker,
    RecordMetadata,
    TopicPartition,
    by_partition,
    group_of,
    message_fields,
    metadata_of,
    offsets_of,
    ours,
    theirs,
)
from kafka_native.consumer import CLOSE_S
from kafka_native.consumer_events import give_back

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "TopicPartition",
]

logger = logging.getLogger(__name__)

MAX_BLOCK_MS = 60_000  # their default: send() waits while the queue is full
REQUEST_TIMEOUT_MS = 30_000  # their default
TOPIC_CHECK_S = 0.1
"""The interval in which the constructor of a consumer without a group looks for its topics."""
POLL_S = 0.1
"""The longest wait before `FutureRecordMetadata.get()` looks at its outcome again."""


class _Reports:
    """The reports of a producer. One thread at a time polls for them; the others wait for it."""

    def __init__(self, client: Producer) -> None:
        self._client = client
        self.turn = threading.Condition()
        """It guards the outcomes and callbacks of all futures."""
        self._poller = 0
        self.is_closed = False

    def serve(self) -> None:
        """Reports what is due, unless a thread polls: that one does."""
        if not self._poller:
            self._client.poll(0)

    def wait(self, has_outcome: Callable[[], bool], deadline: float | None) -> None:
        """Waits for an outcome: of this future, of any other, or until the deadline."""
        me = threading.get_ident()
        with self.turn:
            if has_outcome():
                return
            if self._poller not in (0, me):
                self.turn.wait(_left_s(deadline))
                return
            outer, self._poller = self._poller, me  # a callback may wait, too
        try:
            # flush() in another thread may make the report that this one waits for
            self._client.poll(min(POLL_S, _left_s(deadline)))
        except RuntimeError:
            if not self.is_closed:
                raise
            with self.turn:  # another thread closes the producer: it makes all reports
                if not self.turn.wait_for(has_outcome, min(CLOSE_S, _left_s(deadline))):
                    raise
        finally:
            with self.turn:
                self._poller = outer
                self.turn.notify_all()


def _left_s(deadline: float | None) -> float:
    return threading.TIMEOUT_MAX if deadline is None else max(0.0, deadline - time.monotonic())


class FutureRecordMetadata:
    """The outcome of a message.

    It is set inside `get()`, `KafkaProducer.send()`, `KafkaProducer.flush()` and
    `KafkaProducer.close()`, and so are its callbacks called. The logger
    ``kafka_native.compat.kafka`` has their exceptions.
    """

    def __init__(self, reports: _Reports) -> None:
        """Wait for a message of this producer."""
        self._reports = reports
        self._callbacks: list[tuple[bool, Callable[[Any], object]]] = []
        self.is_done = False
        self.value: RecordMetadata | None = None
        self.exception: KafkaError | None = None

    def _report(self, error: kafka_native.KafkaError | None, message: Message) -> None:
        with self._reports.turn:
            if error is None:
                self.value = metadata_of(message)
            else:
                self.exception = error_of(error)
            self.is_done = True
            callbacks, self._callbacks = self._callbacks, []
            self._reports.turn.notify_all()
        for good, callback in callbacks:
            self._call(good, callback)

    def _call(self, good: bool, callback: Callable[[Any], object]) -> None:
        if good != self.succeeded():
            return
        try:
            callback(self.value if good else self.exception)
        except Exception:  # of another message than the one that the running call is about
            logger.exception("a callback of a message has raised")

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        :param timeout: Seconds.
        :raises KafkaTimeoutError: The time is up.
        :raises KafkaError: The message wasn't delivered.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_done:
            with converted():
                self._reports.wait(lambda: self.is_done, deadline)
            if deadline is not None and time.monotonic() >= deadline and not self.is_done:
                raise KafkaTimeoutError(f"no outcome after {timeout} s")
        if self.exception is not None:
            raise self.exception
        assert self.value is not None
        return self.value

    def succeeded(self) -> bool:
        """Return whether the message was delivered."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Return whether the message failed."""
        return self.is_done and self.exception is not None

    def add_callback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call a function with these arguments and the metadata of the delivered message."""
        return self._add(True, partial(callback, *args, **kwargs))

    def add_errback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call a function with these arguments and the error of the failed message."""
        return self._add(False, partial(callback, *args, **kwargs))

    def _add(self, good: bool, callback: Callable[[Any], object]) -> Self:
        with self._reports.turn:
            if not self.is_done:
                self._callbacks.append((good, callback))
                return self
        self._call(good, callback)
        return self


class KafkaProducer:
    """A producer with the calls of kafka-python's."""

    def __init__(self, **options: Any) -> None:
        """Create the client.

        :raises TypeError: An option is unknown, or has no counterpart.
        """
        self._key = function(options, "key_serializer")
        self._value = function(options, "value_serializer")
        defaults = {**DEFAULTS, "max.block.ms": MAX_BLOCK_MS}
        with converted():
            self._client = Producer(properties(options, KAFKA_PRODUCER, defaults))
        self._reports = _Reports(self._client)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Iterable[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Queue a message. It waits up to max_block_ms while the queue is full.

        :raises KafkaTimeoutError: The queue is still full.
        :raises IllegalStateError: The producer is closed.
        """
        if self._reports.is_closed:
            raise IllegalStateError("the producer is closed")
        sent = FutureRecordMetadata(self._reports)
        given = message_fields(partition, timestamp_ms, headers)
        try:
            with converted():
                self._client.produce(
                    topic,
                    self._value(value),
                    self._key(key),
                    on_delivery=sent._report,
                    **given,
                )
        except BufferError as error:
            raise KafkaTimeoutError("the queue is full") from error
        self._reports.serve()  # calls back for earlier messages
        return sent

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all queued messages have an outcome.

        :raises KafkaTimeoutError: The time is up.
        """
        if self._reports.is_closed:
            return  # each message has its outcome
        with converted():
            left = self._client.flush(-1 if timeout is None else timeout)
        if left:
            raise KafkaTimeoutError(f"{left} messages have no outcome after {timeout} s")

    def close(self, timeout: float | None = None) -> None:
        """Send what is queued, and close the client."""
        self._reports.is_closed = True
        with converted():
            self._client.close(-1 if timeout is None else timeout)

    def __enter__(self) -> Self:
        """Return this producer for the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Call `close()`, whatever happened in the block."""
        self.close()

    def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions."""
        with converted():
            return set(self._client.list_topics(topic).topics[topic].partitions)

    def init_transactions(self) -> None:
        """Take over the transactions of this transactional_id."""
        with converted():
            self._client.init_transactions()

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent belongs to it."""
        with converted():
            self._client.begin_transaction()

    def commit_transaction(self) -> None:
        """Commit the transaction, after all its messages are delivered."""
        with converted():
            self._client.commit_transaction()

    def abort_transaction(self) -> None:
        """Abort the transaction: no reader sees its messages."""
        with converted():
            self._client.abort_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[tuple[str, int], Any],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit offsets with the transaction.

        :param group_metadata: `KafkaConsumer.group_metadata()`. With a group's id instead, the
            broker can't refuse a consumer that has left the group.
        """
        with converted():
            self._client.send_offsets_to_transaction(offsets_of(offsets), group_of(group_metadata))


def _seconds(timeout_ms: float | None) -> float:
    return -1.0 if timeout_ms is None else timeout_ms / 1000


def _called(method: Method, partitions: Ours) -> None:
    try:
        method(theirs(partitions))
    except Exception as error:
        raise KafkaError("the rebalance listener has raised") from error


class KafkaConsumer:
    """A consumer with the calls of kafka-python's.

    Without a group_id, the constructor assigns all partitions that the topics have then.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        """Create the client, and subscribe to the topics.

        :raises TypeError: An option is unknown, or has no counterpart.
        :raises UnknownTopicOrPartitionError: There is no such topic, for a consumer without a
            group.
        """
        self._make = RecordMaker(
            function(options, "key_deserializer"), function(options, "value_deserializer"), list
        )
        wait_ms = options.pop("consumer_timeout_ms", float("inf"))
        self._wait_s = None if wait_ms == float("inf") else wait_ms / 1000
        conf = properties(options, KAFKA_CONSUMER, CONSUMER_DEFAULTS)
        self._is_closed = False
        self._commits_at_close = str(conf.get("enable.auto.commit", True)).lower() != "false"
        with converted():
            self._client = Consumer(conf)
            if topics and "group.id" in conf:
                self._client.subscribe(list(topics))
            elif topics:
                wait_ms = float(conf.get("socket.timeout.ms", REQUEST_TIMEOUT_MS))
                found = [self._partitions_of(topic, wait_ms / 1000) for topic in topics]
                self._client.assign(ours(chain(*found)))

    def _partitions_of(self, topic: str, timeout_s: float) -> list[tuple[str, int]]:
        """Waits until the topic has partitions: a broker may have to create it."""
        deadline = time.monotonic() + timeout_s
        while True:
            known = self._client.list_topics(topic, _left_s(deadline)).topics[topic]
            if known.partitions:
                return [(topic, number) for number in known.partitions]
            check_topic(known, time.monotonic() + TOPIC_CHECK_S < deadline)
            time.sleep(TOPIC_CHECK_S)

    def _give_back(self, messages: list[Message]) -> None:
        give_back(self._client._client, self._client._control.fetches, messages)

    def _records(self, messages: list[Message]) -> list[ConsumerRecord]:
        return self._make.records(messages, self._give_back)

    def __iter__(self) -> Self:
        """Return this consumer: it is its own iterator."""
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next message.

        The loop ends after consumer_timeout_ms without one, and when the consumer is closed.
        """
        if self._is_closed:
            raise StopIteration
        while True:
            with converted():
                message = self._client.poll(self._wait_s)
            if message is None:
                raise StopIteration
            for record in self._records([message]):
                return record

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the messages that are there, at most ``max_records`` (default: 500).

        It waits ``timeout_ms`` for the first one.

        :raises IllegalStateError: The consumer is closed.
        """
        if timeout_ms < 0:
            raise ValueError("timeout_ms must not be negative")
        check_records_max(max_records)
        if self._is_closed:
            raise IllegalStateError("the consumer is closed")
        with converted():
            messages = self._take(timeout_ms / 1000, max_records)
        return by_partition(self._records(messages))

    def _take(self, timeout_s: float, messages_max: int | None) -> list[Message]:
        client = self._client
        if messages_max is None:
            return client.consume(None, timeout_s)
        first = client.poll(timeout_s)
        if first is None:
            return []
        if messages_max == 1 or client._client.engine.callbacks:
            return [first]  # a callback may concern it: the next call runs it
        try:
            return [first, *client.consume(messages_max - 1, 0)]
        except BaseException:
            self._give_back([first])
            raise

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group. A pattern matches from a name's beginning.

        :param listener: Called inside `poll()`, the iteration and `close()`. They raise a
            KafkaError if it raises.
        """
        callbacks = callbacks_of(listener, self._assigned, _called)
        with converted():
            self._client.subscribe(pattern_of(topics, pattern), *callbacks)

    def _assigned(self, method: Method, partitions: Ours) -> None:
        assign(self._client, partitions)
        _called(method, partitions)

    def unsubscribe(self) -> None:
        """Leave the group, and read no topic or partition."""
        with converted():
            if self._client.subscription():
                self._client.unsubscribe()
            else:
                self._client.unassign()

    def subscription(self) -> set[str]:
        """Return the topics of the subscription."""
        return set(self._client.subscription())

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, without a group."""
        with converted():
            self._client.assign(ours(partitions))

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this consumer reads."""
        return theirs(self._client.assignment())

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Continue at an offset."""
        [where] = ours([partition])
        where.offset = checked_offset(offset)
        with seeking(ValueError):
            self._client.seek(where)

    def _assigned_ones(self) -> set[TopicPartition]:
        if found := self.assignment():
            return found
        raise ValueError("no partitions are assigned yet")

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue at the first message of these partitions, or of all."""
        with seeking(ValueError):
            self._client.seek_to_beginning(ours(partitions or self._assigned_ones()))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue after the last message of these partitions, or of all."""
        with seeking(ValueError):
            self._client.seek_to_end(ours(partitions or self._assigned_ones()))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no messages of these partitions until `resume()`."""
        with converted():
            self._client.pause(ours(partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """End `pause()` for these partitions."""
        with converted():
            self._client.resume(ours(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return theirs(self._client.paused())

    def position(self, partition: tuple[str, int], timeout_ms: float | None = None) -> int:
        """Return the next offset of a partition. It is negative until the first message is read.

        :param timeout_ms: Has no effect: the call waits for no broker.
        """
        with converted():
            return self._client.position(ours([partition]))[0].offset

    def commit(self, offsets: Mapping[tuple[str, int], Any] | None = None) -> None:
        """Commit offsets, or the positions. It waits for the broker.

        :raises CommitFailedError: The group has given the partitions to others.
        """
        stored = None if offsets is None else offsets_of(offsets)
        with committing():
            check_committed(self._client.commit(offsets=stored, asynchronous=False))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity, for `KafkaProducer.send_offsets_to_transaction()`."""
        with converted():
            return self._client.consumer_group_metadata()

    def highwater(self, partition: tuple[str, int]) -> int | None:
        """Return the end offset of the partition's last fetch; None before the first one."""
        with converted():
            _, high = self._client.get_watermark_offsets(ours([partition])[0], cached=True)
        return high if high >= 0 else None

    def committed(
        self,
        partition: tuple[str, int],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> int | OffsetAndMetadata | None:
        """Return the group's committed offset; None if there is none.

        :param metadata: Return an OffsetAndMetadata.
        :raises KafkaTimeoutError: The time is up.
        """
        with converted():
            [found] = self._client.committed(ours([partition]), _seconds(timeout_ms))
        if found.offset < 0:
            return None
        if not metadata:
            return found.offset
        epoch = -1 if found.leader_epoch is None else found.leader_epoch
        return OffsetAndMetadata(found.offset, found.metadata or "", epoch)

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        :raises KafkaTimeoutError: The time is up.
        """
        found = self._watermarks(partitions, timeout_ms)
        return {where: low for where, (low, _) in found.items()}

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each partition.

        :raises KafkaTimeoutError: The time is up.
        """
        found = self._watermarks(partitions, timeout_ms)
        return {where: high for where, (_, high) in found.items()}

    def _watermarks(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: float | None
    ) -> dict[TopicPartition, tuple[int, int]]:
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        found = {}
        with converted():
            for each in ours(partitions):
                where = TopicPartition(each.topic, each.partition)
                found[where] = self._client.get_watermark_offsets(each, _left_s(deadline))
        return found

    def topics(self) -> set[str]:
        """Return the names of the cluster's topics."""
        with converted():
            return set(self._client.list_topics().topics)

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions."""
        with converted():
            return set(self._client.list_topics(topic).topics[topic].partitions)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit if enable_auto_commit is on, leave the group, and close the client.

        :param timeout_ms: 30 s by default.
        :raises TypeError: ``autocommit`` is false, but enable_auto_commit is on.
        """
        if not autocommit and self._commits_at_close:
            text = "close(autocommit=False) has no counterpart: set enable_auto_commit=False"
            raise TypeError(text)
        self._is_closed = True
        with converted():
            self._client.close(CLOSE_S if timeout_ms is None else timeout_ms / 1000)

    def __enter__(self) -> Self:
        """Return this consumer: it is its own iterator."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Call `close()`, whatever happened in the block."""
        self.close()
