"""An address that leads to a broker of another Apache Kafka cluster (KIP-1242)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from kafka_native import Producer
from tests.broker.cluster import HOST, Cluster, Listener, quiet
from tests.broker.sasl import every_mechanism
from tests.broker.support import create, running
from tests.harness.proxy import Proxy
from tests.waiting import WAIT_S, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT")
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "s3cret-word"}
VALUES = {"PLAINTEXT": {}, "SASL_PLAINTEXT": every_mechanism("alice", "s3cret-word")}


class Misrouted(NamedTuple):
    """Two clusters with a topic ``t``. The own broker advertises the doors, one a protocol."""

    own: Cluster
    other: Cluster
    doors: dict[str, Proxy]

    def ends(self) -> list[int]:
        """Return the end offsets of the topic, on the own cluster and on the other."""
        return [_end(self.own), _end(self.other)]


def _end(cluster: Cluster) -> int:
    reader = confluent_kafka.Consumer(quiet(cluster.conf(**{"group.id": "ends"})))
    _, end = reader.get_watermark_offsets(confluent_kafka.TopicPartition("t", 0), WAIT_S)
    reader.close()
    return int(end)


@pytest.fixture(scope="module")
def misrouted() -> Iterator[Misrouted]:
    with ExitStack() as stack:
        doors = {name: stack.enter_context(Proxy(f"{HOST}:1")) for name in PROTOCOLS}
        own, other = (
            stack.enter_context(
                running(
                    1,
                    changes={"super.users": "User:ANONYMOUS;User:alice"},
                    listeners={
                        f"L{number}": Listener(
                            name,
                            VALUES[name],
                            [int(doors[name].address.rpartition(":")[2])] if behind else (),
                        )
                        for number, name in enumerate(PROTOCOLS)
                    },
                )
            )
            for behind in (True, False)
        )
        for cluster in (own, other):
            create(cluster, "t")
        yield Misrouted(own, other, doors)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_reaches_the_other_cluster(misrouted: Misrouted, protocol: str) -> None:
    """The own broker names the same address again, so the client starts again until it is right."""
    name = f"L{PROTOCOLS.index(protocol)}"
    own, other = (each.listeners[name] for each in (misrouted.own, misrouted.other))
    door = misrouted.doors[protocol]
    door.target = own
    lines: list[str] = []
    logger = logging.Logger(protocol, logging.INFO)
    logger.addHandler(handler := logging.Handler())
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    conf: dict[str, Any] = {
        "bootstrap.servers": own,
        "security.protocol": protocol.lower(),
        "reconnect.backoff.max.ms": 200,
        "error_cb": lambda error: None,
        "logger": logger,
        **(LOGIN if protocol.startswith("SASL") else {}),
    }
    before = misrouted.ends()
    with Producer(conf) as producer:
        producer.produce("t", b"1")
        assert producer.flush(WAIT_S) == 0
        door.target = other
        door.cut_all()
        producer.produce("t", b"2")
        wait_for(
            lambda: sum("this isn't node 1 of cluster" in line for line in lines) > 1,
            lambda: f"refused connections: {lines}",
        )
        door.target = own
        assert producer.flush(WAIT_S) == 0
    assert misrouted.ends() == [before[0] + 2, before[1]]
