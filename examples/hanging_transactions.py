"""Lists and describes transactions of other programs; finds and aborts a hanging one.

It starts its own mock cluster.
"""

from __future__ import annotations

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.admin import AdminClient, TransactionState
from kafka_native.mock import MockCluster

with MockCluster(brokers=3) as cluster:
    cluster.create_topic("orders", 1)
    conf = {"bootstrap.servers": cluster.bootstrap_servers}
    with AdminClient(conf) as admin, Producer({**conf, "transactional.id": "shop"}) as producer:
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("orders", "never committed", timestamp=1)  # long ago
        producer.flush()

        listed = admin.list_transactions(states={TransactionState.ONGOING}).result()
        print("open:", [each.transactional_id for each in listed.valid])
        described = admin.describe_transactions(["shop"])["shop"].result()
        print(
            "it writes to:", [(each.topic, each.partition) for each in described.topic_partitions]
        )

        cluster.logs.hang_transaction("shop")  # its coordinator forgets it
        with Producer(conf) as other:
            other.produce("orders", "behind it")

        found = admin.find_hanging_transactions().result()
        for hanging in found.valid:
            place, state = hanging.topic_partition, hanging.producer
            print(
                f"hangs: {place.topic} [{place.partition}] from offset "
                f"{state.current_transaction_start_offset}"
            )
            admin.abort_transaction(hanging.abort_spec).result()

        with Consumer({**conf, "group.id": "billing"}) as consumer:  # reads committed messages
            consumer.assign([TopicPartition("orders", 0, 0)])
            message = consumer.poll(10)
            print("read:", message and message.value())
