"""The producer behind ``kafka-native produce``: back-pressure, counts, one transaction if so configured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka_native import KafkaError, KafkaException, Message, Producer
from kafka_native.cli.errors import Failed, line_of, no_partition
from kafka_native.cli.texts import count

BLOCK_MS = 1_000
"""How long a full queue is waited for before reports of failures are served and it is tried again."""
GRACE_S = 5.0
"""How long what is queued may take after Ctrl+C; a second one ends it at once."""


@dataclass(slots=True)
class SendCounts:
    """What has become of the messages so far."""

    taken: int = 0
    bytes: int = 0
    """Of keys and values."""
    failed: int = 0
    left: int = 0
    """Given up before their outcome was known."""
    first: str = ""
    """Why the first one failed."""
    seconds: float = 0.0

    @property
    def delivered(self) -> int:
        """How many the cluster has acknowledged; with acks=0, how many were sent."""
        return self.taken - self.failed - self.left

    def described(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "messages": self.taken,
            "delivered": self.delivered,
            "failed": self.failed,
            "unknown": self.left,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 6),
            "error": self.first or None,
        }


class Sender:
    """Queues messages and waits where the queue is full; made by `sending`."""

    def __init__(self, producer: Producer, counts: SendCounts) -> None:
        self._producer = producer
        self._counts = counts

    def send(self, topic: str, values: Sequence[bytes | None], **columns: Any) -> None:
        """Queues messages, all of them.

        :param columns: Of `Producer.produce_many`: keys, partition, headers, timestamps; a list has one item a value.
        :raises Failed: One is too large, or its partition doesn't exist; those before it are queued.
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
            outstanding = len(self._producer)
            try:
                queued = self._producer.produce_many(topic, rest, **more)
            except BufferError:
                self._producer.poll(0)
                continue
            except KafkaException as error:
                # The text has the message's number in this call, and how many of it were queued.
                place = (
                    f"behind the first {self._counts.taken:,} messages: "
                    if self._counts.taken
                    else ""
                )
                self._counts.taken += max(len(self._producer) - outstanding, 0)
                raise Failed(f"{place}{line_of(error)}") from error
            self._note(rest, more.get("keys"), queued)
            done += queued
            self._producer.poll(0)

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
    """A producer for as long as the block lasts; behind it everything has its outcome, or was given up.

    With ``transactional.id`` all of it is one transaction, which is aborted when the block raises or a message fails.

    :param counts: Kept up to date.
    :param topic: Asked for first, so that a cluster that can't be reached is an error at once.
    :param partition: The one that all messages go to; one that doesn't exist is an error at once, too.
    :raises KafkaException: No broker answers in ``timeout_s``, or the transaction can't be committed.
    :raises Failed: Messages weren't delivered.
    """
    started = time.perf_counter()

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            counts.failed += 1
            counts.first = counts.first or error.str()

    own = {"on_delivery": on_delivery, "delivery.report.only.error": True, "max.block.ms": BLOCK_MS}
    with Producer({**config, **own}) as producer:
        found = producer.list_topics(topic, timeout_s).topics.get(topic or "")
        partitions = 0 if found is None else len(found.partitions)
        if partition is not None and partition >= partitions > 0:
            raise no_partition(topic, partition, partitions)
        transactional = bool(config.get("transactional.id"))
        if transactional:
            producer.init_transactions(timeout_s)
            producer.begin_transaction()
        try:
            yield Sender(producer, counts)
            producer.flush()
        except BaseException as error:
            if transactional:
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
            f"{counts.failed:,} of {count(counts.taken, 'message')} not delivered, the first: {counts.first}"
        )


def _end_transaction(producer: Producer, counts: SendCounts) -> None:
    if counts.failed:
        producer.abort_transaction()
        raise Failed(f"the transaction is aborted, nothing was written: {counts.first}")
    producer.commit_transaction()
