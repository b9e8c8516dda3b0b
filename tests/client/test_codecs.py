"""Every codec, from produce() to a Message, with the libraries and with the Python packages."""

from __future__ import annotations

import json
import os

import pytest

from kafka_native._native.records import batch_headers
from kafka_native.mock import MockCluster

from .support import Client, read_all, run_program

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def payload(number: int) -> bytes:
    return json.dumps({"number": number, "text": "the quick brown fox " * (number % 7)}).encode()


@pytest.mark.parametrize("level", [-1, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(cluster: MockCluster, client: Client, topic: str, codec: str, level: int):
    with client.producer(**{"compression.codec": codec, "compression.level": level}) as producer:
        for number in range(5000):
            key = None if number % 3 else str(number)
            producer.produce(topic, payload(number), key=key, headers={"n": str(number)})
    found = read_all(client, topic, 5000)
    assert [message.value() for message in found] == [payload(number) for number in range(5000)]
    assert found[6].headers() == [("n", b"6")]
    stored = [header for batch in cluster.batches(topic, 0) for header in batch_headers(batch)]
    # A batch of a message or two that doesn't shrink is sent uncompressed.
    assert {header.attributes & 7 for header in stored if header.record_count > 10} == {
        CODECS.index(codec)
    }


def test_incompressible_data_is_sent_uncompressed(cluster: MockCluster, client: Client, topic: str):
    noise = os.urandom(20_000)
    with client.producer(**{"compression.codec": "gzip"}) as producer:
        producer.produce(topic, noise)
    assert [message.value() for message in read_all(client, topic, 1)] == [noise]
    [batch] = cluster.batches(topic, 0)
    assert [header.attributes & 7 for header in batch_headers(batch)] == [0]


PROGRAM = """
import sys
from kafka_native import Consumer, Producer, TopicPartition
from kafka_native._native.records import features
bootstrap, topic, codec = sys.argv[1:]
with Producer({"bootstrap.servers": bootstrap, "compression.codec": codec}) as producer:
    for number in range(2000):
        producer.produce(topic, f"value {number} " * 5, on_delivery=lambda error, message: None)
with Consumer({"bootstrap.servers": bootstrap}) as consumer:
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(2000, 20)
expected = [f"value {number} " * 5 for number in range(2000)]
print([message.value().decode() for message in found] == expected, features()[codec])
"""


@pytest.mark.parametrize("codec", CODECS[1:])
def test_python_packages_serve_where_libraries_are_missing(client: Client, topic: str, codec: str):
    disabled = ",".join(CODECS)
    done = run_program(
        PROGRAM, client.bootstrap, topic, codec, environment={"KN_DISABLE_NATIVE_CODECS": disabled}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True Python "), done.stdout
    assert len(read_all(client, topic, 2000)) == 2000


WITHOUT_ZSTD = """
import sys
sys.modules["zstandard"] = None
from kafka_native import Consumer, KafkaException, Producer, TopicPartition
bootstrap, topic = sys.argv[1:]
for conf in ({"compression.codec": "zstd"}, {"topics": {topic: {"compression.type": "zstd"}}}):
    try:
        Producer({"bootstrap.servers": bootstrap, **conf})
    except KafkaException as error:
        print(error.args[0].name(), error.args[0].str())
with Consumer({"bootstrap.servers": bootstrap}) as consumer:
    consumer.assign([TopicPartition(topic, 0, 0)])
    error = consumer.poll(20).error()
    print(error.name(), error.str())
"""


def test_a_codec_without_library_and_package_is_refused(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    with client.producer(**{"compression.codec": "zstd"}) as producer:
        for number in range(100):
            producer.produce(topic, payload(number))
    done = run_program(
        WITHOUT_ZSTD, client.bootstrap, topic, environment={"KN_DISABLE_NATIVE_CODECS": "zstd"}
    )
    assert done.returncode == 0, done.stderr
    refused = (
        '_INVALID_ARG Unsupported value "zstd" for configuration property "compression.codec": '
        "this build of kafka-native has no library for zstd, and the package zstandard isn't "
        "installed: pip install zstandard, or kafka-native[codecs] for all codecs"
    )
    assert done.stdout.splitlines()[:2] == [refused, refused]
    assert done.stdout.splitlines()[2].startswith(
        "_UNSUPPORTED_FEATURE a codec or format that this build doesn't support (no library for "
        f"zstd: pip install kafka-native[codecs]) in {topic} [0] at offset 0"
    )
