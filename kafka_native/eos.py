"""Consume, transform, produce: each message's effect once, whatever fails in between (KIP-98, KIP-447).

The output and the offsets of the input are one transaction. A crash, a rebalance or an error of a broker's leaves
either both or none of them; what is done again then is what nobody has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kafka_native._native.message import Message
from kafka_native.consumer import Consumer
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.producer import Producer
from kafka_native.transacting import owner_of
from kafka_native.types import OFFSET_STORED, TopicPartition

MESSAGES = 1000
WAIT_S = 0.5
ROOM_S = 0.01


@dataclass(slots=True)
class Progress:
    """What `process()` has done."""

    messages: int = 0
    """Taken, and committed."""
    transactions: int = 0
    aborted: int = 0


def process(
    consumer: Consumer,
    producer: Producer,
    function: Callable[[Message], Iterable[dict[str, Any]]],
    *,
    until: Callable[[Progress], bool] = lambda progress: False,
    messages: int = MESSAGES,
    wait: float = WAIT_S,
    timeout: float = 60.0,
) -> Progress:
    """Has a function make messages of messages, each exactly once as far as committed readers can tell.

        consumer = Consumer({..., "group.id": "billing", "isolation.level": "read_committed"})
        consumer.subscribe(["orders"])
        producer = Producer({..., "transactional.id": "billing-1"})
        process(consumer, producer, lambda order: [{"topic": "invoices", "value": invoice_of(order.value())}])

    A transaction has what one `Consumer.consume()` has returned. It ends before the next one is asked for, so a
    rebalance never meets an open one: a partition that goes away is committed before. What has to be aborted is, the
    consumer goes back to what is committed, and it is done again.

    :param consumer: Subscribed. Its offsets are committed by the producer: it needs ``enable.auto.commit=false``.
    :param producer: With a ``transactional.id`` that no other process has. `init_transactions()` is called here.
    :param function: What to produce for a message: keywords of `Producer.produce()`, any number of times. It may be
        called several times for the same message; what it does besides is its own matter.
    :param until: Asked after each transaction, and each time that nothing came, whether to stop.
    :param messages: The most in a transaction.
    :param wait: Seconds to wait for them.
    :param timeout: Seconds that a call about the transaction may take.
    :return: What was done.
    :raises KafkaException: The producer was fenced or can't go on; an error of the consumer's that is fatal. The
        transaction is aborted, unless somebody else has it now. What ``function`` raises comes out as well, afterwards.
    """
    producer.init_transactions(timeout)
    progress = Progress()
    while not until(progress):
        taken = [each for each in consumer.consume(messages, wait) if _is_message(each)]
        if not taken:
            continue
        try:
            with producer.transaction(timeout=timeout):
                for message in taken:
                    for output in function(message):
                        _produce(producer, output)
                producer.send_offsets_to_transaction(_behind(taken), owner_of(consumer), timeout)
        except KafkaException as error:
            if not _may_go_on(error):
                raise
            progress.aborted += 1
            rewind(consumer)
            continue
        except BaseException:
            rewind(consumer)
            raise
        progress.messages += len(taken)
        progress.transactions += 1
    return progress


def rewind(consumer: Consumer) -> None:
    """Goes back to what is committed, or where ``auto.offset.reset`` says, on all that is assigned."""
    consumer.seek(
        [
            TopicPartition(each.topic, each.partition, OFFSET_STORED)
            for each in consumer.assignment()
        ]
    )


def _is_message(message: Message) -> bool:
    """Whether it is one; what is an error, and no end of a partition, is raised."""
    error: KafkaError | None = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is None


def _produce(producer: Producer, output: dict[str, Any]) -> None:
    """`Producer.produce()`, which a full queue holds up."""
    while True:
        try:
            producer.produce(**output)
            return
        except BufferError:
            producer.poll(ROOM_S)


def _behind(taken: list[Message]) -> list[TopicPartition]:
    """The next offset of each partition that these are of."""
    last = {(each.topic(), each.partition()): each for each in taken}
    return [
        TopicPartition(
            topic or "", partition or 0, (each.offset() or 0) + 1, leader_epoch=each.leader_epoch()
        )
        for (topic, partition), each in last.items()
    ]


def _may_go_on(error: KafkaException) -> bool:
    """Whether the transaction alone has failed."""
    cause = error.args[0]
    return isinstance(cause, KafkaError) and cause.txn_requires_abort() and not cause.fatal()
