"""Serializers and deserializers of keys and values, for `SerializingProducer` and its relatives.

The classes are those of ``confluent_kafka.serialization``. Numbers are big-endian, as in Java's
serializers of the same names. A serializer is any callable that takes (object,
SerializationContext) and returns bytes or None.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from kafka_native.errors import KafkaException

__all__ = [
    "Deserializer",
    "DeserializerBuilder",
    "DoubleDeserializer",
    "DoubleSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "MessageField",
    "SerializationContext",
    "SerializationError",
    "Serializer",
    "SerializerBuilder",
    "StringDeserializer",
    "StringSerializer",
]

HeadersType: TypeAlias = (
    dict[str, str | bytes | None]
    | list[tuple[str, str | bytes | None]]
    | list[tuple[str, bytes | None]]
)


class MessageField(str, Enum):
    """The part of a message that a serializer or deserializer converts."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"

    def __str__(self) -> str:
        return str(self.value)


class SerializationContext:
    """The second argument of a serializer or deserializer.

    :param topic: The topic's name.
    :param field: Key or value.
    :param headers: The message's headers. A serializer may add headers if they are a list or a
        dict.
    """

    def __init__(self, topic: str, field: MessageField, headers: HeadersType | None = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class SerializationError(KafkaException):
    """A serializer or deserializer can't convert its argument."""


class _Serde:
    """The optional methods of a serializer or deserializer."""

    __slots__ = ()

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Store a function that returns the cluster's id.

        The function may wait for a broker, so don't call it here.
        """

    def close(self) -> None:
        """Release resources.

        If a builder made this object, closing the client calls this method.
        """


class Serializer(_Serde):
    """Converts objects to bytes. Derive a class from it and define ``__call__``."""

    __slots__ = ()

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object. Raise SerializationError if the conversion fails."""
        raise NotImplementedError


class Deserializer(_Serde):
    """Converts bytes to objects. Derive a class from it and define ``__call__``."""

    __slots__ = ()

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the object for the bytes. Raise SerializationError if the conversion fails."""
        raise NotImplementedError


class SerializerBuilder:
    """Makes a serializer from a client's configuration.

    It is the value of ``key.serializer.builder`` or ``value.serializer.builder``.
    """

    __slots__ = ()

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Serializer, dict[str, Any]]:
        """Return the serializer, and the configuration without the serializer's properties."""
        raise NotImplementedError


class DeserializerBuilder:
    """Makes a deserializer from a client's configuration.

    It is the value of ``key.deserializer.builder`` or ``value.deserializer.builder``.
    """

    __slots__ = ()

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Deserializer, dict[str, Any]]:
        """Return the deserializer, and the configuration without the deserializer's properties."""
        raise NotImplementedError


def _packed(format_: str, obj: object) -> bytes | None:
    try:
        return None if obj is None else struct.pack(format_, obj)
    except struct.error as error:
        raise SerializationError(str(error)) from error


def _unpacked(format_: str, value: bytes | None) -> Any:
    try:
        return None if value is None else struct.unpack(format_, value)[0]
    except struct.error as error:
        raise SerializationError(str(error)) from error


class DoubleSerializer(Serializer):
    """Converts a float to 8 bytes (IEEE 754). None stays None."""

    def __call__(self, obj: float | None, ctx: SerializationContext | None = None) -> bytes | None:
        """Return 8 bytes. Raise SerializationError if the object is not a number."""
        return _packed(">d", obj)


class DoubleDeserializer(Deserializer):
    """Converts 8 bytes (IEEE 754) to a float. None stays None."""

    def __call__(
        self, value: bytes | None, ctx: SerializationContext | None = None
    ) -> float | None:
        """Return a float. Raise SerializationError if the value doesn't have 8 bytes."""
        number: float | None = _unpacked(">d", value)
        return number


class IntegerSerializer(Serializer):
    """Converts an int to 4 bytes. None stays None."""

    def __call__(self, obj: int | None, ctx: SerializationContext | None = None) -> bytes | None:
        """Return 4 bytes. Raise SerializationError if the object is not a 32-bit int."""
        return _packed(">i", obj)


