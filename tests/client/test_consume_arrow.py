"""consume_arrow(): the same records as consume(), as columns."""

from __future__ import annotations

import gc
import signal
import threading
from typing import Any

import pyarrow as pa
import pytest

import kafka_native.consumer
from kafka_native import (
    OFFSET_BEGINNING,
    ConsumerInterceptor,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from kafka_native._native.arrow_consumer import take_columns
from kafka_native._native.engine import live_objects
from kafka_native.arrow import COLUMNS, ArrowBatch
from kafka_native.mock import MockCluster
from kafka_native.mock.versions import of_release
from tests.waiting import WAIT_S

from .arrow_support import ALL, by_place, collect, offsets, record_batch, row_of, rows
from .support import Client, assigned, code_of, fill, filled, read_all

COUNT = 2500


def mixed(client: Client, count: int = COUNT, partitions: int = 2, **conf: Any) -> str:
    """Return a topic with records of all kinds: with and without keys, values and headers."""
    topic = client.topic(partitions)
    headers: list[Any] = [
        None,
        [("name", b"value")],
        [("", b""), ("none", None), ("long", b"h" * 200)],
        [],
    ]
    with client.producer(**conf) as producer:
        for number in range(count):
            producer.produce(
                topic,
                None if number % 11 == 0 else b"%d" % number * (number % 7),
                key=None if number % 3 == 0 else f"schlüssel {number}" * (number % 2),
                partition=number % partitions,
                headers=headers[number % 4],
                timestamp=1_700_000_000_000 + number,
            )
    return topic


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_columns_equal_messages(client: Client, codec: str) -> None:
    topic = mixed(client, **{"compression.type": codec, "linger.ms": 5})
    expected = [row_of(message) for message in read_all(client, topic, COUNT)]
    with assigned(client, topic, 2) as consumer:
        found = collect(consumer, COUNT, columns=ALL)
    assert by_place(found) == by_place(expected)


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name, kinds in COLUMNS.items() for kind in kinds],
    ids="-".join,
)
def test_each_type(
    client: Client, shared: tuple[str, list[dict[str, Any]]], name: str, kind: str
) -> None:
    topic, expected = shared
    with assigned(client, topic) as consumer:
        batch = consumer.consume_arrow(len(expected), WAIT_S, columns={name: kind, "offset": None})
    found = record_batch(batch)
    types = {
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
        "list": pa.list_(
            pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
        ),
        "string_view": pa.string_view(),
        "binary_view": pa.binary_view(),
        **{f"timestamp[{unit}]": pa.timestamp(unit, tz="UTC") for unit in ("ms", "us", "ns")},
    }
    assert found.schema.field(name).type == (types[kind] if kind in types else getattr(pa, kind)())
    text = name in ("key", "value") and "string" in kind
    factor = {"timestamp[us]": 1000, "timestamp[ns]": 1_000_000}.get(kind, 1)
    wanted = [row[name] for row in expected]
    if text:
        wanted = [None if each is None else each.decode() for each in wanted]
    if name == "timestamp":
        wanted = [each * factor for each in wanted]
    assert [row[name] for row in rows(batch)] == wanted


