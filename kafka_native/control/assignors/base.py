"""An assignor's input and output, and the base class of custom assignors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from kafka_native.control.positions import Key

UNKNOWN_GENERATION = -1
"""The generation of a member that doesn't report one."""


class PartitionInfo(NamedTuple):
    """A partition of a topic, as an assignor sees it."""

    number: int
    racks: frozenset[str] = frozenset()
    """The racks of its replicas, if the brokers have ``broker.rack``."""


class MemberSubscription(NamedTuple):
    """A member of the group, as it describes itself in JoinGroup."""

    member_id: str
    instance_id: str | None = None
    """``group.instance.id`` of a static member (KIP-345)."""
    topics: Sequence[str] = ()
    """The topics that it subscribes to. Some may not exist."""
    owned: Sequence[Key] = ()
    """The partitions that it reports as its own (KIP-429); empty under the eager protocol."""
    generation: int = UNKNOWN_GENERATION
    """The generation in which it got ``owned`` (KIP-792); -1: not reported."""
    rack: str | None = None
    """``client.rack`` (KIP-881)."""
    user_data: bytes | None = None
    """The data from the same assignor on the member's side, see `Assignor.user_data`."""

    @property
    def order(self) -> tuple[bool, bytes]:
        """The member's sort key, as in Java's assignors: static members first, by instance id."""
        if self.instance_id is not None:
            return False, text_order(self.instance_id)
        return True, text_order(self.member_id)


class Assignor(ABC):
    """Decides which member of a classic group reads which partition.

    One member, the leader, asks it for all.

    Pass instances in ``partition.assignment.strategy``, alone or in a list with names of built-in
    ones:

        class First(Assignor):
            name = "first"

            def assign(self, partitions, members):
                leader = min(members)
                topics = members[leader].topics
                return {leader: [(t, p.number) for t in topics for p in partitions.get(t, [])]}

        Consumer({..., "partition.assignment.strategy": [First(), "range"]})

    All members of a group must have one strategy in common, by name. Methods are called on the
    client's control thread: they must not block. What an assignor returns is checked before it is
    sent; one that raises makes the leader leave the rebalance with an error.
    """

    name: str
    """The name on which the group's members agree. It is unique among a consumer's assignors."""
    protocol: Literal["EAGER", "COOPERATIVE"] = "EAGER"
    """EAGER: members give up all partitions before a rebalance.

    COOPERATIVE: they keep them (KIP-429). A cooperative assignor gives a partition to another
    member only when no member claims it any more.
    """

    def user_data(self, topics: list[str], owned: list[Key], generation: int) -> bytes | None:
        """Data for the leader's assignor, which the member sends in JoinGroup; None: no data.

        :param topics: The topics that the member subscribes to.
        :param owned: Its partitions; empty under the eager protocol.
        :param generation: The generation of its last assignment, -1 before the first.
        """
        return None

    @abstractmethod
    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[Key]]:
        """Distributes the partitions.

        :param partitions: The partitions of each subscribed topic that exists, by number.
        :param members: All members of the group, by member id.
        :return: The partitions of each member id. Members without partitions may be missing.
        """

    def on_assignment(self, partitions: list[Key], generation: int) -> None:  # noqa: B027  (nothing to do by default)
        """Called with this member's assignment in each generation, whichever member leads."""

    def __repr__(self) -> str:
        """Its class and name."""
        return f"<{type(self).__name__} {getattr(self, 'name', '?')}>"


class BuiltIn(Assignor):
    """A built-in assignor.

    It equals any other of its class, so that configurations compare equal.
    """

    def __eq__(self, other: object) -> bool:
        """Whether it is of the same class."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """The hash of its class."""
        return hash(type(self))


def text_order(text: str) -> bytes:
    """A sort key that orders texts as Java does, by UTF-16 units.

    Members in different languages must agree on the order.
    """
    return text.encode("utf-16-be", "surrogatepass")


def in_order(members: Iterable[MemberSubscription]) -> list[MemberSubscription]:
    """The members in the order that every client uses."""
    return sorted(members, key=lambda member: member.order)


def subscribers(
    partitions: Mapping[str, list[PartitionInfo]], members: Mapping[str, MemberSubscription]
) -> dict[str, list[MemberSubscription]]:
    """The subscribers of each existing topic, in order.

    Topics are sorted. Topics without subscribers are left out.
    """
    found: dict[str, list[MemberSubscription]] = {}
    for member in in_order(members.values()):
        for topic in dict.fromkeys(member.topics):
            if partitions.get(topic):
                found.setdefault(topic, []).append(member)
    return dict(sorted(found.items(), key=lambda item: text_order(item[0])))


def racks_matter(member_racks: set[str], partition_racks: Iterable[frozenset[str]]) -> bool:
    """Whether racks can make a difference (KIP-881).

    They do if some racks match and not every partition is in all of them.
    """
    each = list(partition_racks)
    every = frozenset[str]().union(*each)
    return not member_racks.isdisjoint(every) and any(racks != every for racks in each)
