"""The clients of aiokafka as thin classes on kafka_native.

Change the import, and a program runs::

    from kafka_native.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer

They have the calls that map one to one to `kafka_native.aio`. docs/guide/from-aiokafka.md lists
them. An option without a counterpart raises `TypeError` with what to do. An option with a dot is a
property of kafka_native.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafka_native import Message
from kafka_native._native.delivery import Delivery
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.compat._errors import (
    ConsumerStoppedError,
    IllegalStateError,
    ProducerClosed,
    check_committed,
    check_topic,
    committing,
    converted,
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
    AIOKAFKA_PRODUCER,
    CONSUMER,
    CONSUMER_DEFAULTS,
    DEFAULTS,
    check_records_max,
    checked_offset,
    function,
    login,
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

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "TopicPartition",
]

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS = 40_000  # their default
TOPIC_CHECK_S = 0.1
"""The interval in which `AIOKafkaConsumer.start()` looks for a topic without a group."""
NOT_STARTED = "the client isn't started: await start() first"


class AIOKafkaProducer:
    """A producer with the calls of aiokafka's."""

    def __init__(self, **options: Any) -> None:
        """Check the options. `start()` creates the client.

        :raises TypeError: An option is unknown, or has no counterpart.
        """
        self._key = function(options, "key_serializer")
        self._value = function(options, "value_serializer")
        self._conf = properties(options, AIOKAFKA_PRODUCER, {**DEFAULTS, **login(options)})
        self._client: AIOProducer | None = None
        self._is_stopped = False

    @property
    def _started(self) -> AIOProducer:
        if self._client is None:
            raise IllegalStateError(NOT_STARTED)
        return self._client

    async def start(self) -> None:
        """Create the client. With a transactional_id, take over the transactions of that id."""
        if self._client is not None:
            return
        with converted():
            client = self._client = AIOProducer(self._conf)
        try:
            with converted():
                if "transactional.id" in self._conf:
                    await client.init_transactions()
        except BaseException:  # another call begins again
            self._client = None
            await client.close()
            raise

    async def stop(self) -> None:
        """Send what is queued, and close the client."""
        self._is_stopped = True
        if self._client is not None:
            await self._client.close()

    async def __aenter__(self) -> Self:
        """Call `start()`, and return this client."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Call `stop()`, whatever happened in the block."""
        await self.stop()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes]] | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a message.

        :return: A future. Await it for the broker's answer.
        :raises ProducerClosed: The producer is stopped.
        """
        if self._is_stopped:
            raise ProducerClosed("the producer is stopped")
        given = message_fields(partition, timestamp_ms, headers)
        with converted():
            delivery = await self._started.produce(
                topic, self._value(value), self._key(key), **given
            )
        sent: asyncio.Future[RecordMetadata] = delivery.get_loop().create_future()

        def delivered(done: Delivery[Message]) -> None:
            if sent.done():  # the program has cancelled it
                return
            if done.cancelled():
                sent.cancel()
                return
            try:
                with converted():
                    sent.set_result(metadata_of(done.result()))
            except Exception as error:
                sent.set_exception(error)

        delivery.add_done_callback(delivered)
        return sent

    async def send_and_wait(self, topic: str, *args: Any, **kwargs: Any) -> RecordMetadata:
        """Send a message, and wait for the broker's answer. The arguments are those of `send()`."""
        return await (await self.send(topic, *args, **kwargs))

    async def flush(self) -> None:
        """Wait until all queued messages have a report."""
        if self._is_stopped:
            return  # stop() has waited
        with converted():
            await self._started.flush()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions."""
        with converted():
            return set((await self._started.list_topics(topic)).topics[topic].partitions)

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent belongs to it."""
        with converted():
            await self._started.begin_transaction()

    async def commit_transaction(self) -> None:
        """Commit the transaction, after all its messages are delivered."""
        with converted():
            await self._started.commit_transaction()

    async def abort_transaction(self) -> None:
        """Abort the transaction: no reader sees its messages."""
        with converted():
            await self._started.abort_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[tuple[str, int], Any], group_id: str
    ) -> None:
        """Commit offsets of a group with the transaction."""
        with converted():
            await self._started.send_offsets_to_transaction(offsets_of(offsets), group_of(group_id))

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a block that commits at its end, and aborts if it raises."""
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        with converted():
            async with self._started.transaction():
                yield


class AIOKafkaConsumer:
    """A consumer with the calls of aiokafka's.

    The calls that aiokafka doesn't await are calls here, too. They wait for the client's own
    thread, not for a broker. Without a group_id, `start()` assigns all partitions that the topics
    have then.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        """Check the options. `start()` creates the client.

        :raises TypeError: An option is unknown, or has no counterpart.
        """
        self._topics = list(topics)
        self._partitions: list[tuple[str, int]] = []
        self._pattern: str | None = None
        self._listener: ConsumerRebalanceListener | None = None
        self._stopping = False
        self._make = RecordMaker(
            function(options, "key_deserializer"), function(options, "value_deserializer"), tuple
        )
        self._conf = properties(options, CONSUMER, {**CONSUMER_DEFAULTS, **login(options)})
        self._client: AIOConsumer | None = None

    @property
    def _started(self) -> AIOConsumer:
        if self._client is None:
            raise IllegalStateError(NOT_STARTED)
        return self._client

    async def start(self) -> None:
        """Create the client, and read what the constructor, `subscribe()` or `assign()` named.

        It doesn't wait for the partitions of a group. If it fails or is cancelled, the client is
        closed, and another call begins again.

        :raises UnknownTopicOrPartitionError: There is no such topic.
        """
        if self._client is not None:
            return
        with converted():
            client = self._client = AIOConsumer(self._conf)
        try:
            with converted():
                await self._begin(client)
        except BaseException:
            self._client = None
            await client.close()
            raise

    async def _begin(self, client: AIOConsumer) -> None:
        if self._pattern or (self._topics and "group.id" in self._conf):
            self.subscribe(self._topics, self._pattern, self._listener)
            return
        found = list(self._partitions)
        for topic in self._topics:
            found += await self._partitions_of(client, topic)
        if found:
            await client.assign(ours(found))

    async def _partitions_of(self, client: AIOConsumer, topic: str) -> list[tuple[str, int]]:
        """Waits until the topic has partitions: a broker may have to create it."""
        timeout_ms = float(self._conf.get("socket.timeout.ms", REQUEST_TIMEOUT_MS))
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_s = max(deadline - time.monotonic(), 0)
            known = (await client.list_topics(topic, left_s)).topics[topic]
            if known.partitions:
                return [(topic, number) for number in known.partitions]
            check_topic(known, time.monotonic() + TOPIC_CHECK_S < deadline)
            await asyncio.sleep(TOPIC_CHECK_S)

    async def stop(self) -> None:
        """Commit if enable_auto_commit is on, leave the group, and close the client."""
        self._stopping = True
        if self._client is not None:
            with converted():
                await self._client.close()

    async def __aenter__(self) -> Self:
        """Call `start()`, and return this client."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Call `stop()`, whatever happened in the block."""
        await self.stop()

    def _records(self, messages: list[Message]) -> list[ConsumerRecord]:
        return self._make.records(messages, self._started._take_back)

    async def getone(self) -> ConsumerRecord:
        """Return the next message.

        :raises ConsumerStoppedError: The consumer is stopped, or was during the call.
        """
        self._check_stopped()
        while True:
            with converted():
                message = await self._started.poll()
            if message is None:
                raise ConsumerStoppedError
            for record in self._records([message]):
                return record

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the messages that are there, at most ``max_records`` (default: 500).

        It waits ``timeout_ms`` for the first one.

        :raises ConsumerStoppedError: The consumer is stopped.
        """
        check_records_max(max_records)
        self._check_stopped()
        with converted():
            messages = await self._take(max(timeout_ms, 0) / 1000, max_records)
        return by_partition(self._records(messages))

    async def _take(self, timeout_s: float, messages_max: int | None) -> list[Message]:
        client = self._started
        if messages_max is None:
            return await client.consume(None, timeout_s)
        first = await client.poll(timeout_s)
        if first is None:
            return []
        if messages_max == 1 or client._must_serve():
            return [first]  # a callback may concern it: the next call runs it
        try:
            return [first, *await client.consume(messages_max - 1, 0)]
        except BaseException:  # also a cancelled call
            client._take_back([first])
            raise

    def _check_stopped(self) -> None:
        if self._stopping:
            raise ConsumerStoppedError

    def __aiter__(self) -> Self:
        """Return this consumer: it is its own iterator."""
        self._check_stopped()
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next message. The loop ends when the consumer is stopped."""
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group. A pattern matches from a name's beginning.

        :param listener: Called inside `getone()` and `getmany()`, but not in `stop()`. The logger
            ``kafka_native.compat.aiokafka`` has its exceptions.
        """
        subscription = pattern_of(topics, pattern)
        callbacks = callbacks_of(listener, self._assigned, self._called)
        if self._client is None:
            self._topics, self._pattern = [] if pattern else subscription, pattern
            self._partitions, self._listener = [], listener
            return
        with converted():
            assign, revoke, lose = map(self._client._deferred, callbacks)
            self._client._core.subscribe(subscription, assign, revoke, lose)

    async def _assigned(self, method: Method, partitions: Ours) -> None:
        assign(self._started._core, partitions)
        await self._called(method, partitions)

    async def _called(self, method: Method, partitions: Ours) -> None:
        if self._stopping:
            return
        try:
            outcome = method(theirs(partitions))
            if inspect.isawaitable(outcome):
                await outcome
        except Exception:
            logger.exception("%s has raised", getattr(method, "__qualname__", method))

    def unsubscribe(self) -> None:
        """Leave the group, and read no topic or partition.

        The listener is called inside the next `getone()` or `getmany()`.
        """
        core = self._started._core
        with converted():
            # not core.unsubscribe(): it would wait for the listener, which this loop has to run
            (core._begin_unsubscribe() if core.subscription() else core._begin_unassign()).result()

    def subscription(self) -> frozenset[str]:
        """Return the topics of the subscription."""
        return frozenset(self._started._core.subscription())

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, without a group."""
        if self._client is None:
            self._topics, self._pattern, self._partitions = [], None, list(partitions)
            return
        with converted():
            self._started._core.assign(ours(partitions))

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this consumer reads."""
        return frozenset(theirs(self._started._core.assignment()))

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Continue at an offset."""
        [where] = ours([partition])
        where.offset = checked_offset(offset)
        with seeking(IllegalStateError):
            self._started._core.seek(where)

    def _assigned_ones(self) -> frozenset[TopicPartition]:
        if found := self.assignment():
            return found
        raise IllegalStateError("no partitions are assigned yet")

    async def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue at the first message of these partitions, or of all."""
        with seeking(IllegalStateError):
            await self._started.seek_to_beginning(ours(partitions or self._assigned_ones()))

    async def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue after the last message of these partitions, or of all."""
        with seeking(IllegalStateError):
            await self._started.seek_to_end(ours(partitions or self._assigned_ones()))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no messages of these partitions until `resume()`."""
        with converted():
            self._started._core.pause(ours(partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """End `pause()` for these partitions."""
        with converted():
            self._started._core.resume(ours(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return theirs(self._started._core.paused())

    async def position(self, partition: tuple[str, int]) -> int:
        """Return the next offset of a partition. It is negative until the first message is read."""
        with converted():
            return (await self._started.position(ours([partition])))[0].offset

    async def commit(self, offsets: Mapping[tuple[str, int], Any] | None = None) -> None:
        """Commit offsets, or the positions. It waits for the broker.

        :raises CommitFailedError: The group has given the partitions to others.
        """
        stored = None if offsets is None else offsets_of(offsets)
        with committing():
            check_committed(await self._started.commit(offsets=stored, asynchronous=False))

    async def committed(self, partition: tuple[str, int]) -> int | None:
        """Return the group's committed offset; None if there is none."""
        with converted():
            [found] = await self._started.committed(ours([partition]))
        return found.offset if found.offset >= 0 else None

    def highwater(self, partition: tuple[str, int]) -> int | None:
        """Return the end offset of the partition's last fetch; None before the first one."""
        with converted():
            [where] = ours([partition])
            _, high = self._started._core.get_watermark_offsets(where, cached=True)
        return high if high >= 0 else None

    async def seek_to_committed(
        self, *partitions: tuple[str, int]
    ) -> dict[TopicPartition, int | None]:
        """Continue at the group's committed offsets of these partitions, or of all.

        :return: The offsets. A partition without one is None, and continues where it is.
        """
        found = {}
        for topic, number in partitions or self.assignment():
            where = TopicPartition(topic, number)
            found[where] = offset = await self.committed(where)
            if offset is not None:
                self.seek(where, offset)
        return found

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return {where: low for where, (low, _) in (await self._watermarks(partitions)).items()}

    async def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the next offset of each partition."""
        return {where: high for where, (_, high) in (await self._watermarks(partitions)).items()}

    async def _watermarks(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, tuple[int, int]]:
        found = {}
        with converted():
            for each in ours(partitions):
                where = TopicPartition(each.topic, each.partition)
                found[where] = await self._started.get_watermark_offsets(each)
        return found

    async def topics(self) -> set[str]:
        """Return the names of the cluster's topics."""
        with converted():
            return set((await self._started.list_topics()).topics)
