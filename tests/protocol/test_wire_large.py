"""Large arrays are decoded on demand: same content, same errors, little memory, running threads."""

from __future__ import annotations

import random
import struct
import threading
import time
import tracemalloc

import pytest
from message_filling import EVERY_VERSION, examples, version_id

from kafka_native._native import decoder
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.metadata import MetadataResponse
from kafka_native.protocol.schema import Message

VERSION = 12
Partition = MetadataResponse.Topic.Partition
every_version = pytest.mark.parametrize(("cls", "version"), EVERY_VERSION, ids=version_id)


def read(cls: type[Message], version: int, body: bytes, eager: int) -> Message | str:
    """Return the message, or the error text."""
    try:
        return decoder.decode(cls.plan(version), body, eager=eager)
    except ProtocolError as error:
        return str(error)


def metadata(topics: int, partitions: int, replicas: list[int], version: int = VERSION) -> bytes:
    """Return a Metadata response with so many topics and partitions."""
    each = [
        Partition(partition_index=number, replica_nodes=replicas, isr_nodes=replicas)
        for number in range(partitions)
    ]
    named = [
        MetadataResponse.Topic(name=f"topic-{number}", partitions=each) for number in range(topics)
    ]
    return MetadataResponse(topics=named, cluster_id="c").encode(version)


@every_version
def test_an_array_that_is_decoded_on_demand_is_equal_to_a_list(
    cls: type[Message], version: int
) -> None:
    for message in examples(cls, version, 2):
        body = message.encode(version)
        on_demand = decoder.decode(cls.plan(version), body, eager=0)
        assert on_demand == cls.decode(body, version)
        assert on_demand.encode(version) == body


@every_version
def test_bytes_are_refused_for_the_same_reason_in_the_same_place(
    cls: type[Message], version: int
) -> None:
    pick = random.Random(f"{cls.__name__} {version} large")
    for message in examples(cls, version, 2):
        body = message.encode(version)
        broken = [body[:size] for size in pick.sample(range(len(body)), min(len(body), 25))]
        for _ in range(25 if body else 0):
            flipped = bytearray(body)
            for _ in range(pick.choice((1, 1, 2, 5))):
                flipped[pick.randrange(len(flipped))] = pick.choice(
                    (0, 0x7F, 0x80, 0xFF, pick.randrange(256))
                )
            broken.append(bytes(flipped))
        for each in broken:
            assert read(cls, version, each, eager=0) == read(cls, version, each, eager=1 << 40)


def test_small_messages_have_lists_and_large_ones_sequences() -> None:
    assert type(MetadataResponse.decode(metadata(10, 10, [1, 2, 3]), VERSION).topics) is list
    topics = MetadataResponse.decode(metadata(200, 60, [1, 2, 3]), VERSION).topics
    assert isinstance(topics, decoder.LazyArray)
    assert len(topics) == 200
    assert [topic.name for topic in topics] == [f"topic-{number}" for number in range(200)]
    assert [topic.name for topic in topics[3:9:2]] == ["topic-3", "topic-5", "topic-7"]
    assert topics[-1].name == topics[199].name == "topic-199"
    assert topics[7] in topics
    assert "200 elements" in repr(topics)
    assert len(topics[5].partitions) == 60
    assert topics[5].partitions[59] == Partition(
        partition_index=59, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
    )
    assert topics != topics[:199]
    for number in (200, -201):
        with pytest.raises(IndexError):
            topics[number]


def test_large_arrays_of_numbers_are_sequences_too() -> None:
    partition = Partition(replica_nodes=list(range(100_000)))
    body = MetadataResponse(
        topics=[MetadataResponse.Topic(name="t", partitions=[partition])]
    ).encode(VERSION)
    ((read_partition,),) = (
        topic.partitions for topic in MetadataResponse.decode(body, VERSION).topics
    )
    replicas = read_partition.replica_nodes
    assert isinstance(replicas, decoder.LazyArray)
    assert (len(replicas), replicas[0], replicas[99_999], sum(replicas)) == (
        100_000,
        0,
        99_999,
        sum(range(100_000)),
    )
    assert read_partition.isr_nodes == []


def test_an_error_deep_inside_a_large_array_is_found_before_the_message_is_returned() -> None:
    body = metadata(300, 60, [1, 2, 3])
    at = body.index(b"topic-250") + 3
    broken = body[:at] + b"\xff" + body[at + 1 :]
    with pytest.raises(
        ProtocolError, match=r"MetadataResponse v12: topics\[250\].name: string is not UTF-8"
    ):
        MetadataResponse.decode(broken, VERSION)
    with pytest.raises(ProtocolError, match=r"topics\[299\]"):
        MetadataResponse.decode(body[:-60], VERSION)


@pytest.mark.parametrize(
    ("topics", "partitions", "replicas"),
    [(1, 200_000, []), (200, 500, [1, 2, 3]), (60_000, 1, [1]), (150_000, 0, [])],
)
def test_memory_is_bounded_by_the_frame_whatever_its_shape(
    topics: int, partitions: int, replicas: list[int]
) -> None:
    body = metadata(topics, partitions, replicas)
    MetadataResponse.plan(VERSION)
    tracemalloc.start()
    try:
        message = MetadataResponse.decode(body, VERSION)
        assert sum(len(topic.partitions) for topic in message.topics) == topics * partitions
        assert tracemalloc.get_traced_memory()[1] < len(body)
    finally:
        tracemalloc.stop()


def test_other_threads_run_while_a_large_message_is_decoded() -> None:
    partition = struct.pack(">hiii", 0, 0, 1, 7) + b"\1\1\1\0"
    count = 1_000_000
    tail = b"".join(
        (
            bytes(16),
            b"\0",
            bytes((0xC1, 0x84, 0x3D)),
            partition * count,
            struct.pack(">i", -(2**31)),
            b"\0",
        )
    )
    body = b"".join(
        (struct.pack(">i", 0), b"\1", b"\0", struct.pack(">i", 1), b"\2", b"\0\0\2t", tail, b"\0")
    )
    longest = 0.0
    done = threading.Event()

    def turn() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not done.is_set():
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        for _ in range(10):  # a busy machine may stop the thread too
            longest, started = 0.0, time.perf_counter()
            message = MetadataResponse.decode(body, VERSION)
            if longest < (time.perf_counter() - started) / 2:
                break
        else:
            pytest.fail("nothing else ran while it was decoded")
    finally:
        done.set()
        thread.join()
    assert len(message.topics[0].partitions) == count
