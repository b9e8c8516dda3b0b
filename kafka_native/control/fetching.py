"""The consumer's assigned partitions: from an assignment to running cursors, and back on their feet after errors.

Each partition moves between three states: it needs work (a leader, an offset), it is fetching, or it rests (paused,
or failed for good until a
seek). Only those that need work are looked at when polled.

Thread: the control thread only; the public API gets here through `MainThread.run()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_native.control.backoff import Backoff
from kafka_native.control.brokers import BrokerPool
from kafka_native.control.calls import NEVER, Call
from kafka_native.control.metadata import NO_LEADER, Metadata, Topic
from kafka_native.control.offsets import EARLIEST, LATEST, Lookup, lookup_calls
from kafka_native.errors import KafkaError
from kafka_native.types import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED

if TYPE_CHECKING:
    from kafka_native._native.engine import Cursor, Engine, Event

OFFSET_TAIL_BASE = -2000
"""OFFSET_TAIL_BASE - n: n messages before the end (librdkafka's RD_KAFKA_OFFSET_TAIL)."""

# The leader has moved, or doesn't know yet that it leads: ask again.
MOVED = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._RESOLVE,
    }
)


@dataclass(slots=True)
class Assigned:
    """One assigned partition. ``offset`` is where to fetch from next, or a logical offset still to be looked up."""

    topic: str
    partition: int
    offset: int
    cursor: Cursor | None = None
    fetching: bool = False
    paused: bool = False
    failed: bool = False
    looking_up: bool = False
    keep_queued: bool = False  # what was fetched and not handed out goes on being valid
    serial: int = 0  # of look-ups: an answer to an older one is ignored
    not_before: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 10.0))

    @property
    def position(self) -> int:
        """The next offset that the application gets, OFFSET_INVALID before the first message."""
        return OFFSET_INVALID if self.cursor is None else self.cursor.position


