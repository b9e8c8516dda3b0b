"""sticky and cooperative-sticky: balanced, and as many partitions as possible keep their owner.

If all members subscribe to the same topics, the size of each share is known in advance, and members
keep their partitions up to that. Otherwise `balance` moves partitions until nothing improves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from kafka_native.control.assignors.balance import Balance
from kafka_native.control.assignors.base import (
    UNKNOWN_GENERATION,
    BuiltIn,
    MemberSubscription,
    PartitionInfo,
    in_order,
    racks_matter,
    subscribers,
)
from kafka_native.control.assignors.claims import (
    Claims,
    cooperative_claim,
    pack_cooperative,
    pack_sticky,
    settle,
    sticky_claim,
)
from kafka_native.control.positions import Key


class Sticky(BuiltIn):
    """Eager: members give up all partitions and send their last assignment as user data.

    The user data are those of Java's StickyAssignor.
    """

    name = "sticky"

    def __init__(self) -> None:
        """No assignment yet."""
        self._previous: tuple[list[Key], int] | None = None

    def user_data(self, topics: list[str], owned: list[Key], generation: int) -> bytes | None:
        """The last assignment and its generation; None before the first."""
        return None if self._previous is None else pack_sticky(*self._previous)

    def on_assignment(self, partitions: list[Key], generation: int) -> None:
        """See `Assignor.on_assignment`."""
        self._previous = (list(partitions), generation)

    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[Key]]:
        """See `Assignor.assign`."""
        claims = settle(
            partitions, members, {each: sticky_claim(member) for each, member in members.items()}
        )
        return distribute(partitions, members, claims)


class CooperativeSticky(BuiltIn):
    """Members keep their partitions (KIP-429).

    A partition that moves is first assigned to no member, and to its new owner in the next
    rebalance.
    """

    name = "cooperative-sticky"
    protocol = "COOPERATIVE"

    def __init__(self) -> None:
        """No assignment yet."""
        self._generation = UNKNOWN_GENERATION

    def user_data(self, topics: list[str], owned: list[Key], generation: int) -> bytes | None:
        """The generation of the last assignment.

        Newer leaders read it from the subscription itself.
        """
        return pack_cooperative(self._generation)

    def on_assignment(self, partitions: list[Key], generation: int) -> None:
        """See `Assignor.on_assignment`."""
        self._generation = generation

    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[Key]]:
        """See `Assignor.assign`."""
        claims = settle(
            partitions,
            members,
            {each: cooperative_claim(member) for each, member in members.items()},
        )
        wanted = distribute(partitions, members, claims)
        return {
            member_id: [key for key in keys if not claims.is_held_by_another(key, member_id)]
            for member_id, keys in wanted.items()
        }


def distribute(
    partitions: Mapping[str, list[PartitionInfo]],
    members: Mapping[str, MemberSubscription],
    claims: Claims,
) -> dict[str, list[Key]]:
    """The balanced assignment that is closest to the valid claims."""
    readers = subscribers(partitions, members)
    assignment: dict[str, list[Key]] = {member_id: [] for member_id in members}
    if not readers:
        return assignment
    if all(len(each) == len(members) for each in readers.values()):
        order = [member.member_id for member in in_order(members.values())]
        assignment.update(_Even(partitions, readers, order, claims).assignment())
    else:
        assignment.update(Balance(partitions, readers, claims.holder).assignment())
    return assignment


class _Even:
    """The assignment if all members subscribe to the same topics."""

    def __init__(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        readers: Mapping[str, list[MemberSubscription]],
        order: list[str],
        claims: Claims,
    ) -> None:
        self._order = order
        self._racks = {
            (topic, each.number): each.racks for topic in readers for each in partitions[topic]
        }
        members = next(iter(readers.values()))
        self._rack_of = {member.member_id: member.rack for member in members if member.rack}
        self._low, self._larger = divmod(len(self._racks), len(order))
        self._kept: dict[str, list[Key]] = {member_id: [] for member_id in order}
        for key in self._racks:
            holder = claims.holder.get(key)
            if holder is not None:
                self._kept[holder].append(key)

    def assignment(self) -> dict[str, list[Key]]:
        """Members keep partitions up to their share. The rest goes to members with less."""
        self._cut()
        taken = {key for keys in self._kept.values() for key in keys}
        rest = [key for key in self._racks if key not in taken]
        if racks_matter(set(self._rack_of.values()), self._racks.values()):
            rest = self._match_racks(rest)
        takers = self._takers()
        for key in rest:
            self._kept[next(takers)].append(key)
        return self._kept

    def _cut(self) -> None:
        """Takes partitions from members with more than their share.

        The members with the most partitions get the larger shares.
        """
        for member_id in sorted(self._order, key=lambda each: -len(self._kept[each])):
            keys = self._kept[member_id]
            larger = len(keys) > self._low and self._larger > 0
            self._larger -= larger
            # Partitions without a replica nearby go first, then high numbers: topics stay split
            # alike
            keys.sort(key=lambda key: (self._is_far(member_id, key), key[1], key[0]))
            del keys[self._low + larger :]

    def _is_far(self, member_id: str, key: Key) -> bool:
        rack = self._rack_of.get(member_id)
        return rack is not None and rack not in self._racks[key]

    def _has_room(self, member_id: str) -> bool:
        count = len(self._kept[member_id])
        return count < self._low or (count == self._low and self._larger > 0)

    def _match_racks(self, rest: list[Key]) -> list[Key]:
        """Gives partitions to members in a rack of their replicas (KIP-881). Returns the others."""
        near: dict[str, list[str]] = {}
        for member_id in self._order:
            if member_id in self._rack_of:
                near.setdefault(self._rack_of[member_id], []).append(member_id)
        left = []
        # Partitions with few members nearby come first
        for key in sorted(
            rest, key=lambda key: sum(len(near.get(rack, ())) for rack in self._racks[key])
        ):
            ids = [
                each
                for rack in self._racks[key]
                for each in near.get(rack, ())
                if self._has_room(each)
            ]
            if not ids:
                left.append(key)
                continue
            kept = self._kept[min(ids, key=lambda each: (len(self._kept[each]), each))]
            self._larger -= len(kept) == self._low
            kept.append(key)
        return sorted(left)

    def _takers(self) -> Iterator[str]:
        """The members to get the next partitions: up to the smaller share, then one more."""
        short = deque(each for each in self._order if len(self._kept[each]) < self._low)
        while short:
            member_id = short.popleft()
            yield member_id
            if len(self._kept[member_id]) < self._low:
                short.append(member_id)
        yield from [each for each in self._order if len(self._kept[each]) == self._low][
            : self._larger
        ]
