"""A group's offsets, its lag, and the offsets that a reset commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_native import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from kafka_native.admin import AdminClient, MemberAssignment, OffsetSpec
from kafka_native.cli.administration import Outcomes, errors_of
from kafka_native.cli.errors import Failed
from kafka_native.cli.group_kinds import OTHER_KIND_ERRORS

Place = tuple[str, int]

IDLE: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
"""States without members. Only in these can a tool change the offsets."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a reset moves partitions. The kinds are those of Kafka's own tool."""

    kind: str
    """``earliest``, ``latest``, ``current``, ``offset``, ``shift`` or ``time``."""
    number: int = 0
    """The offset, the shift, or the time in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member and its partitions."""

    id: str
    client_id: str
    host: str
    places: list[Place]


@dataclass(frozen=True, slots=True)
class Group:
    """A group's state and members."""

    state: ConsumerGroupState
    members: list[Member]


@dataclass(frozen=True, slots=True)
class Progress:
    """A group's offset in a partition."""

    offset: int | None
    lag: int | None = None
    """The lag that the coordinator reports; None if it reports none."""
    error: str | None = None
    """Why the coordinator couldn't read the offset."""


NO_PROGRESS: Final = Progress(None)


class Offsets:
    """Requests the offsets of consumer groups and of partitions."""

    def __init__(self, admin: AdminClient, timeout_s: float) -> None:
        """``timeout_s``: seconds for each request."""
        self._admin = admin
        self._timeout_s = timeout_s

    def of(self, group: str) -> tuple[Group, Offsets]:
        """Describe a group; also return the `Offsets` of its type. KafkaException if it fails."""
        call = self._admin.describe_consumer_groups([group], request_timeout=self._timeout_s)
        found = call[group].result()
        if found.state is ConsumerGroupState.DEAD:
            shared = ShareOffsets(self._admin, self._timeout_s)
            share_group = shared.describe(group)
            if share_group is not None:
                return share_group, shared
        members = [
            Member(each.member_id, each.client_id, each.host, _places(each.assignment))
            for each in found.members
        ]
        return Group(found.state, members), self

    def progress(self, group: str) -> dict[Place, Progress]:
        """The committed partitions' progress.

        KafkaException if the coordinator returns an error.
        """
        asked = [ConsumerGroupTopicPartitions(group)]
        call = self._admin.list_consumer_group_offsets(asked, request_timeout=self._timeout_s)
        found = call[group].result().topic_partitions or []
        return {
            (each.topic, each.partition): Progress(each.offset)
            if each.error is None
            else Progress(None, error=each.error.str())
            for each in found
            if each.error is not None or each.offset >= 0
        }

    def committed(self, group: str) -> dict[Place, int]:
        """The offsets of `progress`. Failed if the coordinator couldn't read one."""
        found = self.progress(group)
        for (topic, partition), each in found.items():
            if each.error is not None:
                raise Failed(f"offset {topic} [{partition}]: {each.error}")
        return {place: each.offset for place, each in found.items() if each.offset is not None}

    def partitions(self, topics: Iterable[str]) -> list[Place]:
        """All partitions of topics. Failed if one doesn't exist."""
        names = list(dict.fromkeys(topics))
        found = Outcomes(
            self._admin.describe_topics(TopicCollection(names), request_timeout=self._timeout_s)
        )
        for name, why in found.errors.items():
            raise Failed(f"topic {name}: {why}")
        return [(name, each.id) for name, topic in found.items() for each in topic.partitions]

    def find(
        self, places: Iterable[Place], spec: OffsetSpec
    ) -> tuple[dict[Place, int], dict[Place, str]]:
        """The offsets of partitions, -1 if there is none; and the other partitions' errors."""
        asked = {TopicPartition(*place): spec for place in places}
        if not asked:
            return {}, {}
        found = Outcomes(self._admin.list_offsets(asked, request_timeout=self._timeout_s))
        known = {(each.topic, each.partition): info.offset for each, info in found.items()}
        return known, {(each.topic, each.partition): why for each, why in found.errors.items()}

    def commit(self, group: str, offsets: Mapping[Place, int]) -> dict[Place, str | None]:
        """Commit offsets for a group without members. Returns each partition's error, or None."""
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        call = self._admin.alter_consumer_group_offsets(asked, request_timeout=self._timeout_s)
        done = call[group].result().topic_partitions or []
        return {
            (each.topic, each.partition): None if each.error is None else each.error.str()
            for each in done
        }

    def forget(self, group: str, places: Sequence[Place]) -> dict[str, str | None]:
        """Delete committed offsets. Returns each partition's error, or None."""
        asked = [TopicPartition(*place) for place in places]
        futures = self._admin.delete_consumer_group_offsets(
            group, asked, request_timeout=self._timeout_s
        )
        return errors_of(
            {f"{each.topic} [{each.partition}]": future for each, future in futures.items()}
        )


