"""A Kafka cluster to test against: real sockets, real protocol, no broker.

    from kafka_native.mock import MockCluster

    with MockCluster(brokers=3) as cluster:
        cluster.create_topic("a", 4)
        ...  # any Kafka client, with cluster.bootstrap_servers

``python -m kafka_native.mock --brokers 3 --port 9092`` is the same as a process of its own.
"""

from __future__ import annotations

from kafka_native.mock.cluster import MockCluster, SeenRequest
from kafka_native.mock.faults import CLOSE_CONNECTION

__all__ = ["CLOSE_CONNECTION", "MockCluster", "SeenRequest"]
