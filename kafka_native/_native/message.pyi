from enum import IntEnum
from types import GenericAlias
from typing import Any, Generic, final

from typing_extensions import TypeVar

from kafka_native.errors import KafkaError

_K = TypeVar("_K", default=bytes, covariant=True)
_V = TypeVar("_V", default=bytes, covariant=True)

@final
class Batch: ...

@final
class Overrides: ...

class MessageStatus(IntEnum):
    """Whether a produced message is in the log, as far as the producer knows.

    It shows the risk of producing the message again. librdkafka's type is rd_kafka_msg_status_t.
    """

    NOT_PERSISTED = 0
    POSSIBLY_PERSISTED = 1
    PERSISTED = 2

class Message(Generic[_K, _V]):
    """A record of a topic, or an error in its place.

    `Consumer.poll()` and `Consumer.consume()` return consumed Messages. Delivery callbacks get
    produced ones. Methods return all fields, as in confluent_kafka. `key()` and `value()` make a
    new ``bytes`` object at each call, so keep the result instead of calling twice. A Message is
    true even if its value has no bytes.

    A Message keeps the response in which it arrived in memory. When the Messages that you keep hold
    more memory than ``message.pinned.max.kbytes`` (64 MiB), they are copied out of their responses.
    This has no visible effect.
    """

    def __init__(
        self,
        topic: str | None = ...,
        partition: int | None = ...,
        offset: int | None = ...,
        key: Any = ...,
        value: Any = ...,
        headers: Any = ...,
        error: Any = ...,
        timestamp: tuple[int, int] | None = ...,
        latency: float | None = ...,
        leader_epoch: int | None = ...,
        delivery_count: int | None = ...,
        status: int | None = ...,
    ) -> None: ...
    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    def topic(self) -> str | None:
        """Return the topic's name, or None."""
    def partition(self) -> int | None:
        """Return the partition's number.

        It is None for a message that failed before it got a partition.
        """
    def offset(self) -> int | None:
        """Return the record's offset in its partition.

        It is None for a failed or unacknowledged delivery.
        """
    def key(self) -> _K | None:
        """Return the key as bytes, or None if the record has none. `set_key()` replaces it."""
    def value(self) -> _V | None:
        """Return the value as bytes, or None for a null value. `set_value()` replaces it."""
    def is_tombstone(self) -> bool:
        """Return True if the record's value is null: in a compacted topic it deletes its key.

        A Message with an `error()` is not a tombstone.
        """
    def deserialized_key(self) -> _K | None:
        """Return `key()`, which a deserializing client has replaced by an object."""
    def deserialized_value(self) -> _V | None:
        """Return `value()`, which a deserializing client has replaced by an object."""
    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers as a list of (name, bytes or None), or None if there are none.

        The list keeps the order and duplicates. A byte of a name that isn't UTF-8 becomes a
        surrogate (``surrogateescape``). `Producer.produce()` turns it into that byte again.
        """
    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp type and the milliseconds since 1970.

        The type is TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME.
        """
    def error(self) -> KafkaError | None:
        """Return the KafkaError that this Message reports, or None for a record."""
    def latency(self) -> float | None:
        """Return the seconds from `produce()` to the outcome, or None for consumed records.

        The resolution is a millisecond. If you set the timestamps, or the broker uses log append
        time, each message has the latency of the first of its batch, which is the longest.
        """
    def status(self) -> MessageStatus | None:
        """Return the `MessageStatus` of a produced message: whether it is in the log.

        It is None for a message that wasn't produced here.
        """
    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the record (KIP-320), or None if it is unknown."""
    def delivery_count(self) -> int | None:
        """Return how often a share group has delivered this record, including this time (KIP-932).

        It is None for other messages.
        """
    def set_topic(self, topic: str | None, /) -> None:
        """Replace the return value of `topic()`."""
    def set_key(self, key: Any, /) -> None:
        """Replace the return value of `key()`. For deserializers."""
    def set_value(self, value: Any, /) -> None:
        """Replace the return value of `value()`. For deserializers."""
    def set_headers(self, headers: Any, /) -> None:
        """Replace the return value of `headers()`."""
    def set_error(self, error: Any, /) -> None:
        """Replace the return value of `error()`."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

class ConfluentMessage(Message[_K, _V]):
    def __init__(
        self,
        topic: str | None = ...,
        partition: int = ...,
        offset: int = ...,
        key: Any = ...,
        value: Any = ...,
        headers: Any = ...,
        error: Any = ...,
        timestamp: tuple[int, int] | None = ...,
        latency: float = ...,
        leader_epoch: int = ...,
        delivery_count: int = ...,
    ) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None

@final
class Pins:
    size_bytes: int
    message_type: type[Message[Any, Any]]
    def __init__(self, max_bytes: int) -> None: ...

def live_chunks() -> int: ...
def live_messages() -> int: ...
