"""Consume, transform, produce, with exactly-once processing (KIP-98, KIP-447).

The output messages and the input offsets are one transaction. After a crash, a rebalance or a
broker's error, both are committed or neither is. If neither is, the loop processes the input again,
and committed readers have seen no output of the first try.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka_native._native.message import Message
from kafka_native.consumer import Consumer
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.producer import Producer, owner_of, transaction_error
from kafka_native.types import OFFSET_STORED, TopicPartition

TRANSACTION_MESSAGES_MAX = 1000
CONSUME_WAIT_S = 0.5
QUEUE_FULL_WAIT_S = 0.01

Partition: TypeAlias = tuple[str, int]
"""A topic and a partition number."""


@dataclass(slots=True)
class Progress:
    """The counters of `process()`."""

    messages: int = 0
    """Messages that were consumed and committed."""
    transactions: int = 0
    aborted: int = 0


def process(
    consumer: Consumer,
    producer: Producer,
    function: Callable[[Message], Iterable[dict[str, Any]]],
    *,
    until: Callable[[Progress], bool] = lambda progress: False,
    messages: int = TRANSACTION_MESSAGES_MAX,
    wait: float = CONSUME_WAIT_S,
    timeout: float = 60.0,
) -> Progress:
    """Consume messages, transform each with a function, and produce the results exactly once.

    "Exactly once" holds for consumers with ``isolation.level=read_committed``.

        consumer = Consumer({..., "group.id": "billing", "isolation.level": "read_committed"})
        consumer.subscribe(["orders"])
        producer = Producer({..., "transactional.id": "billing-1"})
        process(
            consumer,
            producer,
            lambda order: [{"topic": "invoices", "value": invoice_of(order.value())}],
        )

    One transaction covers the messages of one `Consumer.consume()`. The transaction ends before the
    next `consume()`. So no transaction is open during a rebalance: the offsets are committed before
    a partition is revoked. If a transaction has to be aborted, the consumer goes back to the
    committed offsets and the messages are processed again. It also goes back before an exception
    is raised, so that another call of `process()` with this consumer skips no message.

    :param consumer: A subscribed consumer with ``enable.auto.commit=false``. The producer commits
        its offsets.
    :param producer: A producer with a ``transactional.id`` that no other process uses. `process()`
        calls `init_transactions()`.
    :param function: Returns the messages to produce for one message: keyword arguments of
        `Producer.produce()`, any number of times. `process()` may call it several times for the
        same message. Its other side effects are not part of the transaction.
    :param until: Called after each transaction, and each time that no message came. Return True to
        stop.
    :param messages: The maximum number of messages per transaction. Default: 1000.
    :param wait: Seconds to wait for messages. Default: 0.5.
    :param timeout: Seconds for each call about the transaction. Default: 60.
    :return: The counters.
    :raises KafkaException: Another producer fenced this one, the producer can't continue, or the
        consumer reported an error. The transaction is aborted, unless another producer has taken
        over the transactional id. An exception of ``function`` also aborts the transaction and
        propagates.
    """
    producer.init_transactions(timeout)
    progress = Progress()
    committed: set[Partition] = set()
    while not until(progress):
        if not _end_last(producer, wait, timeout):
            continue
        received: list[Message] = []
        try:
            received = consumer.consume(messages, wait)
            taken = [each for each in received if _is_message(each)]
            if not taken:
                continue
            with producer.transaction(timeout=timeout):
                for message in taken:
                    for output in function(message):
                        _produce(producer, output)
                producer.send_offsets_to_transaction(
                    _next_offsets(taken), owner_of(consumer), timeout
                )
        except BaseException as error:
            if isinstance(error, KafkaException) and _can_continue(error):
                progress.aborted += 1
                _go_back(consumer, producer, received, committed)
                continue
            with suppress(KafkaException):  # the caller must see the first error
                _go_back(consumer, producer, received, committed)
            raise
        progress.messages += len(taken)
        progress.transactions += 1
        committed |= {_partition(each) for each in taken}
    return progress


def _end_last(producer: Producer, wait: float, timeout: float) -> bool:
    """Abort the last transaction again if its abort has failed. Return whether it has ended."""
    if transaction_error(producer) is None:
        return True
    try:
        producer.abort_transaction(timeout)
    except KafkaException as error:
        if not _can_continue(error):
            raise
        producer.poll(wait)
        return False
    return True


def rewind(consumer: Consumer) -> None:
    """Go back to the committed offsets of the assigned partitions.

    A partition without a committed offset starts as ``auto.offset.reset`` says.
    """
    consumer.seek(
        [
            TopicPartition(each.topic, each.partition, OFFSET_STORED)
            for each in consumer.assignment()
        ]
    )


def _go_back(
    consumer: Consumer, producer: Producer, received: list[Message], committed: set[Partition]
) -> None:
    """Go back to the first message that isn't committed, in each assigned partition.

    A partition may have no committed offset yet. ``auto.offset.reset=latest`` would then skip the
    messages of its first transaction, so it goes back to the first of them.

    :param received: What the last `consume()` returned.
    :param committed: The partitions for which this loop has committed an offset.
    """
    rewind(consumer)
    if producer._transactions().committing:
        return  # the offsets may be committed, and only the group's coordinator knows
    first: dict[Partition, TopicPartition] = {}
    for each in received:
        if each.error() is None and _partition(each) not in committed:
            at = TopicPartition(*_partition(each), each.offset() or 0)
            first.setdefault(_partition(each), at)
    consumer.seek(
        [
            first[each.topic, each.partition]
            for each in consumer.assignment()
            if (each.topic, each.partition) in first
        ]
    )


def _partition(message: Message) -> Partition:
    return message.topic() or "", message.partition() or 0


def _is_message(message: Message) -> bool:
    """Return True for a message, and False for the end of a partition. Raise any other error."""
    error: KafkaError | None = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is None


def _produce(producer: Producer, output: dict[str, Any]) -> None:
    """Call `Producer.produce()`. While the queue is full, wait and try again."""
    while True:
        try:
            producer.produce(**output)
            return
        except BufferError:
            producer.poll(QUEUE_FULL_WAIT_S)


def _next_offsets(taken: list[Message]) -> list[TopicPartition]:
    """Return the next offset of each partition of these messages."""
    last = {_partition(each): each for each in taken}
    return [
        TopicPartition(*place, (each.offset() or 0) + 1, leader_epoch=each.leader_epoch())
        for place, each in last.items()
    ]


def _can_continue(error: KafkaException) -> bool:
    """Return True if the error requires an abort, but the producer can continue afterwards."""
    cause = error.args[0]
    return isinstance(cause, KafkaError) and cause.txn_requires_abort() and not cause.fatal()
