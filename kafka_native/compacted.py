"""Compacted topics as tables: the newest value of each key.

- `CompactedTable` is only the table. It takes the messages of any consumer.
- `CompactedTopic` reads a whole topic into a table. It knows when the table is complete, and then
  follows the topic's changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from kafka_native._native.message import Message
from kafka_native.consumer import Consumer
from kafka_native.control.metadata import NO_ID
from kafka_native.control.requests import Call
from kafka_native.deadlines import deadline_of, left_s, seconds
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.pending_call import PendingCall
from kafka_native.types import OFFSET_BEGINNING, TopicPartition

__all__ = ["CompactedTable", "CompactedTopic", "TableChange"]

CONSUME_WAIT_MAX_S: Final = 1.0
"""The longest wait of `CompactedTopic.scan` for messages.

After it, the scan checks for new partitions.
"""
FIRST_POLL_MIN_S: Final = 10.0
"""How long the first `CompactedTopic.poll` may search the topic, even with a shorter timeout."""
FIXED_SETTINGS: Final = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
}
"""The properties that `CompactedTopic` always sets, regardless of your configuration."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """The change that one message made in a table. Changes are equal if their fields are equal."""

    key: Any
    old_value: Any
    """The previous value; None if the table didn't have the key."""
    new_value: Any
    """The new value; None if a tombstone removed the key."""

    @property
    def is_insert(self) -> bool:
        """True if the table didn't have the key before."""
        return self.old_value is None and self.new_value is not None

    @property
    def is_update(self) -> bool:
        """True if the key got a new value, or the same value again."""
        return self.old_value is not None and self.new_value is not None

    @property
    def is_delete(self) -> bool:
        """True if a tombstone removed the key."""
        return self.new_value is None


