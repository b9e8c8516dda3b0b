"""Common parts of the tests of transactional producers."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from typing_extensions import Self

from kafka_native import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.mock.transactions import State
from tests.waiting import WAIT_S

SOON = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "linger.ms": 0}


class Bank:
    """A topic of one test, its transactional producers, and a consumer of its messages."""

    def __init__(self, cluster: MockCluster, name: str) -> None:
        """``name`` is the test's name. The topic's name is derived from it."""
        self.cluster = cluster
        self.topic = re.sub(r"[^\w.-]+", "-", name)
        cluster.create_topic(self.topic, 2)
        self.made: list[Producer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for producer in self.made:
            producer.close(0)
        self.cluster.faults.clear()

    def conf(self, **own: Any) -> dict[str, Any]:
        """Return the configuration of the transactional producer."""
        return {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "transactional.id": f"{self.topic}-tx",
            **SOON,
            **own,
        }

    def consumer(self, **own: Any) -> Consumer:
        """Return a consumer of the test's group."""
        conf = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "group.id": f"{self.topic}-group",
        }
        return Consumer({**conf, **own})

    def producer(self, **conf: Any) -> Producer:
        producer = Producer(self.conf(**conf))
        self.made.append(producer)
        producer.init_transactions(WAIT_S)
        return producer

    def commit(self, producer: Producer, value: str, **how: Any) -> None:
        """Commit a transaction with one message."""
        with producer.transaction(timeout=WAIT_S):
            producer.produce(self.topic, value, **how)

    def seen(self, isolation: str = "read_committed") -> list[str]:
        conf = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
        with Consumer(conf) as consumer:
            consumer.assign([TopicPartition(self.topic, number, 0) for number in range(2)])
            found, ends, deadline = [], 0, time.monotonic() + WAIT_S
            while ends < 2:
                assert time.monotonic() < deadline
                message = consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                ends += error is not None
                assert error is None or error.code() == KafkaError._PARTITION_EOF
                if error is None:
                    found.append(message.value().decode())
        return sorted(found)

    def state(self) -> State:
        found = self.cluster.transactions.find(f"{self.topic}-tx")
        assert found is not None
        return found.state


def error_of(call: Any, *arguments: Any) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        call(*arguments)
    error: KafkaError = caught.value.args[0]
    return error