@pytest.fixture(scope="module")
def shared(cluster: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return a topic of one partition, and its rows."""
    client = Client(cluster)
    topic = mixed(client, 600, 1)
    return topic, [row_of(message) for message in read_all(client, topic, 600)]


def test_complete_columns_have_no_nulls(client: Client) -> None:
    topic = filled(client, 300)
    with assigned(client, topic) as consumer:
        found = record_batch(consumer.consume_arrow(300, WAIT_S, columns=ALL))
    nulls = {name: found.column(name).null_count for name in ALL}
    assert nulls == {**dict.fromkeys(ALL, 0), "key": 300, "headers": 300, "delivery_count": 300}
    assert found.column("value").buffers()[0] is None


def test_buffers_begin_on_64_bytes(client: Client) -> None:
    topic = mixed(client, 500, 1)
    with assigned(client, topic) as consumer:
        found = record_batch(consumer.consume_arrow(500, WAIT_S, columns=ALL))
    buffers = [buffer for column in found.columns for buffer in column.buffers()]
    addresses = [buffer.address for buffer in buffers if buffer is not None]
    assert addresses
    assert [address % 64 for address in addresses] == [0] * len(addresses)


def test_default_columns_and_their_order(client: Client) -> None:
    topic = filled(client, 3)
    with assigned(client, topic) as consumer:
        names = ["topic", "partition", "offset", "timestamp", "key", "value"]
        assert consumer.consume_arrow(1, WAIT_S).column_names == names
        second = consumer.consume_arrow(1, WAIT_S, columns=["value", "offset"])
        assert rows(second) == [{"value": b"1", "offset": 1}]
        assert "value, offset" in repr(second)


def test_batches_are_limited_and_continue_at_their_ends(client: Client) -> None:
    topic = filled(client, 1000)
    sizes = [1, 0, 255, 256, 257, 231]
    with assigned(client, topic) as consumer:
        batches = [consumer.consume_arrow(size, WAIT_S, columns=["offset"]) for size in sizes]
        assert [len(batch) for batch in batches] == sizes
        assert offsets(*batches) == list(range(1000))
        positions = [batch.positions.get((topic, 0)) for batch in batches]
        assert positions == [1, None, 256, 512, 769, 1000]
        assert consumer.position([TopicPartition(topic, 0)])[0].offset == 1000


def test_alternates_with_poll_and_consume(client: Client) -> None:
    topic = filled(client, 900)
    found: list[int] = []
    with assigned(client, topic) as consumer:
        while len(found) < 900:
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None
            found.append(message.offset())
            found += offsets(consumer.consume_arrow(70, 0.05, columns=["offset"]))
            found += [each.offset() for each in consumer.consume(13, 0.05)]
    assert found == list(range(900))


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("release", ["0.8.2", "0.10.2"])
def test_old_message_formats(release: str, codec: str) -> None:
    old = {"api.version.request": False, "broker.version.fallback": release}
    if not release.startswith("0.8"):
        old = {}
    with MockCluster(brokers=1, max_versions=of_release(release)) as cluster:
        client = Client(cluster)
        topic = mixed(client, 300, 1, **{"compression.type": codec, "linger.ms": 5}, **old)
        expected = [row_of(message) for message in read_all(client, topic, 300, **old)]
        with assigned(client, topic, **old) as consumer:
            found = [*collect(consumer, 130, columns=ALL), *collect(consumer, 170, columns=ALL)]
    assert found == expected
    assert {row["timestamp"] is None for row in found} == {release == "0.8.2"}
    assert {row["headers"] is None for row in found} == {True}


def test_end_of_partition(client: Client) -> None:
    topic = client.topic(2)
    fill(client, topic, 5, partition=0)
    with assigned(client, topic, 2, **{"enable.partition.eof": True}) as consumer:
        ends: dict[int, int] = {}
        count = 0
        while len(ends) < 2:
            batch = consumer.consume_arrow(1000, WAIT_S)
            assert len(batch) or batch.ends, "an end of a partition arrives before the timeout"
            count += len(batch)
            assert all(isinstance(end, TopicPartition) for end in batch.ends)
            ends.update({end.partition: end.offset for end in batch.ends})
    assert (count, ends) == (5, {0: 5, 1: 0})


def test_waits_for_the_first_record(client: Client, topic: str) -> None:
    with assigned(client, topic) as consumer:
        assert len(consumer.consume_arrow(10, 0)) == 0
        assert len(consumer.consume_arrow(10, 0.05)) == 0
        timer = threading.Timer(0.1, fill, (client, topic, 1))
        timer.start()
        assert len(consumer.consume_arrow(1, WAIT_S)) == 1
        timer.join()


def test_wakeup_ends_the_wait(client: Client, topic: str) -> None:
    with assigned(client, topic) as consumer:
        timer = threading.Timer(0.1, consumer.wakeup)
        timer.start()
        assert len(consumer.consume_arrow(10)) == 0
        timer.join()


def test_a_callback_runs_before_records_are_returned(client: Client) -> None:
    topic = filled(client, 10)
    seen: list[list[TopicPartition]] = []
    conf = {"group.id": f"arrow-{topic}", "auto.offset.reset": "earliest"}
    with client.consumer(**conf) as consumer:
        consumer.subscribe([topic], on_assign=lambda _, partitions: seen.append(partitions))
        assert len(consumer.consume_arrow(10, WAIT_S)) == 10
        assert [[each.partition for each in one] for one in seen] == [[0]]
        committed = consumer.commit(asynchronous=False)
        assert committed is not None
        assert [each.offset for each in committed] == [10]


def test_a_callback_raises_and_nothing_is_lost(client: Client) -> None:
    topic = filled(client, 10)

    def refuse(*_: object) -> None:
        raise LookupError("not now")

    conf = {"group.id": f"raise-{topic}", "auto.offset.reset": "earliest"}
    with client.consumer(**conf) as consumer:
        consumer.subscribe([topic], on_assign=refuse)
        with pytest.raises(LookupError, match="not now"):
            consumer.consume_arrow(10, WAIT_S)
        assert [row["offset"] for row in collect(consumer, 10)] == list(range(10))


def test_seek_pause_and_resume(client: Client) -> None:
    topic = filled(client, 500)
    place = TopicPartition(topic, 0)
    with assigned(client, topic) as consumer:
        assert offsets(consumer.consume_arrow(10, WAIT_S)) == list(range(10))
        consumer.seek(TopicPartition(topic, 0, 400))
        assert offsets(consumer.consume_arrow(5, WAIT_S)) == list(range(400, 405))
        consumer.pause([place])
        assert len(consumer.consume_arrow(10, 0.05)) == 0
        consumer.resume([place])
        assert offsets(consumer.consume_arrow(5, WAIT_S)) == list(range(405, 410))


def test_a_fetch_error_is_raised_once_rows_are_returned(client: Client) -> None:
    topic = filled(client, 20)
    with assigned(client, topic, **{"auto.offset.reset": "error"}) as consumer:
        assert len(consumer.consume_arrow(20, WAIT_S)) == 20
        consumer.seek(TopicPartition(topic, 0, 12345))
        assert code_of(lambda: consumer.consume_arrow(1, WAIT_S)) == KafkaError._AUTO_OFFSET_RESET
        consumer.seek(TopicPartition(topic, 0, 15))
        assert len(consumer.consume_arrow(5, WAIT_S)) == 5


def test_a_value_that_is_not_utf8(client: Client, topic: str) -> None:
    with client.producer() as producer:
        for value in (b"good", "größe".encode(), b"\xff\xfe bad", b"good again"):
            producer.produce(topic, value)
    with assigned(client, topic) as consumer:
        first = consumer.consume_arrow(4, WAIT_S, columns={"value": "string"})
        assert rows(first) == [{"value": "good"}, {"value": "größe"}]
        for kind in ("string", "large_string", "string_view"):
            text = rf"{topic} \[0\] at offset 2: its value can't be a {kind}.*UTF-8"
            with pytest.raises(ValueError, match=text):
                consumer.consume_arrow(4, WAIT_S, columns={"value": kind})
        rest = consumer.consume_arrow(2, WAIT_S, columns={"value": "binary"})
        assert rows(rest) == [{"value": b"\xff\xfe bad"}, {"value": b"good again"}]


def test_a_timestamp_out_of_range_for_its_unit(client: Client, topic: str) -> None:
    far = 2**62
    with client.producer() as producer:
        producer.produce(topic, b"far", timestamp=far)
    with assigned(client, topic) as consumer:
        text = r"at offset 0: its timestamp can't be .*out of its range"
        with pytest.raises(ValueError, match=text):
            consumer.consume_arrow(1, WAIT_S, columns={"timestamp": "timestamp[ns]"})
        assert rows(consumer.consume_arrow(1, WAIT_S, columns=["timestamp"])) == [
            {"timestamp": far}
        ]


def test_a_column_that_is_full_ends_the_batch(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.producer() as producer:
        for number in range(100):
            producer.produce(topic, b"%03d" % number * 10, headers=[("n", b"x" * 20)])
    monkeypatch.setattr(
        kafka_native.consumer,
        "take_columns",
        lambda *args, **more: take_columns(*args, bytes_max=100, **more),
    )
    with assigned(client, topic) as consumer:
        batches = [
            consumer.consume_arrow(100, WAIT_S, columns=["offset", "value"]) for _ in range(10)
        ]
        assert [len(batch) for batch in batches] == [3] * 10
        assert offsets(*batches) == list(range(30))
        assert len(consumer.consume_arrow(30, WAIT_S, columns=["headers"])) == 5
        assert len(consumer.consume_arrow(30, WAIT_S, columns={"value": "large_binary"})) == 30
        assert len(consumer.consume_arrow(30, WAIT_S, columns={"value": "binary_view"})) == 30
    with client.producer() as producer:
        producer.produce(topic, b"v" * 101)
    with assigned(client, topic, offset=100) as consumer:
        with pytest.raises(ValueError, match=r"at offset 100: larger than a column can be"):
            consumer.consume_arrow(1, WAIT_S)
        assert len(consumer.consume_arrow(1, WAIT_S, columns={"value": "binary_view"})) == 1


def test_a_batch_outlives_its_consumer(client: Client) -> None:
    topic = mixed(client, 400, 1)
    consumer = assigned(client, topic)
    columns = {
        "key": "binary_view",
        "value": "string_view",
        "headers": None,
        "topic": "string_view",
        "offset": None,
    }
    batch: ArrowBatch | None = consumer.consume_arrow(400, WAIT_S, columns=columns)
    assert batch is not None
    table, again = pa.table(batch), record_batch(batch)
    consumer.close()
    del consumer, batch
    gc.collect()
    assert live_objects()["columns"] > 0
    kept = table.column("value")
    del table
    assert kept.to_pylist() == again.column("value").to_pylist()
    assert again.column("offset").to_pylist() == list(range(400))
    assert again.column("key").to_pylist()[1] == "schlüssel 1".encode()
    del kept, again


@pytest.mark.parametrize("kind", ["binary_view", "string_view"])
def test_few_rows_with_views_keep_little_more_than_their_bytes(client: Client, kind: str) -> None:
    topic = client.topic()
    expected = [
        None if number % 5 == 4 else b"%d " % number * (number % 9) * 4 for number in range(3000)
    ]
    with client.producer(**{"linger.ms": 20}) as producer:
        for value in expected:
            producer.produce(topic, value, b"a key that is no short one", partition=0)
    columns = {"value": kind, "key": "binary_view", "topic": "string_view"}
    chunks = live_objects()["chunks"]
    with assigned(client, topic, **{"message.pinned.max.kbytes": 1}) as consumer:
        kept = [consumer.consume_arrow(10, WAIT_S, columns=columns) for _ in range(300)]
        assert sum(batch.nbytes for batch in kept) < 3 * sum(
            len(value or b"") + 26 + 3 * 16 for value in expected
        )
    tables = [record_batch(batch) for batch in kept]
    assert live_objects()["chunks"] <= chunks
    del kept
    gc.collect()
    found = [row for table in tables for row in table.to_pylist()]
    values = [
        row["value"].encode() if isinstance(row["value"], str) else row["value"] for row in found
    ]
    assert values == expected
    assert {row["key"] for row in found} == {b"a key that is no short one"}
    assert {row["topic"] for row in found} == {topic}


def test_unused_capsules_free_their_columns(client: Client) -> None:
    topic = filled(client, 10)
    before = live_objects().get("columns", 0)
    with assigned(client, topic) as consumer:
        batch = consumer.consume_arrow(10, WAIT_S)
        kept = [batch.__arrow_c_schema__(), batch.__arrow_c_array__(), batch.__arrow_c_stream__()]
        del batch
        assert live_objects()["columns"] == before + 1
        kept.clear()
        gc.collect()
        assert live_objects()["columns"] == before


def test_released_on_other_threads(client: Client) -> None:
    topic = filled(client, 100)
    with assigned(client, topic) as consumer:
        found = [record_batch(consumer.consume_arrow(10, WAIT_S)) for _ in range(10)]
    threads = [threading.Thread(target=found.pop) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == []


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ("value", TypeError, "names or a mapping"),
        (7, TypeError, "names or a mapping"),
        ([b"value"], TypeError, "are str"),
        ({"value": 3}, TypeError, "are str"),
        ([], ValueError, "at least one"),
        ({}, ValueError, "at least one"),
        (["value", "size"], ValueError, "there is no 'size'"),
        (["value", "value"], ValueError, "a column occurs twice"),
        ({"offset": "string"}, ValueError, "offset can't be 'string', only int64"),
    ],
)
def test_invalid_columns_are_refused(
    client: Client, columns: Any, error: type[Exception], text: str
) -> None:
    with client.consumer() as consumer:
        with pytest.raises(error, match=text):
            consumer.consume_arrow(1, 0, columns=columns)
        with pytest.raises(error, match=text):
            consumer.arrow_stream(1, 0, columns=columns)


def test_invalid_numbers_are_refused(client: Client) -> None:
    with client.consumer() as consumer:
        for count in (-1, 2**31):
            with pytest.raises(ValueError, match="max_records must be between 0 and 2147483647"):
                consumer.consume_arrow(count, 0)
        with pytest.raises(TypeError):
            consumer.consume_arrow(1.5, 0)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="1 or more"):
            consumer.arrow_stream(0)
        with pytest.raises(ValueError, match="isn't a number"):
            consumer.consume_arrow(1, float("nan"))


def test_closed(client: Client) -> None:
    consumer = client.consumer()
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.consume_arrow(1, 0)
    with pytest.raises(RuntimeError, match="closed"):
        consumer.arrow_stream()


class MessageInterceptor(ConsumerInterceptor):
    """An interceptor of messages."""

    def on_consume(self, messages: list[Message]) -> None:
        """Get messages."""


class CommitInterceptor(ConsumerInterceptor):
    """An interceptor of commits only."""

    def on_commit(self, offsets: list[TopicPartition], error: KafkaError | None) -> None:
        """Get commits."""


def test_interceptors(client: Client) -> None:
    topic = filled(client, 5)
    with assigned(client, topic, interceptors=[CommitInterceptor()]) as consumer:
        assert len(consumer.consume_arrow(5, WAIT_S)) == 5
    both = [CommitInterceptor(), MessageInterceptor()]
    with assigned(client, topic, interceptors=both) as consumer:
        with pytest.raises(KafkaException, match=r"MessageInterceptor\.on_consume") as caught:
            consumer.consume_arrow(5, WAIT_S)
        assert caught.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE
        assert len(consumer.consume(5, WAIT_S)) == 5


def test_a_signal_handler_raises_and_nothing_is_lost(client: Client) -> None:
    topic = filled(client, 50)

    def interrupt(*_: object) -> None:
        raise InterruptedError("by a signal")

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        with assigned(client, topic) as consumer:
            assert len(consumer.consume_arrow(10, WAIT_S)) == 10
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(InterruptedError):
                consumer.consume_arrow(1000, WAIT_S)
            assert consumer.position([TopicPartition(topic, 0)])[0].offset == 10
            assert [row["offset"] for row in collect(consumer, 40)] == list(range(10, 50))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_many_topics(client: Client) -> None:
    topics = [client.topic() for _ in range(40)]
    for number, topic in enumerate(topics):
        fill(client, topic, 3, start=number)
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
        found = collect(consumer, 120, columns=["topic", "offset", "value", "partition"])
    assert by_place(found) == by_place(
        [
            {"topic": topic, "partition": 0, "offset": offset, "value": b"%d" % (number + offset)}
            for number, topic in enumerate(topics)
            for offset in range(3)
        ]
    )
