"""A broker that restarts knows only the last batch of each producer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_native import Producer
from tests.broker import java
from tests.broker.acked.java_producer import SOURCE as JAVA_SOURCE
from tests.broker.acked.java_producer import JavaProducer
from tests.broker.cluster import Cluster, Listener
from tests.broker.support import create, end_of, flush, running, their_consumer
from tests.harness.proxy import Proxy
from tests.waiting import WAIT_S, wait_for

LISTENER, TOPIC = "CLIENTS", "numbers"
BATCH = 10
UNANSWERED = 4
LATER = 3


def ignore(*_: object) -> None:
    """A delivery report that nobody reads."""


def send(producer: Any, first: int, batches: int) -> None:
    """Send batches of numbers, each in a request of its own."""
    for batch in range(batches):
        for number in range(first + batch * BATCH, first + (batch + 1) * BATCH):
            producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=ignore)
        producer.poll(0)
        time.sleep(0.1)


def written(cluster: Cluster) -> list[int]:
    """Return the numbers in the log."""
    with their_consumer(cluster) as witness:
        count, found = end_of(witness, TOPIC, 0), []
        witness.subscribe([TOPIC])
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            found += [int(message.value()) for message in witness.consume(count, 0.5)]
    return found


def outage(make: Callable[[dict[str, Any]], Any]) -> list[int]:
    """Lose the answers of four written batches, and restart the broker.

    Return the log: once from 0 on, if all went well.
    """
    with Proxy(None) as proxy:
        listeners = {LISTENER: Listener("PLAINTEXT", {}, [proxy.port])}
        with running(1, listeners=listeners) as cluster:
            if not cluster.brokers:
                pytest.skip(f"the broker of {cluster.kind} can't be restarted")
            proxy.target = cluster.listeners[LISTENER]
            create(cluster, TOPIC, 1)
            producer = make(
                {
                    "bootstrap.servers": proxy.address,
                    "acks": "all",
                    "linger.ms": 5,
                    "reconnect.backoff.max.ms": 200,
                }
            )
            send(producer, 0, 1)
            flush(producer)
            proxy.hold(120, requests=False)
            send(producer, BATCH, UNANSWERED)
            with their_consumer(cluster) as witness:
                sent = (1 + UNANSWERED) * BATCH
                wait_for(lambda: end_of(witness, TOPIC, 0) == sent, "all batches in the log")
            cluster.brokers[1].stop()
            proxy.cut_all()
            proxy.hold(0)
            cluster.brokers[1].start()
            send(producer, sent, LATER)
            flush(producer, 60)
            producer.close()
            return written(cluster)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("demanded", [True, False])
def test_batches_that_come_again_are_written_once(demanded: bool) -> None:
    more = {"enable.idempotence": True} if demanded else {}
    assert outage(lambda conf: Producer({**conf, **more})) == list(
        range((1 + UNANSWERED + LATER) * BATCH)
    )


@pytest.mark.slow
@pytest.mark.broker
def test_javas_producer_writes_them_twice(tmp_path: Path) -> None:
    """The outage is a real one: it is no fault of the test that another client has trouble."""
    if why := java.missing():
        pytest.skip(why)
    classes = java.compiled(JAVA_SOURCE, tmp_path)
    log = outage(lambda conf: JavaProducer({**conf, "enable.idempotence": True}, TOPIC, classes))
    assert len(log) > len(set(log)) == (1 + UNANSWERED + LATER) * BATCH
