"""The cluster: its brokers, its features, and the controllers that vote on its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TypeAlias

from kafka_native.admin.acls import AclOperation, authorized_operations
from kafka_native.admin.base import (
    AdminBase,
    broker_id,
    error_or_none,
    flag,
    list_of,
    members_of,
    node_id,
    nodes_of,
)
from kafka_native.control.brokers.versions import software_version
from kafka_native.control.operations import AdminOperation, Operation, Portion, Steps, brokers
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataResponse,
)
from kafka_native.protocol.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_native.types import ClusterMetadata, Node, Uuid

METADATA_TOPIC = "__cluster_metadata"


class DescribeClusterResult:
    """The cluster.

    :param controller: The broker that gets requests for the controller; None if there is none now.
    :param nodes: The brokers.
    :param cluster_id: The cluster's id.
    :param authorized_operations: The operations that this client may do; None if not requested.
    """

    def __init__(
        self,
        controller: Node | None,
        nodes: list[Node],
        cluster_id: str | None = None,
        authorized_operations: list[str | int | AclOperation] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.controller = controller
        self.nodes = nodes
        self.authorized_operations = members_of(authorized_operations, AclOperation)


class UpgradeType(Enum):
    """The allowed direction of a feature's update (KIP-778)."""

    UPGRADE = 1
    """Only up."""
    SAFE_DOWNGRADE = 2
    """Down, if no metadata are lost."""
    UNSAFE_DOWNGRADE = 3
    """Down, even if metadata are lost."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature's new level, for `update_features()` (KIP-584).

    :param max_version_level: The level; 0 disables the feature, which is a downgrade.
    :param upgrade_type: The allowed direction.
    """

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError if the update is invalid."""
        level = self.max_version_level
        if isinstance(level, bool) or not isinstance(level, int):
            raise TypeError(f"max_version_level must be an int, not {type(level).__name__}")
        if not isinstance(self.upgrade_type, UpgradeType):
            raise TypeError(
                f"upgrade_type must be an UpgradeType, not {type(self.upgrade_type).__name__}"
            )
        if not 0 <= level < 1 << 15:
            raise ValueError(f"max_version_level must be 0 to 32767, not {level}")
        if not level and self.upgrade_type is UpgradeType.UPGRADE:
            raise ValueError(
                "max_version_level 0 ends the feature: upgrade_type must allow a downgrade"
            )


@dataclass(frozen=True, slots=True)
class FinalizedVersionRange:
    """The levels of a feature that the whole cluster uses."""

    min_version_level: int
    max_version_level: int


@dataclass(frozen=True, slots=True)
class SupportedVersionRange:
    """The levels of a feature that a broker supports."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """The features of the cluster, from `describe_features()` (KIP-584)."""

    finalized_features: dict[str, FinalizedVersionRange] = field(default_factory=dict)
    """The levels that the whole cluster uses, by name; features at level 0 are left out."""
    finalized_features_epoch: int | None = None
    """It rises with each update; None if the broker doesn't return it."""
    supported_features: dict[str, SupportedVersionRange] = field(default_factory=dict)
    """The levels that the replying broker supports, by name."""


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    """An address where a controller listens.

    :param listener: The listener's name.
    :param host: Its host.
    :param port: Its port.
    """

    listener: str
    host: str
    port: int

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError if the endpoint is invalid."""
        if not isinstance(self.listener, str) or not isinstance(self.host, str):
            raise TypeError("listener and host must be str")
        if isinstance(self.port, bool) or not isinstance(self.port, int):
            raise TypeError(f"port must be an int, not {type(self.port).__name__}")
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"port must be 0 to 65535, not {self.port}")


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A controller or broker that follows the cluster's metadata, and its progress (KIP-836)."""

    replica_id: int
    """Its ``node.id``."""
    replica_directory_id: Uuid | None
    """The id of its log directory (KIP-853); None if unknown."""
    log_end_offset: int | None
    """The end of its log; None if the leader doesn't know it."""
    last_fetch_timestamp: int | None
    """Its last fetch from the leader, in milliseconds since 1970; None if unknown.

    For the leader itself, it is the current time.
    """
    last_caught_up_timestamp: int | None
    """When it last had the whole log, in milliseconds since 1970; None if unknown."""


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A controller and its listeners."""

    node_id: int
    endpoints: tuple[RaftVoterEndpoint, ...]


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The voters on the cluster's metadata, from `describe_metadata_quorum()` (KIP-595)."""

    leader_id: int | None
    """The active controller; None: there is none."""
    leader_epoch: int
    high_watermark: int | None
    """The offset up to which most voters have the log; None if unknown."""
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    """Brokers, and controllers that don't vote."""
    nodes: dict[int, QuorumNode] = field(default_factory=dict)
    """The controllers, by id; empty with brokers before 3.9."""


