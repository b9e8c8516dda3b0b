"""The small value types of the public API: partitions, metadata, groups, nodes, ids, constants.

They behave like confluent_kafka's types of the same names. All of them are plain Python classes,
which you can copy and pickle.
"""

from __future__ import annotations

import base64
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, SupportsIndex, TypeAlias, TypeVar, overload

from ._native.enums import ISOLATION_READ_COMMITTED, ISOLATION_READ_UNCOMMITTED, OFFSET_UNKNOWN
from ._native.message import Message
from ._native.primitives import crc32, exact_text
from ._native.primitives import fnv1a as _fnv1a
from ._native.primitives import murmur2 as _murmur2
from .cleaning import escaped
from .errors import KafkaError, KafkaException
from .unset_fields import unset_fields

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "PARTITION_UA",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "AcknowledgeType",
    "BrokerMetadata",
    "ClusterMetadata",
    "ConsumerGroupMetadata",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "ElectionType",
    "IsolationLevel",
    "Messages",
    "Node",
    "PartitionMetadata",
    "PreparedTxnState",
    "ThrottleEvent",
    "TopicCollection",
    "TopicMetadata",
    "TopicPartition",
    "TopicPartitionInfo",
    "Uuid",
    "consistent",
    "fnv1a",
    "libversion",
    "murmur2",
    "version",
]

if TYPE_CHECKING:
    from typing_extensions import Buffer
else:
    Buffer = bytes | bytearray | memoryview

Data: TypeAlias = str | Buffer
"""What a producer sends as a key or a value: text, or the bytes of a buffer."""
Headers: TypeAlias = Mapping[str, Data | None] | Sequence[tuple[str, Data | None]]
"""The headers of a message for a producer."""
AnyMessage: TypeAlias = Message[Any, Any]
"""A Message whose key and value may be objects of a deserializer."""
_K = TypeVar("_K")
_V = TypeVar("_V")
OnDelivery: TypeAlias = Callable[[KafkaError | None, Message], object]
"""A delivery report, ``f(error, message)``: None or a KafkaError, and the delivered Message."""

OFFSET_BEGINNING: Final = -2
"""Start at the oldest record of the partition."""
OFFSET_END: Final = -1
"""Start after the newest record of the partition."""
OFFSET_STORED: Final = -1000
"""Start at the group's committed offset."""
OFFSET_INVALID: Final = OFFSET_UNKNOWN
"""No offset, or an unknown one."""

_PREPARED: Final = r"([0-9]{1,19}):([0-9]{1,5})"

PARTITION_UA: Final = -1
"""No partition yet: the partitioner chooses one."""

TIMESTAMP_NOT_AVAILABLE: Final = 0
"""The message has no timestamp. Brokers before 0.10 store such messages."""
TIMESTAMP_CREATE_TIME: Final = 1
"""The producer set the timestamp."""
TIMESTAMP_LOG_APPEND_TIME: Final = 2
"""The broker set the timestamp when it appended the message."""


def int32(value: SupportsIndex) -> int:
    """Return the number if it is a signed 32-bit integer.

    :raises TypeError: It is no integer.
    :raises OverflowError: It is out of range.
    """
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise OverflowError("signed integer is out of the 32-bit range")
    return number


def _int64(value: SupportsIndex) -> int:
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError("int too big for a signed 64-bit integer")
    return number


