"""Consumer.partition_queue(): threads that each read one partition."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import (
    Consumer,
    ConsumerInterceptor,
    KafkaError,
    KafkaException,
    PartitionQueue,
    TopicPartition,
)
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S, wait_for

from .support import NOWHERE, Client, assigned, fill, filled, partitions_of

COUNT = 200


def offsets(messages: list[Any]) -> list[tuple[int | None, int | None]]:
    assert [message.error() for message in messages if message.error()] == []
    return [(message.partition(), message.offset()) for message in messages]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def take(reader: Any, count: int) -> list[Any]:
    """Return the next messages, one poll() each."""
    found = []
    while len(found) < count:
        message = reader.poll(WAIT_S)
        assert message is not None
        found.append(message)
    return found


def test_threads_each_read_a_partition(client: Client) -> None:
    topic = filled(client, COUNT, 3)
    with assigned(client, topic, 3) as consumer:
        queues = [consumer.partition_queue(TopicPartition(topic, number)) for number in (0, 1)]
        found: list[list[Any]] = [[], []]
        threads = [
            in_thread(lambda number=number: found[number].extend(take(queues[number], COUNT)))
            for number in (0, 1)
        ]
        own = consumer.consume(COUNT, WAIT_S)
        for thread in threads:
            thread.join(WAIT_S)
        assert offsets(own) == [(2, offset) for offset in range(COUNT)]
        for number in (0, 1):
            assert offsets(found[number]) == [(number, offset) for offset in range(COUNT)]
            assert (queues[number].topic, queues[number].partition) == (topic, number)
        assert consumer.poll(0) is None


def test_opening_and_closing_lose_and_repeat_nothing(client: Client) -> None:
    topic = filled(client, COUNT)
    where = TopicPartition(topic, 0)
    with assigned(client, topic) as consumer:
        found = take(consumer, 10)  # more are queued
        for count in (20, 1, 30):
            with consumer.partition_queue(where) as queue:
                found += take(queue, count)
                assert consumer.poll(0) is None
            found += take(consumer, 7)
        with consumer.partition_queue(where) as queue:
            found += queue.consume(25, WAIT_S)
        found += consumer.consume(COUNT - len(found), WAIT_S)
        assert offsets(found) == [(0, offset) for offset in range(COUNT)]


def test_seek_pause_and_resume_hold(client: Client) -> None:
    topic = filled(client, COUNT)
    where = TopicPartition(topic, 0)
    with assigned(client, topic) as consumer, consumer.partition_queue(where) as queue:
        take(queue, 5)
        consumer.seek(TopicPartition(topic, 0, 50))
        assert offsets(take(queue, 3)) == [(0, 50), (0, 51), (0, 52)]
        assert consumer.position([where])[0].offset == 53
        consumer.pause([where])
        assert queue.poll(0.1) is None
        consumer.resume([where])
        assert offsets(take(queue, 2)) == [(0, 53), (0, 54)]


def test_iteration_and_wakeup(client: Client) -> None:
    topic = filled(client, 5)
    where = TopicPartition(topic, 0)
    with assigned(client, topic) as consumer, consumer.partition_queue(where) as queue:
        found = []
        for message in queue:
            found.append(message)
            if len(found) == 5:
                queue.wakeup()
        assert offsets(found) == [(0, offset) for offset in range(5)]


def test_a_partition_that_is_unassigned_ends_its_queue(client: Client) -> None:
    topic = filled(client, 5, 2)
    with assigned(client, topic, 2) as consumer:
        queue = consumer.partition_queue(TopicPartition(topic, 0))
        other = consumer.partition_queue(TopicPartition(topic, 1))
        take(queue, 5)
        ended: list[object] = []
        thread = in_thread(lambda: ended.append(queue.poll(-1)))
        consumer.incremental_unassign([TopicPartition(topic, 0)])
        thread.join(WAIT_S)
        # the call either ended, or it began after the loss
        assert ended in ([None], [])
        for call in (lambda: queue.poll(0), lambda: queue.consume(1, 0), lambda: next(queue)):
            with pytest.raises(KafkaException, match="isn't assigned any more") as caught:
                call()
            assert caught.value.args[0].code() == KafkaError._ASSIGNMENT_LOST
        queue.close()
        take(other, 5)
        consumer.incremental_assign([TopicPartition(topic, 0, 2)])
        assert offsets(take(consumer, 3)) == [(0, 2), (0, 3), (0, 4)]
        with consumer.partition_queue(TopicPartition(topic, 0)) as again:
            fill(client, topic, 1, partition=0)
            assert offsets(take(again, 1)) == [(0, 5)]


@pytest.mark.parametrize("polls", [True, False])
def test_closing_the_consumer_ends_the_queue(client: Client, polls: bool) -> None:
    topic = filled(client, 5)
    consumer = assigned(client, topic)
    queue = consumer.partition_queue(TopicPartition(topic, 0))
    take(queue, 3)
    ended: list[object] = []
    thread = in_thread(lambda: ended.append(queue.consume(100, -1))) if polls else None
    if polls:
        wait_for(lambda: queue._poll_counts()[1] == 1)
    consumer.close()
    if thread is not None:
        thread.join(WAIT_S)
        assert [len(each) for each in ended] in ([2], [0])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Consumer closed"):
        queue.poll(0)
    queue.close()


def test_a_message_in_the_threads_hands_is_not_committed(
    cluster: MockCluster, client: Client
) -> None:
    topic = filled(client, 10)
    where = TopicPartition(topic, 0)
    conf = {"group.id": f"of-{topic}", "auto.commit.interval.ms": 10}
    with assigned(client, topic, **conf) as consumer:
        with consumer.partition_queue(where) as queue:

            def committed() -> int:
                consumer.poll(0)
                return consumer.committed([where], WAIT_S)[0].offset

            take(queue, 4)
            wait_for(lambda: committed() == 3)
            assert len(queue.consume(3, WAIT_S)) == 3
            wait_for(lambda: committed() == 4)
            assert len(queue.consume(3, WAIT_S)) == 3
            wait_for(lambda: committed() == 7)
            queue.poll(0)
            wait_for(lambda: committed() == 10)
        assert consumer.position([where])[0].offset == 10


def test_a_dropped_queue_gives_its_partition_back(client: Client) -> None:
    topic = filled(client, 10)
    with assigned(client, topic) as consumer:
        queue = consumer.partition_queue(TopicPartition(topic, 0))
        found = take(queue, 4)
        del queue
        gc.collect()
        found += take(consumer, 6)
        assert offsets(found) == [(0, offset) for offset in range(10)]


def test_rebalance_takes_the_queue_away(client: Client) -> None:
    topic = filled(client, 5)
    conf = {"group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    with client.consumer(**conf) as consumer:
        consumer.subscribe([topic])
        take(consumer, 1)
        queue = consumer.partition_queue(TopicPartition(topic, 0))
        assert offsets(take(queue, 2)) == [(0, 1), (0, 2)]
        consumer.unsubscribe()
        with pytest.raises(KafkaException) as caught:
            queue.poll(0)
        assert caught.value.args[0].code() == KafkaError._ASSIGNMENT_LOST
        queue.close()
        # the message in hand comes again: it was not committed
        consumer.subscribe([topic])
        assert offsets(take(consumer, 3)) == [(0, 2), (0, 3), (0, 4)]


def test_what_is_refused(client: Client, topic: str) -> None:
    with assigned(client, topic) as consumer:
        where = TopicPartition(topic, 0)
        for wrong in (TopicPartition(topic, 1), TopicPartition("other", 0)):
            with pytest.raises(KafkaException, match="isn't assigned"):
                consumer.partition_queue(wrong)
        with pytest.raises(TypeError):
            consumer.partition_queue(topic)  # type: ignore[arg-type]
        with consumer.partition_queue(where) as queue:
            assert topic in repr(queue)
            with pytest.raises(KafkaException, match="has a queue already"):
                consumer.partition_queue(where)
        with pytest.raises(RuntimeError, match="queue is closed"):
            queue.poll(0)
        queue.close()
        consumer.partition_queue(where).close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.partition_queue(where)
    with Consumer({**NOWHERE, "group.id": "g", "interceptors": [ConsumerInterceptor()]}) as hooked:
        hooked.assign(partitions_of("t", 1))
        with pytest.raises(KafkaException, match="interceptors"):
            hooked.partition_queue(TopicPartition("t", 0))
    with pytest.raises(RuntimeError, match="partition_queue"):
        PartitionQueue.__new__(PartitionQueue).poll(0)
