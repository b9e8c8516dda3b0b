"""Apache Kafka 0.8.2, 0.9.0, 0.10.2, 0.11.0: librdkafka reads our messages, we read theirs, and
missing features are errors.
"""

from __future__ import annotations

import itertools
import socket
import time
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import kafka_native
from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native.protocol import ApiKey, decode_response, encode_request, releases
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.cluster import HOST, quiet
from tests.broker.old_kafka import OldKafka
from tests.broker.support import CODECS, Record, flush, read
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

OLD_CODECS = CODECS[:4]
COUNT = 300
FIRST_MS = 1_700_000_000_000
names = (f"topic-{number}" for number in itertools.count())

Report = tuple[Any, int, int]


def has_timestamps(kafka: OldKafka) -> bool:
    return not kafka.version.startswith(("0.8.", "0.9."))


def has_batches(kafka: OldKafka) -> bool:
    return kafka.version.startswith("0.11.")


def ours(kafka: OldKafka, **config: Any) -> kafka_native.Producer:
    return kafka_native.Producer(
        {**kafka.client_config, "message.timeout.ms": 20_000, "linger.ms": 2, **config}
    )


def our_consumer(kafka: OldKafka, **config: Any) -> kafka_native.Consumer:
    return kafka_native.Consumer({**kafka.client_config, **config})


def their_consumer(kafka: OldKafka) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        quiet({**kafka.client_config, "group.id": "witness", "auto.offset.reset": "earliest"})
    )


def produce(producer: Any, topic: str, count: int = COUNT) -> list[Report]:
    """Produce messages of all kinds to one partition, and return (error, partition, offset) of each
    in order.
    """
    reports: list[Report] = []
    for number in range(count):
        producer.produce(
            topic,
            None if number % 50 == 7 else b"value %d " % number * (number % 40),
            None if number % 3 else b"key %d" % number,
            0,
            timestamp=FIRST_MS + number,
            on_delivery=lambda error, message: reports.append(
                (error, message.partition(), message.offset())
            ),
        )
    flush(producer, 30)
    return reports


def expected(kafka: OldKafka) -> list[Record]:
    """Return the messages of produce() in a consumer's form."""
    kind, zero = (1, FIRST_MS) if has_timestamps(kafka) else (0, 0)
    return [
        Record(
            *(0, number, kind, zero and zero + number),
            None if number % 3 else b"key %d" % number,
            None if number % 50 == 7 else b"value %d " % number * (number % 40),
            (),
        )
        for number in range(COUNT)
    ]


@pytest.mark.parametrize("acks", [1, "all"])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_librdkafka_and_we_read_our_messages(old_kafka: OldKafka, codec: str, acks: int | str):
    topic = next(names)
    with ours(
        old_kafka, **{"compression.type": codec, "acks": acks, "batch.num.messages": 100}
    ) as producer:
        assert produce(producer, topic) == [(None, 0, number) for number in range(COUNT)]
    wanted = expected(old_kafka)
    theirs = their_consumer(old_kafka)
    assert read(theirs, topic, [0], COUNT, settle=0.05) == wanted
    theirs.close()
    with our_consumer(old_kafka) as consumer:
        assert read(consumer, topic, [0], COUNT, settle=0.05) == wanted


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_we_read_librdkafkas_messages(old_kafka: OldKafka, codec: str):
    topic = next(names)
    conf = {
        **old_kafka.client_config,
        "compression.type": codec,
        "linger.ms": 2,
        "max.in.flight": 1,
    }  # keeps order
    theirs = confluent_kafka.Producer(quiet(conf))
    assert produce(theirs, topic) == [(None, 0, number) for number in range(COUNT)]
    with our_consumer(old_kafka) as consumer:
        assert read(consumer, topic, [0], COUNT, settle=0.05) == expected(old_kafka)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_consumer_starts_in_the_middle_and_sees_the_end(old_kafka: OldKafka, codec: str):
    topic = next(names)
    with ours(old_kafka, **{"compression.type": codec}) as producer:
        produce(producer, topic)
    starts = {
        COUNT - 10: COUNT - 10,
        kafka_native.OFFSET_END: COUNT,
        kafka_native.OFFSET_BEGINNING: 0,
        -2003: COUNT - 3,
    }
    for asked, first in starts.items():  # -2003: three before the end
        with our_consumer(old_kafka, **{"enable.partition.eof": True}) as consumer:
            consumer.assign([TopicPartition(topic, 0, asked)])
            seen: list[int] = []
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                [message] = consumer.consume(1, 5) or [None]
                assert message is not None, f"{asked}: nothing after {seen[-3:]}"
                error = message.error()
                if error is not None:
                    assert (error.code(), message.offset()) == (KafkaError._PARTITION_EOF, COUNT)
                    break
                seen.append(message.offset())
            assert seen == list(range(first, COUNT)), asked


def test_message_larger_than_a_fetch(old_kafka: OldKafka):
    topic = next(names)
    values = [b"small", b"x" * 300_000, b"after"]
    with ours(old_kafka) as producer:
        for value in values:
            producer.produce(topic, value, partition=0)
        flush(producer, 30)
    with our_consumer(old_kafka, **{"max.partition.fetch.bytes": 2000}) as consumer:
        assert [record.value for record in read(consumer, topic, [0], 3)] == values


