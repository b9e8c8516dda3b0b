"""The ceilings, without a client: a socket sends prebuilt requests or only counts fetched bytes."""

from __future__ import annotations

import time

from bench.adapters import Figures, Stopwatch, Task, percentiles, raw_group
from bench.adapters.raw_connection import (
    FETCH_BYTES,
    FETCH_VERSION,
    Connection,
    check_produced,
    framed,
    produce_frame,
)
from kafka_native._native.records import batch_headers
from kafka_native.protocol import ApiKey, decode_response, encode_request
from kafka_native.protocol.fetch import FetchRequest, FetchResponse
from kafka_native.protocol.offsets import ListOffsetsRequest, ListOffsetsResponse

OFFSETS_VERSION = 6
REQUEST_BYTES = 1_000_000
IN_FLIGHT = 5
WARM_UP = 200


def produce(task: Task) -> Figures:
    """Send prebuilt requests of about 1 MB, five in flight."""
    records = max(1, REQUEST_BYTES // (task.size + 8))
    frames = [produce_frame(task, number, records) for number in range(task.partitions)]
    connection = Connection(task)
    requests = max(1, task.count // records)
    for number in range(task.partitions):  # the broker opens its files before the clock starts
        connection.send(produce_frame(task, number, 1))
        if task.acks != "0":
            check_produced(connection.receive())
    watch = Stopwatch()
    done = 0
    for number in range(requests):
        connection.send(frames[number % len(frames)])
        if task.acks == "0":
            done += 1
        elif number + 1 - done >= IN_FLIGHT:
            check_produced(connection.receive())
            done += 1
    while done < requests:
        check_produced(connection.receive())
        done += 1
    return watch.figures(requests * records)


many = produce_arrow = produce  # the same ceiling


def end_offsets(connection: Connection, task: Task) -> list[int]:
    """Request the end of each partition."""
    topic = ListOffsetsRequest.Topic(name=task.topic)
    make = ListOffsetsRequest.Topic.Partition
    topic.partitions = [
        make(partition_index=number, timestamp=-1) for number in range(task.partitions)
    ]
    message = ListOffsetsRequest(replica_id=-1, topics=[topic])
    connection.send(framed(encode_request(message, OFFSETS_VERSION, 1, "bench")))
    _, reply = decode_response(ApiKey.LIST_OFFSETS, OFFSETS_VERSION, bytes(connection.receive()))
    assert isinstance(reply, ListOffsetsResponse)
    return [
        entry.offset
        for entry in sorted(reply.topics[0].partitions, key=lambda entry: entry.partition_index)
    ]


def consume(task: Task) -> Figures:
    """Fetch 2 MB from each partition, with one request in flight.

    Batch headers are decoded, because they have the next offset. Records aren't decoded.
    """
    connection = Connection(task)
    ends = end_offsets(connection, task)
    offsets = [0] * task.partitions
    make = FetchRequest.Topic.Partition
    watch = Stopwatch()
    while any(offset < end for offset, end in zip(offsets, ends, strict=True)):
        topic = FetchRequest.Topic(topic=task.topic)
        wanted = [number for number in range(task.partitions) if offsets[number] < ends[number]]
        topic.partitions = [
            make(partition=number, fetch_offset=offsets[number], partition_max_bytes=FETCH_BYTES)
            for number in wanted
        ]
        message = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=64 << 20, topics=[topic])
        connection.send(framed(encode_request(message, FETCH_VERSION, 1, "bench")))
        _, reply = decode_response(ApiKey.FETCH, FETCH_VERSION, connection.receive())
        assert isinstance(reply, FetchResponse)
        for entry in reply.responses[0].partitions:
            if entry.error_code:
                raise RuntimeError(f"fetch failed with error {entry.error_code}")
            for header in batch_headers(entry.records or b""):
                offsets[entry.partition_index] = header.last_offset + 1
    return watch.figures(sum(ends))


arrow = consume  # the same ceiling


def latency(task: Task) -> Figures:
    """Send requests with one message, and wait for each answer."""
    connection = Connection(task)
    frame = produce_frame(task, 0, 1)
    taken = []
    for number in range(task.count + WARM_UP):
        if number == WARM_UP:
            watch = Stopwatch()
        started = time.perf_counter()
        connection.send(frame)
        check_produced(connection.receive())
        taken.append((time.perf_counter() - started) * 1e3)
    figures = watch.figures(task.count)
    figures.percentiles = percentiles(taken[WARM_UP:])
    return figures


cold = raw_group.cold
