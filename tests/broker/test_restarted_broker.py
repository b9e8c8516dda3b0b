"""A broker that restarts knows only the last batch of each producer."""

from __future__ import annotations

import pytest

from kafka_native import Producer
from tests.broker.cluster import Listener
from tests.broker.support import create, end_of, flush, read, running, their_consumer
from tests.harness.proxy import Proxy
from tests.waiting import wait_for

LISTENER, TOPIC = "CLIENTS", "numbers"
BATCH = 10
UNANSWERED = 4


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("demanded", [True, False])
def test_batches_that_come_again_are_written_once(demanded: bool) -> None:
    """Four batches are written, but their answers are lost, and the broker restarts."""
    with Proxy(None) as proxy:
        listeners = {LISTENER: Listener("PLAINTEXT", {}, [proxy.port])}
        with running(1, listeners=listeners) as cluster:
            if not cluster.brokers:
                pytest.skip(f"the broker of {cluster.kind} can't be restarted")
            proxy.target = cluster.listeners[LISTENER]
            create(cluster, TOPIC, 1)
            conf = {
                "bootstrap.servers": proxy.address,
                "batch.num.messages": BATCH,
                "reconnect.backoff.max.ms": 200,
                **({"enable.idempotence": True} if demanded else {}),
            }
            sent = 0

            def send(count: int) -> None:
                nonlocal sent
                for number in range(sent, sent + count):
                    producer.produce(TOPIC, b"%d" % number, partition=0)
                sent += count

            with Producer(conf) as producer, their_consumer(cluster) as witness:
                send(BATCH)
                flush(producer)
                proxy.hold(120, requests=False)
                send(UNANSWERED * BATCH)
                wait_for(lambda: end_of(witness, TOPIC, 0) == sent, "all batches in the log")
                cluster.brokers[1].stop()
                proxy.cut_all()
                proxy.hold(0)
                cluster.brokers[1].start()
                send(3 * BATCH)
                flush(producer, 60)
                assert producer.fatal_error() is None
                found = read(witness, TOPIC, [0], sent)
    assert [record.value for record in found] == [b"%d" % number for number in range(sent)]