def test_headers_are_stored_from_0_11_on(old_kafka: OldKafka):
    topic = next(names)
    with ours(old_kafka) as producer:
        producer.produce(
            topic, b"value", partition=0, headers=[("name", b"content"), ("none", None)]
        )
        flush(producer, 30)
    theirs = their_consumer(old_kafka)
    [record] = read(theirs, topic, [0], 1)
    theirs.close()
    assert record.value == b"value"
    assert record.headers == (
        (("name", b"content"), ("none", None)) if has_batches(old_kafka) else ()
    )


def test_zstd_fails_with_a_reason_where_it_is_not_supported(old_kafka: OldKafka):
    if has_batches(old_kafka):
        pytest.skip("from 0.11 on such a batch goes out uncompressed")
    topic = next(names)
    with ours(old_kafka, **{"compression.type": "zstd"}) as producer:
        started = time.monotonic()
        reports = produce(producer, topic, 20)
        assert time.monotonic() - started < 10
    assert {error.code() for error, *_ in reports} == {KafkaError._UNSUPPORTED_FEATURE}
    assert "zstd" in reports[0][0].str()


def test_idempotence_works_or_fails_at_once(old_kafka: OldKafka):
    topic = next(names)
    errors: list[KafkaError] = []
    with ours(old_kafka, **{"enable.idempotence": True, "error_cb": errors.append}) as producer:
        started = time.monotonic()
        try:
            reports = produce(producer, topic, 20)
        except KafkaException as error:  # the fatal error was quicker
            if error.args[0].code() != KafkaError._FATAL:
                raise
            reports = []
            flush(producer, 10)
        assert time.monotonic() - started < 10
        fatal = producer.fatal_error()
    if has_batches(old_kafka):
        assert reports == [(None, 0, number) for number in range(20)]
        assert (errors, fatal) == ([], None)
        return
    # Either the fatal error purges it, or the partition's leader refuses it first.
    assert {error.code() for error, *_ in reports} <= {
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError._PURGE_QUEUE,
    }
    assert fatal is not None
    assert fatal.code() == KafkaError._UNSUPPORTED_FEATURE
    assert "enable.idempotence" in fatal.str()


@pytest.mark.parametrize("allowed", [False, True])
def test_a_consumer_creates_topics_only_if_allowed(old_kafka: OldKafka, allowed: bool):
    if not has_batches(old_kafka):
        pytest.skip("before 0.11 the broker's configuration alone decides")
    topic = next(names)
    config = {"group.id": f"of-{topic}", "allow.auto.create.topics": allowed}
    # librdkafka can't read this list of topics after the other tests: "Bad message format"
    with ours(old_kafka) as lister, our_consumer(old_kafka, **config) as consumer:
        consumer.subscribe([topic])
        if allowed:
            # it may report the topic as missing meanwhile
            wait_for(
                lambda: consumer.poll(0.1) or topic in lister.list_topics(timeout=10).topics,
                "the topic",
            )
            wait_for(lambda: topic in lister.list_topics(timeout=10).topics, "the topic")
            return
        message = wait_for(lambda: consumer.poll(0.1), "an error")
        assert topic not in lister.list_topics(timeout=10).topics
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_all_topics_are_listed(old_kafka: OldKafka):
    topic = next(names)
    with ours(old_kafka) as producer:
        produce(producer, topic, 1)
        listed = producer.list_topics(timeout=10)
        assert list(listed.topics[topic].partitions) == [0]
        assert list(listed.brokers) == [1]
        assert list(producer.list_topics(topic, timeout=10).topics) == [topic]


def test_old_broker_that_is_asked_for_its_versions(old_kafka: OldKafka):
    """A broker before 0.10 closes the connection, or never answers. Then the fallback has its
    versions.
    """
    topic = next(names)
    config = {"broker.version.fallback": old_kafka.version, "api.version.fallback.ms": 60_000}
    with ours(
        old_kafka, **config, **{"api.version.request": True, "api.version.request.timeout.ms": 1000}
    ) as producer:
        assert produce(producer, topic, 20) == [(None, 0, number) for number in range(20)]


def test_known_versions_of_a_release_are_the_ones_it_reports(old_kafka: OldKafka):
    if not old_kafka.can_be_asked:
        pytest.skip("it can't be asked")
    with socket.create_connection(
        (HOST, int(old_kafka.bootstrap.rpartition(":")[2])), 10
    ) as connection:
        frame = encode_request(ApiVersionsRequest(), 0, correlation_id=1, client_id="test")
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        with connection.makefile("rb") as stream:
            answer = stream.read(int.from_bytes(stream.read(4), "big"))
    _, reply = decode_response(ApiKey.API_VERSIONS, 0, answer)
    assert isinstance(reply, ApiVersionsResponse)
    between_brokers = {*range(4, 8), ApiKey.WRITE_TXN_MARKERS}
    advertised = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
    known = releases.RELEASES[old_kafka.version.rpartition(".")[0]]
    assert known == {
        key: versions for key, versions in advertised.items() if key not in between_brokers
    }
