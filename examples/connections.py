"""Connections: servers for a running client, topics out of use, several connections a broker."""

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

# 2. The client refreshes the metadata of the topics in use only.
logged: list[str] = []
busy = {
    "bootstrap.servers": cluster.bootstrap_servers,
    "topic.metadata.ttl": 1000,  # milliseconds; the default is 5 minutes
    "topic.metadata.refresh.interval.ms": 200,
    "debug": "metadata",
    "log_cb": lambda name, level, facility, text: logged.append(text),
}
with Producer(busy) as producer:
    for number in range(100):
        cluster.create_topic(f"clicks-{number}", 1)
        producer.produce(f"clicks-{number}", "once")
    producer.flush(30)
    asked = ""
    while "asking for 1 topic(s)" not in asked:
        producer.produce("clicks-0", "again")
        producer.poll(0.05)
        asked = next((line for line in reversed(logged) if "asking" in line), "")
    print("the last refresh:", asked.rpartition(": ")[2])

# 3. The partitions of each broker are spread over several connections.
wide = {"bootstrap.servers": cluster.bootstrap_servers, "connections.per.broker": 2}
with Producer(wide) as producer:
    cluster.create_topic("wide", 6)
    for number in range(600):
        producer.produce("wide", "hello", partition=number % 6)
    producer.flush(30)
    brokers = producer.metrics().brokers.values()
    print("connections for messages:", sum(each.req.get("Produce", 0) > 0 for each in brokers))

cluster.close()
