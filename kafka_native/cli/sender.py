"""The producer of ``kafka-native produce``: back-pressure, counts and the optional transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka_native import KafkaError, KafkaException, Message, Producer
from kafka_native.cli.errors import DelayedSignals, Failed, line_of, no_partition
from kafka_native.cli.texts import count
from kafka_native.terminal.lines import release_outages

BLOCK_MS = 1_000
"""How long a call waits for room in the full queue.

Then delivery reports run, and it tries again.
"""
GRACE_S = 5.0
"""Seconds for queued messages to be delivered after Ctrl+C.

A second Ctrl+C ends the wait at once.
"""


@dataclass(slots=True)
class SendCounts:
    """How many messages were queued, failed and abandoned so far."""

    taken: int = 0
    bytes: int = 0
    """Bytes of keys and values."""
    failed: int = 0
    left: int = 0
    """Messages without a delivery report when the producer stopped."""
    first: str = ""
    """The error text of the first failed message."""
    is_aborted: bool = False
    """Whether the transaction of all messages is aborted, so that none is delivered."""
    seconds: float = 0.0

    @property
    def delivered(self) -> int:
        """Messages that the cluster has acknowledged; with acks=0, messages sent."""
        return 0 if self.is_aborted else self.taken - self.failed - self.left

    def abort(self) -> None:
        """Note that the transaction is aborted."""
        self.is_aborted = True
        self.first = self.first or "the transaction is aborted"

    def described(self) -> dict[str, object]:
        """The counts as a dict, for JSON."""
        return {
            "messages": self.taken,
            "delivered": self.delivered,
            "failed": self.taken if self.is_aborted else self.failed,
            "unknown": 0 if self.is_aborted else self.left,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 6),
            "error": self.first or None,
        }


class Sender:
    """Queues messages, and waits while the queue is full. `sending` makes it."""

    def __init__(self, producer: Producer, counts: SendCounts, signals: DelayedSignals) -> None:
        self._producer = producer
        self._counts = counts
        self._signals = signals

    def send(self, topic: str, values: Sequence[bytes | None], **columns: Any) -> None:
        """Queue all these messages.

        :param columns: Arguments of `Producer.produce_many`: keys, partition, headers, timestamps.
            A list has one item for each value.
        :raises Failed: A message is too large, or its topic or partition can't exist. The messages
            before it are queued.
        """
        done = 0
        while done < len(values):
            rest, more = values, columns
            if done:
                rest = values[done:]
                more = {
                    name: data[done:] if isinstance(data, list) else data
                    for name, data in columns.items()
                }
            # An exception of a signal here would leave queued messages uncounted.
            with self._signals.step():
                done += self._queue(topic, rest, more)
            self._producer.poll(0)

    def _queue(self, topic: str, values: Sequence[bytes | None], columns: dict[str, Any]) -> int:
        """Queue the first of these messages, as many as there is room for, and count them."""
        try:
            queued = self._producer.produce_many(topic, values, **columns)
        except BufferError:
            return 0
        except (KafkaException, ValueError) as error:  # ValueError: no topic has this name
            # The error's text has the number of the message in this call.
            text = line_of(error)
            place = (
                f"after the first {self._counts.taken:,} messages: " if self._counts.taken else ""
            )
            self._note(values, columns.get("keys"), getattr(error, "queued", 0))
            raise Failed(f"{place}{text}") from error
        self._note(values, columns.get("keys"), queued)
        return queued

    def _note(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, queued: int
    ) -> None:
        self._counts.taken += queued
        self._counts.bytes += sum(map(len, filter(None, values[:queued])))
        if keys is not None:
            self._counts.bytes += sum(map(len, filter(None, keys[:queued])))


@contextmanager
def sending(
    config: Mapping[str, Any],
    topic: str | None,
    timeout_s: float,
    counts: SendCounts,
    partition: int | None = None,
) -> Iterator[Sender]:
    """Open a producer for the block.

    After the block each message is delivered, failed or abandoned.

    With ``transactional.id`` all messages are one transaction. It is aborted when the block raises
    an exception or a message fails.

    :param topic: The client asks for its metadata first, so an unreachable cluster is an error at
        once.
    :param timeout_s: Seconds to wait for metadata and for the transaction's start.
    :param counts: Updated while messages are sent.
    :param partition: The partition of all messages. If it doesn't exist, that is an error at once,
        too.
    :raises KafkaException: No broker answers within ``timeout_s``, or the commit of the transaction
        fails.
    :raises Failed: Messages weren't delivered.
    """
    started = time.perf_counter()

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            counts.failed += 1
            counts.first = counts.first or error.str()

    own = {"on_delivery": on_delivery, "delivery.report.only.error": True, "max.block.ms": BLOCK_MS}
    with DelayedSignals() as signals, Producer({**config, **own}) as producer:
        found = producer.list_topics(topic, timeout_s).topics.get(topic or "")
        release_outages()
        partitions = 0 if found is None else len(found.partitions)
        if partition is not None and partition >= partitions > 0:
            raise no_partition(topic, partition, partitions)
        transactional = bool(config.get("transactional.id"))
        if transactional:
            producer.init_transactions(timeout_s)
            producer.begin_transaction()
        try:
            yield Sender(producer, counts, signals)
            producer.flush()
        except BaseException as error:
            if transactional:
                counts.abort()
                producer.abort_transaction(GRACE_S)
            else:
                producer.flush(GRACE_S if isinstance(error, KeyboardInterrupt) else -1)
            raise
        finally:
            counts.left = len(producer)
            counts.seconds = time.perf_counter() - started
        if transactional:
            _end_transaction(producer, counts)
        counts.seconds = time.perf_counter() - started
    if counts.failed:
        raise Failed(
            f"{counts.failed:,} of {count(counts.taken, 'message')} not delivered, the "
            f"first: {counts.first}"
        )


def _end_transaction(producer: Producer, counts: SendCounts) -> None:
    if counts.failed:
        counts.abort()
        producer.abort_transaction()
        raise Failed(f"the transaction is aborted, nothing was written: {counts.first}")
    counts.left = counts.taken  # until the commit has succeeded
    producer.commit_transaction()
    counts.left = 0