class IntegerDeserializer(Deserializer):
    """Converts 4 bytes to an int. None stays None."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> int | None:
        """Return an int. Raise SerializationError if the value doesn't have 4 bytes."""
        number: int | None = _unpacked(">i", value)
        return number


class StringSerializer(Serializer):
    """Converts a str to bytes. None stays None.

    :param codec: Python's name of the encoding. Default: UTF-8.
    """

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: str | None, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the encoded text. Raise SerializationError if the encoding lacks a character."""
        try:
            return None if obj is None else obj.encode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


class StringDeserializer(Deserializer):
    """Converts bytes to a str. None stays None.

    :param codec: Python's name of the encoding. Default: UTF-8.
    """

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> str | None:
        """Return the text. Raise SerializationError if the bytes are not valid in the encoding."""
        try:
            return None if value is None else value.decode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


CLUSTER_ID_TIMEOUT_S = 60.0
"""How long a serializer's resolver waits for a broker to report the cluster's id."""


class SerdeConfig:
    """The serializers or deserializers in a client's configuration, and their builders.

    The class is not part of the public API. ``kind`` is "serializer" or "deserializer".
    """

    def __init__(self, config: Mapping[str, Any], kind: str) -> None:
        """Take the objects and the builders out of the configuration.

        :raises ValueError: The configuration has both a serializer and a builder of it.
        """
        given = dict(config)
        self._kind = kind
        found = {}
        self.builders: list[tuple[bool, Any]] = []
        """Each builder, and whether it builds the one of the key."""
        for part in ("key", "value"):
            name = f"{part}.{kind}"
            found[part], builder = given.pop(name, None), given.pop(f"{name}.builder", None)
            if builder is None:
                continue
            if found[part] is not None:
                raise ValueError(
                    f"Cannot configure both {name} and {name}.builder; use one or the other"
                )
            self.builders.append((part == "key", builder))
        self.key, self.value = found["key"], found["value"]
        self.config = given
        """The properties that each builder gets."""
        self.left = given
        """The properties that no builder has taken: those of the client."""

    def accept(self, is_key: bool, built: Any) -> Any:
        """Take over the result of a builder, and return the object that it has made."""
        name = f"{'key' if is_key else 'value'}.{self._kind}.builder"
        try:
            serde, rest = built
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must return a (serde, configuration) tuple from build(), "
                f"got {type(built).__name__}"
            ) from None
        if not isinstance(rest, dict):
            raise ValueError(
                f"{name} returned {type(rest).__name__} as the leftover configuration from "
                "build(), expected a dict"
            )
        if is_key:
            self.key = serde
        else:
            self.value = serde
        all_left = self.left is self.config
        self.left = {name: value for name, value in rest.items() if all_left or name in self.left}
        return serde


class Serdes:
    """The serializers or deserializers of a client, and the rest of its configuration.

    The class is not part of the public API. ``kind`` is "serializer" or "deserializer".
    """

    def __init__(self, config: Mapping[str, Any], kind: str) -> None:
        """Take the two objects out of the configuration, and call their builders.

        :raises ValueError: The configuration has both a serializer and a builder of it.
        """
        wanted = SerdeConfig(config, kind)
        self._owned: list[object] = []
        try:
            for is_key, builder in wanted.builders:
                built = builder.build(dict(wanted.config), is_key)
                self._owned.append(wanted.accept(is_key, built))
        except BaseException:
            self.close()
            raise
        self.config, self.key, self.value = wanted.left, wanted.key, wanted.value

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Pass the resolver to the objects that have ``set_cluster_id_resolver``."""
        for each in methods_of(self.key, self.value, name="set_cluster_id_resolver"):
            each(resolver)

    def close(self) -> None:
        """Close the objects that builders made. Only the first call has an effect.

        An exception doesn't prevent the other close; the first exception is raised at the end.
        """
        owned, self._owned = self._owned, []
        raised: BaseException | None = None
        for close in methods_of(*owned, name="close"):
            try:
                close()
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised


def methods_of(*serdes: object, name: str) -> list[Callable[..., object]]:
    """Return this method of each object that has it."""
    return [method for serde in serdes if callable(method := getattr(serde, name, None))]
