"""The consumer of ``kafka-native consume``: where each partition begins and ends, and commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka_native import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from kafka_native.cli.errors import Failed, line_of, no_partition
from kafka_native.cli.offset_bounds import Key, OffsetBound
from kafka_native.errors import is_retriable
from kafka_native.terminal.lines import release_outages

if TYPE_CHECKING:
    from kafka_native.cli.column_files import ColumnFile

BATCH_MESSAGES = 10_000
"""The largest number of messages that are read, written and stored together."""
BATCH_ROWS = 100_000
WAIT_S = 1.0
"""Seconds of one wait for messages. Messages and Ctrl+C end the wait early."""
TRANSIENT_ERRORS = (
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
)
"""Errors that the consumer recovers from by itself. Kafka's retriable errors count, too."""


class Reader:
    """Reads messages until every partition is at its end. Without an end it goes on."""

    def __init__(
        self, consumer: Consumer, *, exits: bool, keeps_going: bool, stores: bool, timeout_s: float
    ) -> None:
        """Nothing is read before `assign` or `subscribe`.

        :param exits: A partition without another end ends where its log ends (``-e``). A member
            of a group without partitions ends after the timeout.
        :param keeps_going: Errors of partitions are printed, and reading goes on (``-E``).
        :param stores: Store the offsets of written messages, so that the consumer commits them.
        :param timeout_s: Seconds for each request for metadata or offsets.
        """
        self.remark: Callable[[str], None] = lambda _text: None
        """Called with a line for each end of a partition that is reached."""
        self.warn: Callable[[str], None] = lambda _text: None
        """Called with a line for each error after which reading goes on."""
        self._consumer = consumer
        self._exits = exits
        self._keeps_going = keeps_going
        self._stores = stores
        self._timeout_s = timeout_s
        self._stops: dict[Key, int] = {}
        self._wanted: set[Key] | None = None
        self._done: set[Key] = set()
        self._next: dict[Key, int] = {}
        self._taken: dict[Key, int] = {}
        self._stopped = False
        self._without_since: float | None = None
        """When this member of a group was first seen without partitions; None: it has some."""

    # --- where to read ---

    def subscribe(self, topics: list[str]) -> None:
        """Read topics as a member of a group."""
        self._consumer.subscribe(topics, self._resume)
        release_outages()

    def _resume(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Go on after the rows that were taken for a column file, when a partition comes back.

        A Parquet file is committed at its end, so it would get these rows again.
        """
        if not any((each.topic, each.partition) in self._taken for each in partitions):
            return
        try:
            committed = consumer.committed(partitions, self._timeout_s)
        except KafkaException as failure:
            self.warn(line_of(failure))
            committed = partitions
        places = []
        for each in committed:
            taken = self._taken.get((each.topic, each.partition), OFFSET_STORED)
            # Another member may have read on in the meantime.
            offset = OFFSET_STORED if each.offset >= taken else taken
            places.append(TopicPartition(each.topic, each.partition, offset))
        try:
            consumer.assign(places)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._STATE:
                raise
            consumer.incremental_assign(places)  # a cooperative group

    def assign(
        self, topic: str, partitions: Iterable[int], begin: OffsetBound, end: OffsetBound | None
    ) -> None:
        """Read partitions of a topic from one offset bound to another.

        :param partitions: Partition numbers; none means all of the topic.
        :raises Failed: The topic, a partition or an offset doesn't exist.
        """
        found = self._consumer.list_topics(topic, self._timeout_s).topics[topic]
        release_outages()
        if found.error is not None:
            raise Failed(f"topic {topic}: {found.error.str()}")
        numbers = sorted(set(partitions)) or sorted(found.partitions)
        missing = [number for number in numbers if number not in found.partitions]
        if missing:
            raise no_partition(topic, missing[0], len(found.partitions))
        marks = (
            self._watermarks(topic, numbers)
            if end is not None or begin.kind in ("offset", "tail")
            else {}
        )
        starts = self._resolved(topic, numbers, begin, marks)
        for number in numbers:
            if begin.kind == "offset":
                starts[number] = self._in_log(topic, number, begin.number, marks[number])
            elif end is not None and begin.kind == "beginning":
                starts[number] = marks[number][0]
        if end is not None:
            stops = self._resolved(topic, numbers, end, marks)
            self._stops = {(topic, number): stop for number, stop in stops.items()}
        wanted = [
            number for number in numbers if not self._is_empty((topic, number), starts[number])
        ]
        self._wanted = {(topic, number) for number in wanted}
        self._consumer.assign([TopicPartition(topic, number, starts[number]) for number in wanted])

    def _is_empty(self, key: Key, start: int) -> bool:
        return key in self._stops and 0 <= self._stops[key] <= max(start, 0)

    def _watermarks(self, topic: str, numbers: list[int]) -> dict[int, tuple[int, int]]:
        ask = self._consumer.get_watermark_offsets
        return {number: ask(TopicPartition(topic, number), self._timeout_s) for number in numbers}

    def _resolved(
        self, topic: str, numbers: list[int], place: OffsetBound, marks: dict[int, tuple[int, int]]
    ) -> dict[int, int]:
        """The offsets of a bound.

        They are logical (OFFSET_BEGINNING, OFFSET_END) without watermarks; OFFSET_STORED always is.
        """
        if place.kind == "time":
            asked = [TopicPartition(topic, number, place.number) for number in numbers]
            times = {
                each.partition: each
                for each in self._consumer.offsets_for_times(asked, self._timeout_s)
            }
            for each in times.values():
                if each.error is not None:
                    raise KafkaException(each.error)
            # No message is as new as the time: start at the end, if known the current end.
            ends = {number: marks[number][1] if marks else OFFSET_END for number in numbers}
            return {
                number: each.offset if each.offset >= 0 else ends[number]
                for number, each in times.items()
            }
        if place.kind == "tail":
            return {number: max(high - place.number, low) for number, (low, high) in marks.items()}
        if place.kind == "end" and marks:
            return {number: high for number, (_, high) in marks.items()}
        if place.kind == "beginning" and marks:
            return {number: low for number, (low, _) in marks.items()}
        known = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END, "stored": OFFSET_STORED}
        return dict.fromkeys(numbers, known.get(place.kind, place.number))

    def _in_log(self, topic: str, number: int, offset: int, marks: tuple[int, int]) -> int:
        low, high = marks
        if offset > high:
            raise Failed(f"offset {offset} of {topic} [{number}] is after its end, {high}")
        if offset < low:
            self.warn(f"{topic} [{number}] begins at offset {low}")
        return max(offset, low)

    # --- messages ---

    def batches(self, count_max: int | None) -> Iterator[list[Message]]:
        """Yield messages in batches as they arrive.

        When the caller asks for the next batch, the offsets of the last one are stored. So write
        a batch before you ask for the next.

        :param count_max: The number of messages to read; None for no limit.
        :raises KafkaException: A partition failed.
        """
        taken = 0
        while not self._is_over(taken, count_max):
            room = BATCH_MESSAGES if count_max is None else min(BATCH_MESSAGES, count_max - taken)
            messages = self._consumer.consume(room, 0)
            if not messages:
                first = self._consumer.poll(WAIT_S)
                if first is None:
                    continue
                messages = [first, *(self._consumer.consume(room - 1, 0) if room > 1 else ())]
            good = [message for message in messages if message.error() is None]
            others = (
                [message for message in messages if message.error() is not None]
                if len(good) < len(messages)
                else []
            )
            if self._stops:
                good = [message for message in good if self._is_before_stop(message)]
            taken += len(good)
            if good:
                yield good
            failures = [
                failure for message in others if (failure := self._note_error(message)) is not None
            ]
            self.store_messages(good)
            for failure in failures:
                self.handle_error(failure)

    def write_columns(
        self,
        file: ColumnFile,
        columns: Mapping[str, str | None],
        count_max: int | None,
        decoding: Mapping[str, Any],
    ) -> None:
        """Write records to a column file, in the way in which `batches` yields messages.

        :param decoding: The arguments of `Consumer.consume_arrow` for typed columns.
        :raises KafkaException: A partition failed.
        :raises Failed: A record doesn't fit into its column, or can't be decoded.
        """
        wanted = {
            **columns,
            **{
                name: None
                for name in ("partition", "offset")
                if self._stops and name not in columns
            },
        }
        try:
            while not self._is_over(file.rows, count_max):
                room = BATCH_ROWS if count_max is None else min(BATCH_ROWS, count_max - file.rows)
                self._write_batch(file, room, wanted, decoding)
            self.store(file.close())
        finally:
            # After an error the file ends with the rows before it.
            written = file.close()
            if written:
                self.store(written)

    def _write_batch(
        self,
        file: ColumnFile,
        room: int,
        wanted: Mapping[str, str | None],
        decoding: Mapping[str, Any],
    ) -> None:
        try:
            with column_problems(is_typed=bool(decoding)):
                batch = self._consumer.consume_arrow(room, WAIT_S, columns=wanted, **decoding)
        except KafkaException as failure:
            self.handle_error(failure)
            return
        written = file.write(batch, self._stops)
        self._taken |= batch.positions
        for key, position in batch.positions.items():
            if position >= self._stops.get(key, position + 1):
                self._finish(key)
        for end in batch.ends:
            self.note_end((end.topic, end.partition), end.offset)
        if written:  # otherwise the offsets of reached ends wait for the rows before them
            self.store(written)

    def stop(self) -> None:
        """Stop reading after the messages taken so far. A signal handler may call it."""
        self._stopped = True
        self._consumer.wakeup()

    def _is_over(self, taken: int, count_max: int | None) -> bool:
        if self._stopped:
            return True
        if count_max is not None and taken >= count_max:
            return True
        if self._wanted is not None:
            return self._wanted <= self._done
        if not self._exits:
            return False
        assigned = {(each.topic, each.partition) for each in self._consumer.assignment()}
        if not assigned:
            return self._is_left_out()
        self._without_since = None
        return assigned <= self._done

    def _is_left_out(self) -> bool:
        """Whether the group has had no partition for this member during the whole timeout.

        At first a member may have none because others have to give them up.
        """
        now = time.monotonic()
        if self._consumer.memberid() is None:
            self._without_since = None
        elif self._without_since is None:
            self._without_since = now
        elif now - self._without_since >= self._timeout_s:
            self.warn(f"the group has had no partition for this member for {self._timeout_s:g} s")
            return True
        return False

    def _is_before_stop(self, message: Message) -> bool:
        offset, key = message.offset() or 0, _key(message)
        stop = self._stops[key]
        if offset >= stop - 1:
            self._finish(key)
        return offset < stop

    def _finish(self, key: Key) -> None:
        if key not in self._done:
            self._done.add(key)
            self._consumer.pause([TopicPartition(*key)])

    def _note_error(self, message: Message) -> KafkaException | None:
        """Note the end of a partition, and return None. Return any other error."""
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return KafkaException(error)
        self.note_end(_key(message), message.offset() or 0)
        return None

    def note_end(self, key: Key, offset: int) -> None:
        """Note that reading has reached the current end of a partition's log."""
        if self._stores:
            self._next[key] = offset  # also counts transaction markers, which aren't messages
        if key in self._done:
            return
        self.remark(f"reached the end of {key[0]} [{key[1]}] at offset {offset}")
        if key in self._stops:
            if self._exits or offset >= self._stops[key]:
                self._finish(key)
        elif self._exits:
            self._done.add(key)

    def handle_error(self, failure: KafkaException) -> None:
        """Handle an error of a partition or the group: raise it, or print it and go on."""
        error: KafkaError = failure.args[0]
        if error.fatal() or not (
            self._keeps_going or error.code() in TRANSIENT_ERRORS or is_retriable(error.code())
        ):
            raise failure
        self.warn(line_of(failure))

    def store_messages(self, messages: list[Message]) -> None:
        """Store the offsets after messages that are written."""
        if self._stores:
            self.store({_key(message): (message.offset() or 0) + 1 for message in messages})

    def store(self, offsets: dict[Key, int]) -> None:
        """Store the next offset of each partition. The consumer commits it later and at the end."""
        if not self._stores:
            return
        self._next, ends = {}, self._next
        wanted = {
            **offsets,
            **{key: offset for key, offset in ends.items() if offset > offsets.get(key, -1)},
        }
        if not wanted:
            return
        try:
            self._consumer.store_offsets(
                offsets=[TopicPartition(*key, offset) for key, offset in wanted.items()]
            )
        except KafkaException as error:
            # Another member has these partitions now. It reads the messages again.
            self.warn(f"not committed: {line_of(error)}")


@contextmanager
def column_problems(*, is_typed: bool) -> Iterator[None]:
    """Turn the reasons why a record has no place in its column into `Failed`."""
    from kafka_native.codecs import MessageDecodeError, SchemaLookupError

    try:
        yield
    except MessageDecodeError as error:
        schema = error.schema_id if error.schema_guid is None else error.schema_guid
        named = "" if schema is None else f", schema id {schema}"
        path = f"field {error.path}: " if error.path else ""
        raise Failed(
            f"{error.topic} [{error.partition}] at offset {error.offset}: {error.field}{named}: "
            f"{path}{error.problem} (-E writes a null and the reason)"
        ) from error
    except (ImportError, NotImplementedError) as error:  # this build or installation lacks a part
        raise Failed(str(error)) from error
    except SchemaLookupError as error:
        raise Failed(f"schema registry: {error}") from error
    except ValueError as error:
        advice = "" if is_typed else "; --columns takes it as binary"
        raise Failed(f"{error}{advice}") from error


def _key(message: Message) -> Key:
    """The partition of a consumed message."""
    return message.topic() or "", message.partition() or 0
