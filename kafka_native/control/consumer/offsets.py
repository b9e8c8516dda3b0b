"""Look-ups at partition leaders, with one request per leader.

`Lookup` and `Questions` look offsets up (ListOffsets). `Check` finds the end of a leader epoch
(OffsetForLeaderEpoch), which shows whether a log was truncated (KIP-320).

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from kafka_native.control.errors import LEADER_RETRIABLE_ERRORS
from kafka_native.control.metadata import NO_LEADER, Metadata
from kafka_native.control.positions import CLIENT_REPLICA, Key, OffsetPosition
from kafka_native.control.requests import NEVER, Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

T = TypeVar("T")
R = TypeVar("R")


def settle(
    waiting: Mapping[Key, Callable[[T | KafkaError], None]],
    reply: R | KafkaError,
    answers: Callable[[R], Iterable[tuple[Key, T | KafkaError]]],
) -> None:
    """Passes each partition its answer from a reply, exactly once.

    ``answers`` reads a response. Answers that weren't requested and duplicates are ignored. A
    partition without an answer gets an error. If the reply is an error, all partitions get it.
    """
    open_questions = dict(waiting)
    if isinstance(reply, KafkaError):
        for on_result in open_questions.values():
            on_result(reply)
        return
    for key, answer in answers(reply):
        if key in open_questions:
            open_questions.pop(key)(answer)
    name = type(reply).__name__.removesuffix("Response")
    for (topic, partition), on_result in open_questions.items():
        on_result(
            KafkaError(KafkaError._BAD_MSG, f"the reply to {name} leaves out {topic} [{partition}]")
        )


Found: TypeAlias = "tuple[int, int] | KafkaError"
"""An offset (-1: none) and its leader epoch (-1: unknown), or an error."""


class Lookup:
    """Looks up one partition's offset at ``timestamp`` (EARLIEST, LATEST or milliseconds).

    ``on_result`` gets (offset, leader epoch) or a KafkaError.
    """

    __slots__ = (
        "leader",
        "leader_epoch",
        "on_result",
        "partition",
        "timestamp",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        leader: int,
        leader_epoch: int,
        timestamp: int,
        on_result: Callable[[Found], None],
    ) -> None:
        """Stores the arguments."""
        self.topic = topic
        self.partition = partition
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.timestamp = timestamp
        self.on_result = on_result


def lookup_calls(
    lookups: Iterable[Lookup], isolation_level: int, deadline: float, timeout_ms: int
) -> list[Call]:
    """The ListOffsets requests for these look-ups, one per leader and kind of timestamp."""
    groups: dict[tuple[int, int, int], dict[Key, Lookup]] = {}
    for lookup in lookups:
        key = (lookup.topic, lookup.partition)
        leader, kind, turn = lookup.leader, min(lookup.timestamp, 0), 0
        # A request can contain each partition once.
        while key in (group := groups.setdefault((leader, kind, turn), {})):
            turn += 1
        group[key] = lookup
    return [
        _lookup_call(key[0], group, isolation_level, deadline, timeout_ms)
        for key, group in groups.items()
    ]


def _lookup_call(
    leader: int, group: dict[Key, Lookup], isolation_level: int, deadline: float, timeout_ms: int
) -> Call:
    topics: dict[str, ListOffsetsRequest.Topic] = {}
    for lookup in group.values():
        topic = topics.get(lookup.topic)
        if topic is None:
            topic = topics[lookup.topic] = ListOffsetsRequest.Topic(name=lookup.topic)
        topic.partitions.append(
            ListOffsetsRequest.Topic.Partition(
                partition_index=lookup.partition,
                current_leader_epoch=lookup.leader_epoch,
                timestamp=lookup.timestamp,
            )
        )
    message = ListOffsetsRequest(
        replica_id=CLIENT_REPLICA,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )
    waiting = {key: lookup.on_result for key, lookup in group.items()}
    return Call(message, leader, deadline, lambda reply: settle(waiting, reply, _lookup_answers))


def _lookup_answers(reply: ListOffsetsResponse) -> Iterator[tuple[Key, Found]]:
    for topic in reply.topics:
        for partition in topic.partitions:
            yield (topic.name, partition.partition_index), _result(partition)


def _result(partition: ListOffsetsResponse.Topic.Partition) -> Found:
    if partition.error_code:
        return KafkaError(partition.error_code)
    offset = partition.old_style_offsets[0] if partition.old_style_offsets else partition.offset
    return offset, partition.leader_epoch


class _Asked:
    """One call of `Questions.ask()`.

    Questions are (topic, partition, timestamp), numbered by their index.
    """

    def __init__(
        self,
        questions: list[tuple[str, int, int]],
        done: Callable[[list[Found]], None],
        since: float,
        deadline: float,
        isolation_level: int,
    ) -> None:
        """Nothing is found yet."""
        self.questions = questions
        self.done = done
        self.since = since
        self.deadline = deadline
        self.isolation_level = isolation_level
        self.found: dict[int, Found] = {}
        self.last: dict[int, KafkaError] = {}
        self.ready: set[int] = set()  # to be sent, now or after the back-off
        self.over = False


class Questions:
    """The application's offset look-ups, for any partition. Retries them until a deadline."""

    def __init__(
        self,
        metadata: Metadata,
        *,
        timeout_s: float,
        backoff: Backoff | None = None,
        has_unknown_partitions: bool = True,
        all_down: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout_s`` is for one request.

        ``all_down`` returns whether no broker can be reached. ``has_unknown_partitions``: a topic
        or partition that isn't in the metadata may be new. Otherwise its look-up fails at once.
        """
        self._has_unknown_partitions = has_unknown_partitions
        self._metadata = metadata
        self._timeout_s = timeout_s
        self._backoff = backoff or Backoff(0.1, 1.0)
        self._all_down = all_down
        self._clock = clock
        self._asked: list[_Asked] = []
        self._ask_at = 0.0
        metadata.uses.append(
            lambda since: [topic for each in self._asked for topic, _, _ in each.questions]
        )

    def ask(
        self,
        questions: Iterable[tuple[str, int, int]],
        done: Callable[[list[Found]], None],
        deadline: float,
        isolation_level: int,
    ) -> None:
        """Looks up the offsets at (topic, partition, timestamp).

        EARLIEST and LATEST are timestamps, too. ``done`` gets an outcome for each, in order, by
        ``deadline`` (monotonic seconds).
        """
        asked = _Asked(list(questions), done, self._clock(), deadline, isolation_level)
        asked.ready.update(range(len(asked.questions)))
        for topic in {topic for topic, _, _ in asked.questions}:
            self._metadata.want(topic, self._clock())
        self._asked.append(asked)

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        calls: list[Call] = []
        wake_up = NEVER
        for asked in list(self._asked):
            if asked.deadline <= now:
                self._give_up(asked)
            elif now >= self._ask_at:
                lookups = [
                    each
                    for number in list(asked.ready)
                    if (each := self._lookup(asked, number, now))
                ]
                deadline = now + self._timeout_s
                calls += lookup_calls(
                    lookups, asked.isolation_level, deadline, int(self._timeout_s * 1000)
                )
            self._finish(asked)
            if not asked.over:
                wake_up = min(
                    wake_up,
                    asked.deadline,
                    self._ask_at if asked.ready and self._ask_at > now else NEVER,
                )
        return calls, wake_up

    def _lookup(self, asked: _Asked, number: int, now: float) -> Lookup | None:
        """The look-up of one question; None while its leader is unknown."""
        name, partition, timestamp = asked.questions[number]
        topic = self._metadata.topics.get(name)
        if topic is None or topic.failed is not None:
            asked.ready.discard(number)
            asked.found[number] = (topic and topic.failed) or KafkaError(KafkaError._UNKNOWN_TOPIC)
            return None
        if not topic.known:
            if topic.missing_since is not None and not self._has_unknown_partitions:
                asked.ready.discard(number)
                asked.found[number] = KafkaError(KafkaError._UNKNOWN_PARTITION)
            return None
        if not 0 <= partition < len(topic.partitions):
            missing = KafkaError(
                KafkaError._UNKNOWN_PARTITION, f"{name} has no partition {partition}"
            )
            if not self._has_unknown_partitions or self._metadata.is_absent(
                name, partition, asked.since
            ):
                asked.ready.discard(number)
                asked.found[number] = missing
            else:
                asked.last[number] = missing
                self._metadata.want_partition(name, partition, now)
                self._again(now)
            return None
        leader = topic.partitions[partition]
        if leader.leader == NO_LEADER:
            asked.last[number] = KafkaError(
                KafkaError.LEADER_NOT_AVAILABLE, f"{name} [{partition}] has no leader"
            )
            self._again(now)
            return None
        asked.ready.discard(number)

        def on_result(result: Found) -> None:
            self._on_result(asked, number, result)

        return Lookup(name, partition, leader.leader, leader.epoch, timestamp, on_result)

    def _on_result(self, asked: _Asked, number: int, result: Found) -> None:
        if isinstance(result, KafkaError) and result.code() in LEADER_RETRIABLE_ERRORS:
            asked.last[number] = result
            asked.ready.add(number)
            self._again(self._clock())
            return
        if not isinstance(result, KafkaError):
            self._backoff.reset()
        asked.found[number] = result
        self._finish(asked)

    def _again(self, now: float) -> None:
        if now >= self._ask_at:
            self._ask_at = now + self._backoff.next_s()
            self._metadata.refresh(now)

    def _give_up(self, asked: _Asked) -> None:
        down = KafkaError(KafkaError._ALL_BROKERS_DOWN) if self._all_down() else None
        for number, (topic, partition, _) in enumerate(asked.questions):
            if number not in asked.found:
                cause = down or asked.last.get(number)
                if cause is not None and cause.code() == KafkaError._UNKNOWN_PARTITION:
                    asked.found[number] = cause
                    continue
                text = f"no offset of {topic} [{partition}] in time" + (
                    f": {cause.str()}" if cause else ""
                )
                asked.found[number] = KafkaError(
                    down.code() if down else KafkaError._TIMED_OUT, text
                )

    def _finish(self, asked: _Asked) -> None:
        if not asked.over and len(asked.found) == len(asked.questions):
            asked.over = True
            self._asked.remove(asked)
            asked.done([asked.found[number] for number in range(len(asked.questions))])

    def close(self, error: KafkaError) -> None:
        """Fails unfinished look-ups with this error: the client is closing."""
        for asked in list(self._asked):
            for number in range(len(asked.questions)):
                asked.found.setdefault(number, error)
            self._finish(asked)


class Check:
    """Looks up the end of one partition's leader epoch ``epoch``.

    ``on_result`` gets the number and the end of the largest epoch up to ``epoch``; -1: the leader
    knows none.
    """

    __slots__ = (
        "epoch",
        "leader",
        "leader_epoch",
        "on_result",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        leader: int,
        leader_epoch: int,
        epoch: int,
        on_result: Callable[[OffsetPosition | KafkaError], None],
    ) -> None:
        """Stores the arguments."""
        self.topic = topic
        self.partition = partition
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.epoch = epoch
        self.on_result = on_result


def check_calls(checks: Iterable[Check], deadline: float) -> list[Call]:
    """The OffsetForLeaderEpoch requests for these checks, one per leader."""
    groups: dict[int, dict[Key, Check]] = {}
    for check in checks:
        groups.setdefault(check.leader, {})[check.topic, check.partition] = check
    return [_check_call(leader, group, deadline) for leader, group in groups.items()]


def _check_call(leader: int, group: dict[Key, Check], deadline: float) -> Call:
    topics: dict[str, OffsetForLeaderEpochRequest.Topic] = {}
    for check in group.values():
        topic = topics.get(check.topic)
        if topic is None:
            topic = topics[check.topic] = OffsetForLeaderEpochRequest.Topic(topic=check.topic)
        topic.partitions.append(
            OffsetForLeaderEpochRequest.Topic.Partition(
                partition=check.partition,
                current_leader_epoch=check.leader_epoch,
                leader_epoch=check.epoch,
            )
        )
    message = OffsetForLeaderEpochRequest(replica_id=CLIENT_REPLICA, topics=list(topics.values()))
    waiting = {key: check.on_result for key, check in group.items()}
    return Call(message, leader, deadline, lambda reply: settle(waiting, reply, _check_answers))


def _check_answers(
    reply: OffsetForLeaderEpochResponse,
) -> Iterator[tuple[Key, OffsetPosition | KafkaError]]:
    for topic in reply.topics:
        for part in topic.partitions:
            error = KafkaError(part.error_code) if part.error_code else None
            yield (
                (topic.topic, part.partition),
                error or OffsetPosition(part.end_offset, part.leader_epoch),
            )