# --- the cluster ---


def _describe_cluster(
    request: DescribeClusterRequest, operation: Operation
) -> Steps[DescribeClusterResult | KafkaError]:
    """Sends DescribeCluster (KIP-700) to any broker, or Metadata to one before 2.8."""
    kind: AdminOperation[None, None, DescribeClusterResponse, DescribeClusterResult] = (
        AdminOperation(
            destination=Operation.anywhere,
            request=lambda _: request,
            outcomes=lambda response, portion: {None: _described_cluster(response)},
            change=False,
        )
    )
    outcome = (yield from operation.outcomes(kind, {None: None}))[None]
    unknown = isinstance(outcome, KafkaError) and outcome.code() == KafkaError._UNSUPPORTED_FEATURE
    if unknown and not request.include_fenced_brokers:
        authorized = request.include_cluster_authorized_operations
        response = yield from operation.cluster(
            [], include_cluster_authorized_operations=authorized
        )
        return _cluster_of(response, nodes_of(response.brokers))
    return outcome


def _described_cluster(response: DescribeClusterResponse) -> DescribeClusterResult | KafkaError:
    if response.error_code:
        return KafkaError(response.error_code, response.error_message)
    nodes = {
        each.broker_id: Node(each.broker_id, each.host, each.port, each.rack)
        for each in response.brokers
    }
    for each in response.brokers:
        if each.is_fenced:
            nodes[each.broker_id].is_fenced = True
    return _cluster_of(response, nodes)


def _cluster_of(
    response: DescribeClusterResponse | MetadataResponse, nodes: dict[int, Node]
) -> DescribeClusterResult:
    allowed = authorized_operations(response.cluster_authorized_operations)
    return DescribeClusterResult(
        nodes.get(response.controller_id), list(nodes.values()), response.cluster_id, allowed
    )


# --- features ---


def _describe_features(
    broker: int, software_name: str, client_version: str
) -> AdminOperation[None, None, ApiVersionsResponse, FeatureMetadata]:
    """Sends ApiVersions to this broker; negative: to any broker."""
    request = ApiVersionsRequest(
        client_software_name=software_name,
        client_software_version=software_version(client_version),
    )
    return AdminOperation(
        destination=brokers(lambda _: None if broker < 0 else broker),
        request=lambda _: request,
        outcomes=lambda response, portion: {
            None: error_or_none(response.error_code) or _features_of(response)
        },
        change=False,
    )


def _features_of(response: ApiVersionsResponse) -> FeatureMetadata:
    return FeatureMetadata(
        {
            each.name: FinalizedVersionRange(each.min_version_level, each.max_version_level)
            for each in response.finalized_features
        },
        response.finalized_features_epoch if response.finalized_features_epoch >= 0 else None,
        {
            each.name: SupportedVersionRange(each.min_version, each.max_version)
            for each in response.supported_features
        },
    )


def _update_features(
    validate_only: bool, timeout_ms: int
) -> AdminOperation[str, tuple[str, FeatureUpdate], UpdateFeaturesResponse, None]:
    def request(updates: list[tuple[str, FeatureUpdate]]) -> UpdateFeaturesRequest:
        return UpdateFeaturesRequest(
            feature_updates=[
                UpdateFeaturesRequest.FeatureUpdate(
                    feature=name,
                    max_version_level=each.max_version_level,
                    upgrade_type=each.upgrade_type.value,
                )
                for name, each in updates
            ],
            validate_only=validate_only,
            timeout_ms=timeout_ms,
        )

    return AdminOperation(
        destination=Operation.controller, request=request, outcomes=_updated, change=True
    )


def _updated(
    response: UpdateFeaturesResponse, portion: Portion[str, tuple[str, FeatureUpdate]]
) -> dict[str, KafkaError | None]:
    """Reads the results. A newer controller applies all changes or none, without single results."""
    whole = error_or_none(response.error_code, response.error_message)
    if whole is not None or not response.results:
        return dict.fromkeys(portion.items, whole)
    return {
        each.feature: error_or_none(each.error_code, each.error_message)
        for each in response.results
    }


# --- the quorum ---


def _quorum_request() -> DescribeQuorumRequest:
    """The request for the only partition of the cluster's metadata."""
    kind = DescribeQuorumRequest.Topic
    return DescribeQuorumRequest(
        topics=[kind(topic_name=METADATA_TOPIC, partitions=[kind.Partition(partition_index=0)])]
    )


DESCRIBE_QUORUM: AdminOperation[None, None, DescribeQuorumResponse, QuorumInfo] = AdminOperation(
    destination=Operation.anywhere,  # the broker asks the controllers
    request=lambda _: _quorum_request(),
    outcomes=lambda response, portion: {
        None: error_or_none(response.error_code, response.error_message) or _quorum_of(response)
    },
    change=False,
)


