"""Assignors of the classic group protocol, and the wire format of subscriptions and assignments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_native.control.assignors.base import Assignor, BuiltIn, MemberSubscription, PartitionInfo
from kafka_native.control.assignors.checks import check, run
from kafka_native.control.assignors.simple import Range, RoundRobin
from kafka_native.control.assignors.sticky import CooperativeSticky, Sticky
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException

__all__ = [
    "BUILT_IN",
    "Assignor",
    "CooperativeSticky",
    "Key",
    "MemberSubscription",
    "PartitionInfo",
    "Range",
    "RoundRobin",
    "Sticky",
    "check",
    "make",
    "run",
]

BUILT_IN: Final[dict[str, type[BuiltIn]]] = {
    each.name: each for each in (Range, RoundRobin, Sticky, CooperativeSticky)
}
"""The built-in assignors, by their names in ``partition.assignment.strategy``."""


def make(strategies: str | Assignor | Iterable[str | Assignor]) -> list[Assignor]:
    """The assignors of ``partition.assignment.strategy``, in order of preference.

    A name may contain several ("a,b").

    :raises KafkaException: _INVALID_ARG: an unknown name, two assignors with the same name, an
        object that isn't an assignor, or a mix of eager and cooperative assignors. Members of a
        mixed group couldn't know when to give up their partitions.
    """
    given = [strategies] if isinstance(strategies, (str, Assignor)) else list(strategies)
    found: dict[str, Assignor] = {}
    for each in given:
        for assignor in _named(each) if isinstance(each, str) else [each]:
            _add(found, assignor)
    if len({assignor.protocol for assignor in found.values()}) > 1:
        raise _refused(
            f"All partition.assignment.strategy ({','.join(found)}) assignors must have the same "
            "protocol type, online migration between assignors with different protocol types "
            "is not supported"
        )
    return list(found.values())


def _named(names: str) -> list[Assignor]:
    assignors: list[Assignor] = []
    for name in (part.strip() for part in names.split(",")):
        if name and name not in BUILT_IN:
            raise _refused(f"Unsupported partition.assignment.strategy: {name}")
        if name:
            assignors.append(BUILT_IN[name]())
    return assignors


def _add(found: dict[str, Assignor], assignor: object) -> None:
    if not isinstance(assignor, Assignor):
        raise _refused(
            "partition.assignment.strategy: names and Assignor objects are expected, "
            f"not {type(assignor).__name__}"
        )
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name or "," in name:
        raise _refused(
            f"partition.assignment.strategy: {type(assignor).__name__} needs a name, without commas"
        )
    if assignor.protocol not in ("EAGER", "COOPERATIVE"):
        raise _refused(f"partition.assignment.strategy: protocol of {name} is EAGER or COOPERATIVE")
    if found.setdefault(name, assignor) != assignor:
        raise _refused(f"partition.assignment.strategy: two assignors are called {name}")


def _refused(text: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, f"Failed to create consumer: {text}"))
