"""Bad input from network, cluster and user: each is a clear error, and nothing else is lost."""

from __future__ import annotations

import socket
import time
from contextlib import AbstractContextManager, suppress

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka_native._native.records import encode_batch
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.harness.servers import answering
from tests.waiting import wait_for

from .support import Client, assigned, deliver, errors_into, fill, filled, read_all


def server(answer: bytes) -> AbstractContextManager[str]:
    """A server that sends ``answer`` after the client's first bytes, and closes."""

    def handle(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.recv(10000)
            connection.sendall(answer)

    return answering(handle)


def errors_of(bootstrap: str, count: int = 1, **conf) -> list[KafkaError]:
    """Return the errors that a producer's error_cb gets from this server."""
    errors: list[KafkaError] = []
    with Producer({"bootstrap.servers": bootstrap, "error_cb": errors.append, **conf}) as producer:
        producer.produce("t", b"x")
        deadline = time.monotonic() + 10
        while len(errors) < count and time.monotonic() < deadline:
            producer.poll(0.1)
        producer.close(0)
    return errors


def test_unreachable_bootstrap_names_the_address_and_the_cause():
    errors = errors_of("127.0.0.1:1", count=2)
    codes = [error.code() for error in errors]
    assert codes == [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN]
    assert "127.0.0.1:1" in errors[0].str()
    assert "refused" in errors[0].str()


def test_unresolvable_host_is_named_in_the_error():
    errors = errors_of("no-such-host.invalid:9092")
    assert errors[0].code() == KafkaError._RESOLVE
    assert "no-such-host.invalid" in errors[0].str()


def test_one_of_two_bootstrap_servers_is_enough(cluster: MockCluster, client: Client, topic: str):
    conf = {
        "bootstrap.servers": f"127.0.0.1:1,{cluster.address(1)}",
        "error_cb": lambda error: None,
    }
    with Producer(conf) as producer:
        deliver(producer, topic, b"x")
    assert len(read_all(client, topic, 1)) == 1


def test_http_port_is_recognized():
    with server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        errors = errors_of(address)
    assert "HTTP" in errors[0].str()
    assert address in errors[0].str()


def test_non_kafka_port_is_an_error_and_no_crash():
    for answer in (b"\xff" * 100, b"\0\0\0\5", b"SSH-2.0-OpenSSH_9\r\n", b""):
        with server(answer) as address:
            errors = errors_of(address)
        codes = (KafkaError._TRANSPORT, KafkaError._BAD_MSG, KafkaError.MSG_SIZE_TOO_LARGE)
        assert errors[0].code() in codes


def test_frame_over_the_limit_ends_the_connection_and_is_fetched_again(client: Client):
    topic = filled(client, 10)
    leader = client.cluster.leader(topic, 0)
    errors: list[KafkaError] = []
    conf = {
        "receive.message.max.bytes": 1_000_000,
        "fetch.max.bytes": 500_000,
        "message.max.bytes": 100_000,
        "error_cb": errors.append,
    }
    with assigned(client, topic, offset=0, **conf) as consumer:
        assert len(consumer.consume(10, 10)) == 10
        client.cluster.oversize_next_response(leader, 2_000_000_000, api_key=ApiKey.FETCH)
        fill(client, topic, 5, partition=0, start=10)
        found = consumer.consume(5, 15)
        assert [int(message.value()) for message in found] == [10, 11, 12, 13, 14]
        consumer.poll(0)
    assert any("receive.message.max.bytes" in error.str() for error in errors), errors


@pytest.mark.parametrize("after_bytes", [2, 6, 40])
def test_broker_that_closes_in_the_middle_of_a_frame(client: Client, topic: str, after_bytes: int):
    leader = client.cluster.leader(topic, 0)
    reports = []
    with client.producer(acks="all") as producer:
        deliver(producer, topic, b"first", on_delivery=errors_into(reports))
        client.cluster.close_mid_frame(leader, after_bytes, ApiKey.PRODUCE)
        deliver(producer, topic, b"second", on_delivery=errors_into(reports))
    assert reports == [None, None]
    values = [message.value for message in client.cluster.messages(topic, 0)]
    # Without idempotence the retry of an executed request writes it again: at least once.
    assert values[0] == b"first"
    assert set(values[1:]) == {b"second"}


def test_checksum_mismatch_is_an_error_message_and_the_data_is_fetched_again(client: Client):
    topic = filled(client, 5, 2)
    client.cluster.corrupt_next_fetch(topic, 0)
    with assigned(client, topic, 2, offset=0) as consumer:
        found = consumer.consume(11, 15)
    errors = [message for message in found if message.error()]
    assert [message.error().code() for message in errors] == [KafkaError._BAD_MSG]
    assert (errors[0].topic(), errors[0].partition(), errors[0].offset()) == (topic, 0, 0)
    assert "checksum" in errors[0].error().str()
    assert "seek" in errors[0].error().str()
    for partition in range(2):
        mine = [
            message.offset()
            for message in found
            if message.partition() == partition and not message.error()
        ]
        assert mine == list(range(5))


def test_decompression_bomb_stops_its_partition_only_and_a_seek_skips_it(client: Client):
    topic = client.topic(partitions=2)
    bomb = encode_batch([(1, None, bytes(8 << 20))], codec="zstd")
    assert len(bomb) < 10_000
    client.cluster.append_raw(topic, 0, bomb)
    fill(client, topic, 3, partition=0)
    fill(client, topic, 3, partition=1)
    conf = {"decompressed.batch.max.bytes": 1 << 20}
    with assigned(client, topic, 2, offset=0, **conf) as consumer:
        found = consumer.consume(4, 10)
        [error] = [message for message in found if message.error()]
        assert error.error().code() == KafkaError._BAD_COMPRESSION
        assert "decompressed.batch.max.bytes" in error.error().str()
        assert [message.offset() for message in found if not message.error()] == [0, 1, 2]
        consumer.seek(TopicPartition(topic, 0, error.offset() + 1))
        rest = [message for message in consumer.consume(3, 10) if not message.error()]
        assert [message.offset() for message in rest] == [1, 2, 3]


def test_garbage_in_a_log_is_an_error_message(cluster: MockCluster, client: Client):
    topic = client.topic(partitions=2)
    batch = bytearray(encode_batch([(1, None, b"x")]))
    batch[16] = 9  # an unknown magic
    cluster.append_raw(topic, 0, bytes(batch), record_count=1)
    fill(client, topic, 3, partition=1)
    found: list[Message] = []
    with assigned(client, topic, 2, offset=0) as consumer:

        def has_all() -> bool:
            found.extend(consumer.consume(10, 0.1))
            good = [message for message in found if message.error() is None]
            bad = [message for message in found if message.error() and message.partition() == 0]
            return len(good) >= 3 and bool(bad)

        wait_for(has_all, "three messages and an error")
    assert sum(message.error() is None for message in found) == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_corrupt_batch_in_a_group_is_skipped_by_a_seek_and_stays_skipped(
    cluster: MockCluster, client: Client, protocol: str
):
    topic = client.topic(partitions=2)
    fill(client, topic, 3, partition=0)
    batch = bytearray(encode_batch([(1, None, b"damaged"), (2, None, b"damaged")], base_offset=3))
    batch[-1] ^= 0xFF  # a wrong checksum
    cluster.append_raw(topic, 0, bytes(batch), record_count=2)
    for partition in range(2):
        fill(client, topic, 3, partition=partition)
    conf = {
        "group.id": f"skip-{protocol}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    taken: dict[int, list[int]] = {0: [], 1: []}
    with client.consumer(**conf) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        errors = []
        while (len(taken[0]) < 6 or len(taken[1]) < 3) and time.monotonic() < deadline:
            for message in consumer.consume(10, 0.1):
                if message.error() is None:
                    taken[message.partition()].append(message.offset())
                    continue
                errors.append(message.error())
                if len(errors) > 1:
                    continue
                assert message.error().code() == KafkaError._BAD_MSG
                assert (message.partition(), message.offset()) == (0, 3)
                assert "seek to 5" in message.error().str()  # the offset behind the batch
                assert taken[0] == [0, 1, 2]
                consumer.seek(TopicPartition(topic, 0, 5))
    assert taken == {0: [0, 1, 2, 5, 6, 7], 1: [0, 1, 2]}
    with client.consumer(**conf) as consumer:  # it starts where the first one has committed
        consumer.subscribe([topic])
        fill(client, topic, 1, partition=0)
        message = consumer.poll(60)
        assert message.error() is None
        assert (message.partition(), message.offset()) == (0, 8)


def test_unknown_topic_without_creation(client: Client):
    conf = {"topic.metadata.propagation.max.ms": 200}
    with assigned(client, "never-made", offset=0, **conf) as consumer:
        message = consumer.poll(10)
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert "never-made" in message.error().str()


def test_message_too_large_for_the_broker_fails_alone(cluster: MockCluster):
    with MockCluster(brokers=1, message_max_bytes=10_000) as small:
        client = Client(small)
        topic = client.topic()
        reports = {}
        with client.producer(**{"message.max.bytes": 1_000_000}) as producer:
            for name, size in (("small", 100), ("large", 50_000), ("after", 100)):
                note = lambda error, message: reports.update({message.key(): error})  # noqa: E731
                deliver(producer, topic, b"x" * size, key=name, on_delivery=note)
        assert reports[b"small"] is None
        assert reports[b"after"] is None
        assert reports[b"large"] == KafkaError.MSG_SIZE_TOO_LARGE


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"bootstrap.server": "x"}, "bootstrap.servers"),
        ({"batch.size": "large"}, "batch.size"),
        ({"acks": 7000}, "acks"),
        ({"compression.codec": "rar"}, "compression.codec"),
        ({"bootstrap.servers": "host:notaport"}, "notaport"),
    ],
)
@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_unknown_or_ill_typed_property(kind, conf, text):
    if kind is Consumer and set(conf) & {"acks", "batch.size", "compression.codec"}:
        conf = {"fetch.min.bytes": "many"}
        text = "fetch.min.bytes"
    with pytest.raises(KafkaException) as caught:
        kind({"bootstrap.servers": "localhost:9092", **conf})
    assert caught.value.args[0] == KafkaError._INVALID_ARG
    assert text in str(caught.value)


