"""Admin operations in an event loop, and on the connections of an existing client."""

from __future__ import annotations

import asyncio
import os

from kafka_native import KafkaException, Producer
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.aio import AIOAdminClient

conf = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}


async def main() -> None:
    """Create topics, and send two requests at once."""
    async with AIOAdminClient(conf) as admin:
        for name, future in admin.create_topics(
            [NewTopic("aio-orders", 2), NewTopic("no topic's name")]
        ).items():
            try:
                await future
                print("made:", name)
            except KafkaException as error:
                print("refused:", name, error.args[0].name())
        cluster, groups = await asyncio.gather(
            admin.describe_cluster(), admin.list_consumer_groups()
        )
        print(len(cluster.nodes), "brokers, errors:", groups.errors)


asyncio.run(main())

with Producer(conf) as producer:
    producer.produce("aio-orders", "hello")
    producer.flush()
    admin = AdminClient.of(producer)  # uses the producer's connections and thread
    print("partitions:", len(admin.list_topics("aio-orders", 10).topics["aio-orders"].partitions))
    print("deleted:", admin.delete_topics(["aio-orders"])["aio-orders"].result() is None)