@unset_fields(_topic=None, _partition=0, _offset=0, _metadata=None, _leader_epoch=0, _error=None)
class TopicPartition:
    """A partition of a topic, with an offset, offset metadata, a leader epoch and an error.

    Equality, order and hash use only the topic and the partition. You can assign ``partition`` and
    ``offset``. The other fields are read-only.

    :param topic: The topic's name.
    :param partition: The partition's number; -1 in a list of whole topics.
    :param offset: An offset, or one of the ``OFFSET_*`` constants.
    :param metadata: A text that the group coordinator stores with a committed offset.
    :param leader_epoch: The leader epoch of the offset; None or a negative number if unknown.
    """

    __slots__ = ("_error", "_leader_epoch", "_metadata", "_offset", "_partition", "_topic")

    _topic: str
    _partition: int
    _offset: int
    _metadata: str | None
    _leader_epoch: int | None
    _error: KafkaError | None

    def __init__(
        self,
        topic: str,
        partition: int = PARTITION_UA,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        if metadata is not None and not isinstance(metadata, str):
            raise TypeError(f"argument 4 must be str, not {type(metadata).__name__}")
        self._topic = exact_text(topic)
        self._partition = int32(partition)
        self._offset = _int64(offset)
        self._metadata = metadata
        epoch = None if leader_epoch is None else int32(leader_epoch)
        self._leader_epoch = None if epoch is None or epoch < 0 else epoch
        self._error = None

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._topic

    @property
    def partition(self) -> int:
        """The partition's number, or -1 for none."""
        return self._partition

    @partition.setter
    def partition(self, value: int) -> None:
        self._partition = int32(value)

    @property
    def offset(self) -> int:
        """The offset, or one of the ``OFFSET_*`` constants."""
        return self._offset

    @offset.setter
    def offset(self, value: int) -> None:
        self._offset = _int64(value)

    @property
    def metadata(self) -> str | None:
        """The offset's metadata text, or None."""
        return self._metadata

    @property
    def leader_epoch(self) -> int | None:
        """The offset's leader epoch, or None if unknown."""
        return self._leader_epoch

    @property
    def error(self) -> KafkaError | None:
        """The error of this partition in the call that returned the object, or None."""
        return self._error

    def with_error(self, error: KafkaError | None) -> TopicPartition:
        """Return a copy with an error. Calls use it to report the error of a single partition."""
        twin = TopicPartition(
            self._topic, self._partition, self._offset, self._metadata, self._leader_epoch
        )
        twin._error = error
        return twin

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={escaped(self._topic)},partition={self._partition},"
            f"offset={self._offset},leader_epoch={self._leader_epoch},error={self._error}}}"
        )

    def __hash__(self) -> int:
        return hash((self._topic, self._partition))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicPartition):
            return NotImplemented
        return self._topic == other._topic and self._partition == other._partition

    def __lt__(self, other: TopicPartition) -> bool:
        if not isinstance(other, TopicPartition):
            return NotImplemented
        return (self._topic, self._partition) < (other._topic, other._partition)

    def __le__(self, other: TopicPartition) -> bool:
        if not isinstance(other, TopicPartition):
            return NotImplemented
        return (self._topic, self._partition) <= (other._topic, other._partition)

    def __gt__(self, other: TopicPartition) -> bool:
        if not isinstance(other, TopicPartition):
            return NotImplemented
        return (self._topic, self._partition) > (other._topic, other._partition)

    def __ge__(self, other: TopicPartition) -> bool:
        if not isinstance(other, TopicPartition):
            return NotImplemented
        return (self._topic, self._partition) >= (other._topic, other._partition)

    def __reduce__(self) -> tuple[object, ...]:
        args = (
            self._topic,
            self._partition,
            self._offset,
            self._metadata,
            self._leader_epoch,
            self._error,
        )
        return (_rebuild_topic_partition, args)


def _rebuild_topic_partition(
    topic: str,
    partition: int,
    offset: int,
    metadata: str | None,
    leader_epoch: int | None,
    error: KafkaError | None,
) -> TopicPartition:
    """Unpickle a TopicPartition with its error. The constructor doesn't take the error."""
    return TopicPartition(topic, partition, offset, metadata, leader_epoch).with_error(error)


class ClusterMetadata:
    """The result of ``list_topics()``: the cluster, its brokers and its topics."""

    def __init__(self) -> None:
        """Make an empty description. The client fills it."""
        self.cluster_id: str | None = None
        """The cluster's id, or None if the broker doesn't send it."""
        self.controller_id: int = -1
        """The controller's broker id, or -1."""
        self.brokers: dict[int, BrokerMetadata] = {}
        """The brokers by id."""
        self.topics: dict[str, TopicMetadata] = {}
        """The topics by name."""
        self.orig_broker_id: int = -1
        """The id of the broker that answered, or -1 if it is one of ``bootstrap.servers``."""
        self.orig_broker_name: str | None = None
        """The name of the broker that answered, ``host:port/id`` or ``host:port/bootstrap``."""

    def __repr__(self) -> str:
        return f"ClusterMetadata({escaped(self.cluster_id)})"

    def __str__(self) -> str:
        return str(self.cluster_id)


class BrokerMetadata:
    """A broker, as the cluster advertises it."""

    def __init__(self) -> None:
        """Make an empty description. The client fills it."""
        self.id: int = -1
        """The broker's id."""
        self.host: str | None = None
        """The host name that the broker advertises."""
        self.port: int = -1
        """The port that the broker advertises."""

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {escaped(self.host)}:{self.port})"

    def __str__(self) -> str:
        return f"{escaped(self.host)}:{self.port}/{self.id}"


