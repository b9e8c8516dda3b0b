"""Compacted topics as tables: the newest value of each key.

`CompactedTable` is the table alone and takes the messages of any consumer. `CompactedTopic` reads a whole topic into
one, knows when it has caught up, and follows the changes after that.
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
from kafka_native.types import OFFSET_BEGINNING, TopicPartition

__all__ = ["CompactedTable", "CompactedTopic", "TableChange"]

STEP_S: Final = 1.0
"""The longest that one wait of `CompactedTopic.scan` takes, so that new partitions are noticed meanwhile."""
FIRST_S: Final = 10.0
"""How long the first `CompactedTopic.poll` may look for the topic, however short its own timeout is."""
OWN_SETTINGS: Final = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True}
"""What `CompactedTopic` sets, whatever the application's configuration says."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What one message changed in a table. Changes are equal when their fields are."""

    key: Any
    old_value: Any
    """The value before; None if the table didn't have the key."""
    new_value: Any
    """The value now; None if a tombstone has removed the key."""

    @property
    def is_insert(self) -> bool:
        """Whether the table didn't have the key before."""
        return self.old_value is None and self.new_value is not None

    @property
    def is_update(self) -> bool:
        """Whether the key got another value, or the same one again."""
        return self.old_value is not None and self.new_value is not None

    @property
    def is_delete(self) -> bool:
        """Whether the key was removed."""
        return self.new_value is None


class CompactedTable(Mapping[Any, Any]):
    """The newest value of each key: what is left of a compacted topic when everything superseded is taken away.

        table = CompactedTable()
        while True:
            for change in table.apply(consumer.consume(500, 1.0)):
                print(change.key, change.new_value)

    A read-only mapping from outside: ``table[key]``, ``get()``, ``in``, ``len()``, ``keys()``, ``values()``,
    ``items()``, iteration. Keys and values are what `Message.key` and `Message.value` return: bytes, unless the
    application has set something else. Two tables are equal when their entries are; so are a table and a dict.

    Messages without a value (tombstones) remove their key. Messages without a key are left out, as compaction knows
    no such thing, and so are messages that carry an error. Messages must come in the order of their partitions, as
    consumers hand them out. Not safe to change from several threads at once.
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
        """How many messages with a key the table has taken, tombstones included."""
        return self._records

    @property
    def tombstones_processed(self) -> int:
        """How many of them had no value."""
        return self._tombstones

    def apply(self, messages: Message | Iterable[Message] | None) -> list[TableChange]:
        """Takes messages, and tells what they changed, in their order.

        A tombstone of a key that the table doesn't have changes nothing.

        :param messages: What `Consumer.consume` or `Consumer.poll` has returned.
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
        """Takes messages without telling what they changed: faster, for a first scan."""
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
        """A dict with the entries of now, which later messages don't change."""
        return dict(self._entries)

    def clear(self) -> None:
        """Empties the table and starts the counters anew, for instance when partitions were taken away."""
        self._entries.clear()
        self._records = 0
        self._tombstones = 0

    def copy(self) -> CompactedTable:
        """Another table with the same entries and counters."""
        twin = CompactedTable()
        twin._entries = dict(self._entries)
        twin._records = self._records
        twin._tombstones = self._tombstones
        return twin

    __copy__ = copy

    def __getitem__(self, key: Any) -> Any:
        """The value of a key; KeyError if it isn't there or was removed."""
        return self._entries[key]

    def __iter__(self) -> Iterator[Any]:
        """The keys, in the order in which they came."""
        return iter(self._entries)

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        """Whether the key has a value."""
        return key in self._entries

    def __eq__(self, other: object) -> bool:
        """Whether the entries are the same; what was processed on the way doesn't matter."""
        if isinstance(other, CompactedTable):
            return self._entries == other._entries
        return self._entries == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """What it is and how large; no keys or values, which may be secret."""
        return f"<CompactedTable of {len(self._entries)} keys ({self._records} records, {self._tombstones} tombstones)>"


def _listed(messages: Message | Iterable[Message] | None) -> Iterable[Message]:
    if messages is None:
        return ()
    return (messages,) if isinstance(messages, Message) else messages


