"""The small value types of the public API: partitions, cluster metadata, groups, nodes, ids and the numbers with names.

They behave as confluent_kafka's types of the same names. All of them are plain Python and can be copied and pickled.
"""

from __future__ import annotations

import base64
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, IntEnum
from typing import Any, Final, overload

from ._native.message import Message
from ._native.primitives import crc32, exact_text
from ._native.primitives import fnv1a as _fnv1a
from ._native.primitives import murmur2 as _murmur2
from .cleaning import escaped
from .errors import KafkaError

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

OFFSET_BEGINNING: Final = -2
"""Start at the oldest record of the partition."""
OFFSET_END: Final = -1
"""Start behind the newest record of the partition."""
OFFSET_STORED: Final = -1000
"""Start at the group's committed offset."""
OFFSET_INVALID: Final = -1001
"""No offset, or an unknown one."""

_PREPARED: Final = re.compile(r"([0-9]{1,19}):([0-9]{1,5})")

PARTITION_UA: Final = -1
"""No partition yet: the partitioner decides."""

TIMESTAMP_NOT_AVAILABLE: Final = 0
"""The message has no timestamp (message sets of brokers before 0.10)."""
TIMESTAMP_CREATE_TIME: Final = 1
"""The timestamp is the producer's."""
TIMESTAMP_LOG_APPEND_TIME: Final = 2
"""The timestamp is the broker's, of when it appended the message."""


def _int32(value: Any) -> int:
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise OverflowError("signed integer is out of the 32-bit range")
    return number


def _int64(value: Any) -> int:
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError("int too big for a signed 64-bit integer")
    return number


class TopicPartition:
    """A partition of a topic, with what is known or wanted of it: an offset, offset metadata, a leader epoch, an error.

    Equality, order and hash go by topic and partition alone. ``partition`` and ``offset`` can be assigned, the rest is
    read-only.

    :param topic: The topic's name.
    :param partition: The partition's number; -1 where a list means whole topics.
    :param offset: An offset, or one of the OFFSET_* constants.
    :param metadata: A text that a consumer group keeps with a committed offset.
    :param leader_epoch: The leader epoch of the offset; None (or a negative number) if it isn't known.
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
        """Make a TopicPartition; see the class for the arguments."""
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        if metadata is not None and not isinstance(metadata, str):
            raise TypeError(f"argument 4 must be str, not {type(metadata).__name__}")
        self._topic = exact_text(topic)
        self._partition = _int32(partition)
        self._offset = _int64(offset)
        self._metadata = metadata
        epoch = None if leader_epoch is None else _int32(leader_epoch)
        self._leader_epoch = None if epoch is None or epoch < 0 else epoch
        self._error = None

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._topic

    @property
    def partition(self) -> int:
        """The partition's number, -1 if none is meant."""
        return self._partition

    @partition.setter
    def partition(self, value: int) -> None:
        self._partition = _int32(value)

    @property
    def offset(self) -> int:
        """The offset, or one of the OFFSET_* constants."""
        return self._offset

    @offset.setter
    def offset(self, value: int) -> None:
        self._offset = _int64(value)

    @property
    def metadata(self) -> str | None:
        """The offset's metadata text, None if there is none."""
        return self._metadata

    @property
    def leader_epoch(self) -> int | None:
        """The offset's leader epoch, None if it isn't known."""
        return self._leader_epoch

    @property
    def error(self) -> KafkaError | None:
        """What went wrong with this partition in the call that returned it, or None."""
        return self._error

    def with_error(self, error: KafkaError | None) -> TopicPartition:
        """Return a copy that carries an error: how a call reports about a single partition."""
        twin = TopicPartition(self._topic, self._partition, self._offset, self._metadata, self._leader_epoch)
        twin._error = error
        return twin

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={escaped(self._topic)},partition={self._partition},offset={self._offset},"
            f"leader_epoch={self._leader_epoch},error={self._error}}}"
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

    def __reduce__(self) -> tuple[Any, ...]:
        args = (self._topic, self._partition, self._offset, self._metadata, self._leader_epoch, self._error)
        return (_rebuild_topic_partition, args)


def _rebuild_topic_partition(
    topic: str, partition: int, offset: int, metadata: str | None, leader_epoch: int | None, error: KafkaError | None
) -> TopicPartition:
    """Unpickle a TopicPartition together with its error, which the constructor doesn't take."""
    return TopicPartition(topic, partition, offset, metadata, leader_epoch).with_error(error)


