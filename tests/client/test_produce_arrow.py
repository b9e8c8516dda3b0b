"""produce_arrow(): every Arrow layout gives the same messages, with one report a call."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import (
    ArrowReport,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ProducerInterceptor,
)
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.harness.libraries import polars_or_skip

from .support import NOWHERE, Client, read_all

HEADERS = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
VALUES = [
    b"one",
    b"",
    None,
    b"a value that is longer than a view holds inline",
    b"\xff\x00",
    "zwölf".encode(),
]
TEXTS = ["one", "", None, "a text that is longer than a view holds inline", "zwölf", "x"]
Reports = list[ArrowReport]


@pytest.fixture
def reports() -> Reports:
    """Return the reports of a test's calls."""
    return []


def values_of(messages: list[Message]) -> list[bytes | None]:
    """Return the values in the order of one partition."""
    return [message.value() for message in sorted(messages, key=Message.offset)]


def sent(client: Client, data: Any, count: int, **arguments: Any) -> list[Message]:
    """Produce to a topic of one partition, and return the messages by offset."""
    topic = client.topic()
    with client.producer() as producer:
        assert producer.produce_arrow(topic, data, **arguments) == count
    return sorted(read_all(client, topic, count), key=Message.offset)


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.binary()),
        pa.dictionary(pa.uint32(), pa.binary_view()),
    ],
    ids=str,
)
def test_binary_of_every_layout_arrives(client: Client, kind: pa.DataType):
    column = pa.array(VALUES, pa.binary())
    if pa.types.is_dictionary(kind):
        encoded = column.dictionary_encode()
        words = encoded.dictionary.cast(kind.value_type)
        column = pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), words)
    else:
        column = column.cast(kind)
    assert values_of(sent(client, pa.table({"value": column}), len(VALUES))) == VALUES


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_of_every_layout_arrives_as_utf8(client: Client, kind: pa.DataType):
    column = pa.array(TEXTS, pa.string()).cast(kind)
    messages = sent(client, pa.table({"k": column, "v": column}), len(TEXTS), value="v", key="k")
    expected = [None if text is None else text.encode() for text in TEXTS]
    assert [(message.key(), message.value()) for message in messages] == [
        (each, each) for each in expected
    ]


def test_fixed_size_and_null_columns_arrive(client: Client):
    table = pa.table({"key": pa.array([b"abc", None, b"xyz"], pa.binary(3)), "value": pa.nulls(3)})
    messages = sent(client, table, 3, key=0, value=1)
    assert [(message.key(), message.value()) for message in messages] == [
        (b"abc", None),
        (None, None),
        (b"xyz", None),
    ]


def test_columns_of_nulls_arrive_from_polars(client: Client):
    polars = polars_or_skip()  # its arrays of nulls have an empty buffer
    frame = polars.DataFrame({"key": [None, None], "value": ["a", "b"], "sent": [None, None]})
    messages = sent(client, frame, 2, key="key", value="value", timestamp="sent")
    assert [(message.key(), message.value()) for message in messages] == [
        (None, b"a"),
        (None, b"b"),
    ]


def test_value_none_sends_nulls(client: Client):
    messages = sent(client, pa.table({"key": ["a", "b"]}), 2, key="key", value=None)
    assert [(message.key(), message.value()) for message in messages] == [
        (b"a", None),
        (b"b", None),
    ]


@pytest.mark.parametrize(
    "kind", [HEADERS, pa.large_list(HEADERS.value_type), pa.map_(pa.string(), pa.binary())], ids=str
)
def test_headers_arrive(client: Client, kind: pa.DataType):
    rows = [[("a", b"1"), ("b", None)], [], None, [("ü", b""), ("a", b"x" * 300)]]
    data = (
        rows
        if pa.types.is_map(kind)
        else [row and [{"key": k, "value": v} for k, v in row] for row in rows]
    )
    table = pa.table({"value": [b"x"] * 4, "headers": pa.array(data, kind)})
    messages = sent(client, table, 4, headers="headers")
    assert [message.headers() for message in messages] == [rows[0], None, None, rows[3]]


