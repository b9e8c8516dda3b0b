"""arrow_stream(): batch after batch, for a loop, for a coroutine and for Arrow libraries."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import KafkaException, TopicPartition
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

from .arrow_support import offsets, rows
from .support import Client, assigned, fill, filled

OFFSETS = ["offset"]


def test_iteration_ends_after_a_timeout_without_records(client: Client) -> None:
    topic = filled(client, 250)
    with assigned(client, topic) as consumer:
        stream = consumer.arrow_stream(100, timeout=1.0, columns=OFFSETS)
        assert stream.column_names == OFFSETS
        batches = list(stream)
        assert [len(batch) for batch in batches] == [100, 100, 50]
        assert offsets(*batches) == list(range(250))
        fill(client, topic, 5, start=250)
        assert offsets(*list(stream)) == list(range(250, 255)), "the stream can be read again"


def test_without_a_timeout_a_batch_has_the_available_records(client: Client) -> None:
    topic = filled(client, 3)
    with assigned(client, topic) as consumer:
        stream = consumer.arrow_stream(columns=OFFSETS)
        found: list[int] = []
        while len(found) < 3:
            found += offsets(next(stream))
        fill(client, topic, 1)
        assert [*found, *offsets(next(stream))] == [0, 1, 2, 3]


def test_wakeup_and_close_end_the_stream(client: Client, topic: str) -> None:
    consumer = assigned(client, topic)
    stream = consumer.arrow_stream()
    for end in (consumer.wakeup, consumer.close):
        timer = threading.Timer(0.1, end)
        timer.start()
        assert list(stream) == []
        timer.join()
    assert list(stream) == [], "the consumer is closed"


def test_an_end_of_partition_is_a_batch(client: Client, topic: str) -> None:
    with assigned(client, topic, **{"enable.partition.eof": True}) as consumer:
        batch = next(consumer.arrow_stream(timeout=WAIT_S))
        assert len(batch) == 0
        assert [(end.topic, end.partition, end.offset) for end in batch.ends] == [(topic, 0, 0)]


def test_an_error_is_raised_and_the_stream_continues(cluster: MockCluster, client: Client) -> None:
    topic = filled(client, 5)
    cluster.corrupt_next_fetch(topic, 0)
    with assigned(client, topic) as consumer:
        stream = consumer.arrow_stream(5, timeout=WAIT_S, columns=OFFSETS)
        with pytest.raises(KafkaException, match="checksum"):
            next(stream)
        assert offsets(next(stream)) == [0, 1, 2, 3, 4]


def test_pyarrow_reads_the_stream(client: Client) -> None:
    topic = filled(client, 250)
    with assigned(client, topic) as consumer:
        stream = consumer.arrow_stream(100, timeout=1.0, columns=OFFSETS)
        reader = pa.RecordBatchReader.from_stream(stream)
        assert reader.schema.equals(pa.schema(stream))
        table = reader.read_all()
    assert table.column("offset").to_pylist() == list(range(250))
    assert stream.error is None


def test_an_error_in_an_arrow_stream_is_raised_and_kept(client: Client) -> None:
    topic = filled(client, 5)
    client.cluster.corrupt_next_fetch(topic, 0)
    with assigned(client, topic) as consumer:
        stream = consumer.arrow_stream(5, timeout=WAIT_S, columns=OFFSETS)
        reader = pa.RecordBatchReader.from_stream(stream)
        with pytest.raises(OSError, match=r"KafkaException.*checksum"):
            reader.read_next_batch()
        assert isinstance(stream.error, KafkaException)
        assert reader.read_next_batch().num_rows == 5


def test_a_read_that_ends_well_leaves_no_earlier_error(client: Client) -> None:
    topic = filled(client, 5)
    client.cluster.corrupt_next_fetch(topic, 0)
    with assigned(client, topic) as consumer:
        stream = consumer.arrow_stream(5, timeout=1.0, columns=OFFSETS)
        with pytest.raises(OSError, match="checksum"):
            pa.RecordBatchReader.from_stream(stream).read_all()
        assert isinstance(stream.error, KafkaException)
        assert pa.RecordBatchReader.from_stream(stream).read_all().num_rows == 5
        assert stream.error is None


def test_dropping_an_arrow_stream(client: Client, topic: str) -> None:
    consumer = assigned(client, topic)
    reader = pa.RecordBatchReader.from_stream(consumer.arrow_stream(timeout=0))
    del reader
    capsule = consumer.arrow_stream().__arrow_c_stream__()
    del capsule
    consumer.close()


def test_async_iteration(client: Client) -> None:
    topic = client.topic(2)

    async def fill_after_a_while() -> None:
        """Other coroutines run while the iteration waits, so messages come."""
        for _ in range(3):
            await asyncio.sleep(0.005)
        await asyncio.to_thread(fill, client, topic, 500)

    async def read(consumer: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        filling = asyncio.create_task(fill_after_a_while())
        async for batch in consumer.arrow_stream(200, columns=["partition", "offset"]):
            assert 0 < len(batch) <= 200
            found += rows(batch)
            if len(found) == 500:
                break
        await filling
        return found

    with assigned(client, topic, 2) as consumer:
        found = asyncio.run(asyncio.wait_for(read(consumer), WAIT_S))
    assert len({(row["partition"], row["offset"]) for row in found}) == 500


def test_async_iteration_ends(client: Client) -> None:
    topic = filled(client, 3)

    async def read(consumer: Any) -> list[int]:
        batches = [batch async for batch in consumer.arrow_stream(timeout=1.0, columns=OFFSETS)]
        asyncio.get_running_loop().call_later(0.05, consumer.wakeup)
        assert [batch async for batch in consumer.arrow_stream()] == []
        asyncio.get_running_loop().call_later(0.05, threading.Thread(target=consumer.close).start)
        assert [batch async for batch in consumer.arrow_stream()] == []
        return offsets(*batches)

    consumer = assigned(client, topic)
    assert asyncio.run(asyncio.wait_for(read(consumer), WAIT_S)) == [0, 1, 2]


def test_async_iteration_runs_callbacks(client: Client) -> None:
    topic = filled(client, 4)
    seen: list[list[int]] = []

    async def read(consumer: Any) -> list[int]:
        found: list[int] = []
        async for batch in consumer.arrow_stream(columns=OFFSETS):
            found += offsets(batch)
            if len(found) == 4:
                break
        return found

    conf = {"group.id": f"async-{topic}", "auto.offset.reset": "earliest"}
    with client.consumer(**conf) as consumer:
        consumer.subscribe(
            [topic], on_assign=lambda _, given: seen.append([each.partition for each in given])
        )
        assert asyncio.run(asyncio.wait_for(read(consumer), WAIT_S)) == [0, 1, 2, 3]
    assert seen == [[0]]


def test_two_coroutines_at_once_are_refused(client: Client, topic: str) -> None:

    async def read(consumer: Any) -> None:
        first = asyncio.create_task(anext(consumer.arrow_stream()))
        while not consumer._column_memory.awaited:
            assert not first.done()
            await asyncio.sleep(0.005)
        with pytest.raises(RuntimeError, match="another coroutine"):
            await anext(consumer.arrow_stream())
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not consumer._column_memory.awaited
        fill(client, topic, 1)
        assert len(await anext(consumer.arrow_stream())) == 1

    with assigned(client, topic) as consumer:
        asyncio.run(asyncio.wait_for(read(consumer), WAIT_S))
        assert consumer.position([TopicPartition(topic, 0)])[0].offset == 1


def test_two_idle_coroutines_let_the_loop_sleep(client: Client, topic: str) -> None:
    consumers = [assigned(client, topic) for _ in range(2)]
    for consumer in consumers:
        consumer.wakeup()  # poll() clears it
        assert consumer.poll(WAIT_S) is None

    async def main() -> int:
        async def wait(consumer: Any) -> None:
            async for _ in consumer.arrow_stream(timeout=0.5):
                pytest.fail("the topic is empty")

        calls = 0
        taken = [consumer._take_columns for consumer in consumers]
        for consumer, take in zip(consumers, taken, strict=True):

            def counted(*args: Any, take: Any = take, **kwargs: Any) -> Any:
                nonlocal calls
                calls += 1
                return take(*args, **kwargs)

            consumer._take_columns = counted  # type: ignore[method-assign]
        await asyncio.gather(*(wait(consumer) for consumer in consumers))
        return calls

    assert asyncio.run(main()) < 50
    for consumer in consumers:
        consumer.close()
