"""Topics: made, grown, listed and deleted; what goes wrong concerns its item only."""

from __future__ import annotations

import os

from kafka_native import KafkaException
from kafka_native.admin import AdminClient, NewPartitions, NewTopic

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")
with AdminClient({"bootstrap.servers": bootstrap}) as admin:
    wanted = [NewTopic("orders", 3, config={"retention.ms": "3600000"}), NewTopic("no topic's name", 1)]
    for name, future in admin.create_topics(wanted, operation_timeout=10).items():
        try:
            future.result()
            print("made:", name)
        except KafkaException as error:
            print("refused:", name, error.args[0].name())

    admin.create_partitions([NewPartitions("orders", 5)])["orders"].result()
    cluster = admin.list_topics("orders", timeout=10)
    print(len(cluster.topics["orders"].partitions), "partitions on", len(cluster.brokers), "brokers")

    admin.delete_topics(["orders"])["orders"].result()
    print("left:", "orders" in admin.list_topics(timeout=10).topics)
