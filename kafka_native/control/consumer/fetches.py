"""The consumer's assigned partitions: their state, from the assignment to running fetches.

A partition goes through these steps, as far as it needs them. (1) The committed offset is
requested. (2) A logical offset is looked up at the leader. (3) The leader checks the position's
leader epoch (KIP-320). (4) The cursor starts to fetch. A poll visits only partitions that have
work.

If the application could miss a message or get one twice, the fetched messages are dropped. The
client then fetches again from the position.

Thread: the control thread only; the public API gets here through `MainThread.run()`.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from kafka_native.control.brokers.pool import BrokerPool
from kafka_native.control.consumer.offsets import (
    Check,
    Found,
    Lookup,
    Questions,
    check_calls,
    lookup_calls,
)
from kafka_native.control.errors import LEADER_RETRIABLE_ERRORS, NOT_OFFERED_ERRORS
from kafka_native.control.metadata import NO_ID, NO_LEADER, Metadata, Partition, Topic
from kafka_native.control.positions import (
    EARLIEST,
    LATEST,
    NO_EPOCH,
    NO_POSITION,
    OFFSET_TAIL_BASE,
    Ago,
    Key,
    OffsetPosition,
    Reset,
)
from kafka_native.control.requests import NEVER, Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET, Logs
from kafka_native.types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TopicPartition,
)

if TYPE_CHECKING:
    import weakref

    from kafka_native._native.consumer_core import PartitionCore
    from kafka_native._native.engine import Cursor, Engine, Event

    Route: TypeAlias = weakref.ref[PartitionCore]


Given: TypeAlias = (
    tuple[str, int, int]
    | tuple[str, int, int, int | None]
    | tuple[str, int, int, int | None, str | None]
)
"""Topic, partition, offset, leader epoch and metadata of an assigned partition."""


class Assigned:
    """A partition's state: it has work, waits (for a reply or ``due``), is fetching, or rests."""

    __slots__ = (
        "asked", "backoff", "base", "cluster_id", "committed", "confirmed", "cursor", "due", "end",
        "ended", "failed", "fetching", "given", "given_epoch", "given_metadata", "is_recreated",
        "jump", "keep_queued", "leader_epoch", "missing_since", "next", "out_of_range", "partition",
        "paused", "replica", "replica_until", "reported", "route", "sent", "serial", "since",
        "stored", "stored_at", "topic", "validated", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        next: OffsetPosition,
        base: OffsetPosition = NO_POSITION,
        given: int = OFFSET_STORED,
        asked: OffsetPosition = NO_POSITION,
        is_recreated: bool = False,
        paused: bool = False,
        given_metadata: str | None = None,
        given_epoch: int | None = None,
    ) -> None:
        """Creates the state of a partition that isn't fetched yet."""
        self.topic = topic
        self.partition = partition
        self.next = next
        """The position of the next fetch, or a logical offset that isn't looked up yet."""
        self.base = base
        """The application's position until it gets a message."""
        self.given = given
        """The offset in the assignment."""
        self.asked = asked
        """The position that the application wants: from the assignment or the last seek."""
        self.confirmed = False
        """Whether a leader has answered a fetch.

        The position then belongs to the topic as it was.
        """
        self.ended = False
        """The topic was deleted and recreated.

        The client delivers and commits no more of the old one.
        """
        self.is_recreated = is_recreated
        """The topic was recreated, and the group may have an offset of the old topic."""
        self.cursor: Cursor | None = None
        self.cluster_id: str | None = None
        """The cluster that ``cursor`` was created for."""
        self.fetching = False
        self.paused = paused
        self.failed = False  # until a seek
        self.waiting = False  # for the reply to the request with number ``serial``
        self.keep_queued = False  # the undelivered messages stay valid
        self.serial = 0  # the number of the last request: older replies are ignored
        self.due = 0.0
        self.backoff = Backoff(0.1, 10.0)
        # the last reported error and the position at that time
        self.reported: tuple[int, int] | None = None
        self.missing_since: float | None = None  # since when the metadata don't contain it
        self.leader_epoch = NO_EPOCH  # the leader epoch of the fetch
        self.validated = NO_EPOCH  # the leader epoch that has confirmed ``next``
        self.out_of_range = OFFSET_INVALID  # the last offset out of range; its epoch was checked
        # an offset out of range, and the position after the reset
        self.jump: tuple[int, OffsetPosition] | None = None
        self.since: int | None = None  # the start timestamp of auto.offset.reset=by_duration
        self.end: OffsetPosition | None = None  # and the end, in case no message is younger
        self.replica = -1  # the node to fetch from instead of the leader (KIP-392)
        self.replica_until = 0.0
        self.stored: OffsetPosition | None = None  # from store_offsets()
        self.stored_at = OFFSET_INVALID  # the position at that time
        self.sent: OffsetPosition | None = None  # the last position in a commit
        self.committed: OffsetPosition | None = None  # the last committed position
        self.route: Route | None = None  # to the queue that alone gets the messages
        self.given_metadata = given_metadata  # in the assignment
        self.given_epoch = given_epoch

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def offset(self) -> int:
        """The offset of the next fetch, or a logical offset."""
        return self.next.offset

    @property
    def position(self) -> int:
        """The next offset to deliver; OFFSET_INVALID before the first message."""
        return OFFSET_INVALID if self.cursor is None or self.ended else self.cursor.position

    @property
    def processed(self) -> int:
        """The position up to which delivered messages may be committed.

        The thread that reads a partition's queue may still have the last ones in its hands.
        """
        queue = None if self.route is None else self.route()
        return self.position if queue is None else queue._processed(self.position)

    @property
    def position_epoch(self) -> int:
        """The leader epoch of the last delivered message; -1: unknown."""
        return NO_EPOCH if self.cursor is None else self.cursor.position_epoch

    def resume_position(self) -> OffsetPosition:
        """Where fetching continues if the queued messages are dropped."""
        position = (
            OffsetPosition(self.position, self.position_epoch) if self.position >= 0 else self.base
        )
        if self.jump is not None and position.offset == self.jump[0]:
            return self.jump[1]
        return position


