"""A metadata response of many megabytes: its memory, and how long it blocks other threads."""

from __future__ import annotations

import copy
import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_native.admin import AdminClient, ClusterMetadata
from kafka_native.errors import KafkaError
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataResponse
from kafka_native.protocol.versions import ApiVersionsResponse

from .support import raises_code

VERSION = 12
TIMES_MAX = 8
"""The limit of the memory, as a multiple of the response's size."""
Topic = MetadataResponse.Topic
VERSIONS = [
    ApiVersionsResponse.ApiVersion(
        api_key=ApiKey.METADATA, min_version=VERSION, max_version=VERSION
    ),
    ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=3),
]
CLIENT = """
import sys, threading, time
from tests.client.hostile import Memory
from kafka_native.admin import AdminClient

admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{sys.argv[1]}"})
longest, done = 0.0, threading.Event()

def turn():
    global longest
    last = time.perf_counter()
    while not done.wait(0.001):
        now = time.perf_counter()
        longest, last = max(longest, now - last), now

memory = Memory()
threading.Thread(target=turn).start()
started = time.perf_counter()
cluster = admin.list_topics(timeout=60)
took = time.perf_counter() - started
done.set()
partitions = sum(len(topic.partitions) for topic in list(cluster.topics.values())[:1000])
print(len(cluster.topics), partitions, memory.grown_bytes(), longest, took)
"""


def metadata(topics: int, partitions: int) -> bytes:
    """Return a response with so many topics and partitions, three replicas each."""
    topic = Topic.Partition
    each = [
        topic(partition_index=n, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
        for n in range(partitions)
    ]
    named = [Topic(name=f"topic-{number:06}", partitions=each) for number in range(topics)]
    return MetadataResponse(topics=named, cluster_id="c").encode(VERSION)


def answer(connection: socket.socket, body: bytes) -> None:
    """Answer on a connection until the peer closes it."""
    requests = connection.makefile("rb")
    while len(head := requests.read(4)) == 4:
        request = io.BytesIO(requests.read(*struct.unpack(">i", head)))
        api_key, version, correlation_id = struct.unpack(">hhi", request.read(8))
        if api_key == ApiKey.API_VERSIONS:
            frame = ApiVersionsResponse(api_keys=VERSIONS).encode(
                version, struct.pack(">i", correlation_id)
            )
        else:
            frame = struct.pack(">ib", correlation_id, 0) + body
        connection.sendall(struct.pack(">i", len(frame)) + frame)


@contextmanager
def broker_with(body: bytes) -> Iterator[int]:
    """Yield the port of a broker that answers each Metadata with this."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the listener is closed: the test is over
                    return
                threading.Thread(target=answer, args=(connection, body), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.skipif("KN_SANITIZE" in os.environ, reason="a sanitizer's own memory would be counted")
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux has the high-water mark of a process"
)
@pytest.mark.parametrize(("topics", "partitions"), [(500, 1000), (250_000, 1)])
def test_a_large_response_costs_a_few_times_its_bytes_and_lets_other_threads_run(
    topics: int, partitions: int
) -> None:
    body = metadata(topics, partitions)
    with broker_with(body) as port:
        command = [sys.executable, "-c", CLIENT, str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found_topics, found_partitions, grown_bytes, longest_s, took_s = done.stdout.split()
    assert (int(found_topics), int(found_partitions)) == (topics, min(topics, 1000) * partitions)
    assert int(grown_bytes) < TIMES_MAX * len(body)
    assert float(longest_s) < max(float(took_s) / 2, 0.5)


def cluster_of(body: bytes) -> ClusterMetadata:
    """Return the result of list_topics() for a response."""
    with broker_with(body) as port:
        return AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=30)


@pytest.mark.parametrize("topics", [20, 300])
def test_partitions_of_small_and_large_clusters_are_the_same(topics: int) -> None:
    cluster = cluster_of(metadata(topics, 50))
    assert list(cluster.topics) == [f"topic-{number:06}" for number in range(topics)]
    topic = cluster.topics["topic-000007"]
    assert list(topic.partitions) == list(range(50))
    assert topic.partitions is topic.partitions
    assert vars(topic) == {"topic": "topic-000007", "partitions": topic.partitions, "error": None}
    partition = topic.partitions[49]
    assert (partition.id, partition.replicas, partition.isrs, partition.error) == (
        49,
        [1, 2, 3],
        [1, 2, 3],
        None,
    )
    partition.isrs.append(4)
    assert topic.partitions[49].isrs == [1, 2, 3, 4]
    assert topic.partitions[48].isrs == partition.replicas == [1, 2, 3]
    for copied in (copy.deepcopy(cluster), pickle.loads(pickle.dumps(cluster))):
        assert copied.topics["topic-000007"].partitions[49].isrs == [1, 2, 3, 4]
        assert len(copied.topics["topic-000008"].partitions) == 50


def test_twenty_thousand_brokers_are_refused() -> None:
    brokers = [
        MetadataResponse.Broker(node_id=number, host="h", port=1) for number in range(20_000)
    ]
    body = MetadataResponse(brokers=brokers, cluster_id="c").encode(VERSION)
    before = threading.active_count()
    with raises_code(KafkaError._BAD_MSG, match="names 20000 brokers"):
        cluster_of(body)
    assert threading.active_count() <= before + 4
