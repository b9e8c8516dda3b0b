"""Serializers and deserializers: what `SerializingProducer` and `DeserializingConsumer` call for keys and values.

The classes are confluent_kafka.serialization's; numbers are big-endian, as Java's serializers of the same names write
them. A serializer is anything that can be called with (object, SerializationContext) and returns bytes or None.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
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

HeadersType: TypeAlias = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]


class MessageField(str, Enum):
    """The part of a message that is being converted."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"

    def __str__(self) -> str:
        return str(self.value)


class SerializationContext:
    """What a serializer or deserializer is told besides the object.

    :param topic: The topic's name.
    :param field: Key or value.
    :param headers: The message's headers; a serializer may add some if they are a list or a dict.
    """

    def __init__(self, topic: str, field: MessageField, headers: HeadersType | None = None) -> None:
        """Make one; see the class for the arguments."""
        self.topic = topic
        self.field = field
        self.headers = headers


class SerializationError(KafkaException):
    """An object can't be made bytes, or bytes can't be made an object."""


class _Serde:
    """What a client may tell a serializer or deserializer besides calling it."""

    __slots__ = ()

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Take a function that returns the cluster's id; it may wait for a broker, so don't call it from here."""

    def close(self) -> None:
        """Release what it holds; the client calls it, when it is closed itself, for those that a builder has made."""


class Serializer(_Serde):
    """Makes bytes of objects; derive from it and define ``__call__``."""

    __slots__ = ()

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object; SerializationError if it has none."""
        raise NotImplementedError


class Deserializer(_Serde):
    """Makes objects of bytes; derive from it and define ``__call__``."""

    __slots__ = ()

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the object that the bytes stand for; SerializationError if they don't."""
        raise NotImplementedError


class SerializerBuilder:
    """Makes a serializer from a client's configuration: ``key.serializer.builder`` and ``value.serializer.builder``."""

    __slots__ = ()

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Serializer, dict[str, Any]]:
        """Return the serializer, and the configuration without what is meant for it."""
        raise NotImplementedError


class DeserializerBuilder:
    """Makes a deserializer: ``key.deserializer.builder`` and ``value.deserializer.builder``."""

    __slots__ = ()

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Deserializer, dict[str, Any]]:
        """Return the deserializer, and the configuration without what is meant for it."""
        raise NotImplementedError


def _packed(format_: str, obj: Any) -> bytes | None:
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
    """float to eight bytes (IEEE 754); None stays None."""

    def __call__(self, obj: float | None, ctx: SerializationContext | None = None) -> bytes | None:
        """Return eight bytes; SerializationError for what is no number."""
        return _packed(">d", obj)


class DoubleDeserializer(Deserializer):
    """Eight bytes (IEEE 754) to float; None stays None."""

    def __call__(
        self, value: bytes | None, ctx: SerializationContext | None = None
    ) -> float | None:
        """Return a float; SerializationError unless there are eight bytes."""
        number: float | None = _unpacked(">d", value)
        return number


class IntegerSerializer(Serializer):
    """int to four bytes; None stays None."""

    def __call__(self, obj: int | None, ctx: SerializationContext | None = None) -> bytes | None:
        """Return four bytes; SerializationError for what is no int of 32 bits."""
        return _packed(">i", obj)


class IntegerDeserializer(Deserializer):
    """Four bytes to int; None stays None."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> int | None:
        """Return an int; SerializationError unless there are four bytes."""
        number: int | None = _unpacked(">i", value)
        return number


class StringSerializer(Serializer):
    """str to bytes; None stays None.

    :param codec: The encoding, by Python's name for it.
    """

    def __init__(self, codec: str = "utf_8") -> None:
        """Make one; see the class for the arguments."""
        self.codec = codec

    def __call__(self, obj: str | None, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the encoded text; SerializationError for characters that the encoding doesn't have."""
        try:
            return None if obj is None else obj.encode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


class StringDeserializer(Deserializer):
    """Bytes to str; None stays None.

    :param codec: The encoding, by Python's name for it.
    """

    def __init__(self, codec: str = "utf_8") -> None:
        """Make one; see the class for the arguments."""
        self.codec = codec

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> str | None:
        """Return the text; SerializationError for bytes that aren't of the encoding."""
        try:
            return None if value is None else value.decode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


CLUSTER_ID_S = 60.0
"""How long serializers wait for a broker to tell them the cluster's id."""


class Serdes:
    """The two serializers, or deserializers, of a client's configuration, and the configuration without them.

    Not part of the public API. ``kind`` is "serializer" or "deserializer".
    """

    def __init__(self, config: Mapping[str, Any], kind: str) -> None:
        """Take them out of the configuration, calling builders. ValueError: both one and a builder of it are given."""
        given = dict(config)
        self._owned: list[Any] = []
        wanted = {}
        for part in ("key", "value"):
            name = f"{part}.{kind}"
            wanted[part] = given.pop(name, None), given.pop(f"{name}.builder", None)
            if None not in wanted[part]:
                raise ValueError(
                    f"Cannot configure both {name} and {name}.builder; use one or the other"
                )
        self.config = given
        try:
            self.key = self._made("key", *wanted["key"], given)
            self.value = self._made("value", *wanted["value"], given)
        except BaseException:
            self.close()
            raise

    def _made(self, part: str, serde: Any, builder: Any, given: dict[str, Any]) -> Any:
        if builder is None:
            return serde
        built = builder.build(dict(given), part == "key")
        if not (isinstance(built, tuple) and len(built) == 2 and isinstance(built[1], dict)):
            raise ValueError(
                f"build() of {type(builder).__name__} must return a tuple: what it made, the configuration left"
            )
        self._owned.append(built[0])
        # What either builder has taken isn't for the client.
        self.config = {name: value for name, value in self.config.items() if name in built[1]}
        return built[0]

    def tell(self, cluster_id: Callable[[], Any]) -> None:
        """Tell those that want to know how to learn the cluster's id."""
        for each in _having(self.key, self.value, name="set_cluster_id_resolver"):
            each(cluster_id)

    def close(self) -> None:
        """Close those that builders have made, once; the first exception is raised when all are closed."""
        owned, self._owned = self._owned, []
        raised: BaseException | None = None
        for close in _having(*owned, name="close"):
            try:
                close()
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised


def _having(*serdes: Any, name: str) -> Iterable[Callable[..., Any]]:
    return [method for serde in serdes if callable(method := getattr(serde, name, None))]
