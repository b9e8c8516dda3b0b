"""Topics: create, delete and describe them, at once or page by page."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial, total_ordering
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, overload

from kafka_native.admin.acls import AclOperation, allowed_operations, authorized_operations
from kafka_native.admin.base import (
    INT32_MAX,
    AdminBase,
    error_or_none,
    flag,
    list_of,
    members_of,
    nodes_of,
    topic_name,
)
from kafka_native.admin.configs import ConfigEntry, ConfigSource
from kafka_native.cleaning import clean, escaped
from kafka_native.control.operations import UNANSWERED, AdminOperation, Operation, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.protocol.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_native.types import Node, TopicCollection, TopicPartitionInfo, Uuid, int32
from kafka_native.unset_fields import unset_fields

if TYPE_CHECKING:
    from typing_extensions import Self

ResultT = TypeVar("ResultT")


@unset_fields(
    _topic=None,
    _num_partitions=0,
    _replication_factor=0,
    replica_assignment=None,
    config=None,
)
@total_ordering
class NewTopic:
    """A topic for `create_topics()`. Equality uses topic and number of partitions.

    :param topic: Its name.
    :param num_partitions: The number of partitions; -1: the broker's ``num.partitions`` (KIP-464).
    :param replication_factor: The number of replicas of each partition; -1: the broker's default.
    :param replica_assignment: The broker ids of each partition, instead of ``replication_factor``.
    :param config: Its settings.
    :raises TypeError: An argument has another type.
    """

    __slots__ = ("_num_partitions", "_replication_factor", "_topic", "config", "replica_assignment")

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise TypeError("config must be a dict of strings")
        self._topic = topic_name(topic)
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignment = replica_assignment
        self.config = config

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._topic

    @property
    def num_partitions(self) -> int:
        """The number of partitions; -1: the broker's ``num.partitions``."""
        return self._num_partitions

    @num_partitions.setter
    def num_partitions(self, value: int) -> None:
        self._num_partitions = int32(value)

    @property
    def replication_factor(self) -> int:
        """The number of replicas of each partition; -1: the broker's default."""
        return self._replication_factor

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        self._replication_factor = int32(value)

    def __str__(self) -> str:
        count = "" if self.num_partitions == -1 else f",num_partitions={self.num_partitions}"
        return f"NewTopic(topic={escaped(self.topic)}{count})"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(self.topic)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NewTopic):
            return NotImplemented
        return (self.topic, self.num_partitions) == (other.topic, other.num_partitions)

    def __lt__(self, other: NewTopic) -> bool:
        if not isinstance(other, NewTopic):
            return NotImplemented
        return (self.topic, self.num_partitions) < (other.topic, other.num_partitions)


@dataclass(frozen=True, slots=True)
class TopicMetadataAndConfig:
    """A created topic, from `create_topics()` with ``include_metadata`` (KIP-525)."""

    error: KafkaError | None
    """Why the other fields are empty.

    TOPIC_AUTHORIZATION_FAILED, or _UNSUPPORTED_FEATURE with a broker before 2.4.
    """
    topic_id: Uuid | None = None
    """Its id; None with a broker before 2.8, and if no topic was created."""
    num_partitions: int | None = None
    """Its number of partitions."""
    replication_factor: int | None = None
    """The number of replicas of each partition."""
    config: dict[str, ConfigEntry] = field(default_factory=dict)
    """Its settings, by name."""


