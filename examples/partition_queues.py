"""A thread for each partition of one consumer."""

from __future__ import annotations

import os
import threading

from kafka_native import OFFSET_BEGINNING, Consumer, PartitionQueue, Producer, TopicPartition
from kafka_native.admin import AdminClient, NewTopic

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC, PARTITIONS, COUNT = "parallel", 3, 100
with AdminClient({"bootstrap.servers": bootstrap}) as admin:
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        future.exception()  # it may exist
with Producer({"bootstrap.servers": bootstrap}) as producer:
    for number in range(COUNT * PARTITIONS):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)


def read(queue: PartitionQueue, sums: list[int]) -> None:
    """Add up the numbers of one partition."""
    with queue:
        for message in queue.consume(COUNT, 30):
            sums[queue.partition] += int(message.value())


with Consumer({"bootstrap.servers": bootstrap}) as consumer:
    where = [TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    consumer.assign(where)
    sums = [0] * PARTITIONS
    threads = [
        threading.Thread(target=read, args=(consumer.partition_queue(each), sums)) for each in where
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        consumer.poll(0.05)  # callbacks, errors, rebalances
    print("sums of the partitions:", sums)