class ShareOffsets(Offsets):
    """The offsets of share groups (KIP-932): each partition's first message that isn't done."""

    def describe(self, group: str) -> Group | None:
        """Describe the group; None if it is no share group."""
        call = self._admin.describe_share_groups([group], request_timeout=self._timeout_s)
        try:
            found = call[group].result()
        except KafkaException as error:
            if error.args[0].code() in OTHER_KIND_ERRORS:
                return None
            raise
        members = [
            Member(each.consumer_id, each.client_id, each.host, _places(each.assignment))
            for each in found.members
        ]
        return Group(found.group_state, members)

    def progress(self, group: str) -> dict[Place, Progress]:
        """The start offset and the lag of each partition.

        The coordinator reports the lag (KIP-1226), because messages after the start may be done.
        Older coordinators report none.
        """
        call = self._admin.list_share_group_offsets({group: None}, request_timeout=self._timeout_s)
        return {
            (each.topic, each.partition): Progress(None, error=info.str())
            if isinstance(info, KafkaError)
            else Progress(info.start_offset, info.lag)
            for each, info in call[group].result().items()
            if info is not None
        }

    def commit(self, group: str, offsets: Mapping[Place, int]) -> dict[Place, str | None]:
        """Set the group's start offsets. Returns each partition's error, or None."""
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        call = self._admin.alter_share_group_offsets(group, wanted, request_timeout=self._timeout_s)
        return {(each.topic, each.partition): why for each, why in errors_of(call).items()}

    def forget(self, group: str, places: Sequence[Place]) -> dict[str, str | None]:
        """Delete the offsets of whole topics. Failed if partitions of a topic are missing."""
        topics = list(dict.fromkeys(topic for topic, _ in places))
        if {*places} != {*self.partitions(topics)}:
            raise Failed(f"share group {group} forgets whole topics: name them without partitions")
        return errors_of(
            self._admin.delete_share_group_offsets(group, topics, request_timeout=self._timeout_s)
        )


def _places(assignment: MemberAssignment) -> list[Place]:
    return [(each.topic, each.partition) for each in assignment.topic_partitions]


def lag(offsets: Offsets, group: str) -> tuple[Group, list[dict[str, Any]], dict[Place, str]]:
    """A group's lag.

    Returns the group, a record for each committed or assigned partition, and the errors of offsets
    and ends.
    """
    described, offsets = offsets.of(group)
    progress = offsets.progress(group)
    owners = {place: member for member in described.members for place in member.places}
    places = sorted(
        {*(place for place, each in progress.items() if each.offset is not None), *owners}
    )
    ends, errors = offsets.find(places, OffsetSpec.latest())
    errors |= {place: each.error for place, each in progress.items() if each.error is not None}
    records = []
    for place in places:
        owner, end, here = owners.get(place), ends.get(place), progress.get(place, NO_PROGRESS)
        lag_known = here.lag
        if lag_known is None and end is not None and here.offset is not None:
            lag_known = max(0, end - here.offset)
        records.append(
            {
                "group": group,
                "topic": place[0],
                "partition": place[1],
                "committed": here.offset,
                "end": end,
                "lag": lag_known,
                "member": None if owner is None else owner.id,
                "client_id": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    return described, records, errors


def chosen(
    offsets: Offsets, committed: Mapping[Place, int], topics: Sequence[tuple[str, tuple[int, ...]]]
) -> list[Place]:
    """The partitions of the named topics; without topics, all partitions with an offset."""
    if not topics:
        return sorted(committed)
    known = offsets.partitions(topic for topic, _ in topics)
    found: dict[Place, None] = {}
    for topic, numbers in topics:
        mine = [place for place in known if place[0] == topic]
        wrong = [number for number in numbers if (topic, number) not in mine]
        if wrong:
            raise Failed(f"topic {topic} has no partition {wrong[0]}: it has {len(mine)}")
        found |= dict.fromkeys(place for place in mine if not numbers or place[1] in numbers)
    return sorted(found)


def reset(
    offsets: Offsets, places: Sequence[Place], committed: Mapping[Place, int], target: Target
) -> list[dict[str, Any]]:
    """A record for each partition: its committed offset, its new one, a remark if that was cut."""
    first, errors = offsets.find(places, OffsetSpec.earliest())
    end, more = offsets.find(places, OffsetSpec.latest())
    for (topic, partition), why in (errors | more).items():
        raise Failed(f"{topic} [{partition}]: {why}")
    at: dict[Place, int] = {}
    if target.kind == "time":
        at, errors = offsets.find(places, OffsetSpec.for_timestamp(target.number))
        for (topic, partition), why in errors.items():
            raise Failed(f"{topic} [{partition}]: {why}")
    records = []
    for place in places:
        now = committed.get(place)
        new, remark = _target(target, now, (first[place], end[place]), at.get(place, -1))
        shift = None if new is None or now is None else new - now
        record = {
            "topic": place[0],
            "partition": place[1],
            "committed": now,
            "new": new,
            "change": shift,
        }
        records.append({**record, "remark": remark})
    return records


def _target(
    target: Target, now: int | None, limits: tuple[int, int], at: int
) -> tuple[int | None, str | None]:
    """The new offset within the partition's limits (or None), and a remark (or None)."""
    first, end = limits
    if target.kind == "earliest":
        return first, None
    if target.kind == "latest":
        return end, None
    if target.kind == "time":
        return (at, None) if at >= 0 else (end, "no message is that new: the end")
    if target.kind == "offset":
        wanted = target.number
    elif now is None:
        return None, "nothing is committed"
    else:
        wanted = now + target.number  # a shift; "current" is a shift by 0
    if wanted < first:
        return first, f"{wanted} is before the beginning"
    if wanted > end:
        return end, f"{wanted} is after the end"
    return wanted, None
