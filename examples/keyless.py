"""Messages without a key go to partitions in batches, and a slow broker gets fewer of them.

A rack-aware producer keeps them in its rack. The program starts its own mock cluster. One of its
brokers answers late.
"""

from __future__ import annotations

import time
from collections import Counter

from kafka_native import Message, Producer
from kafka_native.mock import MockCluster

CONFIG = {
    "linger.ms": 2,
    "sticky.partitioning.linger.ms": 5,  # time for one partition; 0: each to a random one
    "partitioner.adaptive.partitioning.enable": True,  # the default: short queues first
    "partitioner.availability.timeout.ms": 1000,  # no messages to brokers after this silence
}


def spread(bootstrap: str, topic: str, slow: int) -> None:
    """Produce for two seconds and print the partitions of the messages."""
    counts: Counter[int] = Counter()

    def count(error: object, message: Message) -> None:
        counts[message.partition() or 0] += 1

    with Producer({**CONFIG, "bootstrap.servers": bootstrap}, on_delivery=count) as producer:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            producer.produce(topic, "no key")
            producer.poll(0.001)
    share = counts[slow] / sum(counts.values())
    print(
        f"partition {slow} got {share:.0%}: {'less' if share < 0.25 else 'about as much'} "
        "than a third"
    )


def stay(bootstrap: str, topic: str) -> None:
    """Produce in the rack "east", and print the partitions of the messages."""
    used: set[int | None] = set()
    conf = {
        "bootstrap.servers": bootstrap,
        "client.rack": "east",
        "partitioner.rack.aware": True,
        "sticky.partitioning.linger.ms": 0,
    }

    def note(error: object, message: Message) -> None:
        used.add(message.partition())

    with Producer(conf, on_delivery=note) as producer:
        for _ in range(1000):
            producer.produce(topic, "no key")
        producer.flush(10)
    print(f"the producer in the rack east used the partitions {sorted(used, key=str)}")


with MockCluster(brokers=3, racks=["west", "east", "east"]) as cluster:
    cluster.create_topic("spread", 3)
    stay(cluster.bootstrap_servers, "spread")
    cluster.delay_responses(cluster.leader("spread", 1), 0.3)
    spread(cluster.bootstrap_servers, "spread", 1)
