"""`NewTopic` and `NewPartitions`: they take what confluent_kafka's take, when they take it.

They are C types there: numbers are C's ``int``, and only objects of the same type are compared.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any, Final

from kafka_native import admin
from kafka_native._native.arguments import Arguments

NOT_GIVEN: Final = object()
"""The value of a field that wasn't given. Given as None, it is refused when the topic is sent."""
INT: Final = Arguments("i", "value", positional=True)


def int32(number: int) -> int:
    """A C ``long`` as C makes it an ``int``. It raises OverflowError for larger ones."""
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("Python int too large to convert to C long")
    return ((number + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


class _Typed:
    """A description of a topic. Comparisons with other types raise NotImplementedError."""

    __slots__ = ()

    topic: Any

    def _key(self) -> tuple[str, int]:
        raise NotImplementedError

    def _key_of(self, other: object) -> tuple[str, int]:
        if type(other) is not type(self):
            raise NotImplementedError
        return other._key()

    def __eq__(self, other: object) -> bool:
        return self._key() == self._key_of(other)

    def __ne__(self, other: object) -> bool:
        return self._key() != self._key_of(other)

    def __lt__(self, other: object) -> bool:
        return self._key() < self._key_of(other)

    def __le__(self, other: object) -> bool:
        return self._key() <= self._key_of(other)

    def __gt__(self, other: object) -> bool:
        return self._key() > self._key_of(other)

    def __ge__(self, other: object) -> bool:
        return self._key() >= self._key_of(other)

    def __hash__(self) -> int:
        topic, number = self._key()
        return hash(topic) if number == -1 else hash(topic) ^ number


class _Number:
    """A field that holds a C ``int``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, made: Any, owner: type | None = None) -> Any:
        return self if made is None else getattr(made, self._slot)

    def __set__(self, made: Any, value: object) -> None:
        try:
            number = INT.parse((value,), {})["value"]
        except OverflowError:
            number = int32(operator.index(value))  # type: ignore[arg-type]  # it is too large
            warnings.warn("Truncation of value to int", RuntimeWarning, stacklevel=2)
        setattr(made, self._slot, number)

    def __delete__(self, made: Any) -> None:
        raise TypeError("can't delete numeric/char attribute")


class _Field:
    """A field that holds any object; without one, it is None."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, made: Any, owner: type | None = None) -> Any:
        if made is None:
            return self
        value = getattr(made, self._slot)
        return None if value is NOT_GIVEN else value

    def __set__(self, made: Any, value: object) -> None:
        setattr(made, self._slot, value)

    def __delete__(self, made: Any) -> None:
        setattr(made, self._slot, NOT_GIVEN)


class NewTopic(_Typed, admin.NewTopic):
    """A `kafka_native.admin.NewTopic` that behaves like confluent_kafka's."""

    __slots__ = ("_config", "_num_partitions", "_replica_assignment", "_replication_factor")

    _ARGUMENTS = Arguments(
        "s|iiOO",
        "topic",
        "num_partitions",
        "replication_factor",
        "replica_assignment",
        "config",
    )
    num_partitions = _Number()
    replication_factor = _Number()
    replica_assignment = _Field()
    config = _Field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes confluent_kafka's arguments."""
        given = self._ARGUMENTS.parse(args, kwargs)
        if not isinstance(given.get("config", {}), dict):
            raise TypeError("config must be a dict of strings")
        self._topic = given["topic"]
        self.num_partitions = given.get("num_partitions", -1)
        self.replication_factor = given.get("replication_factor", -1)
        self.replica_assignment = given.get("replica_assignment", NOT_GIVEN)
        self.config = given.get("config", NOT_GIVEN)

    def _key(self) -> tuple[str, int]:
        return self.topic, self.num_partitions


class NewPartitions(_Typed, admin.NewPartitions):
    """A `kafka_native.admin.NewPartitions` that behaves like confluent_kafka's."""

    __slots__ = ("_new_total_count", "_replica_assignment")

    _ARGUMENTS = Arguments("si|O", "topic", "new_total_count", "replica_assignment")
    new_total_count = _Number()
    replica_assignment = _Field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes confluent_kafka's arguments."""
        given = self._ARGUMENTS.parse(args, kwargs)
        self._topic = given["topic"]
        self.new_total_count = given["new_total_count"]
        self.replica_assignment = given.get("replica_assignment", NOT_GIVEN)

    def _key(self) -> tuple[str, int]:
        return self.topic, self.new_total_count