class CompactedTopic:
    """A whole topic as a table, kept up to date.

        with CompactedTopic({"bootstrap.servers": "localhost:9092"}, "user-profiles") as profiles:
            profiles.scan(timeout=30)
            print(profiles.table.get(b"user-123"))
            while True:
                for change in profiles.poll(1.0):
                    print(change.key, change.new_value)

    All partitions are read from the beginning, without a consumer group; nothing is committed. Partitions that the
    topic gets later are read as well, as soon as metadata tell of them. When the topic is deleted and made anew, the
    table is emptied and the new topic is read from its beginning. It belongs to one thread at a time, as its
    consumer does.
    """

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        """Makes a consumer; nothing is read before `scan` or `poll`.

        :param config: The consumer's configuration, as for `Consumer`. Where to start, committing and
            ``enable.partition.eof`` are set here, whatever it says.
        :raises KafkaException: _INVALID_ARG for an unknown property or a value that can't be.
        """
        self._set_up(Consumer({**config, **OWN_SETTINGS}), topic)

    @classmethod
    def from_consumer(cls, consumer: Consumer, topic: str) -> CompactedTopic:
        """The same on top of a consumer of the application's own, which is closed along with it.

        Its assignment is replaced by all partitions of the topic. Set ``enable.partition.eof``: without it, a
        partition whose last messages were compacted away or are transaction markers never counts as read.
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
        # The partitions that aren't read to their ends yet, with these ends (None until they are known). None: nothing
        # was asked for yet
        self._behind: dict[int, int | None] | None = None
        self._kept: list[TableChange] = []

    @property
    def topic(self) -> str:
        """The name of the compacted topic."""
        return self._topic

    @property
    def table(self) -> CompactedTable:
        """The table, as far as it was read. It stays when this is closed."""
        return self._table

    @property
    def consumer(self) -> Consumer:
        """The consumer, to pause, seek or look at. Its messages are to be taken through `poll` alone."""
        return self._consumer

    @property
    def caught_up(self) -> bool:
        """Whether the table has everything that was in the topic when the last `scan` (or the first `poll`) began."""
        return self._behind is not None and not self._behind

    def scan(self, timeout: float = -1) -> CompactedTable:
        """Reads until the table has everything that is in the topic at the time of this call, and returns it.

        What is written meanwhile isn't waited for, so that this ends on a busy topic, too; some of it may be in the
        table already. Called again, it reads up to the end of then: a way to see what was written before.

        :param timeout: Seconds; negative waits for ever. What was read until then stays; call it again to go on.
        :raises KafkaException: _TIMED_OUT when it wasn't caught up in time; a partition's or the topic's error.
        """
        deadline = deadline_of(timeout)
        self._begin(deadline)
        while self._behind:
            left = left_s(deadline)
            if not left:
                text = f"{self._topic}: {len(self._behind)} of {self._partitions} partitions aren't read to their ends"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text))
            messages = self._consumer.consume(None, STEP_S if left < 0 else min(left, STEP_S))
            self._table.ingest(messages)
            self._note(messages)
            self._follow()
        return self._table

    def poll(self, timeout: float = -1) -> list[TableChange]:
        """Waits for messages, and returns what they have changed in the table.

        :param timeout: Seconds to wait for the first message; negative waits for ever, 0 doesn't wait. Where `scan`
            wasn't called, the first call has to find the topic, and takes the time that this takes, too.
        :return: The changes in the order of the messages; none when nothing came, or nothing with a key.
        :raises KafkaException: A partition's or the topic's error. Changes that came with it are returned by the next
            call.
        """
        timeout_s = seconds(timeout)
        if self._behind is None:
            self._begin(deadline_of(None if timeout_s < 0 else max(timeout_s, FIRST_S)))
        else:
            self._follow()
        changes, self._kept = self._kept, []
        messages = self._consumer.consume(None, 0 if changes else timeout_s)
        changes += self._table.apply(messages)
        try:
            self._note(messages)
        except KafkaException:
            self._kept = changes
            raise
        return changes

    def into_parts(self) -> tuple[Consumer, CompactedTable]:
        """The consumer, which goes on where this is now and is yours to close, and the table."""
        return self._consumer, self._table

    def close(self) -> None:
        """Closes the consumer. Harmless when called again."""
        self._consumer.close()

    def __enter__(self) -> CompactedTopic:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def __repr__(self) -> str:
        """The topic and how far it is."""
        state = "caught up" if self.caught_up else "not caught up"
        return f"<CompactedTopic {self._topic} ({len(self._table)} keys, {state})>"

    # --- partitions ---

    def _begin(self, deadline: float | None) -> None:
        """Finds out what has to be read until this is caught up; assigns the partitions if that wasn't done yet."""
        if not self._partitions:
            described = self._consumer.list_topics(self._topic, left_s(deadline)).topics[self._topic]
            if described.error is not None:
                raise KafkaException(described.error)
            ends = self._ends(len(described.partitions), deadline)
            self._consumer.assign([self._first(number) for number in described.partitions])
            self._partitions = len(described.partitions)
        else:
            ends = self._ends(self._partitions, deadline)
        self._behind = {number: end for number, (first, end) in enumerate(ends) if end > first}
        self._drop_read()

    def _ends(self, count: int, deadline: float | None) -> list[tuple[int, int]]:
        """The first offset and the end of each partition, from their leaders, one request a broker."""
        keys = [(self._topic, number) for number in range(count)]
        main = self._consumer._client.main

        def ask(until: float, done: Callable[[Any], None]) -> list[Call]:
            if main.fetches is not None:
                main.fetches.watermarks(keys, done, until)
            return []

        found: list[tuple[int, int] | KafkaError] = main.gather(ask, left_s(deadline))
        ends = []
        for each in found:
            if isinstance(each, KafkaError):
                raise KafkaException(each)
            ends.append(each)
        return ends

    def _follow(self) -> None:
        """Assigns partitions that the topic has got meanwhile: metadata are kept up to date once it is read."""
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
        """The topic was deleted and made anew: its entries go, and the new one is read from its beginning."""
        self._kept += [TableChange(key, value, None) for key, value in self._table.items()]
        self._table.clear()
        self._consumer.assign([self._first(number) for number in range(count)])
        self._partitions = count
        self._behind = dict.fromkeys(range(count))

    def _first(self, number: int) -> TopicPartition:
        return TopicPartition(self._topic, number, OFFSET_BEGINNING)

    def _note(self, messages: list[Message]) -> None:
        """Finds out which partitions were read to their ends, and raises the first error among the messages."""
        failed: KafkaError | None = None
        behind = self._behind or {}
        for number in [number for number, end in behind.items() if end is None]:
            # What the first fetch has told
            first, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), cached=True)
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
        self._drop_read()
        if failed is not None:
            raise KafkaException(failed)

    def _drop_read(self) -> None:
        """Takes the partitions out whose positions have reached their ends."""
        behind = self._behind or {}
        for place in self._consumer.position([TopicPartition(self._topic, number) for number in behind]):
            if self._is_read(place.partition, place.offset):
                del behind[place.partition]

    def _is_read(self, number: int | None, offset: int | None) -> bool:
        """Whether the partition is one of those that are behind, and isn't any more with this offset reached."""
        end = (self._behind or {}).get(-1 if number is None else number)
        return end is not None and (end == 0 or (offset is not None and offset >= end))