def test_headers_that_fill_the_scratch_buffer_many_times(client: Client):
    rows = [[{"key": f"k{n}", "value": bytes([n % 256]) * 9000}] for n in range(300)]
    table = pa.table({"value": [str(n) for n in range(300)], "headers": pa.array(rows, HEADERS)})
    for message in sent(client, table, 300, headers="headers"):
        number = int(message.value() or b"")
        assert message.headers() == [(f"k{number}", bytes([number % 256]) * 9000)]


@pytest.mark.parametrize(
    ("kind", "number", "expected"),
    [
        (pa.timestamp("s"), 1_700_000_000, 1_700_000_000_000),
        (pa.timestamp("ms", "UTC"), 1_700_000_000_123, 1_700_000_000_123),
        (pa.timestamp("us", "Europe/Berlin"), 1_700_000_000_123_999, 1_700_000_000_123),
        (pa.timestamp("ns"), 1_700_000_000_123_999_999, 1_700_000_000_123),
        (pa.int64(), 1_700_000_000_123, 1_700_000_000_123),
    ],
    ids=str,
)
def test_timestamps_of_every_unit(client: Client, kind: pa.DataType, number: int, expected: int):
    moments = pa.array([number, None], pa.int64()).cast(kind)
    first, second = sent(client, pa.table({"value": [b"a", b"b"], "t": moments}), 2, timestamp="t")
    assert first.timestamp() == (1, expected)
    # a null stands for the current time
    assert abs(second.timestamp()[1] - datetime.datetime.now().timestamp() * 1000) < 120_000


def test_one_timestamp_for_all(client: Client):
    messages = sent(client, pa.table({"value": [b"a", b"b"]}), 2, timestamp=1_234_567)
    assert [message.timestamp() for message in messages] == [(1, 1_234_567)] * 2


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()],
    ids=str,
)
def test_partitions_of_every_integer(client: Client, kind: pa.DataType):
    topic = client.topic(4)
    table = pa.table(
        {
            "value": [str(n % 4) for n in range(100)],
            "p": pa.array([n % 4 for n in range(100)], kind),
        }
    )
    with client.producer() as producer:
        assert producer.produce_arrow(topic, table, partition="p") == 100
    assert all(
        int(message.value() or b"") == message.partition()
        for message in read_all(client, topic, 100)
    )


@pytest.mark.parametrize(
    "partitioner",
    ["consistent_random", "murmur2_random", "fnv1a", "murmur2", "consistent", "fnv1a_random"],
)
def test_keys_go_where_produce_puts_them(client: Client, partitioner: str):
    one, other = client.topic(5), client.topic(5)
    keys = [f"key-{n % 57}" for n in range(700)]
    with client.producer(partitioner=partitioner) as producer:
        producer.produce_arrow(one, pa.table({"key": keys, "value": keys}), key="key")
        for key in keys:
            producer.produce(other, key, key)
    places = [
        {(m.key(), m.partition()) for m in read_all(client, topic, 700)} for topic in (one, other)
    ]
    assert places[0] == places[1]


def test_order_of_a_key_is_kept(client: Client):
    topic = client.topic(3)
    table = pa.table(
        {"key": [f"{n % 17}" for n in range(20_000)], "value": [str(n) for n in range(20_000)]}
    )
    with client.producer(**{"queue.buffering.max.messages": 1000, "linger.ms": 0}) as producer:
        assert producer.produce_arrow(topic, table, key="key") == 20_000
    seen: dict[tuple[bytes, int], int] = {}
    for message in sorted(
        read_all(client, topic, 20_000), key=lambda m: (m.partition(), m.offset())
    ):
        key, number = message.key() or b"", int(message.value() or b"")
        assert seen.get((key, message.partition()), -1) < number
        seen[key, message.partition()] = number
    assert len(seen) == 17