class TopicMetadata:
    """A topic with its partitions."""

    __slots__ = ("_id", "_load", "_partitions", "error", "topic")
    _load: Callable[[int], dict[int, PartitionMetadata]] | None
    _partitions: dict[int, PartitionMetadata] | int

    def __init__(self) -> None:
        """Make an empty description. The client fills it."""
        self.topic: str | None = None
        """The name of the topic."""
        self.error: KafkaError | None = None
        """The topic's error, or None."""
        self._id: str = ""  # The text of a Uuid; empty if the broker sends no topic ids
        self._load = None
        self._partitions = {}

    @property
    def partitions(self) -> dict[int, PartitionMetadata]:
        """The partitions by number.

        In a large cluster (tens of thousands of partitions), the first access creates the objects.
        """
        # Read before `_partitions`: another thread may be loading at the same moment.
        load = self._load
        found = self._partitions
        if isinstance(found, dict):
            return found
        if load is None:
            return self.partitions
        self._partitions = made = load(found)
        self._load = None
        return made

    @partitions.setter
    def partitions(self, partitions: dict[int, PartitionMetadata]) -> None:
        self._partitions = partitions
        self._load = None

    def _load_later(self, load: Callable[[int], dict[int, PartitionMetadata]], number: int) -> None:
        self._load, self._partitions = load, number

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # vars() as in confluent_kafka
        return {"topic": self.topic, "partitions": self.partitions, "error": self.error}

    def __reduce__(self) -> tuple[object, ...]:
        return TopicMetadata, (), (None, vars(self))

    def __repr__(self) -> str:
        error = "" if self.error is None else f", {self.error}"
        return f"TopicMetadata({escaped(self.topic)}, {len(self.partitions)} partitions{error})"

    def __str__(self) -> str:
        return str(self.topic)


class PartitionMetadata:
    """A partition: its leader and its replicas, as broker ids.

    Some of these brokers may be missing in ``ClusterMetadata.brokers``.
    """

    __slots__ = ("_isrs", "_replicas", "error", "id", "leader")
    _replicas: list[int] | tuple[int, ...]
    _isrs: list[int] | tuple[int, ...]

    def __init__(self) -> None:
        """Make an empty description. The client fills it."""
        self.id: int = -1
        """The partition's number."""
        self.leader: int = -1
        """The leader's broker id, or -1 if the partition has no leader."""
        self.error: KafkaError | None = None
        """The partition's error, or None."""
        self._replicas = self._isrs = ()  # Partitions may share the same tuple

    @property
    def replicas(self) -> list[int]:
        """The broker ids of all replicas."""
        if not isinstance(self._replicas, list):
            self._replicas = list(self._replicas)
        return self._replicas

    @replicas.setter
    def replicas(self, replicas: list[int] | tuple[int, ...]) -> None:
        self._replicas = replicas

    @property
    def isrs(self) -> list[int]:
        """The broker ids of the in-sync replicas."""
        if not isinstance(self._isrs, list):
            self._isrs = list(self._isrs)
        return self._isrs

    @isrs.setter
    def isrs(self, isrs: list[int] | tuple[int, ...]) -> None:
        self._isrs = isrs

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # vars() as in confluent_kafka
        return {name: getattr(self, name) for name in ("id", "leader", "replicas", "isrs", "error")}

    def __reduce__(self) -> tuple[object, ...]:
        return PartitionMetadata, (), (None, vars(self))

    def __repr__(self) -> str:
        return (
            f"PartitionMetadata({self.id})"
            if self.error is None
            else f"PartitionMetadata({self.id}, {self.error})"
        )

    def __str__(self) -> str:
        return str(self.id)


class Node:
    """A broker in the description of a group or topic.

    :param id: The broker's id.
    :param host: Its host name.
    :param port: Its port.
    :param rack: Its rack, or None if the broker has none.
    """

    is_fenced = False
    """True if the broker is registered but fenced, so it serves no requests (KIP-1073)."""

    def __init__(self, id: int, host: str, port: int, rack: str | None = None) -> None:
        self.id = id
        self.id_string = str(id)
        self.host = host
        self.port = port
        self.rack = rack

    def __str__(self) -> str:
        rack = f"(Rack - {escaped(self.rack)})" if self.rack else ""
        return f"({self.id}) {escaped(self.host)}:{self.port} {rack}"

    def __repr__(self) -> str:
        return f"Node({self.id!r}, {self.host!r}, {self.port!r}, {self.rack!r})"


