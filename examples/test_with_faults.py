"""How to test an application when the cluster has faults. Run it with pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native import KafkaError, Message, Producer
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey


class Ledger:
    """The application: it books amounts, and knows the safe ones."""

    def __init__(self, bootstrap: str, **conf: object) -> None:
        """Connect."""
        self.booked: list[bytes] = []
        self.refused: list[KafkaError] = []
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "retry.backoff.ms": 10,
                **conf,
            }
        )

    def book(self, *amounts: str) -> None:
        """Book amounts, and wait for their reports."""
        for amount in amounts:
            self.producer.produce("ledger", amount, partition=0, on_delivery=self._report)
        self.producer.flush(10)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.booked.append(message.value())
        else:
            self.refused.append(error)


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Three brokers; the ledger's leader is broker 1."""
    with MockCluster(brokers=3) as running:
        running.create_topic("ledger", 1)
        yield running


def stored(cluster: MockCluster) -> list[bytes | None]:
    """Return the stored values."""
    return [record.value for record in cluster.messages("ledger", 0)]


@pytest.mark.parametrize("done", [False, True], ids=["before the append", "after the append"])
def test_a_lost_connection_books_nothing_twice(cluster: MockCluster, done: bool) -> None:
    """The broker closes the connection three times; the last result is unknown."""
    cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION] * 3, done=done)
    ledger = Ledger(cluster.bootstrap_servers)
    ledger.book("10", "20")
    assert stored(cluster) == ledger.booked == [b"10", b"20"]
    assert len(cluster.requests_of(ApiKey.PRODUCE)) > 3


def test_a_full_disk_is_waited_for(cluster: MockCluster) -> None:
    """One partition on one broker refuses writes for a while."""
    cluster.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.KAFKA_STORAGE_ERROR] * 2, 1, topic="ledger", partition=0
    )
    ledger = Ledger(cluster.bootstrap_servers)
    ledger.book("10")
    assert ledger.refused == []
    assert stored(cluster) == [b"10"]


def test_a_cluster_that_never_answers_is_reported(cluster: MockCluster) -> None:
    """Answers come too late: the application learns that each amount may have been booked."""
    ledger = Ledger(cluster.bootstrap_servers, **{"message.timeout.ms": 300})
    ledger.book("10")
    cluster.delay_responses(None, 30, ApiKey.PRODUCE)
    ledger.book("20")
    assert ledger.booked == [b"10"]
    assert ledger.refused == [KafkaError._MSG_TIMED_OUT]
    assert stored(cluster) == [b"10", b"20"]


def test_a_broker_that_moves_is_found_again(cluster: MockCluster) -> None:
    """All brokers except one go down; the leader comes back on another port."""
    ledger = Ledger(cluster.bootstrap_servers)
    ledger.book("10")
    cluster.broker_down(1)
    cluster.broker_up(1, port=0)
    cluster.move_leader("ledger", 0, 1)
    ledger.book("20")
    assert stored(cluster) == ledger.booked == [b"10", b"20"]
    assert cluster.requests_of(ApiKey.PRODUCE)[-1].broker == 1
