"""A consumer that reads endlessly needs little more resident memory than its queue."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafka_native import TopicPartition
from kafka_native.mock import MockCluster
from tests.waiting import PROGRAM_S

from .support import Client

MIB = 1 << 20
BESIDE_THE_QUEUE_BYTES = 64 * MIB
TOTAL_BYTES = 100_000_000
PARTITIONS = 8

# It reads repeatedly, and prints the median resident memory and the number of messages.
READER = """
import os, sys, time
from kafka_native import Consumer, OFFSET_BEGINNING, TopicPartition

def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

bootstrap, topic = sys.argv[1:3]
partitions, kbytes, batch_max, total = map(int, sys.argv[3:7])
pause = float(sys.argv[7])
consumer = Consumer({"bootstrap.servers": bootstrap, "queued.max.messages.kbytes": kbytes})
samples, messages, until = [], 0, time.monotonic() + 6
while time.monotonic() < until or len(samples) < 100:
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    left = total
    while left and (batch := consumer.consume(min(batch_max, left), 20.0)):
        messages += len(batch)
        left -= len(batch)
        del batch
        samples.append(resident_bytes())
        time.sleep(pause)
        if time.monotonic() >= until and len(samples) >= 100:
            break
samples.sort()
print(samples[len(samples) // 2], samples[-1], messages)
consumer.close()
"""


def test_the_limit_of_the_queue_counts_the_memory_of_small_responses(client: Client) -> None:
    """Each message comes in a response of its own, whose memory is several times the message's."""
    topic, count, limit_kbytes = client.topic(), 400, 64
    with (
        client.consumer(**{"queued.max.messages.kbytes": limit_kbytes}) as consumer,
        client.producer(**{"linger.ms": 0}) as producer,
    ):
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(0.5) is None
        for number in range(count):
            producer.produce(topic, b"%d" % number)
            assert producer.flush(10) == 0
        queued = consumer.consume(count, 0)
        assert 0 < len(queued) < count / 2
        assert len(queued) * 1024 > limit_kbytes * 1024 / 2
        values = [message.value() for message in queued]
        while len(values) < count:
            values += [message.value() for message in consumer.consume(count - len(values), 10)]
    assert values == [b"%d" % number for number in range(count)]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
@pytest.mark.skipif("KN_SANITIZE" in os.environ, reason="a sanitizer's own memory would be counted")
@pytest.mark.parametrize(
    ("codec", "value_bytes", "random_part", "limit_kbytes", "pause_s"),
    [
        ("none", 1000, 2, 65536, 0.0),  # the application reads without pauses
        ("none", 100_000, 2, 16384, 0.02),  # the queue is always full
        ("lz4", 20_000, 2, 65536, 0.02),
        ("zstd", 10_000, 30, 16384, 0.02),  # one byte is decompressed to a hundred and more
    ],
)
def test_resident_memory_stays_near_the_limit_of_the_queue(
    cluster: MockCluster,
    client: Client,
    codec: str,
    value_bytes: int,
    random_part: int,
    limit_kbytes: int,
    pause_s: float,
) -> None:
    topic = client.topic(PARTITIONS)
    value = os.urandom(value_bytes // random_part).ljust(value_bytes, b"x")
    conf = {"compression.type": codec, "linger.ms": 20, "batch.num.messages": 1000}
    with client.producer(**conf) as producer:
        for at in range(0, TOTAL_BYTES // value_bytes, 1000):
            producer.produce_many(topic, [value] * 1000, partition=at // 1000 % PARTITIONS)
            assert producer.flush(30) == 0
    batch_max = min(10_000, 10_000_000 // value_bytes)
    numbers = [PARTITIONS, limit_kbytes, batch_max, TOTAL_BYTES // value_bytes, pause_s]
    command = [sys.executable, "-c", READER, cluster.bootstrap_servers, topic, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PROGRAM_S)
    middle, largest, messages = map(int, done.stdout.split())
    # the messages filled the queue several times
    assert messages * value_bytes > 4 * limit_kbytes * 1024
    assert middle <= limit_kbytes * 1024 + BESIDE_THE_QUEUE_BYTES, f"at most {largest}"