REPLICA_S = 300.0
"""The longest time to fetch from a preferred replica before asking the leader again (KIP-392)."""

UNAUTHORIZED_FACTOR = 10
UNAUTHORIZED_MIN_S = 1.0
"""An unauthorized fetch waits fetch.error.backoff.ms times this factor, and at least this time."""

SLOW = (1.0, 30.0)
"""The back-off for unavailable topics, in seconds."""

AskCommitted = Callable[
    [Iterable[Key], "Callable[[list[TopicPartition] | KafkaError], None]", float], None
]


_Start: TypeAlias = tuple[Assigned, Topic, Partition]
"""A partition to start at its leader."""


class FetchManager:
    """The manager of a consumer's assigned partitions."""

    def __init__(
        self,
        engine: Engine,
        metadata: Metadata,
        pool: BrokerPool,
        *,
        reset: Reset,
        resets: Mapping[str, Reset] = MappingProxyType({}),
        isolation_level: int,
        timeout_s: float,
        create_topics: bool,
        on_error: Callable[[str, int, int, KafkaError], None],
        replica_s: float = REPLICA_S,
        error_s: float = 0.0,
        reports_missing_topics: bool = True,
        has_unknown_partitions: bool = True,
        initial_offsets: Mapping[Key, OffsetPosition] | None = None,
        logs: Logs = QUIET,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """``reset``: auto.offset.reset as EARLIEST, LATEST, an `Ago`, or None (report an error).

        ``resets``: the same of single topics. ``on_error(topic, partition, offset, error)`` reports
        to the application. ``replica_s``: metadata.max.age.ms; ``error_s``:
        fetch.error.backoff.ms. ``initial_offsets``: the start of partitions without a committed
        offset; they take precedence over auto.offset.reset. ``reports_missing_topics``: a missing
        topic or partition is an error for the application. ``has_unknown_partitions``: look-ups
        wait for a partition that isn't in the metadata.
        """
        self._reports_missing_topics = reports_missing_topics
        self._engine = engine
        self._metadata = metadata
        self._pool = pool
        self._reset, self._resets = reset, resets
        self._isolation_level = isolation_level
        self._timeout_s = timeout_s
        self._create_topics = create_topics
        self._on_error = on_error
        self._replica_s = min(replica_s, REPLICA_S)
        self._error_s = error_s
        self._log = logs["consumer"]
        self._fetch_log = logs["fetch"]
        self._clock = clock
        self._wall_clock = wall_clock
        self._todo: dict[Key, None] = {}
        # a heap; an entry is valid while its time equals ``due``
        self._due: list[tuple[float, int, Assigned]] = []
        self._numbers = itertools.count()
        self._failed_topics: dict[str, tuple[float, Backoff]] = {}
        self._hinted: int | None = None  # the only partition that the next metadata event concerns
        self.assigned: dict[Key, Assigned] = {}
        self._by_topic: dict[str, dict[int, Assigned]] = {}
        self._topics_seen: set[str] = set()
        self._paused: set[Key] = set()  # by the application, assigned or not; rebalances keep it
        # partitions of a recreated topic that will be assigned again
        self._recreated: set[Key] = set()
        self.initial_offsets: dict[Key, OffsetPosition] = dict(initial_offsets or {})
        self.ask_committed: AskCommitted | None = None
        """Requests the group's offsets; `CommitManager` sets it. None: there is no group."""
        self.offsets_by_id: Callable[[], bool] = lambda: False
        """Whether the group's offsets belong to the topic's id, not only to its name.

        `CommitManager` sets it.
        """
        self.on_ended: Callable[[list[Key]], None] = lambda keys: None
        """Gets the partitions of recreated topics. The listener removes and assigns them again."""
        self.questions = Questions(
            metadata,
            timeout_s=timeout_s,
            has_unknown_partitions=has_unknown_partitions,
            all_down=pool.all_down,
            clock=clock,
        )
        metadata.on_topic.append(self._on_topic)
        metadata.on_failure.append(self._on_failure)
        metadata.on_missing.append(self._report_topic_error)
        metadata.uses.append(lambda since: self._by_topic)

    # --- calls of the application ---

    def assign(
        self,
        partitions: Iterable[Given],
        now: float,
    ) -> None:
        """Replaces the assignment by these partitions."""
        self.remove(list(self.assigned))
        self.add(partitions, now)

    def add(
        self,
        partitions: Iterable[Given],
        now: float,
    ) -> None:
        """Adds partitions to the assignment. Partitions that are assigned already start again."""
        for each in partitions:
            topic, partition, offset = each[:3]
            epoch = each[3] if len(each) > 3 else None
            metadata = each[4] if len(each) > 4 else None
            key = (topic, partition)
            if key in self.assigned:
                self.remove([key])
            position = OffsetPosition(offset, NO_EPOCH if epoch is None else epoch)
            given = OFFSET_STORED if offset == OFFSET_INVALID else offset
            is_recreated = given == OFFSET_STORED and key in self._recreated
            self._log.debug("%s [%d]: assigned, at offset %d", topic, partition, given)
            self.assigned[key] = self._by_topic.setdefault(topic, {})[partition] = Assigned(
                topic,
                partition,
                position,
                position,
                given,
                position,
                paused=key in self._paused,
                is_recreated=is_recreated,
                given_metadata=metadata,
                given_epoch=epoch,
            )
            if key not in self._paused:
                self._todo[key] = None
            self._topics_seen.add(topic)
            self._metadata.want(topic, now, create=self._create_topics)

    def was_assigned(self, topic: str) -> bool:
        """Whether a partition of the topic is or was assigned."""
        return topic in self._topics_seen

    def remove(self, keys: Iterable[Key]) -> None:
        """Removes partitions from the assignment; ignores those that aren't assigned."""
        for key in keys:
            assigned = self.assigned.pop(key, None)
            if assigned is None:
                continue
            self._log.debug(
                "%s [%d]: not assigned any more, was at offset %d", *key, assigned.position
            )
            self._todo.pop(key, None)
            del self._by_topic[key[0]][key[1]]
            if not self._by_topic[key[0]]:
                del self._by_topic[key[0]]
                self._failed_topics.pop(key[0], None)
            assigned.serial += 1
            assigned.due = -1.0
            if assigned.cursor is not None:
                self._engine.drop_cursor(assigned.cursor)
                assigned.cursor = None
            if assigned.route is not None and (queue := assigned.route()) is not None:
                queue._lose()

    def seek(
        self, topic: str, partition: int, offset: int, epoch: int | None = None
    ) -> KafkaError | None:
        """Continues at ``offset`` (absolute or logical). Drops the fetched messages."""
        return self.seek_many([(topic, partition, offset, epoch)])

    def seek_many(
        self, positions: Iterable[tuple[str, int, int, int | None]], *, anywhere: bool = False
    ) -> KafkaError | None:
        """`seek()` for several (topic, partition, offset, leader epoch): either all or none.

        ``anywhere``: any offset but OFFSET_STORED, as in librdkafka.
        """
        wanted = list(positions)
        for topic, partition, offset, _ in wanted:
            if (topic, partition) not in self.assigned:
                code = (
                    KafkaError._STATE if self.was_assigned(topic) else KafkaError._UNKNOWN_PARTITION
                )
                return KafkaError(
                    code, f"{topic} [{partition}] isn't assigned: assign() it before seek()"
                )
            if anywhere:
                impossible = offset == OFFSET_STORED
            else:
                logical = (OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED)
                impossible = OFFSET_TAIL_BASE < offset < 0 and offset not in logical
            if impossible:
                return KafkaError(
                    KafkaError._INVALID_ARG,
                    f"{topic} [{partition}] has no offset {offset} to seek to",
                )
        for topic, partition, offset, epoch in wanted:
            assigned = self.assigned[topic, partition]
            assigned.failed = assigned.ended = assigned.is_recreated = False
            assigned.reported = None
            assigned.backoff.reset()
            assigned.asked = OffsetPosition(offset, NO_EPOCH if epoch is None else epoch)
            self._restart(assigned, assigned.asked, forget=True)
        return None

    def seek_to_times(
        self,
        times: Iterable[tuple[str, int, int]],
        done: Callable[[KafkaError | None], None],
        deadline: float,
    ) -> None:
        """Seeks to the first message at or after (topic, partition, milliseconds), or to the end.

        Either all partitions are sought, or ``done`` gets an error and none is.
        """
        wanted = list(times)

        def on_found(found: list[Found]) -> None:
            positions: list[tuple[str, int, int, int | None]] = []
            for (topic, partition, _), result in zip(wanted, found, strict=True):
                if isinstance(result, KafkaError):
                    done(result)
                    return
                positions.append(
                    (topic, partition, result[0] if result[0] >= 0 else OFFSET_END, None)
                )
            done(self.seek_many(positions))

        self.lookup_times(wanted, on_found, deadline)

    def pause(self, keys: Iterable[Key]) -> None:
        """Stops fetching and delivering these partitions until `resume()`.

        The positions stay. The partitions may be assigned later.
        """
        for key in keys:
            self._paused.add(key)
            assigned = self.assigned.get(key)
            if assigned is not None and not assigned.paused:
                self._restart(assigned, None)
                assigned.paused = True
                self._todo.pop(key, None)

    def resume(self, keys: Iterable[Key]) -> None:
        """Ends a `pause()`."""
        for key in keys:
            self._paused.discard(key)
            assigned = self.assigned.get(key)
            if assigned is not None and assigned.paused:
                assigned.paused = False
                self._work_on(assigned)

    def open_route(self, key: Key, route: Route) -> KafkaError | None:
        """Sends the partition's messages from the position on to a queue of their own."""
        assigned = self.assigned.get(key)
        where = f"{key[0]} [{key[1]}]"
        if assigned is None or assigned.ended:
            return KafkaError(KafkaError._STATE, f"{where} isn't assigned")
        if assigned.route is not None and assigned.route() is not None:
            return KafkaError(KafkaError._STATE, f"{where} has a queue already")
        assigned.route, queue = route, route()
        if assigned.cursor is not None and queue is not None:
            queue._attach(assigned.cursor)
        self._restart(assigned, None)  # the messages in the consumer's queue are stale now
        return None

    def close_route(self, key: Key, route: Route) -> None:
        """Ends `open_route()`: the consumer's own calls return the messages again."""
        assigned = self.assigned.get(key)
        if assigned is not None and assigned.route is route:
            assigned.route = None
            if assigned.cursor is not None:
                assigned.cursor.leave_route()
            self._restart(assigned, None)

    def forget_pauses(self) -> None:
        """Forgets the pauses of unassigned partitions: the subscription has ended."""
        self._paused = {key for key, assigned in self.assigned.items() if assigned.paused}

    def lookup_times(
        self,
        times: Iterable[tuple[str, int, int]],
        done: Callable[[list[Found]], None],
        deadline: float,
    ) -> None:
        """Looks up the first offsets at or after (topic, partition, milliseconds); -1: the end.

        The partitions need not be assigned. EARLIEST and LATEST may replace the time. ``done`` gets
        one outcome for each, in order.
        """
        self.questions.ask(times, done, deadline, self._isolation_level)

    def watermarks(
        self,
        keys: Iterable[Key],
        done: Callable[[list[tuple[int, int] | KafkaError]], None],
        deadline: float,
    ) -> None:
        """Looks up the first offset and the end of each partition, in order."""
        wanted = list(keys)
        questions = [
            (topic, partition, kind) for topic, partition in wanted for kind in (EARLIEST, LATEST)
        ]

        def on_found(found: list[Found]) -> None:
            pairs: list[tuple[int, int] | KafkaError] = []
            for first, end in zip(found[::2], found[1::2], strict=True):
                if isinstance(first, KafkaError):
                    pairs.append(first)
                elif isinstance(end, KafkaError):
                    pairs.append(end)
                else:
                    pairs.append((first[0], end[0]))
            done(pairs)

        self.questions.ask(questions, on_found, deadline, self._isolation_level)

    # --- for commits ---

    @property
    def read_committed(self) -> bool:
        """Whether messages of open and aborted transactions are skipped (isolation.level)."""
        return self._isolation_level == 1

    def lag(self, assigned: Assigned) -> int | None:
        """How far the application's position is from the end; None: one of them isn't known."""
        cursor = assigned.cursor
        position = assigned.position if assigned.position >= 0 else assigned.base.offset
        if cursor is None or position < 0:
            return None
        end = cursor.last_stable_offset if self.read_committed else cursor.high_watermark
        return None if end < 0 else max(0, end - position)

    def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """The ids of those topics whose id is known."""
        return self._metadata.ids(names)

    def bound_id(self, key: Key) -> bytes:
        """The id of the topic that a partition was read from; zeros: unknown.

        Its offsets belong to this id.
        """
        assigned = self.assigned.get(key)
        if assigned is None or assigned.cursor is None or not self._is_confirmed(assigned):
            return NO_ID
        if assigned.cluster_id != self._metadata.cluster_id:
            return NO_ID
        return assigned.cursor.topic_id

    def is_missing(self, name: str) -> bool:
        """Whether the topic was missing in the last metadata.

        A topic that waits for its leaders is there (LEADER_NOT_AVAILABLE, with its id).
        """
        topic = self._metadata.topics.get(name)
        return topic is not None and (topic.failed is not None or not topic.exists)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic id from `topic_ids()`."""
        return self._metadata.name_of(topic_id)

    def refresh_metadata(self) -> None:
        """Refreshes the metadata after an error that contradicts them."""
        self._metadata.refresh(self._clock())

    # --- one partition ---

    def _work_on(self, assigned: Assigned) -> None:
        if not (assigned.paused or assigned.failed or assigned.waiting or assigned.ended):
            assigned.due = 0.0
            self._todo[assigned.key] = None

    def _restart(
        self, assigned: Assigned, position: OffsetPosition | None, *, forget: bool = False
    ) -> None:
        """Stops the fetch and drops its messages; poll() restarts it at ``position``.

        ``position`` None: continue at the application's position. ``forget``: the old position is
        void.
        """
        assigned.confirmed = not forget and self._is_confirmed(assigned)
        if assigned.cursor is not None:
            # first, so that nothing more is delivered while the position is read
            assigned.cursor.stop()
        assigned.serial += 1
        assigned.next = assigned.base = resume = (
            assigned.resume_position() if position is None else position
        )
        assigned.fetching = assigned.waiting = assigned.keep_queued = False
        assigned.validated = NO_EPOCH
        assigned.replica = -1
        assigned.since = assigned.end = None
        jump = assigned.jump
        if forget or jump is None or not resume.offset < jump[0] < jump[1].offset:
            assigned.jump = None
        if forget:
            assigned.out_of_range = OFFSET_INVALID
            if assigned.cursor is not None:
                assigned.cursor.position = OFFSET_INVALID
                assigned.cursor.position_epoch = NO_EPOCH
        self._work_on(assigned)

    @staticmethod
    def _is_confirmed(assigned: Assigned) -> bool:
        cursor = assigned.cursor
        return (
            assigned.confirmed or assigned.position >= 0 or (cursor is not None and cursor.answered)
        )

    def _wake_at(self, assigned: Assigned, at: float) -> None:
        assigned.due = at
        self._todo.pop(assigned.key, None)
        heapq.heappush(self._due, (at, next(self._numbers), assigned))

    def _later(self, assigned: Assigned, least_s: float = 0.0) -> None:
        """Schedules another attempt after a back-off of at least ``least_s``."""
        if not assigned.paused:
            self._wake_at(assigned, self._clock() + max(least_s, assigned.backoff.next_s()))

    def _report_error(self, assigned: Assigned, error: KafkaError) -> None:
        """Reports an error to the application, once until the position changes."""
        reported = (error.code(), assigned.position)
        if assigned.reported != reported:
            assigned.reported = reported
            self._on_error(assigned.topic, assigned.partition, assigned.offset, error)

    def _report_and_retry(self, assigned: Assigned, error: KafkaError) -> None:
        """Reports an error to the application and retries with back-off."""
        self._report_error(assigned, error)
        self._later(assigned)

    def _give_up(self, assigned: Assigned, error: KafkaError) -> None:
        """Reports an error and stops the partition. Only a seek or a new assignment restarts it."""
        assigned.failed = True
        assigned.fetching = False
        self._todo.pop(assigned.key, None)
        self._on_error(assigned.topic, assigned.partition, assigned.offset, error)

    def _start_all(self, starts: list[_Start]) -> None:
        """Starts these partitions.

        All their connections come first, because each new one takes time. Meanwhile a broker could
        begin to wait for messages of the first partition, and its next partitions with it.
        """
        for assigned, _, leader in starts:
            self._pool.data_handle(leader.leader, *assigned.key)
        for assigned, topic, leader in starts:
            try:
                self._start(assigned, topic, leader)
            except MemoryError:
                self._later(assigned)

    def _start(self, assigned: Assigned, topic: Topic, leader: Partition) -> None:
        cursor = assigned.cursor
        if cursor is not None and cursor.topic_id != topic.id:
            position, position_epoch = cursor.position, cursor.position_epoch
            self._engine.drop_cursor(cursor)
            cursor = self._new_cursor(assigned, topic)
            cursor.position, cursor.position_epoch = position, position_epoch
            assigned.keep_queued = False
        elif cursor is None:
            cursor = self._new_cursor(assigned, topic)
        handle = self._pool.data_handle(leader.leader, *assigned.key)
        offset = assigned.next.offset
        # Within the same fetch epoch, a new leader or a retry keeps the queued messages. Otherwise
        # a new epoch begins.
        if not (assigned.keep_queued and cursor.move(handle, offset, leader.epoch, cursor.epoch)):
            cursor.start(handle, offset, leader.epoch)
            assigned.base = assigned.next
        assigned.keep_queued = False
        assigned.fetching = True
        assigned.leader_epoch = leader.epoch
        where = (*assigned.key, offset, leader.leader, leader.epoch)
        self._fetch_log.debug(
            "%s [%d]: fetched from offset %d on, at broker %d (leader epoch %d)", *where
        )

    def _new_cursor(self, assigned: Assigned, topic: Topic) -> Cursor:
        cursor = assigned.cursor = self._engine.cursor(assigned.topic, topic.id, assigned.partition)
        assigned.cluster_id = self._metadata.cluster_id
        if assigned.route is not None and (queue := assigned.route()) is not None:
            queue._attach(cursor)
        return cursor

    # --- metadata events ---

    def _on_topic(self, topic: Topic) -> None:
        self._failed_topics.pop(topic.name, None)
        of_topic = self._by_topic.get(topic.name, {})
        if self._hinted is None:
            self._leave_old_topic(topic, of_topic.values())
        for number in list(of_topic) if self._hinted is None else (self._hinted,):
            assigned = of_topic.get(number)
            if assigned is None or assigned.paused or assigned.failed or assigned.ended:
                continue
            if not assigned.fetching:
                self._work_on(assigned)
            elif number >= len(topic.partitions) or self._has_moved(
                assigned, topic, topic.partitions[number]
            ):
                # Only the engine knows the old leader's fetch offset: continue at the delivered
                # position.
                self._restart(assigned, None)

    def _leave_old_topic(self, topic: Topic, partitions: Iterable[Assigned]) -> None:
        """Ends the partitions of a topic that was deleted and recreated with another id.

        The old topic's offsets mean nothing in the new one. If no leader of the old topic has
        confirmed an application's position, it is meant for the new topic. On another cluster
        (after a rebootstrap), the topic counts as a copy of the old one. Its id always differs
        there.
        """
        ended = []
        for assigned in partitions:
            old_id = NO_ID if assigned.cursor is None else assigned.cursor.topic_id
            elsewhere = assigned.cluster_id != self._metadata.cluster_id
            if assigned.ended or elsewhere or NO_ID in (old_id, topic.id) or old_id == topic.id:
                continue
            if self._is_confirmed(assigned):
                ended.append(assigned.key)
            else:
                self._restart(assigned, assigned.asked, forget=True)
        if ended:
            numbers = ", ".join(str(number) for _, number in sorted(ended))
            self._log.warning(
                "%s was deleted and recreated: partitions %s start from the new beginning",
                topic.name,
                numbers,
            )
            self.end(ended)
            self.on_ended(ended)

    def end(self, keys: Iterable[Key]) -> None:
        """Stops partitions of a recreated topic: no more messages, stores or commits."""
        for key in keys:
            assigned = self.assigned[key]
            assigned.ended = assigned.confirmed = True
            assigned.fetching = assigned.waiting = False
            assigned.serial += 1
            assigned.due = -1.0
            assigned.stored = None
            self._todo.pop(key, None)
            if assigned.cursor is not None:
                assigned.cursor.stop()

    def expect_recreated(self, keys: Iterable[Key]) -> None:
        """Marks removed partitions of a recreated topic, which may be assigned again."""
        self._recreated.update(keys)

    def forget_recreated(self) -> None:
        """Ends `expect_recreated()`: later assignments are not about recreated topics."""
        self._recreated.clear()

    def _has_moved(self, assigned: Assigned, topic: Topic, leader: Partition) -> bool:
        """Whether a running fetch uses the wrong broker or an old leader epoch."""
        cursor = assigned.cursor
        if cursor is None or cursor.topic_id != topic.id:
            return True
        node = (
            assigned.replica
            if assigned.replica >= 0 and leader.leader != NO_LEADER
            else leader.leader
        )
        broker = self._pool.by_handle(cursor.broker)
        current = NO_LEADER if broker is None else broker.node_id
        return current != node or assigned.leader_epoch != leader.epoch

    def _on_failure(self, topic: Topic, error: KafkaError) -> None:
        # Partitions are not given up for good: when the topic is created, metadata report it.
        self._report_topic_error(topic, error)
        if topic.name in self._by_topic:
            backoff = self._failed_topics.get(topic.name, (0.0, Backoff(*SLOW)))[1]
            self._failed_topics[topic.name] = (self._clock() + backoff.next_s(), backoff)

    def _report_topic_error(self, topic: Topic, error: KafkaError) -> None:
        if not self._reports_missing_topics:
            return
        code = (
            KafkaError.UNKNOWN_TOPIC_OR_PART
            if error.code() == KafkaError._UNKNOWN_TOPIC
            else error.code()
        )
        for assigned in self._by_topic.get(topic.name, {}).values():
            if not assigned.failed:
                self._report_error(assigned, KafkaError(code, error.str()))

    # --- engine events ---

    def _of_event(self, event: Event) -> Assigned | None:
        """The partition of an event; None: its fetch epoch or assignment is over."""
        cursor = self._engine.cursors[event.token - 1]
        if cursor is None or event.epoch != cursor.epoch:
            return None
        assigned = self.assigned.get((cursor.topic, cursor.partition))
        return assigned if assigned is not None and assigned.cursor is cursor else None

    def on_cursor_error(self, event: Event, now: float) -> None:
        """Handles the stop of a cursor at ``event.offset``."""
        assigned = self._of_event(event)
        if assigned is None:
            return
        code = event.error_code
        if self._fetch_log.on:
            why = KafkaError(code).name() if code else "a batch that can't be used"
            self._fetch_log.debug(
                "%s [%d]: fetching has stopped at offset %d: %s", *assigned.key, event.offset, why
            )
        self._stopped(assigned, event.offset)
        if assigned.replica >= 0:
            # Ask the leader after any error of a follower. Out of range often means that the
            # follower is behind.
            assigned.replica = -1
            if code == KafkaError.OFFSET_OUT_OF_RANGE:
                self._work_on(assigned)
            else:
                self._metadata.refresh(now)
                self._later(assigned)
        elif code == 0:
            # An unusable batch: the application has the error message, and the client fetches
            # again.
            self._later(assigned, self._error_s)
        elif code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._out_of_range(assigned)
        elif code in LEADER_RETRIABLE_ERRORS:
            self._hinted = assigned.partition
            try:
                self._metadata.on_hint(
                    assigned.topic, assigned.partition, event.leader_id, event.leader_epoch, now
                )
            finally:
                self._hinted = None
            leader = self._metadata.leader(assigned.topic, assigned.partition)
            if leader is None or leader.epoch <= assigned.leader_epoch:
                self._later(assigned)  # otherwise the new leader is known already
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._unauthorized(assigned)
        else:
            self._report_error(assigned, KafkaError(code))
            self._later(assigned, self._error_s)

    def _unauthorized(self, assigned: Assigned) -> None:
        """Waits longer than after other errors, as librdkafka does: ACLs rarely change.

        The error is reported once, and again if a fetch has succeeded in between.
        """
        cursor = assigned.cursor
        if cursor is not None and cursor.answered:
            assigned.confirmed = True  # it remains true of the position
            cursor.forget_answer()
            assigned.reported = None
        self._report_error(assigned, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        self._later(assigned, max(UNAUTHORIZED_FACTOR * self._error_s, UNAUTHORIZED_MIN_S))

    @staticmethod
    def _stopped(assigned: Assigned, offset: int) -> None:
        """Records that the engine has stopped at ``offset``. Messages up to it stay queued."""
        if offset > assigned.offset:
            assigned.backoff.reset()  # the fetch has made progress
        assigned.fetching = False
        assigned.keep_queued = True
        assigned.next = OffsetPosition(offset)

    def on_replica(self, event: Event, now: float) -> None:
        """Fetches from a nearer replica, ``event.leader_id``, as the leader suggests (KIP-392)."""
        assigned = self._of_event(event)
        if assigned is None or assigned.paused:
            return
        self._stopped(assigned, event.offset)
        cursor, handle = assigned.cursor, self._pool.data_handle(event.leader_id, *assigned.key)
        if (
            cursor is None
            or handle < 0
            or not cursor.move(handle, event.offset, assigned.leader_epoch, cursor.epoch)
        ):
            self._metadata.refresh(now)
            self._later(assigned)
            return
        assigned.fetching = True
        assigned.keep_queued = False
        self._fetch_log.debug(
            "%s [%d]: fetched from its replica at broker %d", *assigned.key, event.leader_id
        )
        assigned.replica = event.leader_id
        assigned.replica_until = now + self._replica_s
        self._wake_at(assigned, assigned.replica_until)

    def on_broker_down(self, handle: int) -> None:
        """Returns partitions that are fetched from a follower at this broker to their leaders."""
        for assigned in self.assigned.values():
            if (
                assigned.replica >= 0
                and assigned.cursor is not None
                and assigned.cursor.broker == handle
            ):
                self._restart(assigned, None)

    def _out_of_range(self, assigned: Assigned) -> None:
        where, offset = f"{assigned.topic} [{assigned.partition}]", assigned.offset
        position = assigned.resume_position()
        if assigned.jump is not None and offset <= assigned.jump[0]:
            assigned.next = assigned.jump[1]
            self._work_on(assigned)
        elif position.offset == offset and position.epoch >= 0 and assigned.out_of_range != offset:
            # The log may be truncated (KIP-320): then a check finds a better position than
            # auto.offset.reset.
            assigned.out_of_range = offset
            self._restart(assigned, position)
        elif self._reset_of(assigned) is None:
            text = f"offset {offset} of {where} is out of range, and auto.offset.reset=error"
            self._give_up(assigned, KafkaError(KafkaError._AUTO_OFFSET_RESET, text))
        else:
            self._log.info(
                "offset %d of %s is out of range: going on where auto.offset.reset says",
                offset,
                where,
            )
            assigned.jump = (offset, assigned.next)  # the target is known after the look-up
            self._reset_to(assigned)
            self._work_on(assigned)

    def _reset_to(self, assigned: Assigned) -> None:
        """Sets the next position by auto.offset.reset."""
        assigned.since = assigned.end = None
        reset = self._reset_of(assigned)
        if isinstance(reset, Ago):
            assigned.since = max(0, int(self._wall_clock() * 1000) - reset.ms)
            assigned.next = OffsetPosition(OFFSET_END)
        elif reset is not None:
            assigned.next = OffsetPosition(reset)

    def _reset_of(self, assigned: Assigned) -> Reset:
        """auto.offset.reset of the partition's topic."""
        return self._resets.get(assigned.topic, self._reset)

    # --- polling ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        while self._due and self._due[0][0] <= now:
            at, _, assigned = heapq.heappop(self._due)
            if assigned.due == at:
                self._on_due(assigned)
        lookups: list[Lookup] = []
        checks: list[Check] = []
        asks: list[Assigned] = []
        starts: list[_Start] = []
        todo, self._todo = self._todo, {}
        for key in todo:
            self._work(self.assigned[key], lookups, checks, asks, starts, now)
        self._start_all(starts)
        deadline = now + self._timeout_s
        calls = lookup_calls(lookups, self._isolation_level, deadline, int(self._timeout_s * 1000))
        calls += check_calls(checks, deadline)
        more, wake_up = self.questions.poll(now)
        if asks:
            self._ask_committed(asks)
            wake_up = 0.0  # the commit manager has a request now
        wake_up = min(wake_up, self._due[0][0] if self._due else NEVER, self._retry_topics(now))
        return calls + more, wake_up

    def _on_due(self, assigned: Assigned) -> None:
        if not assigned.fetching:
            self._work_on(assigned)
        elif assigned.replica >= 0:
            self._restart(assigned, None)  # the preferred replica has expired

    def _retry_topics(self, now: float) -> float:
        """Refreshes the metadata for unavailable topics."""
        for name, (at, backoff) in list(self._failed_topics.items()):
            if at <= now:
                self._metadata.refresh(now)
                self._failed_topics[name] = (now + backoff.next_s(), backoff)
        return min((at for at, _ in self._failed_topics.values()), default=NEVER)

    def _work(
        self,
        assigned: Assigned,
        lookups: list[Lookup],
        checks: list[Check],
        asks: list[Assigned],
        starts: list[_Start],
        now: float,
    ) -> None:
        if assigned.offset in (OFFSET_STORED, OFFSET_INVALID):
            if self.ask_committed is not None:
                assigned.waiting = True
                assigned.serial += 1
                asks.append(assigned)
                return
            self._take_committed(assigned, None)
            if assigned.failed:
                return
        topic = self._metadata.topics.get(assigned.topic)
        if topic is None or not topic.known:
            return  # metadata report the topic when they know it
        if not 0 <= assigned.partition < len(topic.partitions):
            self._await_partition(assigned, now)
            return
        assigned.missing_since = None
        leader = topic.partitions[assigned.partition]
        if leader.leader == NO_LEADER:
            self._metadata.refresh(now)
            self._later(assigned)
            return
        resume = assigned.resume_position()
        if (
            assigned.keep_queued
            and leader.epoch != assigned.leader_epoch
            and 0 <= resume.epoch < leader.epoch
        ):
            self._restart(assigned, resume)  # the new leader's log may lack the queued messages
            self._todo.pop(assigned.key, None)
        if assigned.offset < 0:
            lookups.append(self._lookup(assigned, leader))
        elif 0 <= assigned.next.epoch < leader.epoch and assigned.validated != leader.epoch:
            checks.append(self._check(assigned, leader))
        else:
            starts.append((assigned, topic, leader))

    def _await_partition(self, assigned: Assigned, now: float) -> None:
        """Waits for a partition that isn't in the metadata: it may be newer than they are."""
        if assigned.missing_since is None:
            assigned.missing_since = now
        elif self._reports_missing_topics and self._metadata.is_absent(
            *assigned.key, assigned.missing_since
        ):
            text = f"{assigned.topic} has no partition {assigned.partition}"
            self._report_error(assigned, KafkaError(KafkaError._UNKNOWN_PARTITION, text))
        self._metadata.want_partition(*assigned.key, now)
        self._later(assigned)

    # --- steps: the committed offset ---

    def _ask_committed(self, asks: list[Assigned]) -> None:
        serials = {assigned.key: (assigned, assigned.serial) for assigned in asks}

        def on_answer(outcome: list[TopicPartition] | KafkaError) -> None:
            answers: dict[Key, TopicPartition] = {}
            if not isinstance(outcome, KafkaError):
                answers = {(each.topic, each.partition): each for each in outcome}
            for key, (assigned, serial) in serials.items():
                if assigned.serial != serial or self.assigned.get(key) is not assigned:
                    continue
                assigned.waiting = False
                error = outcome if isinstance(outcome, KafkaError) else answers[key].error
                if error is not None:
                    self._report_and_retry(assigned, error)
                else:
                    self._take_committed(assigned, answers[key])
                    self._work_on(assigned)

        assert self.ask_committed is not None
        self.ask_committed(list(serials), on_answer, NEVER)

    def _take_committed(self, assigned: Assigned, found: TopicPartition | None) -> None:
        """Starts at the committed offset, else at the initial offset, else by auto.offset.reset.

        Some groups keep offsets by topic name only. After the topic was recreated, such an offset
        may belong to the old topic.
        """
        if assigned.is_recreated and not self.offsets_by_id():
            found = None
        if found is not None and found.offset >= 0:
            epoch = NO_EPOCH if found.leader_epoch is None else found.leader_epoch
            assigned.next = OffsetPosition(found.offset, epoch)
            assigned.committed = assigned.sent = OffsetPosition(found.offset, epoch, found.metadata)
        elif assigned.key in self.initial_offsets and not assigned.is_recreated:
            assigned.next = self.initial_offsets[assigned.key]
        elif self._reset_of(assigned) is None:
            where = f"{assigned.topic} [{assigned.partition}]"
            text = f"no offset for {where}, and auto.offset.reset=error"
            self._give_up(assigned, KafkaError(KafkaError._AUTO_OFFSET_RESET, text))
        else:
            if assigned.is_recreated:
                self._log.info("%s [%d] begins where auto.offset.reset says", *assigned.key)
            self._reset_to(assigned)
        assigned.is_recreated = False
        if not assigned.keep_queued:
            assigned.base = assigned.next

    # --- steps: a logical offset ---

    def _lookup(self, assigned: Assigned, leader: Partition) -> Lookup:
        timestamp, tail = assigned.offset, 0
        if timestamp <= OFFSET_TAIL_BASE:
            timestamp, tail = LATEST, OFFSET_TAIL_BASE - timestamp
        elif assigned.since is not None and assigned.end is not None:
            timestamp = assigned.since
        assigned.waiting = True
        serial = assigned.serial = assigned.serial + 1

        def on_result(result: Found) -> None:
            if assigned.serial == serial and self.assigned.get(assigned.key) is assigned:
                assigned.waiting = False
                self._found(assigned, result, tail, leader.epoch)

        return Lookup(
            assigned.topic, assigned.partition, leader.leader, leader.epoch, timestamp, on_result
        )

    def _found(self, assigned: Assigned, result: Found, tail: int, leader_epoch: int) -> None:
        if isinstance(result, KafkaError):
            if result.code() in LEADER_RETRIABLE_ERRORS:
                self._metadata.refresh(self._clock())
                self._later(assigned)
            else:
                self._report_and_retry(assigned, result)
            return
        position = OffsetPosition(max(0, result[0] - tail), result[1] if tail == 0 else NO_EPOCH)
        if assigned.since is not None:
            if assigned.end is None:
                # The end is looked up first: messages that arrive after it are young enough.
                assigned.end = position
                self._work_on(assigned)
                return
            position = assigned.end if result[0] < 0 else position
            assigned.since = assigned.end = None
        assigned.next = position
        assigned.validated = leader_epoch
        if not assigned.keep_queued:
            assigned.base = position
        elif assigned.jump is not None:
            # Only forwards: no offset between the two can be a position.
            assigned.jump = (
                (assigned.jump[0], position) if position.offset > assigned.jump[0] else None
            )
        assigned.backoff.reset()
        self._work_on(assigned)

    # --- steps: a position's leader epoch ---

    def _check(self, assigned: Assigned, leader: Partition) -> Check:
        assigned.waiting = True
        serial = assigned.serial = assigned.serial + 1
        epoch = leader.epoch

        def on_result(result: OffsetPosition | KafkaError) -> None:
            if assigned.serial == serial and self.assigned.get(assigned.key) is assigned:
                assigned.waiting = False
                self._checked_epoch(assigned, result, epoch)

        return Check(
            assigned.topic, assigned.partition, leader.leader, epoch, assigned.next.epoch, on_result
        )

    def _checked_epoch(
        self, assigned: Assigned, result: OffsetPosition | KafkaError, leader_epoch: int
    ) -> None:
        if isinstance(result, KafkaError) and result.code() not in NOT_OFFERED_ERRORS:
            if result.code() in LEADER_RETRIABLE_ERRORS:
                self._metadata.refresh(self._clock())
                self._later(assigned)
            else:
                self._report_and_retry(assigned, result)
            return
        # A leader that doesn't know the epoch, or can't be asked, doesn't mean that data are lost.
        if (
            isinstance(result, KafkaError)
            or result.offset < 0
            or result.epoch < 0
            or result.offset >= assigned.offset
        ):
            assigned.validated = leader_epoch
            self._work_on(assigned)
            return
        where = f"{assigned.topic} [{assigned.partition}]"
        text = f"the log of {where} was truncated: it ends at {result.offset} "
        text += f"(leader epoch {result.epoch}), "
        text += f"below the position {assigned.offset} (leader epoch {assigned.next.epoch})"
        if self._reset_of(assigned) is None:
            self._give_up(assigned, KafkaError(KafkaError._LOG_TRUNCATION, text))
            return
        self._log.info("%s; going on there", text)
        self._restart(assigned, result, forget=True)
        assigned.validated = leader_epoch

    def close(self, error: KafkaError) -> None:
        """Fails unfinished look-ups with this error: the client is closing."""
        self.questions.close(error)


assert (OFFSET_BEGINNING, OFFSET_END) == (EARLIEST, LATEST), (
    "a logical offset is sent as the timestamp to look up"
)
