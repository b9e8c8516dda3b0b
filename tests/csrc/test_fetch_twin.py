"""The C Fetch codec and the declarations agree in every version, byte for byte."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_native._native as native
from kafka_native.protocol.fetch import FetchRequest, FetchResponse

LIBRARIES = list(Path(native.__path__[0]).glob("libkafka_native_core*"))
VERSIONS = range(18)
ERR_PROTOCOL = -15


class Partition(ctypes.Structure):
    _fields_ = [
        ("topic", ctypes.c_char_p),
        ("topic_bytes", ctypes.c_int32),
        ("topic_id", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("leader_epoch", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("max_bytes", ctypes.c_int32),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int16),
        ("max_wait_ms", ctypes.c_int32),
        ("min_bytes", ctypes.c_int32),
        ("max_bytes", ctypes.c_int32),
        ("isolation_level", ctypes.c_int8),
        ("session_id", ctypes.c_int32),
        ("session_epoch", ctypes.c_int32),
        ("partitions", ctypes.POINTER(Partition)),
        ("partition_count", ctypes.c_int32),
        ("forgotten", ctypes.POINTER(Partition)),
        ("forgotten_count", ctypes.c_int32),
        ("rack", ctypes.c_char_p),
    ]


class Span(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("end", ctypes.c_void_p), ("failed", ctypes.c_int)]


class Response(ctypes.Structure):
    _fields_ = [
        ("throttle_ms", ctypes.c_int32),
        ("error_code", ctypes.c_int16),
        ("session_id", ctypes.c_int32),
        ("topics", Span),
        ("topics_left", ctypes.c_int32),
        ("partitions_left", ctypes.c_int32),
        ("version", ctypes.c_int16),
        ("topic", ctypes.c_void_p),
        ("topic_bytes", ctypes.c_int32),
        ("topic_id", ctypes.c_void_p),
    ]


class Aborted(ctypes.Structure):
    _fields_ = [("producer_id", ctypes.c_int64), ("first_offset", ctypes.c_int64)]


class Result(ctypes.Structure):
    _fields_ = [
        ("partition", ctypes.c_int32),
        ("error_code", ctypes.c_int16),
        ("high_watermark", ctypes.c_int64),
        ("last_stable_offset", ctypes.c_int64),
        ("log_start_offset", ctypes.c_int64),
        ("aborted_count", ctypes.c_int32),
        ("aborted", Span),
        ("preferred_read_replica", ctypes.c_int32),
        ("records", ctypes.c_void_p),
        ("records_bytes", ctypes.c_size_t),
        ("leader_id", ctypes.c_int32),
        ("leader_epoch", ctypes.c_int32),
        ("diverging_end_offset", ctypes.c_int64),
        ("diverging_epoch", ctypes.c_int32),
    ]


@pytest.fixture(scope="module")
def core() -> ctypes.CDLL:
    assert LIBRARIES, "the core library is not built"
    library = ctypes.CDLL(str(LIBRARIES[0]))
    library.kn_buffer_take.restype = ctypes.c_void_p
    library.kn_buffer_take.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.kn_buffer_give.argtypes = [ctypes.c_void_p]
    library.kn_buffer_append.argtypes = [
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    library.kn_fetch_request_encode.argtypes = [
        ctypes.POINTER(Request),
        ctypes.POINTER(ctypes.c_void_p),
    ]
    library.kn_fetch_response_open.argtypes = [ctypes.POINTER(Response), Span, ctypes.c_int16]
    library.kn_fetch_response_next.argtypes = [ctypes.POINTER(Response), ctypes.POINTER(Result)]
    library.kn_fetch_result_aborted.restype = Aborted
    library.kn_fetch_result_aborted.argtypes = [ctypes.POINTER(Result), ctypes.c_int16]
    return library


def topic_id(name: str) -> bytes:
    return name.encode()[:16].ljust(16, b"\1")


def partitions_of(topics: dict[str, dict[int, tuple[int, int]]]) -> Any:
    flat = [(name, index, *rest) for name, parts in topics.items() for index, rest in parts.items()]
    entries = (Partition * max(1, len(flat)))()
    for entry, (name, index, offset, epoch) in zip(entries, flat, strict=False):
        encoded = name.encode()
        entry.topic, entry.topic_bytes, entry.topic_id = encoded, len(encoded), topic_id(name)
        entry.partition, entry.offset, entry.leader_epoch = index, offset, epoch
        entry.max_bytes = 1 << 20
    return entries, len(flat)


def encode_in_c(core: ctypes.CDLL, request: Request, expected_bytes: int) -> bytes:
    """Return the encoded request. The buffer's size field follows its data pointer."""
    buffer = ctypes.c_void_p(core.kn_buffer_take(None, 16))
    assert core.kn_fetch_request_encode(ctypes.byref(request), ctypes.byref(buffer)) == 0
    words = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_size_t))
    sizes = [index for index in range(1, 10) if words[index] == expected_bytes]
    assert sizes, f"no field of the buffer says {expected_bytes} bytes"
    encoded = ctypes.string_at(words[sizes[0] - 1], expected_bytes)
    core.kn_buffer_give(buffer)
    return encoded