@pytest.mark.parametrize("words", [pa.string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_topics_by_column(client: Client, words: pa.DataType):
    topics = [client.topic() for _ in range(40)]
    other = client.topic()
    names = [topics[n * 7 % 40] if n % 5 else None for n in range(400)]
    table = pa.table(
        {"value": [str(n) for n in range(400)], "topic": pa.array(names, pa.string()).cast(words)}
    )
    with client.producer() as producer:
        assert producer.produce_arrow(other, table, topic_column="topic") == 400
    for topic in [*topics, other]:
        expected = [str(n).encode() for n in range(400) if (names[n] or other) == topic]
        assert values_of(read_all(client, topic, len(expected))) == expected


def test_slices_contain_only_their_rows(client: Client):
    rows = [
        None if n % 3 == 0 else [{"key": str(n), "value": str(n).encode()}] for n in range(1000)
    ]
    table = pa.table(
        {
            "value": pa.array([None if n % 7 == 0 else f"v{n}" for n in range(1000)]),
            "key": pa.array([f"k{n % 5}" for n in range(1000)]).dictionary_encode(),
            "headers": pa.array(rows, HEADERS),
            "partition": pa.array([None if n % 2 else 0 for n in range(1000)], pa.int16()),
        }
    )
    batch = table.combine_chunks().to_batches()[0]
    struct = pa.chunked_array(
        [table.to_struct_array().chunk(0).slice(10, 60)]
    )  # an offset in the struct, not in its children
    for data, first, count in (
        (table.slice(333, 50), 333, 50),
        (batch.slice(501, 77).slice(3, 9), 504, 9),
        (struct, 10, 60),
    ):
        messages = sent(client, data, count, key="key", headers="headers", partition="partition")
        for number, message in enumerate(messages, first):
            assert message.value() == (None if number % 7 == 0 else f"v{number}".encode())
            assert message.key() == f"k{number % 5}".encode()
            assert message.headers() == (
                None if number % 3 == 0 else [(str(number), str(number).encode())]
            )


def test_a_single_column_is_the_value(client: Client):
    chunks = pa.chunked_array([["a"], [], ["b", "c"]])
    assert values_of(sent(client, chunks, 3)) == [b"a", b"b", b"c"]
    assert values_of(sent(client, pa.array([b"a", None]), 2)) == [b"a", None]


def test_one_report_counts_and_names_failed_rows(client: Client, reports: Reports):
    topic = client.topic(2)
    table = pa.table(
        {"value": [b"x", b"y" * 5000, b"z"] * 400, "partition": [0, 1, 9, 0, 1, 1] * 200}
    )
    with client.producer(
        **{"message.max.bytes": 4000, "topic.metadata.propagation.max.ms": 1000}
    ) as producer:
        assert (
            producer.produce_arrow(topic, table, partition="partition", on_delivery=reports.append)
            == 1200
        )
        assert producer.flush(20) == 0
    (report,) = reports
    assert report.rows == 1200
    failed = {row: error.code() for row, error in report.failed}
    for row in range(1200):
        if row % 3 == 1:
            assert failed.pop(row) == KafkaError.MSG_SIZE_TOO_LARGE
        elif row % 6 == 2:
            assert failed.pop(row) == KafkaError._UNKNOWN_PARTITION
    assert failed == {}
    assert report.delivered == 600
    assert report.error is not None
    assert report.error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert "rows=1200 delivered=600 failed=600" in repr(report)


def test_bad_row_ends_a_call_without_a_report(client: Client):
    table = pa.table({"value": [b"x", b"x", b"y" * 5000, b"z"]})
    with client.producer(**{"message.max.bytes": 4000}) as producer:
        with pytest.raises(KafkaException, match=r"row 2 \(2 queued\)") as caught:
            producer.produce_arrow("t", table)
        assert caught.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
        assert caught.value.queued == 2
        producer.purge()


def test_reports_of_calls_and_messages_do_not_mix(client: Client):
    topic = client.topic(2)
    reports: list[tuple[int, ArrowReport]] = []
    single: list[bytes | None] = []
    everybody: list[bytes | None] = []
    with client.producer(
        on_delivery=lambda error, message: everybody.append(message.value())
    ) as producer:
        for number in range(60):
            table = pa.table({"value": [f"{number}"] * number})
            producer.produce_arrow(
                topic,
                table,
                on_delivery=lambda report, number=number: reports.append((number, report)),
            )
            producer.produce(
                topic,
                f"s{number}",
                on_delivery=lambda error, message: single.append(message.value()),
            )
            producer.produce(topic, f"e{number}")
            producer.produce_arrow(topic, pa.table({"value": [f"a{number}"]}))
        assert producer.flush(20) == 0
    assert sorted(number for number, _ in reports) == list(range(60))
    assert all(
        report.rows == report.delivered == number and report.error is None
        for number, report in reports
    )
    assert sorted(single) == sorted(f"s{number}".encode() for number in range(60))
    # Messages without their own report are reported normally.
    assert sorted(everybody) == sorted(
        f"{kind}{number}".encode() for number in range(60) for kind in "ea"
    )


def test_failures_and_messages_in_one_batch(client: Client, reports: Reports):
    seen: list[tuple[KafkaError | None, bytes | None]] = []
    with Producer(NOWHERE) as producer:
        for number in range(5):
            producer.produce_arrow(
                "t", pa.table({"value": [f"r{number}"] * 3}), on_delivery=reports.append
            )
            producer.produce(
                "t",
                f"m{number}",
                on_delivery=lambda error, message: seen.append((error, message.value())),
            )
        assert len(producer) == 20
        producer.purge()
        assert producer.flush(10) == 0
    assert [
        (report.rows, report.delivered, [row for row, _ in report.failed]) for report in reports
    ] == [(3, 0, [0, 1, 2])] * 5
    assert {report.error.code() for report in reports if report.error} == {KafkaError._PURGE_QUEUE}
    assert [value for _, value in seen] == [f"m{number}".encode() for number in range(5)]


def test_rows_of_an_unknown_topic_fail_with_the_brokers_error(client: Client, reports: Reports):
    with client.producer(**{"topic.metadata.propagation.max.ms": 500}) as producer:
        producer.produce_arrow(
            "no such topic!", pa.table({"value": ["a", "b"]}), on_delivery=reports.append
        )
        assert producer.flush(20) == 0
    assert [row for row, _ in reports[0].failed] == [0, 1]


def test_expired_rows_are_reported(client: Client, reports: Reports):
    with Producer({**NOWHERE, "message.timeout.ms": 300}) as producer:
        producer.produce_arrow("t", pa.table({"value": ["a", "b"]}), on_delivery=reports.append)
        assert producer.flush(20) == 0
    assert reports[0].error is not None
    assert reports[0].error.code() == KafkaError._MSG_TIMED_OUT


def test_close_without_flush_still_reports(reports: Reports):
    producer = Producer(NOWHERE)
    producer.produce_arrow("t", pa.table({"value": ["a"] * 1000}), on_delivery=reports.append)
    assert len(producer) == 1000
    producer.close(0)
    assert (reports[0].rows, reports[0].delivered, len(reports[0].failed)) == (1000, 0, 1000)


def test_a_producer_that_is_dropped_makes_no_report(reports: Reports):
    producer = Producer(NOWHERE)
    producer.produce_arrow("t", pa.table({"value": ["a"] * 1000}), on_delivery=reports.append)
    del producer  # the session's leak check finds leftovers
    assert reports == []


def test_retries_do_not_count_twice(cluster: MockCluster, client: Client, reports: Reports):
    topic = client.topic(2)
    cluster.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.REQUEST_TIMED_OUT]
    )
    with client.producer(**{"retry.backoff.ms": 10}) as producer:
        producer.produce_arrow(
            topic, pa.table({"value": [str(n) for n in range(5000)]}), on_delivery=reports.append
        )
        assert producer.flush(20) == 0
    assert (reports[0].rows, reports[0].delivered) == (5000, 5000)
    assert sorted(int(m.value() or b"") for m in read_all(client, topic, 5000)) == list(range(5000))