class Fetching:
    """The consumer's manager."""

    def __init__(
        self,
        engine: Engine,
        metadata: Metadata,
        pool: BrokerPool,
        *,
        reset: int | None,
        isolation_level: int,
        timeout_s: float,
        create_topics: bool,
        on_error: Callable[[str, int, int, KafkaError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``reset``: auto.offset.reset as EARLIEST, LATEST or None (an error).

        ``on_error(topic, partition, offset, error)`` reaches the application.
        """
        self._engine = engine
        self._metadata = metadata
        self._pool = pool
        self._reset = reset
        self._isolation_level = isolation_level
        self._timeout_s = timeout_s
        self._create_topics = create_topics
        self._on_error = on_error
        self._todo: set[tuple[str, int]] = set()
        self._clock = clock
        self.assigned: dict[tuple[str, int], Assigned] = {}
        metadata.on_topic.append(self._on_topic)
        metadata.on_failure.append(self._on_failure)

    # --- what the application asks ---

    def assign(self, partitions: Iterable[tuple[str, int, int]], now: float) -> None:
        """Replaces the assignment: (topic, partition, offset) each."""
        for key in list(self.assigned):
            self._drop(self.assigned.pop(key))
        self._todo.clear()
        for topic, partition, offset in partitions:
            self.assigned[topic, partition] = Assigned(topic, partition, offset)
            self._todo.add((topic, partition))
            self._metadata.want(topic, now, create=self._create_topics)

    def _drop(self, assigned: Assigned) -> None:
        assigned.serial += 1
        if assigned.cursor is not None:
            self._engine.drop_cursor(assigned.cursor)
            assigned.cursor = None

    def seek(self, topic: str, partition: int, offset: int) -> KafkaError | None:
        """Goes on at ``offset`` (absolute or logical). What was fetched is dropped."""
        assigned = self.assigned.get((topic, partition))
        if assigned is None:
            return KafkaError(KafkaError._STATE, f"{topic} [{partition}] isn't assigned: assign() it before seek()")
        self._restart(assigned, offset)
        if assigned.cursor is not None:
            assigned.cursor.position = OFFSET_INVALID
        return None

    def pause(self, topic: str, partition: int) -> KafkaError | None:
        """Fetches and hands out no more until resumed; the position stays."""
        assigned = self.assigned.get((topic, partition))
        if assigned is None:
            return KafkaError(KafkaError._UNKNOWN_PARTITION, f"{topic} [{partition}] isn't assigned")
        if not assigned.paused:
            self._restart(assigned, self._resume_offset(assigned))
            assigned.paused = True
            self._todo.discard((topic, partition))
        return None

    def resume(self, topic: str, partition: int) -> KafkaError | None:
        """Undoes `pause()`."""
        assigned = self.assigned.get((topic, partition))
        if assigned is None:
            return KafkaError(KafkaError._UNKNOWN_PARTITION, f"{topic} [{partition}] isn't assigned")
        if assigned.paused:
            assigned.paused = False
            self._todo.add((topic, partition))
        return None

    # --- one partition ---

    @staticmethod
    def _resume_offset(assigned: Assigned) -> int:
        return assigned.position if assigned.position >= 0 else assigned.offset

    def _restart(self, assigned: Assigned, offset: int) -> None:
        """Stops fetching and forgets what was fetched; polling starts it again at ``offset``."""
        assigned.serial += 1
        assigned.offset = offset
        assigned.fetching = assigned.looking_up = assigned.failed = assigned.keep_queued = False
        assigned.not_before = 0.0
        if assigned.cursor is not None:
            assigned.cursor.stop()
        if not assigned.paused:
            self._todo.add((assigned.topic, assigned.partition))

    def _later(self, assigned: Assigned) -> None:
        """Tries again after a back-off."""
        assigned.not_before = self._clock() + assigned.backoff.next_s()
        self._todo.add((assigned.topic, assigned.partition))

    def _give_up(self, assigned: Assigned, error: KafkaError) -> None:
        """Tells the application; only a seek or a new assignment starts this partition again."""
        assigned.failed = True
        assigned.fetching = False
        self._todo.discard((assigned.topic, assigned.partition))
        self._on_error(assigned.topic, assigned.partition, assigned.offset, error)

    def _start(self, assigned: Assigned, topic: Topic, leader: int, epoch: int) -> None:
        cursor = assigned.cursor
        if cursor is not None and cursor.topic_id != topic.id:
            position = cursor.position
            self._engine.drop_cursor(cursor)
            cursor = assigned.cursor = self._engine.cursor(assigned.topic, topic.id, assigned.partition)
            cursor.position = position
            assigned.keep_queued = False
        elif cursor is None:
            cursor = assigned.cursor = self._engine.cursor(assigned.topic, topic.id, assigned.partition)
        handle = self._pool.handle(leader)
        # Going on within the fetch epoch, so that a new leader or a retry loses nothing that is queued; otherwise a
        # new one.
        if not (assigned.keep_queued and cursor.move(handle, assigned.offset, epoch, cursor.epoch)):
            cursor.start(handle, assigned.offset, epoch)
        assigned.keep_queued = False
        assigned.fetching = True

    # --- what metadata and the engine tell ---

    def _on_topic(self, topic: Topic) -> None:
        for number in range(len(topic.partitions)):
            assigned = self.assigned.get((topic.name, number))
            if assigned is None or assigned.paused or assigned.failed:
                continue
            leader = topic.partitions[number]
            cursor = assigned.cursor
            if not assigned.fetching:
                assigned.not_before = 0.0
                self._todo.add((topic.name, number))
            elif cursor is not None and (
                cursor.topic_id != topic.id or cursor.broker != self._pool.handle(leader.leader)
            ):
                # Moved under a running fetch. Where the old leader's fetch stands only the engine knows: go back to
                # what was handed out.
                self._restart(assigned, self._resume_offset(assigned))

    def _on_failure(self, topic: Topic, error: KafkaError) -> None:
        # No partition is given up for good: should the topic come to be, metadata tells.
        for assigned in self.assigned.values():
            if assigned.topic == topic.name and not assigned.failed:
                code = KafkaError.UNKNOWN_TOPIC_OR_PART if error.code() == KafkaError._UNKNOWN_TOPIC else error.code()
                self._on_error(assigned.topic, assigned.partition, assigned.offset, KafkaError(code, error.str()))

    def on_cursor_error(self, event: Event, now: float) -> None:
        """The engine has stopped a cursor at ``event.offset``."""
        cursor = self._engine.cursors[event.token - 1]
        if cursor is None or event.epoch != cursor.epoch:
            return
        assigned = self.assigned.get((cursor.topic, cursor.partition))
        if assigned is None or assigned.cursor is not cursor:
            return
        assigned.fetching = False
        assigned.keep_queued = True
        assigned.offset = event.offset
        if event.error_code == 0:
            self._later(
                assigned
            )  # a batch that couldn't be used: the application has its Message, here it is fetched again
        elif event.error_code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._out_of_range(assigned)
        elif event.error_code in MOVED:
            self._metadata.on_hint(cursor.topic, cursor.partition, event.leader_id, event.leader_epoch, now)
            self._later(assigned)
        else:
            self._give_up(assigned, KafkaError(event.error_code))

    def _out_of_range(self, assigned: Assigned) -> None:
        if self._reset is None:
            where = f"{assigned.topic} [{assigned.partition}]"
            text = f"offset {assigned.offset} of {where} is out of range, and auto.offset.reset=error"
            self._give_up(assigned, KafkaError(KafkaError._AUTO_OFFSET_RESET, text))
        else:
            assigned.offset = self._reset
            self._todo.add((assigned.topic, assigned.partition))

    # --- polling ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `calls.Manager`."""
        wake_up = NEVER
        lookups: list[Lookup] = []
        for key in list(self._todo):
            assigned = self.assigned[key]
            if assigned.looking_up:
                continue
            if assigned.not_before > now:
                wake_up = min(wake_up, assigned.not_before)
                continue
            wake_up = min(wake_up, self._work(assigned, lookups, now))
        deadline = now + self._timeout_s
        return lookup_calls(lookups, self._isolation_level, deadline, int(self._timeout_s * 1000)), wake_up

    def _work(self, assigned: Assigned, lookups: list[Lookup], now: float) -> float:
        topic = self._metadata.topics.get(assigned.topic)
        if topic is None or not topic.known:
            return NEVER  # metadata tells when it knows
        if assigned.partition >= len(topic.partitions):
            self._give_up(
                assigned,
                KafkaError(KafkaError._UNKNOWN_PARTITION, f"{assigned.topic} has no partition {assigned.partition}"),
            )
            return NEVER
        leader = topic.partitions[assigned.partition]
        if leader.leader == NO_LEADER:
            self._metadata.refresh(now)
            self._later(assigned)
            return assigned.not_before
        if assigned.offset < 0:
            self._look_up(assigned, leader.leader, leader.epoch, lookups)
            return NEVER
        self._todo.discard((assigned.topic, assigned.partition))
        self._start(assigned, topic, leader.leader, leader.epoch)
        return NEVER

    def _look_up(self, assigned: Assigned, leader: int, epoch: int, lookups: list[Lookup]) -> None:
        wanted = assigned.offset
        tail = 0
        if wanted in (OFFSET_STORED, OFFSET_INVALID):
            if self._reset is None:
                text = f"no offset for {assigned.topic} [{assigned.partition}], and auto.offset.reset=error"
                self._give_up(assigned, KafkaError(KafkaError._AUTO_OFFSET_RESET, text))
                return
            wanted = self._reset
        elif wanted <= OFFSET_TAIL_BASE:
            tail = OFFSET_TAIL_BASE - wanted
            wanted = LATEST
        assigned.looking_up = True
        serial = assigned.serial = assigned.serial + 1

        def on_result(result: tuple[int, int] | KafkaError) -> None:
            if assigned.serial == serial and self.assigned.get((assigned.topic, assigned.partition)) is assigned:
                assigned.looking_up = False
                self._found(assigned, result, tail)

        lookups.append(Lookup(assigned.topic, assigned.partition, leader, epoch, wanted, on_result))

    def _found(self, assigned: Assigned, result: tuple[int, int] | KafkaError, tail: int) -> None:
        if isinstance(result, KafkaError):
            if result.code() in MOVED:
                self._metadata.refresh(self._clock())
                self._later(assigned)
            else:
                self._give_up(assigned, result)
            return
        assigned.offset = max(0, result[0] - tail)
        assigned.backoff.reset()
        assigned.not_before = 0.0


assert (OFFSET_BEGINNING, OFFSET_END) == (EARLIEST, LATEST), "a logical offset is sent as the timestamp to look up"