class TopicDescription:
    """A topic with its partitions.

    :param name: Its name.
    :param topic_id: Its id.
    :param is_internal: It is an internal topic of Kafka.
    :param partitions: Its partitions.
    :param authorized_operations: The operations that this client may do; None if not requested.
    """

    def __init__(
        self,
        name: str,
        topic_id: Uuid,
        is_internal: bool,
        partitions: list[TopicPartitionInfo],
        authorized_operations: list[str | int | AclOperation] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.authorized_operations = members_of(authorized_operations, AclOperation)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition, from `describe_topic_partitions()`. Brokers are given by their ids."""

    id: int
    """Its number."""
    error: KafkaError | None
    """For instance LEADER_NOT_AVAILABLE."""
    leader: int | None
    """Its leader; None: there is none."""
    leader_epoch: int | None
    """The leader's epoch; None if the broker doesn't return it."""
    replicas: tuple[int, ...]
    """The brokers that have it."""
    isr: tuple[int, ...]
    """The brokers that have all of it (in sync)."""
    eligible_leader_replicas: tuple[int, ...] | None
    """Brokers that may also be elected, although they are out of sync (KIP-966).

    None if the broker doesn't return them.
    """
    last_known_elr: tuple[int, ...] | None
    """The last eligible brokers, if none is left (KIP-966); None: the broker doesn't return them.
    """
    offline_replicas: tuple[int, ...]
    """The brokers whose copies aren't available now."""


@dataclass(frozen=True, slots=True)
class TopicPartitionsDescription:
    """A topic with those of its partitions that are on one page."""

    name: str
    error: KafkaError | None
    """For instance UNKNOWN_TOPIC_OR_PART: then there are no partitions."""
    topic_id: Uuid
    is_internal: bool
    """Whether it is an internal topic of Kafka."""
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None
    """The operations that this client may do; None if the broker doesn't return them."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartitionsCursor:
    """The start of a page. Cursors are ordered as pages are."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TopicPartitionsPage:
    """A page of topics, ordered by name."""

    topics: tuple[TopicPartitionsDescription, ...]
    next_cursor: TopicPartitionsCursor | None
    """The start of the next page; None: this is the last one."""


class TopicPartitionsPages:
    """The pages of `describe_topic_partitions()`, for a loop with ``for`` or ``async for``.

    Each page is requested when the loop needs it, so only one page is in memory. If a page fails
    (KafkaException), the loop ends. The next call of ``next()`` requests that page again.
    """

    def __init__(
        self,
        ask: Callable[[TopicPartitionsCursor | None], Future[TopicPartitionsPage]],
        names: Iterable[str],
    ) -> None:
        """AdminClient creates it. ``names``: the topics that were asked for; none: all."""
        self._ask = ask
        self._missing = set(names)
        self._cursor: TopicPartitionsCursor | None = None
        self._over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TopicPartitionsPage:
        if self._over:
            raise StopIteration
        return self._turn(self._ask(self._cursor).result())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TopicPartitionsPage:
        if self._over:
            raise StopAsyncIteration
        import asyncio  # Here, because it takes as long as the rest of this package

        return self._turn(await asyncio.wrap_future(self._ask(self._cursor)))

    def _turn(self, page: TopicPartitionsPage) -> TopicPartitionsPage:
        self._cursor = page.next_cursor
        self._over = page.next_cursor is None
        self._missing -= {each.name for each in page.topics}
        if not self._over or not self._missing:
            return page
        unanswered = [
            TopicPartitionsDescription(name, UNANSWERED, Uuid(0, 0), False, (), None)
            for name in self._missing
        ]
        topics = sorted([*page.topics, *unanswered], key=lambda each: each.name)
        return TopicPartitionsPage(tuple(topics), None)


# --- creating and deleting ---


def _wire_topic(topic: NewTopic) -> CreateTopicsRequest.Topic | KafkaError:
    """A topic in the protocol's form, or the error why it is invalid."""
    given: Mapping[str, object] = topic.config or {}
    for name, value in given.items():
        if not isinstance(value, str | None):
            text = f"config of topic {topic.topic}: the value of {name!r} must be a str, "
            return KafkaError(KafkaError._INVALID_ARG, f"{text}not {type(value).__name__}")
    new = CreateTopicsRequest.Topic(
        name=topic.topic,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreateTopicsRequest.Topic.Config(name=k, value=v)
            for k, v in (topic.config or {}).items()
        ],
    )
    if topic.replica_assignment is not None:
        # With an assignment, the broker accepts no other numbers.
        new.num_partitions = new.replication_factor = -1
        new.assignments = [
            CreateTopicsRequest.Topic.Assignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in enumerate(topic.replica_assignment)
        ]
    return new


def _create_topics(
    validate_only: bool, timeout_ms: int, result_of: Callable[[CreateTopicsResponse.Topic], ResultT]
) -> AdminOperation[str, CreateTopicsRequest.Topic, CreateTopicsResponse, ResultT]:
    return AdminOperation(
        destination=Operation.controller,
        request=lambda topics: CreateTopicsRequest(
            topics=topics, timeout_ms=timeout_ms, validate_only=validate_only
        ),
        outcomes=lambda response, portion: {
            each.name: error_or_none(each.error_code, each.error_message) or result_of(each)
            for each in response.topics
        },
        change=True,
    )


def _made(topic: CreateTopicsResponse.Topic) -> TopicMetadataAndConfig:
    topic_id = None if topic.topic_id == ZERO_UUID else Uuid.from_bytes(topic.topic_id)
    if topic.topic_config_error_code:
        return TopicMetadataAndConfig(KafkaError(topic.topic_config_error_code), topic_id)
    if topic.num_partitions < 0:  # before version 5
        text = "the broker doesn't return the created topic"
        return TopicMetadataAndConfig(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text), topic_id)
    config = {
        each.name: ConfigEntry(
            each.name,
            each.value,
            max(each.config_source, ConfigSource.UNKNOWN_CONFIG.value),
            is_read_only=each.read_only,
            is_default=each.config_source == ConfigSource.DEFAULT_CONFIG.value,
            is_sensitive=each.is_sensitive,
        )
        for each in topic.configs or ()
    }
    return TopicMetadataAndConfig(
        None, topic_id, topic.num_partitions, topic.replication_factor, config
    )