def test_a_batch_that_is_split_counts_once(
    cluster: MockCluster, client: Client, topic: str, reports: Reports
):
    cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE] * 2)
    with client.producer(**{"enable.idempotence": True}) as producer:
        producer.produce_arrow(
            topic, pa.table({"value": [str(n) for n in range(1000)]}), on_delivery=reports.append
        )
        assert producer.flush(20) == 0
    assert (reports[0].rows, reports[0].delivered) == (1000, 1000)
    assert values_of(read_all(client, topic, 1000)) == [str(n).encode() for n in range(1000)]


@pytest.mark.parametrize(
    "conf",
    [
        {"acks": 0},
        {"compression.type": "lz4"},
        {"enable.idempotence": True},
        {"delivery.report.only.error": True},
    ],
    ids=str,
)
def test_reports_under_other_settings(client: Client, conf: dict[str, Any], reports: Reports):
    topic = client.topic(2)
    with client.producer(on_delivery=lambda error, message: None, **conf) as producer:
        producer.produce_arrow(topic, pa.table({"value": ["a"] * 3000}), on_delivery=reports.append)
    assert (reports[0].rows, reports[0].delivered) == (3000, 3000)


def test_zero_rows_and_zero_chunks(client: Client, reports: Reports):
    schema = pa.schema([("value", pa.binary())])
    with client.producer() as producer:
        for data in (
            schema.empty_table(),
            pa.Table.from_batches([], schema),
            pa.RecordBatch.from_pylist([], schema),
        ):
            assert producer.produce_arrow("t", data, on_delivery=reports.append) == 0
        assert producer.flush(5) == 0
    assert [(report.rows, report.delivered, report.failed, report.error) for report in reports] == [
        (0, 0, [], None)
    ] * 3


