"""Checks of an installed wheel: each codec, with and without TLS, against the mock cluster.

    python -I smoke.py [CODEC ...]     the codecs that must be there; the default is each

An environment with only the wheel, its dependencies and trustme, for the certificates, runs them.
The release workflow and `make wheels` run the same file for each wheel. Every other codec must be
refused with the name of the package to install. The last line names the library of each codec.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import kafka_native
from kafka_native import Consumer, KafkaException, Producer, TopicPartition
from kafka_native._native import codec_fallback, primitives, records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 500
WAIT_S = 60  # for a slow, busy machine


def check_installation() -> None:
    """Check that the wheel was imported, and that it is complete."""
    assert Path(sys.prefix) in Path(kafka_native.__file__).parents, kafka_native.__file__
    assert kafka_native.__version__ == metadata.version("kafka-native")
    assert (Path(kafka_native.__file__).parent / "py.typed").exists()
    scripts = metadata.entry_points(group="console_scripts", name="kafka-native")
    assert [script.value for script in scripts] == ["kafka_native.cli:main"]


def check_records(codecs: list[str]) -> None:
    """Check round trips of batches, with the library's codec and, if it is installed, the Python
    package's.
    """
    assert primitives.crc32c(b"123456789") == 0xE3069283
    rows = [(f"key {number}".encode(), b"value" * number) for number in range(COUNT)]
    for codec in codecs:
        made = records.encode_batch([(0, key, value) for key, value in rows], codec=codec)
        has_package = codec == "none" or codec_fallback.library(codec) is not None
        for python_codecs in (False, True) if has_package else (False,):
            (batch,) = records.decode_batches(made, python_codecs=python_codecs)
            assert [(bytes(one.key), bytes(one.value)) for one in batch.records] == rows, codec


def check_missing(codec: str) -> None:
    """Check that a producer refuses a codec, and that the error names the package to install."""
    assert records.features()[codec] == "", records.features()
    try:
        Producer({"bootstrap.servers": "127.0.0.1:1", "compression.codec": codec}).close()
    except KafkaException as error:
        text = error.args[0].str()
    else:
        text = "the producer accepts the codec"
    package = codec_fallback.CODECS[codec][1]
    assert f"pip install {package}" in text, text


def check_whole_path(codec: str, secure: bool) -> None:
    """Check that a consumer reads a producer's messages from the mock cluster."""
    from kafka_native.mock import ListenerSecurity, MockCluster

    security = ListenerSecurity("ssl") if secure else None
    with MockCluster(brokers=2, security=security) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        if secure:
            settings |= {"security.protocol": "ssl", "ssl.ca.pem": cluster.ca_pem}
        with Producer({**settings, "compression.codec": codec}) as producer:
            for number in range(COUNT):
                producer.produce("smoke", f"value {number}".encode(), partition=0)
            assert producer.flush(WAIT_S) == 0
        with Consumer(
            {**settings, "group.id": "smoke", "auto.offset.reset": "earliest"}
        ) as consumer:
            consumer.assign([TopicPartition("smoke", 0, 0)])
            got: list[bytes | None] = []
            while len(got) < COUNT:
                messages = consumer.consume(COUNT, WAIT_S)
                assert messages, f"only {len(got)} of {COUNT} came back"
                assert [message.error() for message in messages if message.error()] == []
                got += [message.value() for message in messages]
        assert got == [f"value {number}".encode() for number in range(COUNT)]


if __name__ == "__main__":
    wanted = sys.argv[1:] or [*CODECS]
    check_installation()
    check_records(wanted)
    for codec in wanted:
        for secure in (False, True):
            check_whole_path(codec, secure)
    for codec in set(CODECS) - set(wanted):
        check_missing(codec)
    print("codecs:", records.features())
