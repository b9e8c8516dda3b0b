"""The cluster as one of Kafka's first releases, tested with librdkafka, which supports them all."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import pytest

from kafka_native._native import records
from kafka_native.mock import MockCluster
from kafka_native.mock.versions import of_release
from kafka_native.protocol.releases import RELEASES
from tests.waiting import WAIT_S

COUNT = 50
# For librdkafka a short Metadata response of version 0 is malformed: "tmpabuf memory shortage".
TOPIC = "a-topic-with-a-name-of-some-length"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
@pytest.mark.parametrize("release", list(RELEASES))
def test_librdkafka_writes_and_reads_message_sets(release: str, codec: str) -> None:
    is_new = not release.startswith(("0.8.", "0.9."))
    versions = {} if is_new else {"api.version.request": False, "broker.version.fallback": release}
    magic = 2 if release == "0.11.0" else int(is_new)
    offsets: list[int] = []
    with MockCluster(1, max_versions=of_release(release)) as cluster:
        cluster.create_topic(TOPIC)
        base: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "log_level": 0,
            **versions,
        }
        producer = confluent_kafka.Producer({**base, "compression.type": codec, "linger.ms": 20})
        for number in range(COUNT):
            producer.produce(
                TOPIC,
                b"value %d " % number * 5,
                on_delivery=lambda _, message: offsets.append(message.offset()),
            )
        assert producer.flush(WAIT_S) == 0
        assert offsets == list(range(COUNT))
        headers = [
            header for batch in cluster.batches(TOPIC, 0) for header in records.batch_headers(batch)
        ]
        assert {(header.magic, header.codec) for header in headers} == {(magic, codec)}
        # Its close() hangs if it has offsets to commit and can't.
        consumer = confluent_kafka.Consumer({**base, "group.id": "g", "enable.auto.commit": False})
        consumer.assign(
            [confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)]
        )
        found: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < COUNT and time.monotonic() < deadline:
            found += consumer.consume(COUNT - len(found), 1.0)
        consumer.close()
        assert [(message.error(), message.offset(), message.value()) for message in found] == [
            (None, number, b"value %d " % number * 5) for number in range(COUNT)
        ]
