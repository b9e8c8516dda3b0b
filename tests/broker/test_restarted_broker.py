"""What a broker that restarts knows: the last batch of each producer, and older leader epochs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafka_native import Producer
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import OffsetForLeaderEpochRequest
from tests.broker import java
from tests.broker.acked.java_producer import SOURCE as JAVA_SOURCE
from tests.broker.acked.java_producer import JavaProducer
from tests.broker.cluster import Cluster, Listener
from tests.broker.support import create, end_of, flush, running, their_consumer
from tests.harness.proxy import Proxy
from tests.mock.wire import Closed, OneBroker, Wire
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


def leader_epoch(broker: OneBroker) -> int:
    """Return the leader epoch of the topic's partition; 0 while the broker can't be asked."""
    with suppress(OSError, Closed), Wire(broker) as wire:
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)])
        partition = wire.ask(request, 12).topics[0].partitions[0]
        return int(partition.leader_epoch) if partition.leader_id >= 0 else 0
    return 0


@pytest.mark.slow
@pytest.mark.broker
def test_empty_log_knows_that_older_epochs_have_ended() -> None:
    """A new leader notes its epoch before the first record, as the mock cluster's leaders do.

    So a consumer learns that a log was truncated to nothing, even if it has grown again.
    """
    with running(1) as cluster:
        if not cluster.brokers:
            pytest.skip(f"the broker of {cluster.kind} can't be restarted")
        create(cluster, TOPIC, 1)
        cluster.brokers[1].stop()
        cluster.brokers[1].start()
        broker = OneBroker(cluster.bootstrap.split(",")[0])
        newer = wait_for(lambda: leader_epoch(broker), "a newer leader epoch")
        part = OffsetForLeaderEpochRequest.Topic.Partition(
            partition=0, current_leader_epoch=newer, leader_epoch=0
        )
        topic = OffsetForLeaderEpochRequest.Topic(topic=TOPIC, partitions=[part])
        with Wire(broker) as wire:
            found = wire.ask(OffsetForLeaderEpochRequest(topics=[topic])).topics[0].partitions[0]
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 0)
