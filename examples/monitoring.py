"""Statistics: the document of stats_cb, metrics(), and a Prometheus scrape.

Needs `pip install 'kafka-native[prometheus]'`.
"""

from __future__ import annotations

import json
import os

from prometheus_client import CollectorRegistry, generate_latest

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.prometheus import ClientCollector

servers = os.environ.get("BOOTSTRAP", "localhost:9092")
delivered: list[int] = []


def on_statistics(text: str) -> None:
    """poll(), flush() and similar calls pass librdkafka's JSON to this."""
    document = json.loads(text)
    delivered.append(document["txmsgs"])


with Producer(
    {"bootstrap.servers": servers, "statistics.interval.ms": 100, "stats_cb": on_statistics}
) as producer:
    for number in range(1000):
        producer.produce("measured", f"measurement {number:03}", partition=0)
    producer.flush()
    while not delivered or delivered[-1] < 1000:
        producer.poll(1)
    print("stats_cb: messages delivered:", delivered[-1])
    metrics = producer.metrics()
    partition = metrics.topics["measured"].partitions[0]
    print("metrics(): messages:", partition.txmsgs, "bytes:", partition.txbytes)
    print(
        "brokers up:",
        sorted(broker.nodeid for broker in metrics.brokers.values() if broker.state == "UP"),
    )

# Without stats_cb, each metrics() begins new windows of latencies and sizes.
with Consumer(
    {"bootstrap.servers": servers, "group.id": "statistics", "statistics.interval.ms": 60_000}
) as consumer:
    consumer.assign([TopicPartition("measured", 0, OFFSET_BEGINNING)])
    read = consumer.consume(600, timeout=10)
    consumer.commit(read[499])
    fetched = consumer.metrics().topics["measured"].partitions[0]
    print("read up to", fetched.app_offset, "of", fetched.hi_offset)

    registry = CollectorRegistry()
    registry.register(ClientCollector(consumer))
    lines = generate_latest(registry).decode().splitlines()
    print(
        [
            line.split("{")[0]
            for line in lines
            if line.startswith("kafka_native_partition_app_offset")
        ]
    )