def test_poll_raises_the_exception_of_a_callback_and_serves_the_next(
    client: Client, topic: str, reports: Reports
):

    def bad(report: ArrowReport) -> None:
        raise LookupError(report.rows)

    with client.producer() as producer:
        producer.produce_arrow(topic, pa.table({"value": ["a"]}), on_delivery=bad)
        producer.produce_arrow(topic, pa.table({"value": ["a"] * 2}), on_delivery=reports.append)
        with pytest.raises(LookupError):
            producer.flush(10)
        assert producer.flush(10) == 0
    assert [report.rows for report in reports] == [2]


def test_callback_may_produce_again(client: Client, topic: str, reports: Reports):
    with client.producer(**{"queue.buffering.max.messages": 10}) as producer:

        def again(report: ArrowReport) -> None:
            reports.append(report)
            if len(reports) < 20:
                producer.produce_arrow(
                    topic, pa.table({"value": ["a"] * 10}), on_delivery=again, timeout=20
                )

        producer.produce_arrow(topic, pa.table({"value": ["a"] * 10}), on_delivery=again)
        assert producer.flush(20) == 0
    assert [(report.rows, report.delivered) for report in reports] == [(10, 10)] * 20


def test_producer_with_interceptors_refuses_columns(client: Client):
    with client.producer(interceptors=[ProducerInterceptor()]) as producer:
        with pytest.raises(KafkaException, match="interceptors") as caught:
            producer.produce_arrow("t", pa.table({"value": ["a"]}))
        assert caught.value.queued == 0


def test_partitioner_cb_is_not_called_for_rows(client: Client):
    topic = client.topic(2)
    table = pa.table({"value": ["a", "b"], "p": pa.array([1, None], pa.int32())})
    with client.producer(partitioner_cb=lambda topic, key, count: 0) as producer:
        with pytest.raises(ValueError, match="partitioner_cb"):
            producer.produce_arrow(topic, table)
        with pytest.raises(ValueError, match=r"'p' \(partition\), row 1: no partition"):
            producer.produce_arrow(topic, table, partition="p")
        assert producer.produce_arrow(topic, table, partition=1) == 2
    assert {message.partition() for message in read_all(client, topic, 2)} == {1}
