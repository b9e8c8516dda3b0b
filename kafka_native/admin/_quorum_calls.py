"""Calls about what controllers decide: features, voters, brokers that are registered."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from kafka_native.admin import _quorum_operations as quorum_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import broker_id, flag, list_of, node_id
from kafka_native.admin._quorum import FeatureMetadata, FeatureUpdate, QuorumInfo, RaftVoterEndpoint
from kafka_native.types import Uuid, version


class QuorumCalls(Calls):
    """Calls about what controllers decide: features, voters, brokers that are registered."""

    def describe_features(self, *, broker: int = -1, request_timeout: float = -1) -> Future[FeatureMetadata]:
        """Tells the features that the cluster runs, and those that a broker could run (KIP-584).

        :param broker: The broker to ask; -1: any.
        :return: One future.
        """
        asked = broker_id(broker)
        make = partial(quorum_operations.ask_features, version())
        timeout_s = self._request_timeout(request_timeout)
        items = [(None, None if asked < 0 else asked)]
        return self._begin(items, make, quorum_operations.describe_features, timeout_s)[None]

    def update_features(
        self,
        feature_updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Lets the whole cluster run features at other levels (KIP-584).

        :param feature_updates: The updates by the features' names. Apache Kafka 4.0 and newer make all of them or none.
        :return: A future a feature, by name: None when it is done; KafkaException, for instance INVALID_UPDATE_VERSION.
        """
        if not isinstance(feature_updates, Mapping):
            raise TypeError(f"expected a dict of FeatureUpdate by name, not {type(feature_updates).__name__}")
        if not feature_updates:
            raise ValueError("Expected non-empty dict of FeatureUpdate")
        for name, each in feature_updates.items():
            if not isinstance(name, str) or not isinstance(each, FeatureUpdate):
                raise TypeError(f"expected a dict of FeatureUpdate by name, not {name!r}: {type(each).__name__}")
            if not name.strip():
                raise ValueError("a feature's name cannot be empty")
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(quorum_operations.change_features, flag("validate_only", validate_only), timeout_ms)
        items = [(name, (name, each)) for name, each in feature_updates.items()]
        return self._begin(items, make, quorum_operations.update_features, timeout_s)

    def describe_metadata_quorum(self, *, request_timeout: float = -1) -> Future[QuorumInfo]:
        """Tells who votes on the cluster's metadata, who follows, and how far each is (KIP-595).

        :return: One future.
        """
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, None)], quorum_operations.ask_quorum, quorum_operations.describe_quorum, timeout_s)[
            None
        ]

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
        """Lets a controller that follows vote (KIP-853).

        :param voter_id: Its ``node.id``.
        :param voter_directory_id: The id of its directory, from its ``meta.properties`` or
            `describe_metadata_quorum()`.
        :param endpoints: Where it listens.
        :param cluster_id: The cluster that is meant; another one refuses it (INCONSISTENT_CLUSTER_ID). None: any.
        :return: One future: None when it votes; KafkaException, for instance DUPLICATE_VOTER.
        """
        voter = node_id(voter_id), _directory(voter_directory_id)
        listeners = list_of(endpoints, RaftVoterEndpoint)
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(quorum_operations.add_voter, _cluster(cluster_id), voter, listeners, timeout_ms)
        return self._begin([(None, None)], make, quorum_operations.change_one, timeout_s)[None]

    def remove_raft_voter(
        self, voter_id: int, voter_directory_id: Uuid, *, cluster_id: str | None = None, request_timeout: float = -1
    ) -> Future[None]:
        """Lets a controller vote no more (KIP-853).

        :param voter_id: Its ``node.id``.
        :param voter_directory_id: The id of its directory.
        :param cluster_id: The cluster that is meant; another one refuses it (INCONSISTENT_CLUSTER_ID). None: any.
        :return: One future: None when it doesn't vote; KafkaException, for instance VOTER_NOT_FOUND.
        """
        make = partial(
            quorum_operations.remove_voter, _cluster(cluster_id), (node_id(voter_id), _directory(voter_directory_id))
        )
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, None)], make, quorum_operations.change_one, timeout_s)[None]

    def unregister_broker(self, broker: int, *, request_timeout: float = -1) -> Future[None]:
        """Lets the cluster forget a broker that doesn't come back (KIP-500).

        :param broker: Its id. It has to be down; one that runs registers again only when it is started anew.
        :return: One future: None when it is forgotten; KafkaException, for instance BROKER_ID_NOT_REGISTERED.
        """
        make = partial(quorum_operations.unregister, node_id(broker))
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, None)], make, quorum_operations.change_one, timeout_s)[None]


def _directory(given: Any) -> Uuid:
    if not isinstance(given, Uuid):
        raise TypeError(f"voter_directory_id must be a Uuid, not {type(given).__name__}")
    return given


def _cluster(given: Any) -> str | None:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"cluster_id must be a str or None, not {type(given).__name__}")
    return given
