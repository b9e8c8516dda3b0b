"""AIOProducer and AIOConsumer on a real Apache Kafka. confluent_kafka reads their messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_native import KafkaError, TopicPartition
from kafka_native.aio import AIOConsumer, AIOProducer
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, read, their_consumer
from tests.waiting import WAIT_S

MANY = 5000


@pytest.mark.slow
def test_round_trip_in_a_group(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka, 3)
    conf = {"bootstrap.servers": kafka.bootstrap}
    events: list[Any] = []

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        events.append(len(partitions))

    async def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        events.append(error)

    async def main() -> set[tuple[Any, ...]]:
        async with AIOProducer(conf) as producer:
            deliveries = [
                await producer.produce(
                    topic, str(number), key=str(number), headers=[("number", str(number))]
                )
                for number in range(MANY)
            ]
            sent = [await each for each in deliveries]
        places = {(message.partition(), message.offset(), message.value()) for message in sent}
        group = {**conf, "group.id": topic, "auto.offset.reset": "earliest", "on_commit": on_commit}
        async with AIOConsumer(group) as consumer:
            await consumer.subscribe([topic], on_assign=on_assign)
            found = set()
            async for message in consumer:
                assert message.headers() == [("number", message.value())]
                found.add((message.partition(), message.offset(), message.value()))
                if len(found) == MANY:
                    break
            assert found == places
            committed = await consumer.commit(asynchronous=False)
            assert sum(each.offset for each in committed or []) == MANY
            assert events[0] == 3
            metadata = await consumer.list_topics(topic, WAIT_S)
            assert len(metadata.topics[topic].partitions) == 3
        return places

    places = asyncio.run(asyncio.wait_for(main(), 300))
    consumer = their_consumer(kafka)
    try:
        records = read(consumer, topic, range(3), MANY)
    finally:
        consumer.close()
    assert {(each.partition, each.offset, each.value) for each in records} == places
