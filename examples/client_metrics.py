"""Client metrics (KIP-714): producers and consumers push the metrics that operators subscribe to.

A mock cluster acts as a broker with a plugin for such metrics, and shows the received metrics.
"""

from __future__ import annotations

import time

from kafka_native import Consumer, Producer
from kafka_native.mock import MockCluster

PRODUCER, CONSUMER = "org.apache.kafka.producer.", "org.apache.kafka.consumer."

with MockCluster(brokers=1, client_metrics=True) as cluster:
    # An operator does this with kafka-client-metrics.sh: two kinds of metrics, five times a second.
    cluster.client_metrics.subscribe(
        [f"{PRODUCER}request.latency", f"{CONSUMER}coordinator"], interval_ms=200
    )
    servers = {"bootstrap.servers": cluster.bootstrap_servers}

    with Producer(servers) as producer:
        print("producer:", producer.client_instance_id(10))
        producer.produce("orders", "an order")
        producer.flush()

    with Consumer(servers, **{"group.id": "billing", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["orders"])
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            message = consumer.poll(0.1)
            if message is not None:
                consumer.commit(message, asynchronous=False)

    # With enable.metrics.push=False a client pushes no metrics.
    with Producer(servers, **{"enable.metrics.push": False}) as producer:
        producer.produce("orders", "another one")

    newest = {
        metric.name: (push, metric)
        for push in cluster.client_metrics.pushed
        for metric in push.metrics
    }
    for name, (push, metric) in newest.items():
        print(
            f"{name} = {metric.value:.3g} {metric.unit}, a {metric.kind}, labels "
            f"{sorted(push.resource)}"
        )
    last = [push for push in cluster.client_metrics.pushed if push.terminating]
    print(
        "pushed by",
        len({push.client_instance_id for push in cluster.client_metrics.pushed}),
        "clients,",
        len(last),
        "said goodbye",
    )
