"""Columns of a share group's records, and acknowledgements by column, on the mock cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import (
    AcknowledgeType,
    IllegalStateException,
    KafkaError,
    ShareConsumer,
    TopicPartition,
)
from kafka_native.arrow import COLUMNS, ShareArrowBatch
from kafka_native.mock.share_partitions import State
from tests.client.arrow_support import offsets, record_batch, row_of, rows
from tests.client.share_support import done_up_to, sharing, take
from tests.client.support import Client, fill, raises_code
from tests.harness.libraries import polars_or_skip
from tests.waiting import WAIT_S

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def columns_of(consumer: ShareConsumer, count: int, **how: Any) -> list[ShareArrowBatch]:
    """Take at least so many rows. Each batch is accepted (explicit mode)."""
    found: list[ShareArrowBatch] = []
    deadline = time.monotonic() + WAIT_S
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, f"{sum(map(len, found))} of {count} rows"
        batch = consumer.consume_arrow(0.5, **how)
        consumer.acknowledge_arrow(batch)
        found.append(batch)
    return found


def states(client: Client, group: str, topic: str, count: int) -> list[State]:
    return [client.cluster.share.record(group, topic, 0, offset)[0] for offset in range(count)]


def one_batch(consumer: ShareConsumer, count: int, **how: Any) -> ShareArrowBatch:
    """Take exactly so many rows in one batch."""
    batch = consumer.consume_arrow(WAIT_S, **how)
    assert len(batch) == count
    return batch


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_those_of_messages(client: Client, topic: str, group: str, codec: str) -> None:
    with client.producer(**{"compression.type": codec}) as producer:
        for number in range(300):
            value = None if number % 7 == 0 else "x" * (number % 40)
            producer.produce(
                topic, value, key=str(number), timestamp=number + 1, headers={"h": str(number)}
            )
    with sharing(client, group, topic) as consumer:
        expected = [row_of(each) for each in take(consumer, 300)]
    with sharing(client, f"{group}-columns", topic, **EXPLICIT) as consumer:
        found = columns_of(consumer, 300, columns=list(COLUMNS))
    assert [row for batch in found for row in rows(batch)] == expected
    assert {row["delivery_count"] for row in expected} == {1}


def test_all_rows_are_accepted_in_implicit_mode(client: Client, group: str) -> None:
    topic = client.topic(3)
    fill(client, topic, 2000)
    seen: set[int] = set()
    with sharing(client, group, topic) as consumer:
        while len(seen) < 2000:
            batch = consumer.consume_arrow(WAIT_S, columns={"value": "string_view"})
            values = {int(each) for each in record_batch(batch)["value"].to_pylist()}
            assert not seen & values
            seen |= values
        assert set(consumer.commit_sync().values()) <= {None}
        with pytest.raises(IllegalStateException, match="explicit"):
            consumer.acknowledge_arrow(batch)
    assert sum(done_up_to(client.cluster, group, topic, number) for number in range(3)) == 2000


MASKS: list[Callable[[list[Any]], Any]] = [
    list,
    tuple,
    pa.array,
    lambda values: pa.chunked_array([values[:2], [], values[2:]]),
    lambda values: polars_or_skip().Series(values),
    lambda values: pa.array([False, True, *values])[2:],
]


@pytest.mark.parametrize("make", MASKS)
def test_a_mask_chooses_the_rows_that_are_acknowledged(
    client: Client, topic: str, group: str, make: Callable[[list[Any]], Any]
) -> None:
    fill(client, topic, 5)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        batch = one_batch(consumer, 5)
        consumer.acknowledge_arrow(batch, mask=make([True, False, None, True, False]))
        with pytest.raises(IllegalStateException, match="3 records"):
            consumer.consume_arrow(0)
        consumer.acknowledge_arrow(batch, REJECT, mask=make([False, True, False, False, True]))
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        expected = [State.ACQUIRED, State.ACKNOWLEDGED, State.ARCHIVED]
        assert states(client, group, topic, 5)[2:] == expected
        assert done_up_to(client.cluster, group, topic) == 2


TYPES: list[Callable[[list[Any]], Any]] = [
    list,
    lambda values: pa.array(values, pa.int8()),
    lambda values: pa.array(values, pa.uint8()),
    lambda values: pa.array(values, pa.int16()),
    lambda values: pa.array(values, pa.int32()),
    lambda values: pa.array(values),
    lambda values: polars_or_skip().Series(values),
]


@pytest.mark.parametrize("make", TYPES)
def test_a_column_has_a_type_for_each_row(
    client: Client, topic: str, group: str, make: Callable[[list[Any]], Any]
) -> None:
    fill(client, topic, 4)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        batch = one_batch(consumer, 4)
        consumer.acknowledge_arrow(batch, RENEW)
        consumer.acknowledge_arrow(batch, make([REJECT, None, ACCEPT, RELEASE]))
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        expected = [State.ACQUIRED, State.ACKNOWLEDGED, State.AVAILABLE]
        assert states(client, group, topic, 4)[1:] == expected
        consumer.acknowledge_arrow(batch, mask=[False, True, False, False])
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        with pytest.raises(IllegalStateException, match=r"offset 0 isn't"):
            consumer.acknowledge_arrow(batch)


def test_rows_and_gaps_belong_together(client: Client, topic: str, group: str) -> None:
    with client.producer(**{"transactional.id": topic}) as producer:
        producer.init_transactions()
        for start in (0, 100):
            producer.begin_transaction()
            for number in range(start, start + 100):
                producer.produce(topic, str(number))
            producer.commit_transaction()
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        batch = one_batch(consumer, 200)
        assert offsets(batch) == [*range(100), *range(101, 201)]
        consumer.acknowledge_arrow(batch, mask=[each != 101 for each in offsets(batch)])
        consumer.acknowledge_offset(topic, 0, 101, REJECT)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert done_up_to(client.cluster, group, topic) == 202


def test_redelivered_rows_have_their_count(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 150)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        batch = one_batch(consumer, 150)
        released = [70 <= number < 80 for number in range(150)]
        consumer.acknowledge_arrow(batch)
        consumer.acknowledge_arrow(batch, RELEASE, mask=released)
        again = one_batch(consumer, 10, columns=["offset", "delivery_count"])
        assert rows(again) == [{"offset": each, "delivery_count": 2} for each in range(70, 80)]
        consumer.acknowledge_arrow(again)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert done_up_to(client.cluster, group, topic) == 150


def test_unreadable_batch_is_an_error_and_its_records_come_again(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 5)
    client.cluster.corrupt_next_fetch(topic, 0)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        with raises_code(KafkaError._BAD_MSG, match="released"):
            consumer.consume_arrow(WAIT_S)
        batch = one_batch(consumer, 5, columns=["delivery_count"])
        assert {row["delivery_count"] for row in rows(batch)} == {2}
        consumer.acknowledge_arrow(batch)


def test_a_record_that_does_not_fit_is_not_lost(client: Client, topic: str, group: str) -> None:
    with client.producer() as producer:
        producer.produce(topic, b"good")
        producer.produce(topic, b"\xff")
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        for _ in range(2):
            with pytest.raises(ValueError, match=r"\[0\] at offset 1.*binary"):
                consumer.consume_arrow(WAIT_S, columns={"value": "string"})
        batch = one_batch(consumer, 2, columns={"value": "binary"})
        assert [row["value"] for row in rows(batch)] == [b"good", b"\xff"]
        consumer.acknowledge_arrow(batch)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}


def test_rows_before_one_that_does_not_fit_are_returned(client: Client, group: str) -> None:
    topic = client.topic(2)
    fill(client, topic, 3, partition=0)
    with client.producer() as producer:
        producer.produce(topic, b"\xff", partition=1)
    seen = 0
    with sharing(client, group, topic, **EXPLICIT) as consumer:

        def accept_texts() -> None:
            nonlocal seen
            while True:
                batch = consumer.consume_arrow(WAIT_S, columns={"value": "string"})
                consumer.acknowledge_arrow(batch)
                seen += len(batch)

        with pytest.raises(ValueError, match=r"\[1\] at offset 0"):
            accept_texts()
        rest = columns_of(consumer, 4 - seen)
        assert seen + sum(map(len, rest)) == 4


def test_wrong_arguments_change_nothing(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 2)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        batch = one_batch(consumer, 2)
        wrong: list[tuple[type[Exception], tuple[Any, ...]]] = [
            (TypeError, ([], ACCEPT)),
            (TypeError, (batch, [True, False])),
            (TypeError, (batch, pa.array([True, False]))),
            (TypeError, (batch, "ab")),
            (TypeError, (batch, None)),
            (TypeError, (batch, pa.array(["a", "b"]))),
            (TypeError, (batch, pa.array([1.0, 2.0]))),
            (TypeError, (batch, pa.array([1, 2]).dictionary_encode())),
            (TypeError, (batch, ACCEPT, [1, 0])),
            (TypeError, (batch, ACCEPT, pa.record_batch({"a": [True, False]}))),
            (ValueError, (batch, 0)),
            (ValueError, (batch, 5)),
            (ValueError, (batch, -1)),
            (ValueError, (batch, 255)),
            (ValueError, (batch, [1, 7])),
            (ValueError, (batch, pa.array([1, 1 << 40]))),
            (ValueError, (batch, [1])),
            (ValueError, (batch, [1, 1, 1])),
            (ValueError, (batch, ACCEPT, [True])),
        ]
        for kind, arguments in wrong:
            with pytest.raises(kind):
                consumer.acknowledge_arrow(*arguments)
        with pytest.raises(IllegalStateException, match="2 records"):
            consumer.consume_arrow(0)
        for columns in ([], ["nothing"], {"offset": "string"}):
            with pytest.raises(ValueError, match=r"column|offset"):
                consumer.consume_arrow(0, columns=columns)
        consumer.acknowledge_arrow(batch)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        empty = consumer.consume_arrow(0)
        assert len(empty) == 0
        consumer.acknowledge_arrow(empty, [], [])
        consumer.unsubscribe()
        with pytest.raises(IllegalStateException, match="subscribed"):
            consumer.consume_arrow(0)


def test_a_batch_outlives_its_records_and_its_consumer(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 3)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        batch = one_batch(consumer, 3)
        consumer.unsubscribe()
        with pytest.raises(IllegalStateException, match="hands"):
            consumer.acknowledge_arrow(batch)
    assert offsets(batch) == [0, 1, 2]
    with pytest.raises(IllegalStateException, match="closed"):
        consumer.acknowledge_arrow(batch)
    assert repr(batch).startswith("<ShareArrowBatch 3 rows: topic,")
