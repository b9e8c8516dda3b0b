"""The assignors of the KIP-848 coordinator: they assign partitions to the members of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Key = tuple[bytes, int]
"""A partition: the id of its topic, and its number."""


class MemberInput(NamedTuple):
    """A member's topic ids, its previous target and its instance id."""

    topics: frozenset[bytes]
    previous: frozenset[Key]
    instance_id: str | None


def uniform(
    members: Mapping[str, MemberInput], partitions: Mapping[bytes, int]
) -> dict[str, set[Key]]:
    """Give every member about the same number of partitions.

    A member keeps its previous partitions where possible.
    """
    subscribers = {
        topic: [name for name, member in members.items() if topic in member.topics]
        for topic in partitions
    }
    target: dict[str, set[Key]] = {name: set() for name in members}
    wanted = [
        (topic, index)
        for topic, count in partitions.items()
        if subscribers[topic]
        for index in range(count)
    ]
    count_max = -(-len(wanted) // max(len(members), 1))
    # This many members have ``count_max`` partitions. The others have one less.
    larger = len(wanted) - (count_max - 1) * len(members)
    free = []
    for key in wanted:
        previous_owner = next(
            (name for name in subscribers[key[0]] if key in members[name].previous), None
        )
        if previous_owner is not None and len(target[previous_owner]) < count_max - 1:
            target[previous_owner].add(key)
        elif (
            previous_owner is not None
            and len(target[previous_owner]) == count_max - 1
            and larger > 0
        ):
            target[previous_owner].add(key)
            larger -= 1
        else:
            free.append(key)
    for key in free:
        name = min(subscribers[key[0]], key=lambda one: len(target[one]))
        target[name].add(key)
    return target


def by_range(
    members: Mapping[str, MemberInput], partitions: Mapping[bytes, int]
) -> dict[str, set[Key]]:
    """Give each member a range of every topic.

    Topics with the same number of partitions are therefore assigned alike.
    """
    target: dict[str, set[Key]] = {name: set() for name in members}
    for topic, count in partitions.items():
        subscribers = [name for name, member in members.items() if topic in member.topics]
        subscribers.sort(
            key=lambda name: (members[name].instance_id is None, members[name].instance_id or name)
        )
        start = 0
        for place, name in enumerate(subscribers):
            size = count // len(subscribers) + (place < count % len(subscribers))
            target[name].update((topic, index) for index in range(start, start + size))
            start += size
    return target


ASSIGNORS: dict[
    str, Callable[[Mapping[str, MemberInput], Mapping[bytes, int]], dict[str, set[Key]]]
] = {
    "uniform": uniform,
    "range": by_range,
}