class ClusterMetadata:
    """What ``list_topics()`` returns: the cluster, its brokers and its topics."""

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.cluster_id: str | None = None
        """The cluster's id, None if the broker doesn't tell it."""
        self.controller_id: int = -1
        """The controller's broker id, or -1."""
        self.brokers: dict[int, BrokerMetadata] = {}
        """The brokers by id."""
        self.topics: dict[str, TopicMetadata] = {}
        """The topics by name."""
        self.orig_broker_id: int = -1
        """The id of the broker that answered, -1 for one of bootstrap.servers."""
        self.orig_broker_name: str | None = None
        """The name of the broker that answered, ``host:port/id`` or ``host:port/bootstrap``."""

    def __repr__(self) -> str:
        return f"ClusterMetadata({escaped(str(self.cluster_id))})"

    def __str__(self) -> str:
        return str(self.cluster_id)


class BrokerMetadata:
    """A broker, as the cluster advertises it."""

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.id: int = -1
        """The broker's id."""
        self.host: str | None = None
        """The host name that it advertises."""
        self.port: int = -1
        """The port that it advertises."""

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {escaped(str(self.host))}:{self.port})"

    def __str__(self) -> str:
        return f"{escaped(str(self.host))}:{self.port}/{self.id}"


class TopicMetadata:
    """A topic with its partitions."""

    __slots__ = ("_id", "_load", "_partitions", "error", "topic")
    _load: Callable[[int], dict[int, PartitionMetadata]] | None
    _partitions: dict[int, PartitionMetadata] | int

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.topic: str | None = None
        """The name of the topic."""
        self.error: KafkaError | None = None
        """What is wrong with the topic, or None."""
        self._id: str = ""  # as a Uuid is shown; empty where brokers tell none
        self._load = None
        self._partitions = {}

    @property
    def partitions(self) -> dict[int, PartitionMetadata]:
        """The partitions by number.

        Those of a large cluster (tens of thousands of partitions) are made when they are asked for the first time.
        """
        load = self._load  # before what it is to load: another thread may just have done so
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
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # vars() shows what it shows of confluent_kafka's
        return {"topic": self.topic, "partitions": self.partitions, "error": self.error}

    def __reduce__(self) -> tuple[Any, ...]:
        return TopicMetadata, (), (None, vars(self))

    def __repr__(self) -> str:
        error = "" if self.error is None else f", {self.error}"
        return f"TopicMetadata({escaped(str(self.topic))}, {len(self.partitions)} partitions{error})"

    def __str__(self) -> str:
        return str(self.topic)


class PartitionMetadata:
    """A partition: its leader and its replicas, as broker ids. Not all may be in ``ClusterMetadata.brokers``."""

    __slots__ = ("_isrs", "_replicas", "error", "id", "leader")
    _replicas: list[int] | tuple[int, ...]
    _isrs: list[int] | tuple[int, ...]

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.id: int = -1
        """The partition's number."""
        self.leader: int = -1
        """The leader's broker id, or -1 if there is none."""
        self.error: KafkaError | None = None
        """What is wrong with the partition, or None."""
        self._replicas = self._isrs = ()  # tuples may be shared with other partitions

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
        """The broker ids of the replicas in sync."""
        if not isinstance(self._isrs, list):
            self._isrs = list(self._isrs)
        return self._isrs

    @isrs.setter
    def isrs(self, isrs: list[int] | tuple[int, ...]) -> None:
        self._isrs = isrs

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # vars() shows what it shows of confluent_kafka's
        return {name: getattr(self, name) for name in ("id", "leader", "replicas", "isrs", "error")}

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionMetadata, (), (None, vars(self))

    def __repr__(self) -> str:
        return f"PartitionMetadata({self.id})" if self.error is None else f"PartitionMetadata({self.id}, {self.error})"

    def __str__(self) -> str:
        return str(self.id)


class Node:
    """A broker as groups and topic descriptions name it.

    :param id: The broker's id.
    :param host: Its host name.
    :param port: Its port.
    :param rack: The rack that it is in, if it tells.
    """

    is_fenced = False
    """It is registered and not at work (KIP-1073)."""

    def __init__(self, id: int, host: str, port: int, rack: str | None = None) -> None:
        """Make a Node; see the class for the arguments."""
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