NAMES = st.text("abcdefghijklmnopqrstuvwxyz.-_", min_size=1, max_size=16)
PARTITIONS = st.dictionaries(
    st.integers(0, 2**31 - 1),
    st.tuples(st.integers(0, 2**62), st.integers(-1, 2**31 - 1)),
    min_size=1,
    max_size=4,
)
TOPICS = st.dictionaries(NAMES, PARTITIONS, max_size=4)
RACKS = st.text("abcå-.", max_size=100)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(VERSIONS),
    st.tuples(st.integers(0, 1), st.integers(0, 2**31 - 1)),
    TOPICS,
    TOPICS,
    RACKS,
)
def test_request_is_what_the_declaration_writes(
    core: ctypes.CDLL,
    version: int,
    session: tuple[int, int],
    topics: dict[str, dict[int, tuple[int, int]]],
    forgotten: dict[str, dict[int, tuple[int, int]]],
    rack: str,
) -> None:
    if version < 7:
        session, forgotten = (0, 0), {}
    declared = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=5 << 20, isolation_level=1)
    if version >= 7:
        declared.session_id, declared.session_epoch = session
    if version >= 11:
        declared.rack_id = rack
    for name, parts in topics.items():
        topic = (
            FetchRequest.Topic(topic=name)
            if version < 13
            else FetchRequest.Topic(topic_id=topic_id(name))
        )
        for index, (offset, epoch) in parts.items():
            partition = FetchRequest.Topic.Partition(
                partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            if version >= 9:
                partition.current_leader_epoch = epoch
            topic.partitions.append(partition)
        declared.topics.append(topic)
    for name, parts in forgotten.items():
        gone = {"topic": name} if version < 13 else {"topic_id": topic_id(name)}
        declared.forgotten_topics_data.append(
            FetchRequest.ForgottenTopic(partitions=list(parts), **gone)
        )
    expected = declared.encode(version)

    wanted, wanted_count = partitions_of(topics)
    unwanted, unwanted_count = partitions_of(forgotten)
    places = (wanted, wanted_count, unwanted, unwanted_count, rack.encode())
    request = Request(version, 500, 1, 5 << 20, 1, *session, *places)
    if version < 7:
        request.session_epoch = 0
    assert encode_in_c(core, request, len(expected)) == expected


def response_of(version: int, shape: list[list[tuple[int, bytes | None, int]]]) -> FetchResponse:
    response = FetchResponse(throttle_time_ms=7)
    if version >= 7:
        response.error_code, response.session_id = 3, 99
    for number, parts in enumerate(shape):
        name = f"topic-{number}"
        topic = (
            FetchResponse.Topic(topic=name)
            if version < 13
            else FetchResponse.Topic(topic_id=topic_id(name))
        )
        for index, (error_code, records, aborted) in enumerate(parts):
            partition = FetchResponse.Topic.Partition(
                partition_index=index,
                error_code=error_code,
                high_watermark=100 + index,
                last_stable_offset=90,
                records=records,
            )
            if version >= 5:
                partition.log_start_offset = 4
            if version >= 11:
                partition.preferred_read_replica = 2
            if version >= 12 and error_code:
                partition.current_leader = type(partition.current_leader)(
                    leader_id=5, leader_epoch=6
                )
                partition.diverging_epoch = type(partition.diverging_epoch)(epoch=8, end_offset=9)
            made = FetchResponse.Topic.Partition.AbortedTransaction
            partition.aborted_transactions = [
                made(producer_id=50 + i, first_offset=i) for i in range(aborted)
            ]
            topic.partitions.append(partition)
        response.responses.append(topic)
    return response


def read_in_c(
    core: ctypes.CDLL, body: bytes, version: int
) -> tuple[Response, list[tuple[Any, ...]], int]:
    holder = ctypes.create_string_buffer(body, max(1, len(body)))
    start = ctypes.addressof(holder)
    response, result = Response(), Result()
    status = core.kn_fetch_response_open(
        ctypes.byref(response), Span(start, start + len(body), 0), version
    )
    found: list[tuple[Any, ...]] = []
    while (
        status >= 0
        and (status := core.kn_fetch_response_next(ctypes.byref(response), ctypes.byref(result)))
        == 1
    ):
        records = (
            ctypes.string_at(result.records, result.records_bytes) if result.records_bytes else None
        )
        key = (
            ctypes.string_at(response.topic_id, 16)
            if version >= 13
            else ctypes.string_at(response.topic, response.topic_bytes)
        )
        leader = (result.leader_id, result.leader_epoch)
        leader += (result.diverging_epoch, result.diverging_end_offset)
        offsets = (result.high_watermark, result.last_stable_offset, result.log_start_offset)
        replica = result.preferred_read_replica
        count = result.aborted_count
        aborted = [
            core.kn_fetch_result_aborted(ctypes.byref(result), version) for _ in range(count)
        ]
        pairs = [(entry.producer_id, entry.first_offset) for entry in aborted]
        found.append(
            (key, result.partition, result.error_code, offsets, replica, records, leader, pairs)
        )
    return response, found, status


SHAPES = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 6]),
            st.none() | st.binary(min_size=1, max_size=200),
            st.integers(0, 3),
        ),
        max_size=3,
    ),
    max_size=3,
)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(VERSIONS), SHAPES)
def test_response_is_read_as_the_declaration_says(
    core: ctypes.CDLL, version: int, shape: list[list[tuple[int, bytes | None, int]]]
) -> None:
    response, found, status = read_in_c(core, response_of(version, shape).encode(version), version)
    assert status == 0
    assert response.throttle_ms == (7 if version >= 1 else 0)
    assert (response.error_code, response.session_id) == ((3, 99) if version >= 7 else (0, 0))
    expected = []
    for number, parts in enumerate(shape):
        name = f"topic-{number}"
        for index, (error_code, records, aborted) in enumerate(parts):
            leader = (5, 6, 8, 9) if version >= 12 and error_code else (-1, -1, -1, -1)
            # Before version 4 there are no transactions: every record is stable.
            offsets = (100 + index, 90 if version >= 4 else 100 + index, 4 if version >= 5 else -1)
            replica = 2 if version >= 11 else -1
            pairs = [(50 + i, i) for i in range(aborted)] if version >= 4 else []
            key = topic_id(name) if version >= 13 else name.encode()
            expected.append((key, index, error_code, offsets, replica, records, leader, pairs))
    assert found == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_or_damaged_response_never_reads_outside(core: ctypes.CDLL, version: int) -> None:
    body = response_of(version, [[(0, b"records" * 5, 2), (6, None, 0)], [(0, b"x", 1)]]).encode(
        version
    )
    # From version 12 on the last byte holds the tags of the message. The codec doesn't read it.
    for cut in range(len(body) - (version >= 12)):
        _, _, status = read_in_c(core, body[:cut], version)
        assert status == ERR_PROTOCOL
    for at in range(len(body)):
        damaged = bytearray(body)
        damaged[at] ^= 0xFF
        _, _, status = read_in_c(core, bytes(damaged), version)
        assert status in (0, ERR_PROTOCOL)