def _quorum_of(response: DescribeQuorumResponse) -> QuorumInfo | KafkaError:
    partitions = [
        each
        for topic in response.topics
        for each in topic.partitions
        if topic.topic_name == METADATA_TOPIC and not each.partition_index
    ]
    if len(partitions) != 1:
        text = f"the broker's answer has {len(partitions)} partitions of {METADATA_TOPIC}"
        return KafkaError(KafkaError._BAD_MSG, text)
    (found,) = partitions
    if found.error_code:
        return KafkaError(found.error_code, found.error_message)
    return QuorumInfo(
        _known(found.leader_id),
        found.leader_epoch,
        _known(found.high_watermark),
        tuple(_replica_of(each) for each in found.current_voters),
        tuple(_replica_of(each) for each in found.observers),
        {
            node.node_id: QuorumNode(
                node.node_id,
                tuple(
                    RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners
                ),
            )
            for node in response.nodes
        },
    )


def _replica_of(replica: DescribeQuorumResponse.Topic.Partition.Replica) -> ReplicaState:
    directory = replica.replica_directory_id
    return ReplicaState(
        replica.replica_id,
        None if directory == ZERO_UUID else Uuid.from_bytes(directory),
        _known(replica.log_end_offset),
        _known(replica.last_fetch_timestamp),
        _known(replica.last_caught_up_timestamp),
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None


# --- voters and registrations: any broker forwards the request to the active controller ---

ControllerRequest: TypeAlias = (
    "AddRaftVoterRequest | RemoveRaftVoterRequest | UnregisterBrokerRequest "
    "| UnregisterControllerRequest"
)
ControllerResponse: TypeAlias = (
    "AddRaftVoterResponse | RemoveRaftVoterResponse | UnregisterBrokerResponse "
    "| UnregisterControllerResponse"
)

CHANGE_CONTROLLERS: AdminOperation[None, ControllerRequest, ControllerResponse, None] = (
    AdminOperation(
        destination=Operation.anywhere,
        request=lambda requests: requests[0],
        outcomes=lambda response, portion: {
            None: error_or_none(response.error_code, response.error_message)
        },
        change=True,
    )
)


class QuorumAdmin(AdminBase):
    """Calls about the cluster, its features, its controllers and its brokers."""

    def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs; see `Producer.brokers_add`."""
        self._check_open()
        return self._client.brokers_add(brokers)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Asks a broker for the cluster's brokers, topics and partitions. Waits for the result.

        :param topic: Only this topic; None for all.
        :param timeout: Seconds to wait; negative waits without limit.
        :raises KafkaException: No broker replied in time.
        """
        self._check_open()
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """Asks a broker for the cluster's id (KIP-78); None: it is older than 0.10.1.

        Waits for the result.

        :param timeout: Seconds to wait; negative waits without limit.
        :raises KafkaException: No broker replied in time.
        """
        self._check_open()
        return self._client.cluster_id(timeout)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id for client metrics, although this client pushes none.

        See `Producer.client_instance_id`.
        """
        self._check_open()
        return self._client.client_instance_id(timeout)

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        request_timeout: float = -1,
    ) -> Future[DescribeClusterResult]:
        """Describes the cluster: its id, its brokers, and the broker that gets changes.

        :param include_authorized_operations: Include the operations that this client may do
            (KIP-430).
        :param include_fenced_brokers: Include brokers that are registered, but not active
            (KIP-1073), with ``Node.is_fenced``. Clusters before 4.0 don't support it
            (_UNSUPPORTED_FEATURE or _INVALID_ARG).
        :return: One future.
        """
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=flag(
                "include_authorized_operations", include_authorized_operations
            ),
            include_fenced_brokers=flag("include_fenced_brokers", include_fenced_brokers),
        )
        return self._begin_one(
            request, partial(_describe_cluster, request), self._request_timeout(request_timeout)
        )

    def describe_features(
        self, *, broker: int = -1, request_timeout: float = -1
    ) -> Future[FeatureMetadata]:
        """Describes the features that the cluster uses, and those that a broker supports (KIP-584).

        :param broker: The broker to ask; -1: any.
        :return: One future.
        """
        client = self._client
        kind = _describe_features(broker_id(broker), client.software_name, client.software_version)
        return self._start_one(kind, None, self._request_timeout(request_timeout))

    def update_features(
        self,
        feature_updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Changes the levels of features in the whole cluster (KIP-584).

        :param feature_updates: The updates by feature name. Apache Kafka 4.0 and newer applies all
            of them or none.
        :return: One future per feature, by name: None when it is done; KafkaException, for instance
            INVALID_UPDATE_VERSION.
        """
        if not isinstance(feature_updates, Mapping):
            raise TypeError(
                f"expected a dict of FeatureUpdate by name, not {type(feature_updates).__name__}"
            )
        if not feature_updates:
            raise ValueError("Expected non-empty dict of FeatureUpdate")
        for name, each in feature_updates.items():
            if not isinstance(name, str) or not isinstance(each, FeatureUpdate):
                raise TypeError(
                    f"expected a dict of FeatureUpdate by name, not {name!r}: {type(each).__name__}"
                )
            if not name.strip():
                raise ValueError("a feature's name cannot be empty")
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        kind = _update_features(flag("validate_only", validate_only), timeout_ms)
        return self._start(
            kind, [(name, (name, each)) for name, each in feature_updates.items()], timeout_s
        )

    def describe_metadata_quorum(self, *, request_timeout: float = -1) -> Future[QuorumInfo]:
        """Describes the voters and observers of the cluster's metadata (KIP-595).

        :return: One future.
        """
        return self._start_one(DESCRIBE_QUORUM, None, self._request_timeout(request_timeout))

    def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: Uuid,
        endpoints: list[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[None]:
        """Makes a controller that follows the metadata a voter (KIP-853).

        :param voter_id: Its ``node.id``.
        :param voter_directory_id: The id of its directory, from its ``meta.properties`` or
            `describe_metadata_quorum()`.
        :param endpoints: Its listeners.
        :param cluster_id: The intended cluster; another one rejects the request
            (INCONSISTENT_CLUSTER_ID). None: any.
        :return: One future: None when it votes; KafkaException, for instance DUPLICATE_VOTER.
        """
        number, directory = node_id(voter_id), _checked_directory(voter_directory_id)
        listeners = list_of(endpoints, RaftVoterEndpoint)
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        request = AddRaftVoterRequest(
            cluster_id=_checked_cluster(cluster_id),
            timeout_ms=timeout_ms,
            voter_id=number,
            voter_directory_id=directory,
            listeners=[
                AddRaftVoterRequest.Listener(name=each.listener, host=each.host, port=each.port)
                for each in listeners
            ],
        )
        return self._start_one(CHANGE_CONTROLLERS, request, timeout_s)

    def remove_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: Uuid,
        *,
        cluster_id: str | None = None,
        request_timeout: float = -1,
    ) -> Future[None]:
        """Removes a controller from the voters (KIP-853).

        :param voter_id: Its ``node.id``.
        :param voter_directory_id: The id of its directory.
        :param cluster_id: The intended cluster; another one rejects the request
            (INCONSISTENT_CLUSTER_ID). None: any.
        :return: One future: None when it doesn't vote any more; KafkaException, for instance
            VOTER_NOT_FOUND.
        """
        request = RemoveRaftVoterRequest(
            cluster_id=_checked_cluster(cluster_id),
            voter_id=node_id(voter_id),
            voter_directory_id=_checked_directory(voter_directory_id),
        )
        return self._start_one(CHANGE_CONTROLLERS, request, self._request_timeout(request_timeout))

    def unregister_broker(self, broker: int, *, request_timeout: float = -1) -> Future[None]:
        """Removes a broker that won't return from the cluster (KIP-500).

        :param broker: Its id. It has to be down. A running broker registers again only after a
            restart.
        :return: One future: None when it is removed; KafkaException, for instance
            BROKER_ID_NOT_REGISTERED.
        """
        request = UnregisterBrokerRequest(broker_id=node_id(broker))
        return self._start_one(CHANGE_CONTROLLERS, request, self._request_timeout(request_timeout))

    def unregister_controller(
        self, controller: int, *, request_timeout: float = -1
    ) -> Future[None]:
        """Removes a controller that won't return from the cluster (KIP-1312).

        Its registration could otherwise keep the cluster from a higher ``metadata.version``. It
        needs Apache Kafka 4.4.

        :param controller: Its ``node.id``. Stop it first, and remove it from the voters with
            `remove_raft_voter()`. A running controller registers again.
        :return: One future: None when it is removed; KafkaException, for instance
            CONTROLLER_ID_NOT_REGISTERED.
        """
        request = UnregisterControllerRequest(controller_id=node_id(controller))
        return self._start_one(CHANGE_CONTROLLERS, request, self._request_timeout(request_timeout))


def _checked_directory(given: object) -> bytes:
    if not isinstance(given, Uuid):
        raise TypeError(f"voter_directory_id must be a Uuid, not {type(given).__name__}")
    return bytes(given)


def _checked_cluster(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"cluster_id must be a str or None, not {type(given).__name__}")
    return given