class Uuid:
    """A Kafka uuid, for instance a topic's id: two signed 64-bit halves, shown as base64 without padding.

    :param most_significant_bits: The first eight bytes as a signed number.
    :param least_significant_bits: The last eight bytes as a signed number.
    """

    __slots__ = ("_least", "_max")

    def __init__(self, most_significant_bits: int, least_significant_bits: int) -> None:
        """Make a Uuid; see the class for the arguments."""
        self._max = _int64(most_significant_bits)
        self._least = _int64(least_significant_bits)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Uuid:
        """Make a Uuid from the sixteen bytes of the protocol."""
        if len(raw) != 16:
            raise ValueError(f"a uuid has 16 bytes, not {len(raw)}")
        return cls(int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True))

    def __bytes__(self) -> bytes:
        return self._max.to_bytes(8, "big", signed=True) + self._least.to_bytes(8, "big", signed=True)

    def get_most_significant_bits(self) -> int:
        """Return the first half as a signed number."""
        return self._max

    def get_least_significant_bits(self) -> int:
        """Return the second half as a signed number."""
        return self._least

    def __str__(self) -> str:
        return base64.b64encode(bytes(self)).rstrip(b"=").decode("ascii")

    __repr__ = __str__

    def __int__(self) -> int:
        return int.from_bytes(bytes(self), "big")

    def __hash__(self) -> int:
        return hash((self._max, self._least))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Uuid):
            return NotImplemented
        return self._max == other._max and self._least == other._least

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._max, self._least))


class ConsumerGroupMetadata:
    """Who a consumer is in its group, as `Consumer.consumer_group_metadata()` tells it. Equal when all of it is.

    :param group_id: The group's id.
    :param generation: The generation, or member epoch (KIP-848); -1: not a member.
    :param member_id: The id that the coordinator has given it; empty: not a member.
    :param instance_id: Its ``group.instance.id``, None without one.
    """

    __slots__ = ("generation", "group_id", "instance_id", "member_id")

    def __init__(
        self, group_id: str, generation: int = -1, member_id: str = "", instance_id: str | None = None
    ) -> None:
        """Make one; see the class for the arguments."""
        self.group_id = group_id
        self.generation = generation
        self.member_id = member_id
        self.instance_id = instance_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerGroupMetadata):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.group_id, self.generation, self.member_id, self.instance_id))

    def __repr__(self) -> str:
        return (
            f"ConsumerGroupMetadata(group_id={self.group_id!r}, generation={self.generation}, "
            f"member_id={self.member_id!r}, instance_id={self.instance_id!r})"
        )


class PreparedTxnState:
    """Which transaction `Producer.prepare_transaction()` has prepared (KIP-939); equal when it is the same one.

        state = producer.prepare_transaction()
        text = str(state)  # to be stored by whoever decides, with what else it decides about
        producer.complete_transaction(PreparedTxnState(text))

    :param serialized_state: ``str()`` of another one; empty: no transaction.
    :raises ValueError: The text isn't one's.
    """

    __slots__ = ("epoch", "producer_id")

    producer_id: int
    """-1: no transaction."""
    epoch: int
    """-1: no transaction."""

    def __init__(self, serialized_state: str = "") -> None:
        """Make one; see the class for the argument."""
        if not isinstance(serialized_state, str):
            raise TypeError(f"serialized_state must be str, not {type(serialized_state).__name__}")
        self.producer_id = self.epoch = -1
        if not serialized_state:
            return
        found = _PREPARED.fullmatch(serialized_state)
        if found is None or (numbers := (int(found[1]), int(found[2])))[0] >= 2**63 or numbers[1] >= 2**15:
            raise ValueError(f"no state of a prepared transaction, PRODUCER_ID:EPOCH: {serialized_state[:80]!r}")
        self.producer_id, self.epoch = numbers

    def has_transaction(self) -> bool:
        """Whether there is one."""
        return self.producer_id >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreparedTxnState):
            return NotImplemented
        return (self.producer_id, self.epoch) == (other.producer_id, other.epoch)

    def __hash__(self) -> int:
        return hash((self.producer_id, self.epoch))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self),))

    def __str__(self) -> str:
        """``PRODUCER_ID:EPOCH``; empty: no transaction."""
        return f"{self.producer_id}:{self.epoch}" if self.has_transaction() else ""

    def __repr__(self) -> str:
        return f"PreparedTxnState({str(self)!r})"


class OrderedEnum(Enum):
    """Members are ordered by their values, within their own enum."""

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return bool(self.value < other.value)


class ConsumerGroupState(OrderedEnum):
    """What a consumer group is doing, as its coordinator tells it."""

    UNKNOWN = 0
    UNKOWN = 0  # confluent_kafka's first spelling, which programs may have
    PREPARING_REBALANCING = 1
    COMPLETING_REBALANCING = 2
    STABLE = 3
    DEAD = 4
    EMPTY = 5
    ASSIGNING = 6
    """Its coordinator works out who gets what (KIP-848, KIP-1071)."""
    RECONCILING = 7
    """Its members hand over what they shall not have any longer (KIP-848, KIP-1071)."""
    NOT_READY = 8
    """A streams group that lacks topics (KIP-1071)."""


class ConsumerGroupType(OrderedEnum):
    """By which protocol a group shares its partitions: KIP-848's is CONSUMER, KIP-932's SHARE, KIP-1071's STREAMS."""

    UNKNOWN = 0
    CONSUMER = 1
    CLASSIC = 2
    SHARE = 3
    STREAMS = 4


