"""Creates, grows, lists, configures and deletes topics; reads ends of partitions, and groups.

An error concerns only its item.
"""

from __future__ import annotations

import os

from kafka_native import KafkaException, TopicPartition
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")
with AdminClient({"bootstrap.servers": bootstrap}) as admin:
    wanted = [
        NewTopic("orders", 3, config={"retention.ms": "3600000"}),
        NewTopic("no topic's name", 1),
    ]
    for name, future in admin.create_topics(wanted, operation_timeout=10).items():
        try:
            future.result()
            print("made:", name)
        except KafkaException as error:
            print("refused:", name, error.args[0].name())

    admin.create_partitions([NewPartitions("orders", 5)])["orders"].result()
    cluster = admin.list_topics("orders", timeout=10)
    print(
        len(cluster.topics["orders"].partitions), "partitions on", len(cluster.brokers), "brokers"
    )

    resource = ConfigResource("topic", "orders")
    resource.add_incremental_config(
        ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result()
    print(
        "retention.ms:", admin.describe_configs([resource])[resource].result()["retention.ms"].value
    )

    ends = {TopicPartition("orders", number): OffsetSpec.latest() for number in range(5)}
    print("messages:", sum(future.result().offset for future in admin.list_offsets(ends).values()))
    print("errors of brokers:", admin.list_consumer_groups().result().errors)

    admin.delete_topics(["orders"])["orders"].result()
    print("left:", "orders" in admin.list_topics(timeout=10).topics)
