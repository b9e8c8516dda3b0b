"""After bad input the client still works: waiting messages arrive, and valid data is unharmed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_native._native.records import encode_batch
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import poll_until

from .support import Client, assigned, deliver, errors_into, fill, filled, read_all

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def impostor(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that isn't Kafka. ``talk`` handles each connection in its own thread."""
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            talk(connection)

    def accept() -> None:
        while not ended.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def answers(text: bytes) -> Callable[[socket.socket], None]:
    """Return a handler that sends the same bytes to every client."""

    def talk(connection: socket.socket) -> None:
        connection.recv(10_000)
        connection.sendall(text)

    return talk


def never_answers(connection: socket.socket) -> None:
    """Read everything, and never answer."""
    while connection.recv(10_000):
        pass


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(answers(HTTP), id="http"),
        pytest.param(answers(b"\x7f\xff\xff\xff" + b"x" * 100), id="huge frame"),
        pytest.param(answers(b"\x80\0\0\0" + b"x" * 100), id="negative frame"),
        pytest.param(answers(b"\0\0\0\x08\0\0\0\x63abcd"), id="foreign correlation id"),
        pytest.param(answers(b"\0\0\0\x20ab"), id="half a frame"),
        pytest.param(answers(b""), id="closes"),
        pytest.param(never_answers, id="silent"),
    ],
)
def test_one_non_kafka_bootstrap_server_is_tolerated(
    client: Client, topic: str, talk: Callable[[socket.socket], None]
) -> None:
    reports = []
    with impostor(talk) as address:
        conf = {
            "bootstrap.servers": f"{address},{client.bootstrap}",
            "error_cb": lambda error: None,
        }
        started = time.monotonic()
        for _ in range(4):  # the first server is chosen at random
            with Producer({**conf, "reconnect.backoff.ms": 20}) as producer:
                deliver(producer, topic, b"x", on_delivery=errors_into(reports))
        assert time.monotonic() - started < 20
    assert reports == [None] * 4
    assert len(read_all(client, topic, 4)) == 4


def test_cluster_that_starts_later_gets_the_waiting_messages() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    errors: list[KafkaError] = []
    reports = []
    conf = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "error_cb": errors.append,
        "reconnect.backoff.max.ms": 200,
    }
    with Producer(conf) as producer:
        for number in range(10):
            producer.produce("late", str(number), on_delivery=errors_into(reports))
        assert poll_until(lambda: errors, producer), "error_cb got no error"
        assert reports == []
        with MockCluster(brokers=1, port=port) as cluster:
            assert producer.flush(20) == 0
            partitions = producer.list_topics("late", 5).topics["late"].partitions
            messages = [each for number in partitions for each in cluster.messages("late", number)]
            found = [message.value for message in messages]
    assert reports == [None] * 10
    assert sorted(found) == [b"%d" % number for number in range(10)]


def test_http_server_that_becomes_a_broker_is_used() -> None:
    with impostor(answers(HTTP)) as address:
        port = int(address.rpartition(":")[2])
        errors: list[KafkaError] = []
        conf = {
            "bootstrap.servers": address,
            "error_cb": errors.append,
            "reconnect.backoff.max.ms": 200,
        }
        producer = Producer(conf)
        producer.produce("late", b"x")
        assert poll_until(lambda: any("HTTP" in error.str() for error in errors), producer), errors
    with MockCluster(brokers=1, port=port), producer:
        assert producer.flush(20) == 0


@pytest.mark.parametrize("after_bytes", [0, 3, 50, 300])
def test_fetch_that_is_cut_off_loses_and_repeats_nothing(client: Client, after_bytes: int) -> None:
    topic = filled(client, 500, **{"batch.num.messages": 50})
    leader = client.cluster.leader(topic, 0)
    with client.consumer(error_cb=lambda error: None) as consumer:
        client.cluster.close_mid_frame(leader, after_bytes, ApiKey.FETCH, count=2)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(500, 20)
        rest = consumer.consume(1, 0.2)
    assert [int(message.value()) for message in found] == list(range(500))
    assert rest == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_decompression_bomb_of_every_codec_costs_no_memory(client: Client, codec: str) -> None:
    topic = client.topic(partitions=2)
    bomb = encode_batch([(1, None, bytes(32 << 20))], codec=codec)
    client.cluster.append_raw(topic, 0, bomb)
    fill(client, topic, 5, partition=1)
    conf = {"decompressed.batch.max.bytes": 1 << 20}
    with assigned(client, topic, 2, offset=0, **conf) as consumer:
        found = consumer.consume(6, 15)
    [error] = [message.error() for message in found if message.error()]
    assert error == KafkaError._BAD_COMPRESSION
    assert [int(message.value()) for message in found if not message.error()] == list(range(5))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_garbage_stops_its_partition_only(client: Client, codec: str) -> None:
    from crc32c import crc32c

    topic = client.topic(partitions=2)
    batch = bytearray(encode_batch([(1, None, b"text that repeats " * 100)] * 20, codec=codec))
    batch[70:] = bytes(len(batch) - 70)
    # the checksum is right, the content isn't
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    client.cluster.append_raw(topic, 0, bytes(batch), record_count=20)
    fill(client, topic, 5, partition=1)
    with assigned(client, topic, 2, offset=0) as consumer:
        found = consumer.consume(6, 15)
    [error] = [message for message in found if message.error()]
    assert (error.partition(), error.offset()) == (0, 0)
    assert error.error().code() in (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG)
    assert [int(message.value()) for message in found if not message.error()] == list(range(5))


def test_wrong_arguments_do_not_change_the_client(client: Client, topic: str) -> None:
    with client.producer(**{"message.max.bytes": 2000}) as producer:
        producer.produce(topic, b"0")
        with pytest.raises(TypeError, match="bytes"):
            producer.produce(topic, {"not": "bytes"})  # type: ignore[arg-type]
        with pytest.raises(KafkaException) as caught:
            producer.produce(topic, bytes(3000))
        assert caught.value.args[0] == KafkaError.MSG_SIZE_TOO_LARGE
        deliver(producer, topic, b"1")
    assert [message.value() for message in read_all(client, topic, 2)] == [b"0", b"1"]


@pytest.mark.parametrize("kind", [Producer, Consumer])
@pytest.mark.parametrize(
    "conf",
    [
        {"no.such.property": 1},
        {"socket.timeout.ms": "soon"},
        {"socket.timeout.ms": -5},
        {"error_cb": 5},
        {5: "x"},
    ],
)
def test_refused_configuration_starts_nothing(kind: type[Producer | Consumer], conf: dict) -> None:
    threads = threading.active_count()
    with pytest.raises((KafkaException, TypeError)) as caught:
        kind({"bootstrap.servers": "127.0.0.1:1", **conf})
    [name] = conf
    assert str(name) in str(caught.value) or "string" in str(caught.value)
    assert threading.active_count() <= threads  # one of an earlier test may have ended
