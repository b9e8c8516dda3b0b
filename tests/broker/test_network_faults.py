"""Real brokers in network namespaces, with faults of packets. They need root."""

from __future__ import annotations

from functools import partial

import pytest

import kafka_native
from kafka_native.admin import AdminClient
from tests.broker.acked.ledger import PERSISTED
from tests.broker.acked.run import Options, Run, acked_rig
from tests.broker.acked.verify import violations
from tests.broker.cluster import quiet
from tests.broker.support import TopicMaker, flush, in_sync, leaders, our_consumer, read
from tests.harness import network
from tests.harness.cluster_run import LISTENER, NAMESPACE_FAULTS, NAMESPACES, Rig, module_rig
from tests.harness.network import BROKERS, CLIENTS, Fault
from tests.waiting import wait_for

three = module_rig(partial(acked_rig, network=NAMESPACES), network.missing)
COUNT = 300


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("partitions", [1, 3], ids=["no other connection", "all connected"])
def test_a_leader_without_its_followers_acknowledges_nothing_and_is_left(
    three: Rig, new_topic: TopicMaker, partitions: int
) -> None:
    cluster, packets = three.cluster, three.network
    assert packets is not None
    topic = new_topic(cluster, partitions)
    reports: list[object] = []
    conf = {
        "bootstrap.servers": cluster.listeners[LISTENER],
        "enable.idempotence": True,
        "request.timeout.ms": 3000,  # then the old leader, which still leads, gives up the replicas
    }
    with kafka_native.Producer(quiet(conf)) as producer:

        def produce(numbers: range) -> None:
            for number in numbers:
                producer.produce(
                    topic,
                    b"%d" % number,
                    partition=number % partitions,
                    on_delivery=lambda error, message: reports.append(error),
                )

        produce(range(COUNT))
        flush(producer)
        old = leaders(cluster, topic)[0]
        fault = Fault("blackhole", BROKERS, old)
        packets.begin(fault)
        produce(range(COUNT, 2 * COUNT))
        assert producer.flush(0.5) >= COUNT // partitions  # nobody else has those of partition 0
        other = next(broker for node, broker in cluster.brokers.items() if node != old)
        with AdminClient(quiet({"bootstrap.servers": f"{other.host}:{other.port}"})) as admin:
            wait_for(lambda: old not in leaders(cluster, topic, admin).values(), "other leaders")
        flush(producer)
        assert packets.end(fault) > 0
    assert reports == [None] * (2 * COUNT)
    wait_for(lambda: in_sync(cluster, topic), "all replicas in sync")
    with our_consumer(cluster, group_id="reader") as consumer:
        for partition in range(partitions):
            sent = [b"%d" % number for number in range(partition, 2 * COUNT, partitions)]
            found = read(consumer, topic, [partition], len(sent))
            assert [record.value for record in found] == sent


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_faults_of_packets_break_no_rule(three: Rig) -> None:
    options = Options(
        seconds=60.0,
        timeout_s=4.0,
        fault_every_s=(0.5, 2.0),
        network=NAMESPACES,
        faults=("kill", "leaders", *NAMESPACE_FAULTS),
    )
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the producers' output is in {run.directory}"
    assert run.count(PERSISTED)
    assert any(name.startswith(CLIENTS) for name in run.faults)
