"""Connections: bootstrap servers that a running client gets."""

from __future__ import annotations

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster

cluster = MockCluster(brokers=3)
cluster.create_topic("greetings", 3)

# 1. The servers of the configuration are gone. The client gets others, without a restart.
errors: list[KafkaError] = []
conf = {"bootstrap.servers": "127.0.0.1:1", "error_cb": errors.append}
with Producer(conf) as producer:
    producer.produce("greetings", "hello")
    while not errors:
        producer.poll(1)
    print("added servers:", producer.brokers_add(cluster.bootstrap_servers))
    print("left in the queue:", producer.flush(30))

cluster.close()
