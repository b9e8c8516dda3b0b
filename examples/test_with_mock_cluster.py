"""How to test an application with the fixtures of the pytest plugin. Run it with pytest."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey


def test_my_application_survives_a_leader_change(
    kafka_cluster: MockCluster, kafka_config: dict[str, Any], kafka_topic: str
) -> None:
    """The leader moves between two messages; both arrive, in order."""
    with Producer(kafka_config) as producer:
        producer.produce(kafka_topic, "before")
        producer.flush(10)
        kafka_cluster.move_leader(kafka_topic, 0, kafka_cluster.leader(kafka_topic, 0) % 3 + 1)
        producer.produce(kafka_topic, "after")
    stored = [record.value for record in kafka_cluster.messages(kafka_topic, 0)]
    assert stored == [b"before", b"after"]


@pytest.mark.kafka(brokers=1, topics=["orders"])
def test_my_application_gets_a_refusal(
    kafka_faults: MockCluster, kafka_config: dict[str, Any]
) -> None:
    """The broker refuses a message for good; the application's callback gets the error."""
    reports: list[KafkaError | None] = []
    kafka_faults.push_request_errors(ApiKey.PRODUCE, [KafkaError.POLICY_VIOLATION])
    with Producer(kafka_config) as producer:
        producer.produce("orders", "x", on_delivery=lambda error, message: reports.append(error))
    assert reports == [KafkaError.POLICY_VIOLATION]
