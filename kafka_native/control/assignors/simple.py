"""range and roundrobin: the same assignments as those of Java's assignors with these names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle, islice

from kafka_native.control.assignors.base import (
    BuiltIn,
    MemberSubscription,
    PartitionInfo,
    in_order,
    racks_matter,
    subscribers,
)
from kafka_native.control.positions import Key


class RoundRobin(BuiltIn):
    """Deals all partitions of all topics to the members in turn; skips those without the topic."""

    name = "roundrobin"

    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[Key]]:
        """See `Assignor.assign`."""
        assignment: dict[str, list[Key]] = {member: [] for member in members}
        order = in_order(members.values())
        topics_of = {member.member_id: frozenset(member.topics) for member in order}
        ids = cycle(member.member_id for member in order)
        for topic in subscribers(partitions, members):
            for partition in partitions[topic]:
                member_id = next(
                    each for each in islice(ids, len(order)) if topic in topics_of[each]
                )
                assignment[member_id].append((topic, partition.number))
        return assignment


class Range(BuiltIn):
    """Splits each topic's partitions into consecutive ranges, one per subscriber.

    The first ranges may be larger by one. Topics with the same number of partitions and the same
    subscribers are split alike: a member reads the same partition numbers of all of them.
    If racks are known (KIP-881), members get partitions with a replica in their rack. This happens
    only as far as the sizes stay the same, and topics that are split alike stay so.
    """

    name = "range"

    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[Key]]:
        """See `Assignor.assign`."""
        topics = [
            _Topic(t, partitions[t], readers)
            for t, readers in subscribers(partitions, members).items()
        ]
        if any(topic.racks_matter for topic in topics):
            for alike in _cut_alike(topics):
                if len(alike) > 1:
                    _match_together(alike)
                elif alike[0].racks_matter:
                    alike[0].cut(alike[0].matches)
        assignment: dict[str, list[Key]] = {member: [] for member in members}
        for topic in topics:
            topic.cut(lambda _member, _number: True)
            for member_id, numbers in topic.given.items():
                assignment[member_id] += [(topic.name, number) for number in sorted(numbers)]
        return assignment


class _Topic:
    """A topic that is being split."""

    def __init__(
        self, name: str, partitions: list[PartitionInfo], readers: list[MemberSubscription]
    ) -> None:
        self.name = name
        self.readers = {member.member_id: member.rack or None for member in readers}
        self.racks = {each.number: each.racks for each in partitions}
        self.left = dict.fromkeys(self.racks)
        self.given: dict[str, list[int]] = {member_id: [] for member_id in self.readers}
        self._each, self._larger = divmod(len(partitions), len(readers))
        racks = {rack for rack in self.readers.values() if rack is not None}
        self.knows_racks = bool(racks)
        self.racks_matter = racks_matter(racks, self.racks.values())

    def room(self, member_id: str) -> int:
        """How many more partitions the member may get."""
        return max(0, self._each + (self._larger > 0) - len(self.given[member_id]))

    def matches(self, member_id: str, number: int) -> bool:
        """Whether the partition has a replica in the member's rack.

        A member without a rack matches all.
        """
        rack = self.readers[member_id]
        return rack is None or rack in self.racks.get(number, ())

    def give(self, member_id: str, numbers: list[int]) -> None:
        """Gives these partitions to the member."""
        given = self.given[member_id]
        given += numbers
        if len(given) > self._each:
            self._larger -= 1
        for number in numbers:
            self.left.pop(number, None)

    def cut(self, may: Callable[[str, int], bool]) -> None:
        """Gives each reader its share of the remaining partitions that it may get."""
        for member_id in self.readers:
            if not self.left:
                return
            numbers = list(
                islice((n for n in self.left if may(member_id, n)), self.room(member_id))
            )
            if numbers:
                self.give(member_id, numbers)


def _cut_alike(topics: list[_Topic]) -> list[list[_Topic]]:
    """Groups topics with the same readers (and their racks) and the same number of partitions."""
    found: dict[tuple[frozenset[tuple[str, str | None]], int], list[_Topic]] = {}
    for topic in topics:
        # Without readers' racks there is nothing to match, and no numbers to keep together
        if topic.knows_racks:
            found.setdefault((frozenset(topic.readers.items()), len(topic.racks)), []).append(topic)
    return list(found.values())


def _match_together(topics: list[_Topic]) -> None:
    """Gives a number of all topics to the first reader whose rack has a replica of each."""
    remaining = dict.fromkeys(topics[0].readers)
    for number in range(len(topics[0].racks)):
        member_id = next(
            (m for m in remaining if all(t.matches(m, number) and t.room(m) for t in topics)), None
        )
        if member_id is None:
            continue
        for topic in topics:
            topic.give(member_id, [number])
        if not any(topic.room(member_id) for topic in topics):
            del remaining[member_id]
            if not remaining:
                return