@unset_fields(_high=None, _low=None)
class Uuid:
    """A Kafka UUID, for instance the id of a topic.

    It consists of two signed 64-bit halves. Its text is base64 without padding.

    :param most_significant_bits: The first eight bytes as a signed number.
    :param least_significant_bits: The last eight bytes as a signed number.
    """

    __slots__ = ("_high", "_low")

    def __init__(self, most_significant_bits: int, least_significant_bits: int) -> None:
        self._high = _int64(most_significant_bits)
        self._low = _int64(least_significant_bits)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Uuid:
        """Make a Uuid from the 16 bytes of the protocol."""
        if len(raw) != 16:
            raise ValueError(f"a uuid has 16 bytes, not {len(raw)}")
        return cls(
            int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True)
        )

    def __bytes__(self) -> bytes:
        halves = (operator.index(self._high), operator.index(self._low))  # None if never set
        return b"".join(half.to_bytes(8, "big", signed=True) for half in halves)

    def get_most_significant_bits(self) -> int:
        """Return the first half as a signed number."""
        return self._high

    def get_least_significant_bits(self) -> int:
        """Return the second half as a signed number."""
        return self._low

    def __str__(self) -> str:
        return base64.b64encode(bytes(self)).rstrip(b"=").decode("ascii")

    __repr__ = __str__

    def __int__(self) -> int:
        return int.from_bytes(bytes(self), "big")

    def __hash__(self) -> int:
        return hash((self._high, self._low))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Uuid):
            return NotImplemented
        return self._high == other._high and self._low == other._low

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._high, self._low))


class ConsumerGroupMetadata:
    """A consumer's identity in its group. `Consumer.consumer_group_metadata()` returns it.

    Two objects are equal if all their fields are equal.

    :param group_id: The group's id.
    :param generation: The generation, or the member epoch (KIP-848); -1 if the consumer is no
        member.
    :param member_id: The id that the coordinator gave to the member; empty if the consumer is no
        member.
    :param instance_id: Its ``group.instance.id``, or None.
    """

    __slots__ = ("generation", "group_id", "instance_id", "member_id")

    def __init__(
        self,
        group_id: str,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation = generation
        self.member_id = member_id
        self.instance_id = instance_id

    @classmethod
    def from_bytes(cls, data: bytes) -> ConsumerGroupMetadata:
        """Read the form of `to_bytes()`, which is librdkafka's.

        :raises KafkaException: _BAD_MSG: it isn't this form.
        """
        if not data.startswith(_METADATA_MAGIC):
            raise _bad_metadata()
        rest = data[len(_METADATA_MAGIC) :]
        parts = rest[4:].split(b"\0", 2)
        if len(rest) < 4 or len(parts) < 3 or not parts[2]:
            raise _bad_metadata()
        group_id, member_id, instance = parts
        if instance != b"\x01" and not (instance[0] == 0 and instance.endswith(b"\0", 1)):
            raise _bad_metadata()
        instance_id = None if instance == b"\x01" else instance[1:-1].decode()
        generation = int.from_bytes(rest[:4], sys.byteorder, signed=True)
        return cls(group_id.decode(), generation, member_id.decode(), instance_id)

    def to_bytes(self) -> bytes:
        """Return the form in which confluent_kafka's ``consumer_group_metadata()`` returns it."""
        instance = b"\x01" if self.instance_id is None else b"\0%b\0" % self.instance_id.encode()
        generation = self.generation.to_bytes(4, sys.byteorder, signed=True)
        return b"%b%b%b\0%b\0%b" % (
            _METADATA_MAGIC,
            generation,
            self.group_id.encode(),
            self.member_id.encode(),
            instance,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerGroupMetadata):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.group_id, self.generation, self.member_id, self.instance_id))

    def __repr__(self) -> str:
        return (
            f"ConsumerGroupMetadata(group_id={self.group_id!r}, generation={self.generation}, "
            f"member_id={self.member_id!r}, instance_id={self.instance_id!r})"
        )


_METADATA_MAGIC = b"CGMDv2:"


def _bad_metadata() -> KafkaException:
    text = "Input serialized cgmd is truncated or has an unknown format"
    return KafkaException(KafkaError(KafkaError._BAD_MSG, text))