def test_produce_error_codes_are_retried_or_reported(cluster: MockCluster, client: Client):
    topic = client.topic()
    reports = []
    with client.producer() as producer:
        deliver(producer, topic, b"0")
        cluster.push_request_errors(
            ApiKey.PRODUCE, [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REQUEST_TIMED_OUT]
        )
        note = lambda error, message: reports.append((error, message.offset()))  # noqa: E731
        deliver(producer, topic, b"retried", on_delivery=note)
        cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.INVALID_RECORD])
        deliver(producer, topic, b"refused", on_delivery=note)
    assert reports == [(None, 1), (KafkaError.INVALID_RECORD, None)]


def test_forgotten_fetch_sessions_start_again(cluster: MockCluster, client: Client):
    topic = client.topic(partitions=3)
    fill(client, topic, 30)
    with assigned(client, topic, 3, offset=0) as consumer:
        assert len(consumer.consume(30, 10)) == 30
        for broker in cluster.broker_ids:
            cluster.clear_fetch_sessions(broker)
        fill(client, topic, 30)
        found = consumer.consume(30, 10)
    assert [message.error() for message in found] == [None] * 30


def test_stale_metadata_that_hides_a_topic_loses_nothing(cluster: MockCluster, client: Client):
    topic = client.topic()
    reports = []
    with client.producer(**{"topic.metadata.refresh.interval.ms": 50}) as producer:
        for number in range(50):
            producer.produce(topic, str(number), on_delivery=errors_into(reports))
            if number == 20:
                producer.flush(10)
                cluster.hide_topic(topic, replies=2)
            time.sleep(0.01)
        assert producer.flush(15) == 0
    assert reports == [None] * 50
    assert [int(message.value) for message in cluster.messages(topic, 0)] == list(range(50))