def _delete_topics(timeout_ms: int) -> AdminOperation[str, str, DeleteTopicsResponse, None]:
    return AdminOperation(
        destination=Operation.controller,
        request=lambda names: DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.Topic(name=name) for name in names],
            topic_names=names,
            timeout_ms=timeout_ms,
        ),
        outcomes=lambda response, portion: {
            each.name: error_or_none(each.error_code, each.error_message)
            for each in response.responses
            if each.name is not None
        },
        change=True,
    )


# --- describing ---


def _describe_topics(
    authorized: bool,
    names: dict[str, str],
    settle: Settle[str, TopicDescription],
    operation: Operation,
) -> Steps[None]:
    """Sends Metadata to any broker."""
    response = yield from operation.cluster(names, include_topic_authorized_operations=authorized)
    nodes = nodes_of(response.brokers)
    for topic in response.topics:
        if topic.name in names:
            settle(topic.name, error_or_none(topic.error_code) or _described(topic, nodes))


def _described(topic: MetadataResponse.Topic, nodes: dict[int, Node]) -> TopicDescription:
    def node(number: int) -> Node:
        return nodes.get(number) or Node(number, "", -1)

    partitions = [
        TopicPartitionInfo(
            each.partition_index,
            node(each.leader_id) if each.leader_id >= 0 else None,
            [node(number) for number in each.replica_nodes],
            [node(number) for number in each.isr_nodes],
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    operations = authorized_operations(topic.topic_authorized_operations)
    return TopicDescription(
        topic.name or "", Uuid.from_bytes(topic.topic_id), topic.is_internal, partitions, operations
    )


# --- describing page by page (KIP-966) ---

WireTopic: TypeAlias = "DescribeTopicPartitionsResponse.Topic | MetadataResponse.Topic"
WirePartition: TypeAlias = (
    "DescribeTopicPartitionsResponse.Topic.Partition | MetadataResponse.Topic.Partition"
)


def _page_request(
    limit: int, names: list[str], cursor: TopicPartitionsCursor | None
) -> DescribeTopicPartitionsRequest:
    """The request for one page; no names: all topics."""
    kind = DescribeTopicPartitionsRequest
    begin = (
        None
        if cursor is None
        else kind.Cursor(topic_name=cursor.topic, partition_index=cursor.partition)
    )
    topics = [kind.Topic(name=name) for name in names]
    return kind(topics=topics, response_partition_limit=limit, cursor=begin)


def _describe_page(
    request: DescribeTopicPartitionsRequest,
    names: list[str],
    cursor: TopicPartitionsCursor | None,
    operation: Operation,
) -> Steps[TopicPartitionsPage | KafkaError]:
    """Requests a page from any broker.

    Brokers before 3.8 return everything at once, with Metadata.
    """
    kind: AdminOperation[None, None, DescribeTopicPartitionsResponse, TopicPartitionsPage] = (
        AdminOperation(
            destination=Operation.anywhere,
            request=lambda _: request,
            outcomes=lambda response, portion: {None: _page_of(response, cursor)},
            change=False,
        )
    )
    outcome = (yield from operation.outcomes(kind, {None: None}))[None]
    if isinstance(outcome, KafkaError) and outcome.code() == KafkaError._UNSUPPORTED_FEATURE:
        return (yield from _all_at_once(names, cursor, operation))
    return outcome


def _all_at_once(
    names: list[str], cursor: TopicPartitionsCursor | None, operation: Operation
) -> Steps[TopicPartitionsPage]:
    response = yield from operation.cluster(
        names or None, include_topic_authorized_operations=False
    )
    topics = sorted((_page_topic(each) for each in response.topics), key=lambda each: each.name)
    if cursor is not None:
        topics = [each for each in topics if each.name >= cursor.topic]
    return TopicPartitionsPage(tuple(topics), None)


def _page_of(
    response: DescribeTopicPartitionsResponse, cursor: TopicPartitionsCursor | None
) -> TopicPartitionsPage | KafkaError:
    following = response.next_cursor
    beyond = (
        None
        if following is None
        else TopicPartitionsCursor(following.topic_name, following.partition_index)
    )
    # otherwise the pages would never end
    if beyond is not None and cursor is not None and beyond <= cursor:
        return KafkaError(
            KafkaError._BAD_MSG,
            clean(f"after the page at {cursor} the broker returned the cursor {beyond}", 600),
        )
    return TopicPartitionsPage(tuple(_page_topic(each) for each in response.topics), beyond)


def _page_topic(topic: WireTopic) -> TopicPartitionsDescription:
    partitions: list[WirePartition] = [*topic.partitions]
    return TopicPartitionsDescription(
        topic.name or "",
        error_or_none(topic.error_code),
        Uuid.from_bytes(topic.topic_id),
        topic.is_internal,
        tuple(
            _page_partition(each)
            for each in sorted(partitions, key=lambda each: each.partition_index)
        ),
        allowed_operations(topic.topic_authorized_operations),
    )


def _page_partition(partition: WirePartition) -> PartitionDescription:
    eligible, last_known = (
        None if (found := getattr(partition, name, None)) is None else tuple(found)
        for name in ("eligible_leader_replicas", "last_known_elr")
    )
    return PartitionDescription(
        partition.partition_index,
        error_or_none(partition.error_code),
        partition.leader_id if partition.leader_id >= 0 else None,
        partition.leader_epoch if partition.leader_epoch >= 0 else None,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        eligible,
        last_known,
        tuple(partition.offline_replicas),
    )


class TopicsAdmin(AdminBase):
    """The admin calls about topics."""

    @overload
    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: Literal[False] = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]: ...

    @overload
    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: Literal[True],
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[TopicMetadataAndConfig]]: ...

    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]] | dict[str, Future[TopicMetadataAndConfig]]:
        """Creates topics.

        :param new_topics: The topics.
        :param include_metadata: Return the created topics, or with ``validate_only`` the topics
            that would be created (KIP-525).
        :return: One future per topic, by name: None when it is created, or its
            `TopicMetadataAndConfig`; KafkaException, for instance TOPIC_ALREADY_EXISTS.
        """
        topics = [(each.topic, _wire_topic(each)) for each in list_of(new_topics, NewTopic)]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        validate = bool(validate_only)
        if flag("include_metadata", include_metadata):
            return self._start(_create_topics(validate, timeout_ms, _made), topics, timeout_s)
        return self._start(
            _create_topics(validate, timeout_ms, lambda topic: None), topics, timeout_s
        )

    def delete_topics(
        self, topics: list[str], *, request_timeout: float = -1, operation_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Deletes topics with all their records.

        :param topics: Their names.
        :return: One future per topic, by name: None when it is deleted; KafkaException, for
            instance UNKNOWN_TOPIC_OR_PART.
        """
        names = [(each, each) for each in list_of(topics, str)]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        return self._start(_delete_topics(timeout_ms), names, timeout_s)

    def describe_topics(
        self,
        topics: TopicCollection,
        *,
        include_authorized_operations: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[TopicDescription]]:
        """Describes topics.

        :param topics: Their names.
        :param include_authorized_operations: Include the operations that this client may do
            (KIP-430).
        :return: One future per topic, by name.
        """
        if not isinstance(topics, TopicCollection):
            raise TypeError("Expected input to be instance of TopicCollection")
        names = [(each, each) for each in list_of(topics.topic_names, str, length_min=0)]
        authorized = flag("include_authorized_operations", include_authorized_operations)
        return self._begin(
            names,
            lambda some: MetadataRequest(
                topics=[MetadataRequest.Topic(name=name) for name in some]
            ),
            partial(_describe_topics, authorized),
            self._request_timeout(request_timeout),
        )

    def describe_topic_partitions(
        self,
        topics: TopicCollection | None = None,
        *,
        partition_limit: int = 2000,
        request_timeout: float = -1,
    ) -> TopicPartitionsPages:
        """Describes topics page by page, with their eligible leader replicas (KIP-966).

            for page in admin.describe_topic_partitions():
                for topic in page.topics:
                    print(topic.name, [each.leader for each in topic.partitions])

        A topic with many partitions is on several pages. A broker before 3.8 returns everything on
        one page, regardless of ``partition_limit``, and no eligible replicas.

        :param topics: Their names; None for all.
        :param partition_limit: The maximum number of partitions on a page, 1 or more. The broker's
            own limit is ``max.request.partition.size.limit``.
        :param request_timeout: The timeout of each page.
        :return: The pages, an iterator that waits for each.
        """
        if topics is not None and not isinstance(topics, TopicCollection):
            raise TypeError("Expected input to be instance of TopicCollection")
        names = [] if topics is None else sorted(set(list_of(topics.topic_names, str)))
        limit = operator.index(partition_limit)
        if not 1 <= limit <= INT32_MAX:
            raise ValueError(f"partition_limit must be 1 or more, not {limit}")
        timeout_s = self._request_timeout(request_timeout)

        def ask(cursor: TopicPartitionsCursor | None) -> Future[TopicPartitionsPage]:
            request = _page_request(limit, names, cursor)
            return self._begin_one(
                request, partial(_describe_page, request, names, cursor), timeout_s
            )

        return TopicPartitionsPages(ask, names)