class PreparedTxnState:
    """The identity of a transaction that `Producer.prepare_transaction()` prepared (KIP-939).

    Two objects are equal if they identify the same transaction.

        state = producer.prepare_transaction()
        text = str(state)  # your coordinator stores it together with its decision
        producer.complete_transaction(PreparedTxnState(text))

    :param serialized_state: The ``str()`` of another PreparedTxnState; empty means no transaction.
    :raises ValueError: The text is not the ``str()`` of a PreparedTxnState.
    """

    __slots__ = ("epoch", "producer_id")

    producer_id: int
    """The producer id; -1 means no transaction."""
    epoch: int
    """The producer epoch; -1 means no transaction."""

    def __init__(self, serialized_state: str = "") -> None:
        if not isinstance(serialized_state, str):
            raise TypeError(f"serialized_state must be str, not {type(serialized_state).__name__}")
        self.producer_id = self.epoch = -1
        if not serialized_state:
            return
        found = re.fullmatch(_PREPARED, serialized_state)
        if (
            found is None
            or (numbers := (int(found[1]), int(found[2])))[0] >= 2**63
            or numbers[1] >= 2**15
        ):
            raise ValueError(
                "not the state of a prepared transaction (PRODUCER_ID:EPOCH): "
                f"{serialized_state[:80]!r}"
            )
        self.producer_id, self.epoch = numbers

    def has_transaction(self) -> bool:
        """Return True if the object identifies a transaction."""
        return self.producer_id >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreparedTxnState):
            return NotImplemented
        return (self.producer_id, self.epoch) == (other.producer_id, other.epoch)

    def __hash__(self) -> int:
        return hash((self.producer_id, self.epoch))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self),))

    def __str__(self) -> str:
        """``PRODUCER_ID:EPOCH``, or an empty text for no transaction."""
        return f"{self.producer_id}:{self.epoch}" if self.has_transaction() else ""

    def __repr__(self) -> str:
        return f"PreparedTxnState({str(self)!r})"


class OrderedEnum(Enum):
    """An enum whose members are ordered by their values."""

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return bool(self.value < other.value)


class ConsumerGroupState(OrderedEnum):
    """The state of a consumer group, as its coordinator reports it."""

    UNKNOWN = 0
    UNKOWN = 0  # confluent_kafka's first spelling; programs may use it
    PREPARING_REBALANCING = 1
    COMPLETING_REBALANCING = 2
    STABLE = 3
    DEAD = 4
    EMPTY = 5
    ASSIGNING = 6
    """The coordinator computes the assignment (KIP-848, KIP-1071)."""
    RECONCILING = 7
    """Members still give up partitions that moved to other members (KIP-848, KIP-1071)."""
    NOT_READY = 8
    """A streams group whose topics are missing (KIP-1071)."""


class ConsumerGroupType(OrderedEnum):
    """The protocol of a group.

    CONSUMER is the protocol of KIP-848, SHARE of KIP-932 and STREAMS of KIP-1071.
    """

    UNKNOWN = 0
    CONSUMER = 1
    CLASSIC = 2
    SHARE = 3
    STREAMS = 4


class IsolationLevel(OrderedEnum):
    """Whether a consumer also gets the records of open and aborted transactions (KIP-98)."""

    READ_UNCOMMITTED = ISOLATION_READ_UNCOMMITTED
    READ_COMMITTED = ISOLATION_READ_COMMITTED


class ElectionType(OrderedEnum):
    """Which replica an election may choose (KIP-460).

    PREFERRED allows only the preferred replica. UNCLEAN allows any replica, even if messages are
    lost.
    """

    PREFERRED = 0
    UNCLEAN = 1


class AcknowledgeType(IntEnum):
    """A consumer's decision about a record of a share group (KIP-932).

    RENEW (KIP-1222) is none yet: it extends the record's lock.
    """

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ConsumerGroupTopicPartitions:
    """A group with partitions, for calls that list or alter its committed offsets.

    :param group_id: The group's id.
    :param topic_partitions: The partitions; None for all partitions with a committed offset.
    """

    def __init__(self, group_id: str, topic_partitions: list[TopicPartition] | None = None) -> None:
        self.group_id = group_id
        self.topic_partitions = topic_partitions


class TopicCollection:
    """A collection of topics, given by their names.

    :param topic_names: The names.
    """

    def __init__(self, topic_names: list[str]) -> None:
        self.topic_names = topic_names


