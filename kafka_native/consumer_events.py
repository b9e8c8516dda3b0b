"""A consumer's events for the application: errors as Messages, and callbacks that poll() runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from kafka_native._native.engine import Cursor
from kafka_native._native.enums import (
    STATUS_CODEC,
    STATUS_CRC,
    STATUS_INVALID,
    STATUS_TOO_LARGE,
    STATUS_UNSUPPORTED,
)
from kafka_native._native.message import Message
from kafka_native._native.records import features
from kafka_native.client_core import ClientCore
from kafka_native.control.consumer.fetches import FetchManager
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException, from_status
from kafka_native.pending_call import PendingCall
from kafka_native.types import OFFSET_INVALID, TopicPartition

OnCommit: TypeAlias = Callable[[KafkaError | None, list[TopicPartition]], object]

_CAUSES = {
    STATUS_CRC: "checksum mismatch (CRC32C)",
    STATUS_TOO_LARGE: "a batch is larger than decompressed.batch.max.bytes when decompressed",
    STATUS_CODEC: "compressed data that can't be decompressed",
    STATUS_INVALID: "malformed records",
    STATUS_UNSUPPORTED: "a codec or format that this build doesn't support",
}


class ConsumerCallbacks:
    """Passes events from the control thread to the application.

    It doesn't keep the consumer alive.
    """

    def __init__(
        self, client: ClientCore, on_commit: OnCommit | None, no_partition: int | None = None
    ) -> None:
        """``no_partition`` is the partition of errors that concern a whole topic, or none."""
        self._engine = client.engine
        self._no_partition = no_partition
        self.on_commit = on_commit
        self.interceptor_on_commit: OnCommit | None = None

    def add(self, callback: Callable[[], object]) -> None:
        """Queues a callback for the running or next poll(). Control thread only."""
        self._engine.callbacks.append(callback)
        self._engine.kick()

    def on_error(
        self, topic: str | None, partition: int | None, offset: int, error: KafkaError
    ) -> None:
        """Queues an error that poll() returns as a Message. Control thread only."""
        if error.code() == KafkaError._DESTROY:
            return  # the client is closing, and calls report that themselves
        number = self._no_partition if partition is None else partition
        position = offset if offset >= 0 else OFFSET_INVALID
        self._engine.notices.append((topic, number, position, error))
        self._engine.kick()

    def committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Queues the callbacks of a commit's outcome. Control thread only."""
        self.committed_silently(error, partitions)
        if self.on_commit is not None:
            self.add(partial(self.on_commit, error, partitions))

    def committed_silently(
        self, error: KafkaError | None, partitions: list[TopicPartition]
    ) -> None:
        """Queues the interceptors' part of `committed()`: the caller has the outcome."""
        if self.interceptor_on_commit is not None:
            self.add(partial(self.interceptor_on_commit, error, partitions))

    def on_nothing_to_commit(self, outcome: list[TopicPartition] | KafkaError) -> None:
        """Reports that an asynchronous commit() had nothing to commit, because no commit ran."""
        if isinstance(outcome, KafkaError) and outcome.code() == KafkaError._NO_OFFSET:
            self.committed(outcome, [])


def error_for(
    eof: bool, status: int, error_code: int, cursor: Cursor, offset: int, next_offset: int
) -> KafkaError:
    """The error of a Message for an end of partition or an unusable batch."""
    if eof:
        return KafkaError(KafkaError._PARTITION_EOF)
    if error_code:
        return KafkaError(error_code)
    code = KafkaError._BAD_COMPRESSION if status == STATUS_TOO_LARGE else from_status(status).code()
    cause = _CAUSES.get(status, from_status(status).str())
    missing = [] if status != STATUS_UNSUPPORTED else [n for n, by in features().items() if not by]
    if missing:
        cause += f" (no library for {', '.join(missing)}: pip install kafka-native[codecs])"
    text = f"{cause} in {cursor.topic} [{cursor.partition}] at offset {offset}"
    return KafkaError(code, f"{text}; it is fetched again, or seek to {next_offset} to skip it")


def exception_of(error: KafkaError) -> KafkaException | None:
    """The exception that iteration raises; None at the end of a partition: it continues."""
    return None if error.code() == KafkaError._PARTITION_EOF else KafkaException(error)


def fatal_of(client: ClientCore) -> KafkaException | None:
    """The exception that each iteration raises after a fatal error; None: no fatal error."""
    return None if client.fatal is None else KafkaException(client.fatal_error())


def give_back(client: ClientCore, fetches: FetchManager, messages: list[Message]) -> None:
    """Returns messages to the queue that were taken but couldn't be delivered.

    A signal handler has raised in consume(), or a call in an event loop was cancelled. The messages
    don't count as delivered.
    """
    if client.closed:
        return
    first: dict[Key, int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None or message.error() is not None:
            continue
        first.setdefault((topic, partition), offset)
    for message in reversed(messages):
        if (error := message.error()) is not None:
            at = message.offset()
            notice = (
                message.topic(),
                message.partition(),
                OFFSET_INVALID if at is None else at,
                error,
            )
            client.engine.notices.appendleft(notice)

    def work() -> None:
        for (topic, partition), offset in first.items():
            fetches.seek(topic, partition, offset)
            assigned = fetches.assigned.get((topic, partition))
            if assigned is not None and assigned.cursor is not None:
                assigned.cursor.position = offset

    PendingCall.run(client.main, work).result()