class IsolationLevel(OrderedEnum):
    """Whether records of transactions that aren't committed count (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ElectionType(OrderedEnum):
    """Which replica may become leader: the preferred one, or any, even if messages are lost by it (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class AcknowledgeType(IntEnum):
    """What became of a record of a share group (KIP-932)."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


class ConsumerGroupTopicPartitions:
    """A group with partitions, to ask for or to change its committed offsets.

    :param group_id: The group's id.
    :param topic_partitions: The partitions; None for all that the group has offsets of.
    """

    def __init__(self, group_id: str, topic_partitions: list[TopicPartition] | None = None) -> None:
        """Make one; see the class for the arguments."""
        self.group_id = group_id
        self.topic_partitions = topic_partitions


class TopicCollection:
    """Topics by name.

    :param topic_names: The names.
    """

    def __init__(self, topic_names: list[str]) -> None:
        """Make one; see the class for the arguments."""
        self.topic_names = topic_names


class TopicPartitionInfo:
    """A partition in the description of a topic.

    :param id: The partition's number.
    :param leader: The broker that leads it.
    :param replicas: The brokers that have it.
    :param isr: Those of them that are in sync.
    """

    def __init__(self, id: int, leader: Node, replicas: list[Node], isr: list[Node]) -> None:
        """Make one; see the class for the arguments."""
        self.id = id
        self.leader = leader
        self.replicas = replicas
        self.isr = isr


class Messages:
    """Messages in their order: a sequence that can't be changed.

    :param messages: What it holds.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        """Make one; see the class for the arguments."""
        self._messages = list(messages)

    def records(self) -> list[Message]:
        """Return the messages as a list of their own."""
        return list(self._messages)

    def count(self) -> int:
        """Return how many there are."""
        return len(self._messages)

    def is_empty(self) -> bool:
        """Return True if there is none."""
        return not self._messages

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Messages: ...

    def __getitem__(self, index: int | slice) -> Message | Messages:
        return Messages(self._messages[index]) if isinstance(index, slice) else self._messages[index]

    def __repr__(self) -> str:
        return f"Messages({self._messages!r})"


class ThrottleEvent:
    """A broker held back a request because of a quota; what a ``throttle_cb`` gets.

    :param broker_name: The broker's address, ``host:port``.
    :param broker_id: The broker's id.
    :param throttle_time: For how long, in seconds: 60 at most, also where the broker said more.
    """

    def __init__(self, broker_name: str, broker_id: int, throttle_time: float) -> None:
        """Make a ThrottleEvent; see the class for the arguments."""
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.throttle_time = throttle_time

    def __str__(self) -> str:
        return f"{escaped(self.broker_name)}/{self.broker_id} throttled for {int(self.throttle_time * 1000)} ms"


def _checked_count(partition_count: int) -> int:
    count = _int32(partition_count)
    if count <= 0:
        raise ValueError(f"partition_count must be > 0, got {count}")
    return count


def murmur2(key: bytes, partition_count: int) -> int:
    """Return the partition that the partitioners ``murmur2`` and ``murmur2_random``, and Java's default, give a key.

    :param key: The key's bytes.
    :param partition_count: How many partitions the topic has.
    :raises ValueError: ``partition_count`` isn't above 0.
    :raises TypeError: ``key`` isn't bytes.
    """
    return (_murmur2(key) & 0x7FFFFFFF) % _checked_count(partition_count)


def consistent(key: bytes, partition_count: int) -> int:
    """Return the partition that the partitioners ``consistent`` and ``consistent_random`` give a key: CRC32.

    Arguments and errors as with `murmur2`.
    """
    return crc32(key) % _checked_count(partition_count)


def fnv1a(key: bytes, partition_count: int) -> int:
    """Return the partition that the partitioners ``fnv1a`` and ``fnv1a_random``, and sarama's, give a key.

    Arguments and errors as with `murmur2`.
    """
    return _fnv1a(key) % _checked_count(partition_count)


def version() -> str:
    """Return this package's version, for instance ``0.1.0``."""
    return str(sys.modules[__package__].__version__)


def libversion() -> tuple[str, int]:
    """Return the version of the native core, as a text and as a number with a byte for each part.

    confluent_kafka returns librdkafka's version here; this package's core has the package's own version. The number's
    first byte is the major, the second the minor, the third the patch version, the last one is zero.
    """
    text = version()
    numbers = [int(part) if part.isdigit() else 0 for part in [*text.split("+")[0].split("."), "0", "0", "0"][:3]]
    return text, numbers[0] << 24 | numbers[1] << 16 | numbers[2] << 8
