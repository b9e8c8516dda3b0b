"""How to test an application with the mock cluster. Run it with pytest."""

from __future__ import annotations

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey


def test_my_application_survives_a_leader_change() -> None:
    """The leader moves between two messages; both arrive, in order."""
    with MockCluster(brokers=3) as cluster:
        cluster.create_topic("orders", 1)
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            producer.produce("orders", "before")
            producer.flush(10)
            cluster.move_leader("orders", 0, cluster.leader("orders", 0) % 3 + 1)
            producer.produce("orders", "after")
        assert [record.value for record in cluster.messages("orders", 0)] == [b"before", b"after"]


def test_my_application_gets_a_refusal() -> None:
    """The broker refuses a message for good; the application's callback gets the error."""
    reports: list[KafkaError | None] = []
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 1)
        cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.POLICY_VIOLATION])
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            producer.produce(
                "orders", "x", on_delivery=lambda error, message: reports.append(error)
            )
    assert reports == [KafkaError.POLICY_VIOLATION]
