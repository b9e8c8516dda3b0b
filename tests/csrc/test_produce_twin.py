"""The C Produce codec and the declarations agree in every version, byte for byte."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_native._native as native
from kafka_native.protocol.produce import ProduceRequest, ProduceResponse

LIBRARIES = list(Path(native.__path__[0]).glob("libkafka_native_core*"))
VERSIONS = range(14)


class Partition(ctypes.Structure):
    _fields_ = [
        ("topic", ctypes.c_char_p),
        ("topic_bytes", ctypes.c_int32),
        ("topic_id", ctypes.c_uint8 * 16),
        ("partition", ctypes.c_int32),
        ("records", ctypes.c_char_p),
        ("records_bytes", ctypes.c_size_t),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int16),
        ("acks", ctypes.c_int16),
        ("timeout_ms", ctypes.c_int32),
        ("transactional_id", ctypes.c_char_p),
        ("partitions", ctypes.POINTER(Partition)),
        ("partition_count", ctypes.c_int32),
    ]


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Span(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("end", ctypes.c_void_p), ("failed", ctypes.c_int)]


class Response(ctypes.Structure):
    _fields_ = [
        ("span", Span),
        ("version", ctypes.c_int16),
        ("topics_left", ctypes.c_int32),
        ("partitions_left", ctypes.c_int32),
        ("topic", ctypes.c_void_p),
        ("topic_bytes", ctypes.c_int32),
        ("topic_id", ctypes.c_void_p),
        ("throttle_ms", ctypes.c_int32),
        ("endpoints", Span),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("topic", ctypes.c_void_p),
        ("topic_bytes", ctypes.c_int32),
        ("topic_id", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("error_code", ctypes.c_int16),
        ("base_offset", ctypes.c_int64),
        ("log_append_time_ms", ctypes.c_int64),
        ("log_start_offset", ctypes.c_int64),
        ("record_error_count", ctypes.c_int32),
        ("record_error_index", ctypes.c_int32),
        ("record_error_run", ctypes.c_int32),
        ("record_error", ctypes.c_void_p),
        ("record_error_bytes", ctypes.c_int32),
        ("error", ctypes.c_void_p),
        ("error_bytes", ctypes.c_int32),
        ("leader_id", ctypes.c_int32),
        ("leader_epoch", ctypes.c_int32),
    ]


@pytest.fixture(scope="module")
def core() -> ctypes.CDLL:
    assert LIBRARIES, "the core library is not built"
    library = ctypes.CDLL(str(LIBRARIES[0]))
    library.kn_produce_request_encode.restype = ctypes.c_size_t
    library.kn_produce_request_bound_bytes.restype = ctypes.c_size_t
    library.kn_produce_response_open.argtypes = [ctypes.POINTER(Response), Span, ctypes.c_int16]
    return library


def topic_id(name: str) -> bytes:
    return name.encode()[:16].ljust(16, b"\0")


def encode_in_c(
    core: ctypes.CDLL,
    version: int,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
    topics: dict[str, dict[int, bytes]],
) -> bytes:
    flat = [
        (name, index, records) for name, parts in topics.items() for index, records in parts.items()
    ]
    partitions = (Partition * len(flat))()
    for entry, (name, index, records) in zip(partitions, flat, strict=True):
        encoded = name.encode()
        entry.topic, entry.topic_bytes, entry.partition = encoded, len(encoded), index
        entry.topic_id[:] = topic_id(name)
        entry.records, entry.records_bytes = records, len(records)
    encoded_id = None if transactional_id is None else transactional_id.encode()
    request = Request(version, acks, timeout_ms, encoded_id, partitions, len(flat))
    bound = core.kn_produce_request_bound_bytes(ctypes.byref(request))
    glue = ctypes.create_string_buffer(bound)
    pieces = (Piece * (2 * len(flat) + 1))()
    count = ctypes.c_int()
    total = core.kn_produce_request_encode(
        ctypes.byref(request), glue, glue, pieces, ctypes.byref(count)
    )
    joined = b"".join(
        ctypes.string_at(piece.base, piece.size) for piece in pieces[: count.value] if piece.size
    )
    assert total == len(joined)
    assert total - sum(len(records) for _, _, records in flat) <= bound
    return joined


NAMES = st.text("abcdefghijklmnopqrstuvwxyz.-_", min_size=1, max_size=16)
BATCHES = st.dictionaries(
    st.integers(0, 2**31 - 1), st.binary(min_size=1, max_size=200), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(VERSIONS),
    st.sampled_from([-1, 0, 1]),
    st.integers(0, 2**31 - 1),
    st.none() | st.text("abc-é", min_size=1, max_size=255),
    st.dictionaries(NAMES, BATCHES, max_size=4),
)
def test_request_is_what_the_declaration_writes(
    core: ctypes.CDLL,
    version: int,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
    topics: dict[str, dict[int, bytes]],
) -> None:
    if version < 3:
        transactional_id = None
    declared = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.Topic(
                name=name,
                topic_id=topic_id(name),
                partition_data=[
                    ProduceRequest.Topic.Partition(index=i, records=b) for i, b in parts.items()
                ],
            )
            for name, parts in topics.items()
        ],
    )
    assert encode_in_c(
        core, version, acks, timeout_ms, transactional_id, topics
    ) == declared.encode(version)


def text_at(address: int | None, size: int) -> str | None:
    return None if address is None else ctypes.string_at(address, size).decode()


def decode_in_c(
    core: ctypes.CDLL, body: bytes, version: int, node_ids: Sequence[int]
) -> tuple[list[tuple[object, ...]], int, list[str]]:
    """Return the results as tuples, the throttle time, and the endpoints."""
    memory = ctypes.create_string_buffer(body, len(body))
    start = ctypes.addressof(memory)
    response, result = Response(), Result()
    span = Span(start, start + len(body), 0)
    assert core.kn_produce_response_open(ctypes.byref(response), span, version) == 0
    results: list[tuple[object, ...]] = []
    while (
        status := core.kn_produce_response_next(ctypes.byref(response), ctypes.byref(result))
    ) == 1:
        name = text_at(result.topic, result.topic_bytes)
        first_error = (
            result.record_error_index,
            text_at(result.record_error, result.record_error_bytes),
        )
        results.append(
            (
                name if version < 13 else ctypes.string_at(result.topic_id, 16),
                result.partition,
                result.error_code,
                result.base_offset,
                result.log_append_time_ms,
                result.log_start_offset,
                result.record_error_count,
                first_error if result.record_error_count else None,
                text_at(result.error, result.error_bytes),
                result.leader_id,
                result.leader_epoch,
            )
        )
    assert status == 0
    assert core.kn_produce_response_end(ctypes.byref(response)) == 0
    found = []
    for node_id in node_ids:
        text = ctypes.create_string_buffer(300)
        if core.kn_produce_response_endpoint(
            ctypes.byref(response), node_id, text, ctypes.c_size_t(300)
        ):
            found.append(text.value.decode())
    return results, response.throttle_ms, found


INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(max_size=30)
P = ProduceResponse.Topic.Partition
PARTITIONS = st.builds(
    P,
    index=INT32,
    error_code=INT16,
    base_offset=INT64,
    log_append_time_ms=INT64,
    log_start_offset=INT64,
    record_errors=st.lists(
        st.builds(P.RecordError, batch_index=INT32, batch_index_error_message=TEXTS), max_size=3
    ),
    error_message=TEXTS,
    current_leader=st.builds(P.CurrentLeader, leader_id=INT32, leader_epoch=INT32),
)
NODES = st.builds(
    ProduceResponse.NodeEndpoint,
    node_id=INT32,
    host=st.text("abc.-", min_size=1, max_size=20),
    port=st.integers(1, 65535),
    rack=st.none() | st.text(max_size=5),
)


def expected(version: int, name: str, part: P) -> tuple[object, ...]:
    """Return the C codec's result. Fields that the version lacks have their defaults."""
    errors = part.record_errors if version >= 8 else []
    return (
        name if version < 13 else topic_id(name),
        part.index,
        part.error_code,
        part.base_offset,
        part.log_append_time_ms if version >= 2 else -1,
        part.log_start_offset if version >= 5 else -1,
        len(errors),
        (errors[0].batch_index, errors[0].batch_index_error_message) if errors else None,
        part.error_message if version >= 8 else None,
        part.current_leader.leader_id if version >= 10 else -1,
        part.current_leader.leader_epoch if version >= 10 else -1,
    )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(VERSIONS),
    st.dictionaries(NAMES, st.lists(PARTITIONS, max_size=3), max_size=3),
    INT32,
    st.lists(NODES, max_size=3, unique_by=lambda node: node.node_id),
)
def test_response_is_read_as_the_declaration_wrote_it(
    core: ctypes.CDLL,
    version: int,
    topics: dict[str, list[P]],
    throttle_ms: int,
    nodes: list[ProduceResponse.NodeEndpoint],
) -> None:
    declared = ProduceResponse(
        responses=[
            ProduceResponse.Topic(name=name, topic_id=topic_id(name), partition_responses=parts)
            for name, parts in topics.items()
        ],
        throttle_time_ms=throttle_ms,
    )
    if version >= 10:
        declared.node_endpoints = nodes
    else:
        for parts in topics.values():
            for part in parts:
                part.current_leader = P.CurrentLeader()
    results, throttle, found = decode_in_c(
        core, declared.encode(version), version, [node.node_id for node in nodes]
    )
    assert results == [
        expected(version, name, part) for name, parts in topics.items() for part in parts
    ]
    assert throttle == (throttle_ms if version >= 1 else 0)
    assert found == ([f"{node.host}:{node.port}" for node in nodes] if version >= 10 else [])