class TopicPartitionInfo:
    """A partition in the description of a topic.

    :param id: The partition's number.
    :param leader: The broker that is its leader; None: it has no leader now.
    :param replicas: The brokers with a replica.
    :param isr: The brokers with an in-sync replica.
    """

    def __init__(self, id: int, leader: Node | None, replicas: list[Node], isr: list[Node]) -> None:
        self.id = id
        self.leader = leader
        self.replicas = replicas
        self.isr = isr


class Messages:
    """An immutable sequence of messages.

    :param messages: The messages in their order.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._records = list(messages)

    @classmethod
    def _from_list(cls, records: list[Message]) -> Messages:
        # As in confluent_kafka, the list is not copied.
        made = cls.__new__(cls)
        made._records = records
        return made

    def records(self) -> list[Message]:
        """Return the messages as a new list."""
        return list(self._records)

    def count(self) -> int:
        """Return the number of messages."""
        return len(self._records)

    def is_empty(self) -> bool:
        """Return True if there are no messages."""
        return not self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Messages: ...

    def __getitem__(self, index: int | slice) -> Message | Messages:
        return (
            self._from_list(self._records[index])
            if isinstance(index, slice)
            else self._records[index]
        )

    def __repr__(self) -> str:
        return f"Messages({self._records!r})"


if TYPE_CHECKING:

    class ConvertedMessages(Messages, Generic[_K, _V]):
        """`Messages` of a client that converts keys and values. Only type checkers have it."""

        def records(self) -> list[Message[_K, _V]]: ...  # type: ignore[override]

        def __iter__(self) -> Iterator[Message[_K, _V]]: ...  # type: ignore[override]

        @overload  # type: ignore[override]
        def __getitem__(self, index: int) -> Message[_K, _V]: ...

        @overload
        def __getitem__(self, index: slice) -> ConvertedMessages[_K, _V]: ...

        def __getitem__(self, index: Any) -> Any: ...


class ThrottleEvent:
    """The argument of ``throttle_cb``: a broker delayed a request because of a quota.

    :param broker_name: The broker's address, ``host:port``.
    :param broker_id: The broker's id.
    :param throttle_time: The delay in seconds. The maximum is 60, even if the broker reported more.
    """

    def __init__(self, broker_name: str, broker_id: int, throttle_time: float) -> None:
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.throttle_time = throttle_time

    def __str__(self) -> str:
        throttle_ms = int(self.throttle_time * 1000)
        return f"{escaped(self.broker_name)}/{self.broker_id} throttled for {throttle_ms} ms"


def _checked_count(partition_count: int) -> int:
    count = int32(partition_count)
    if count <= 0:
        raise ValueError(f"partition_count must be > 0, got {count}")
    return count


def _bytes_of(key: bytes) -> bytes:
    """Return the bytes of a bytes-like object."""
    return key if type(key) is bytes else memoryview(key).tobytes()


def murmur2(key: bytes, partition_count: int) -> int:
    """Return the partition that ``murmur2`` or ``murmur2_random`` chooses for a key.

    Java's default partitioner chooses the same partition.

    :param key: The key's bytes.
    :param partition_count: The number of partitions of the topic.
    :raises ValueError: ``partition_count`` is 0 or negative.
    :raises TypeError: ``key`` is not bytes-like.
    """
    return (_murmur2(_bytes_of(key)) & 0x7FFFFFFF) % _checked_count(partition_count)


def consistent(key: bytes, partition_count: int) -> int:
    """Return the partition that ``consistent`` or ``consistent_random`` chooses for a key.

    These partitioners use CRC32. Arguments and errors are those of `murmur2`.
    """
    return crc32(key) % _checked_count(partition_count)


def fnv1a(key: bytes, partition_count: int) -> int:
    """Return the partition that ``fnv1a`` or ``fnv1a_random`` chooses for a key.

    The Go client sarama chooses the same partition. Arguments and errors are those of `murmur2`.
    """
    return _fnv1a(_bytes_of(key)) % _checked_count(partition_count)


def version() -> str:
    """Return this package's version, for instance ``0.1.0``."""
    return str(sys.modules[__package__].__version__)


def libversion() -> tuple[str, int]:
    """Return the version of the native core, as a text and as a number.

    confluent_kafka returns librdkafka's version here. The core of this package has the version of
    the package. The number's first byte is the major, the second the minor, the third the patch
    version. The last byte is zero.
    """
    text = version()
    numbers = [
        int(part) if part.isdigit() else 0
        for part in [*text.split("+")[0].split("."), "0", "0", "0"][:3]
    ]
    return text, numbers[0] << 24 | numbers[1] << 16 | numbers[2] << 8
