"""A Kafka cluster to test against: real sockets and the real protocol, in your own process.

    from kafka_native.mock import MockCluster

    with MockCluster(brokers=3) as cluster:
        cluster.create_topic("a", 4)
        ...  # any Kafka client, with cluster.bootstrap_servers

``python -m kafka_native.mock --brokers 3 --port 9092`` runs the same cluster in its own process.
"""

from __future__ import annotations

from kafka_native.mock.accounts import AwsKey, DelegationToken
from kafka_native.mock.certificates import Certificates, Identity
from kafka_native.mock.clock import VirtualClock
from kafka_native.mock.cluster import MockCluster
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.mock.requests import SeenRequest
from kafka_native.mock.sasl import SeenLogin
from kafka_native.mock.schema_registry import (
    MockSchemaRegistry,
    RegistryFaults,
    SeenHttpRequest,
)
from kafka_native.mock.security import ListenerSecurity
from kafka_native.mock.telemetry import PushedMetrics
from kafka_native.mock.tls import SeenHandshake

__all__ = [
    "CLOSE_CONNECTION",
    "AwsKey",
    "Certificates",
    "DelegationToken",
    "Identity",
    "ListenerSecurity",
    "MockCluster",
    "MockSchemaRegistry",
    "PushedMetrics",
    "RegistryFaults",
    "SeenHandshake",
    "SeenHttpRequest",
    "SeenLogin",
    "SeenRequest",
    "VirtualClock",
]
