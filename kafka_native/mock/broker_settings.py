"""The static settings of the brokers, as the cluster's arguments and state give them.

DescribeConfigs returns them. They change nothing by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native.mock.settings import BROKER_SETTINGS
from kafka_native.mock.topics import INTERNAL_REPLICAS_MAX

if TYPE_CHECKING:
    from kafka_native.mock.server import Broker
    from kafka_native.mock.state import ClusterState

_GROUP_MINIMA = {
    f"group.{protocol}.min.{name}": "1"
    for protocol in ("consumer", "share", "streams")
    for name in ("session.timeout.ms", "heartbeat.interval.ms")
} | {"group.share.min.record.lock.duration.ms": "1000"}
"""Groups of tests may have shorter times than Kafka's defaults allow."""


def directories(broker: int) -> tuple[str, str]:
    """Return the two log directories of a broker. Partitions start in the first one."""
    return f"/mock/broker-{broker}/data-0", f"/mock/broker-{broker}/data-1"


def static_settings(cluster: ClusterState, broker: Broker) -> dict[str, str | None]:
    """Return the static settings of a broker. The caller holds the cluster's lock."""
    host, port = broker.endpoint
    protocol = cluster.settings.security_protocol.upper()
    voters = [
        f"{each.id}@{each.address}"
        for each in cluster.brokers.values()
        if each.id in cluster.quorum.voters
    ]
    return {
        "process.roles": "broker,controller",
        "node.id": str(broker.id),
        "broker.id": str(broker.id),
        "broker.rack": broker.rack,
        "listeners": f"{protocol}://{broker.address}",
        "advertised.listeners": f"{protocol}://{host}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
        "log.dirs": ",".join(directories(broker.id)),
        **cluster.settings.static,
        **_cluster_settings(cluster),
    }


def _cluster_settings(cluster: ClusterState) -> dict[str, str | None]:
    settings, groups, share = cluster.settings, cluster.groups.settings, cluster.share.settings
    internal_replicas = str(min(len(cluster.brokers), INTERNAL_REPLICAS_MAX))
    group_size_max = groups.max_size
    size_max = (
        BROKER_SETTINGS["group.max.size"].default if group_size_max is None else str(group_size_max)
    )
    return {
        "auto.create.topics.enable": str(settings.auto_create_topics).lower(),
        "num.partitions": str(settings.default_partitions),
        "default.replication.factor": str(settings.replication_factor),
        "message.max.bytes": str(settings.message_max_bytes),
        "offsets.topic.replication.factor": internal_replicas,
        "transaction.state.log.replication.factor": internal_replicas,
        "share.coordinator.state.topic.replication.factor": internal_replicas,
        "group.initial.rebalance.delay.ms": _ms(groups.rebalance_delay),
        "group.max.size": size_max,
        "group.consumer.max.size": size_max,
        "group.consumer.heartbeat.interval.ms": _ms(groups.heartbeat_seconds),
        "group.consumer.session.timeout.ms": _ms(groups.session_seconds),
        "group.consumer.migration.policy": groups.migration,
        "group.share.heartbeat.interval.ms": _ms(share.heartbeat_seconds),
        "group.share.session.timeout.ms": _ms(share.session_seconds),
        "group.share.record.lock.duration.ms": _ms(share.lock_seconds),
        "group.share.delivery.count.limit": str(share.delivery_limit),
        "group.share.partition.max.record.locks": str(share.in_flight_max),
        "group.share.max.share.sessions": str(share.session_limit),
        "share.auto.offset.reset": share.auto_offset_reset,
        **_GROUP_MINIMA,
    }


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