class CompactedTable(Mapping[Any, Any]):
    """The newest value of each key, as compaction keeps it.

        table = CompactedTable()
        while True:
            for change in table.apply(consumer.consume(500, 1.0)):
                print(change.key, change.new_value)

    For your program, the table is a read-only mapping: ``table[key]``, ``get()``, ``in``,
    ``len()``, ``keys()``, ``values()``, ``items()``, iteration. Keys and values are the results of
    `Message.key` and `Message.value`: bytes, unless your program set other objects. Two tables are
    equal if their entries are equal. You can also compare a table with a dict.

    - A message without a value (a tombstone) removes its key.
    - The table ignores messages without a key, which compaction doesn't support.
    - The table ignores messages that carry an error.

    Pass the messages in the order of their partitions, as a consumer returns them. Only one thread
    at a time may change a table.
    """

    __slots__ = ("_entries", "_records", "_tombstones")

    _entries: dict[Any, Any]
    _records: int
    _tombstones: int

    def __init__(self) -> None:
        """Make an empty table."""
        self._entries = {}
        self._records = 0
        self._tombstones = 0

    @property
    def records_processed(self) -> int:
        """The number of messages with a key that the table has processed, including tombstones."""
        return self._records

    @property
    def tombstones_processed(self) -> int:
        """The number of tombstones that the table has processed."""
        return self._tombstones

    def apply(self, messages: Message | Iterable[Message] | None) -> list[TableChange]:
        """Process messages, and return their changes in the order of the messages.

        A tombstone changes nothing if the table doesn't have its key.

        :param messages: The result of `Consumer.consume` or `Consumer.poll`.
        """
        changes = []
        entries = self._entries
        for message in _listed(messages):
            key = message.key()
            if key is None or message.error() is not None:
                continue
            value = message.value()
            self._records += 1
            if value is not None:
                changes.append(TableChange(key, entries.get(key), value))
                entries[key] = value
                continue
            self._tombstones += 1
            if key in entries:
                changes.append(TableChange(key, entries.pop(key), None))
        return changes

    def ingest(self, messages: Message | Iterable[Message] | None) -> None:
        """Process messages without returning the changes.

        It is faster than `apply`, for a first scan.
        """
        entries = self._entries
        records = tombstones = 0
        for message in _listed(messages):
            key = message.key()
            if key is None or message.error() is not None:
                continue
            value = message.value()
            records += 1
            if value is None:
                tombstones += 1
                entries.pop(key, None)
            else:
                entries[key] = value
        self._records += records
        self._tombstones += tombstones

    def snapshot(self) -> dict[Any, Any]:
        """Return a dict with the current entries. Later messages don't change it."""
        return dict(self._entries)

    def clear(self) -> None:
        """Remove all entries and reset the counters, for instance after a revocation."""
        self._entries.clear()
        self._records = 0
        self._tombstones = 0

    def copy(self) -> CompactedTable:
        """Return another table with the same entries and counters."""
        twin = CompactedTable()
        twin._entries = dict(self._entries)
        twin._records = self._records
        twin._tombstones = self._tombstones
        return twin

    __copy__ = copy

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a key. KeyError: the table doesn't have the key."""
        return self._entries[key]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys, in the order in which they were added."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        """Return True if the table has the key."""
        return key in self._entries

    def __eq__(self, other: object) -> bool:
        """Compare the entries. The counters don't matter."""
        if isinstance(other, CompactedTable):
            return self._entries == other._entries
        return self._entries == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return a description with the size.

        It has no keys or values, because they may be secret.
        """
        counters = f"{self._records} records, {self._tombstones} tombstones"
        return f"<CompactedTable of {len(self._entries)} keys ({counters})>"


def _listed(messages: Message | Iterable[Message] | None) -> Iterable[Message]:
    if messages is None:
        return ()
    return (messages,) if isinstance(messages, Message) else messages


class CompactedTopic:
    """A whole topic as a table, which follows the topic's changes.

        with CompactedTopic({"bootstrap.servers": "localhost:9092"}, "user-profiles") as profiles:
            profiles.scan(timeout=30)
            print(profiles.table.get(b"user-123"))
            while True:
                for change in profiles.poll(1.0):
                    print(change.key, change.new_value)

    The object reads all partitions from the beginning. It uses no consumer group and commits
    nothing. If the topic gets more partitions, the object also reads them as soon as the metadata
    contains them. If the topic is deleted and recreated, the object clears the table and reads
    the new topic from its beginning. Only one thread at a time may use the object, as with its
    consumer.
    """

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        """Make a consumer. Only `scan` and `poll` read messages.

        :param config: The consumer's configuration, as for `Consumer`. The object always overrides
            ``auto.offset.reset``, ``enable.auto.commit`` and ``enable.partition.eof``.
        :param topic: The name of the topic.
        :raises KafkaException: ``_INVALID_ARG`` for an unknown property or an invalid value.
        """
        self._set_up(Consumer({**config, **FIXED_SETTINGS}), topic)

    @classmethod
    def from_consumer(cls, consumer: Consumer, topic: str) -> CompactedTopic:
        """Make a CompactedTopic from your own consumer. `close` closes the consumer, too.

        The object replaces the consumer's assignment by all partitions of the topic. Set
        ``enable.partition.eof``. Otherwise the object never considers some partitions as read:
        those whose last messages were compacted away or are transaction markers.
        """
        made = cls.__new__(cls)
        made._set_up(consumer, topic)
        return made

    def _set_up(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._table = CompactedTable()
        self._partitions = 0
        self._topic_id = NO_ID
        # The partitions that aren't completely read yet, with their ends. An end is None until it
        # is known. None instead of a dict: neither scan() nor poll() was called yet.
        self._behind: dict[int, int | None] | None = None
        self._pending_changes: list[TableChange] = []

    @property
    def topic(self) -> str:
        """The name of the compacted topic."""
        return self._topic

    @property
    def table(self) -> CompactedTable:
        """The table as read so far. It remains usable after `close`."""
        return self._table

    @property
    def consumer(self) -> Consumer:
        """The consumer, for pause() or seek(). Only `poll` and `scan` may take its messages."""
        return self._consumer

    @property
    def caught_up(self) -> bool:
        """True if the table has all messages from before the last `scan` or the first `poll`."""
        return self._behind is not None and not self._behind

    def scan(self, timeout: float = -1) -> CompactedTable:
        """Read until the table has every message that the topic has at the time of the call.

        The scan doesn't wait for messages that arrive later, so it also ends on a busy topic. The
        table may already contain some of them. A second scan reads up to the end at the time of the
        second call. `poll` doesn't return the changes that a scan makes.

        :param timeout: Seconds; a negative number waits forever. After a timeout the table keeps
            the messages read so far, and another call continues.
        :return: The table.
        :raises KafkaException: ``_TIMED_OUT``, or the error of a partition or the topic.
        """
        deadline = deadline_of(timeout)
        self._begin(deadline)
        while self._behind:
            left = left_s(deadline)
            if not left:
                counts = f"{len(self._behind)} of {self._partitions} partitions"
                text = f"{self._topic}: {counts} aren't read to their ends"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text))
            messages = self._consumer.consume(
                None, CONSUME_WAIT_MAX_S if left < 0 else min(left, CONSUME_WAIT_MAX_S)
            )
            self._table.ingest(messages)
            self._update_progress(messages)
            self._assign_new_partitions()
        # The table has these changes. poll() must not report them after the scan's own ones, such
        # as the removal of a key that a recreated topic has again.
        self._pending_changes = []
        return self._table

    def poll(self, timeout: float = -1) -> list[TableChange]:
        """Wait for messages, and return their changes in the table.

        :param timeout: Seconds to wait for the first message; a negative number waits forever, 0
            doesn't wait. Without a `scan` before, the first call also has to find the topic and may
            take longer.
        :return: The changes in the order of the messages; empty if no message with a key came.
        :raises KafkaException: The error of a partition or the topic. The next call returns the
            changes that came together with the error.
        """
        timeout_s = seconds(timeout)
        if self._behind is None:
            self._begin(deadline_of(None if timeout_s < 0 else max(timeout_s, FIRST_POLL_MIN_S)))
        else:
            self._assign_new_partitions()
        changes, self._pending_changes = self._pending_changes, []
        messages = self._consumer.consume(None, 0 if changes else timeout_s)
        changes += self._table.apply(messages)
        try:
            self._update_progress(messages)
        except KafkaException:
            self._pending_changes = changes
            raise
        return changes

    def into_parts(self) -> tuple[Consumer, CompactedTable]:
        """Return the consumer, at its current position, and the table.

        You have to close the consumer.
        """
        return self._consumer, self._table

    def close(self) -> None:
        """Close the consumer. You may call it more than once."""
        self._consumer.close()

    def __enter__(self) -> CompactedTopic:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the consumer."""
        self.close()

    def __repr__(self) -> str:
        """Return a description with the topic and the progress."""
        state = "caught up" if self.caught_up else "not caught up"
        return f"<CompactedTopic {self._topic} ({len(self._table)} keys, {state})>"

    # --- partitions ---

    def _begin(self, deadline: float | None) -> None:
        """Get the end of each partition. The first call also assigns the partitions."""
        if not self._partitions:
            described = self._consumer.list_topics(self._topic, left_s(deadline)).topics[
                self._topic
            ]
            if described.error is not None:
                raise KafkaException(described.error)
            ends = self._ends(len(described.partitions), deadline)
            self._consumer.assign([self._first(number) for number in described.partitions])
            self._partitions = len(described.partitions)
        else:
            ends = self._ends(self._partitions, deadline)
        self._behind = {number: end for number, (first, end) in enumerate(ends) if end > first}
        self._drop_read_partitions()

    def _ends(self, count: int, deadline: float | None) -> list[tuple[int, int]]:
        """Return the first offset and the end of each partition. Each leader gets one request."""
        keys = [(self._topic, number) for number in range(count)]
        main = self._consumer._client.main

        def ask(until: float, done: Callable[[Any], None]) -> list[Call]:
            if main.fetches is not None:
                main.fetches.watermarks(keys, done, until)
            return []

        found: list[tuple[int, int] | KafkaError] = PendingCall.gather(
            main, ask, left_s(deadline)
        ).result()
        ends = []
        for each in found:
            if isinstance(each, KafkaError):
                raise KafkaException(each)
            ends.append(each)
        return ends

    def _assign_new_partitions(self) -> None:
        """Assign the partitions that the topic got since the last call, if any.

        A topic that is created again starts over.
        """
        topic = self._consumer._client.main.metadata.topics.get(self._topic)
        if topic is None or not topic.known or self._behind is None:
            return
        count = len(topic.partitions)
        if NO_ID not in (self._topic_id, topic.id) and self._topic_id != topic.id:
            self._start_over(count)
        self._topic_id = topic.id
        if count <= self._partitions:
            return
        added = range(self._partitions, count)
        self._consumer.incremental_assign([self._first(number) for number in added])
        self._partitions = count
        self._behind.update(dict.fromkeys(added))

    def _start_over(self, count: int) -> None:
        """Replace the entries by those of a topic that was deleted and recreated."""
        self._pending_changes += [
            TableChange(key, value, None) for key, value in self._table.items()
        ]
        self._table.clear()
        self._consumer.assign([self._first(number) for number in range(count)])
        self._partitions = count
        self._behind = dict.fromkeys(range(count))

    def _first(self, number: int) -> TopicPartition:
        return TopicPartition(self._topic, number, OFFSET_BEGINNING)

    def _update_progress(self, messages: list[Message]) -> None:
        """Update which partitions are completely read. Raise the first error of the messages."""
        failed: KafkaError | None = None
        behind = self._behind or {}
        for number in [number for number, end in behind.items() if end is None]:
            # The watermarks of the first Fetch response
            first, end = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, number), cached=True
            )
            if end >= 0:
                behind[number] = end if end > first else 0
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                failed = failed or error
            elif self._is_read(message.partition(), message.offset()):
                behind.pop(message.partition() or 0)
        self._drop_read_partitions()
        if failed is not None:
            raise KafkaException(failed)

    def _drop_read_partitions(self) -> None:
        """Remove the partitions whose positions have reached their ends."""
        behind = self._behind or {}
        for position in self._consumer.position(
            [TopicPartition(self._topic, number) for number in behind]
        ):
            if self._is_read(position.partition, position.offset):
                del behind[position.partition]

    def _is_read(self, number: int | None, offset: int | None) -> bool:
        """Return True if the partition is in `_behind` and this offset completes it."""
        end = (self._behind or {}).get(-1 if number is None else number)
        return end is not None and (end == 0 or (offset is not None and offset >= end))
