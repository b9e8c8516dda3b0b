"""A declared message as a Python object."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import pickle
import sys
import time
import zlib
from typing import Any

import pytest

from kafka_native.protocol import ApiKey, ProtocolError
from kafka_native.protocol.fetch import FetchRequest, FetchResponse
from kafka_native.protocol.groups import ConsumerGroupHeartbeatResponse
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.produce import ProduceRequest
from kafka_native.protocol.sasl import SaslHandshakeRequest
from kafka_native.protocol.schema import (
    MAX_DEPTH,
    Struct,
    Versioned,
    Versions,
    array,
    int8,
    int32,
    string,
    struct,
)

Topic = MetadataRequest.Topic


def test_constructor_takes_fields_by_name_with_kafkas_defaults() -> None:
    request = MetadataRequest(topics=[Topic(name="a")])
    assert request.topics is not None
    assert request.topics[0].topic_id == bytes(16)
    assert request.allow_auto_topic_creation is True
    assert MetadataResponse().controller_id == -1
    assert FetchRequest().max_bytes == 0x7FFFFFFF
    assert FetchResponse.Topic.Partition().diverging_epoch.end_offset == -1
    assert ConsumerGroupHeartbeatResponse().assignment is None


def test_defaults_are_not_shared() -> None:
    first, second = MetadataRequest(), MetadataRequest()
    assert first.topics is not None
    first.topics.append(Topic(name="a"))
    assert second.topics == []
    one, other = FetchResponse.Topic.Partition(), FetchResponse.Topic.Partition()
    one.current_leader.leader_id = 5
    assert other.current_leader.leader_id == -1


def test_an_unknown_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="MetadataRequest has no field nonsense, topic"):
        MetadataRequest(topic=1, nonsense=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        MetadataRequest().topic = 1  # type: ignore[attr-defined]


def test_equality_is_by_value_and_type() -> None:
    assert Topic(name="a") == Topic(name="a") != Topic(name="b")
    different: object = MetadataResponse()
    assert MetadataRequest() != different
    assert ProduceRequest.Topic.Partition(records=b"x") == ProduceRequest.Topic.Partition(
        records=memoryview(b"x")
    )
    with pytest.raises(TypeError):
        hash(Topic())


def test_repr_shows_fields_without_their_default() -> None:
    request = MetadataRequest(topics=[Topic(name="a")], allow_auto_topic_creation=False)
    expected = (
        "MetadataRequest(topics=[MetadataRequest.Topic(name='a')], allow_auto_topic_creation=False)"
    )
    assert repr(request) == expected
    assert repr(ProduceRequest.Topic.Partition(records=bytes(100))).endswith(
        "Partition(records=<100 bytes>)"
    )
    assert repr(ProduceRequest.Topic.Partition(records=memoryview(b"ab"))).endswith(
        "Partition(records=b'ab')"
    )
    assert "... 36 more]" in repr(MetadataResponse.Topic.Partition(isr_nodes=list(range(100))))


def test_copies_and_pickles_are_equal() -> None:
    request = MetadataRequest(topics=[Topic(name="a")])
    for twin in (copy.copy(request), copy.deepcopy(request), pickle.loads(pickle.dumps(request))):
        assert twin == request
    deep = copy.deepcopy(request)
    assert deep.topics is not None
    assert request.topics is not None
    assert deep.topics[0] is not request.topics[0]


def test_class_attributes_have_the_versions() -> None:
    assert MetadataRequest.api_key is ApiKey.METADATA
    assert (
        MetadataRequest.min_version,
        MetadataRequest.max_version,
        MetadataRequest.flexible_since,
    ) == (0, 13, 9)
    assert SaslHandshakeRequest.flexible_since is None
    assert [str(Versions.parse(text)) for text in ("3+", "0-12", "5", "none")] == [
        "3+",
        "0-12",
        "5",
        "none",
    ]


@pytest.mark.parametrize("version", [-1, 14])
def test_a_version_that_is_not_declared_is_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"MetadataRequest v{version}: the versions are 0-13"):
        MetadataRequest().encode(version)
    with pytest.raises(ProtocolError, match="the versions are 0-13"):
        MetadataRequest.decode(b"", version)


class _Strict(Versioned, versions="0-2", flexible="2+"):
    class Inner(Struct):
        number: int = int8("0+")

    inner: Inner = struct(Inner, "0+")
    text: str = string("0+")
    since_one: int = int32("1+")
    lossy: int = int32("1+", ignorable=True)
    numbers: list[int] = array(int32(), "0+")


@pytest.mark.parametrize(
    ("values", "field", "reason"),
    [
        ({"inner": _Strict.Inner(number=128)}, "inner.number", "128 does not fit int8"),
        ({"inner": _Strict.Inner(number=1 << 70)}, "inner.number", "does not fit int8"),
        ({"inner": _Strict.Inner(number="1")}, "inner.number", "expected int8, got str"),  # type: ignore[arg-type]
        ({"inner": _Strict.Inner(number=1.0)}, "inner.number", "expected int8, got float"),  # type: ignore[arg-type]
        ({"inner": Topic()}, "inner", "expected _Strict.Inner, got MetadataRequest.Topic"),
        ({"inner": None}, "inner", "None where the version has no null"),
        ({"text": None}, "text", "None where the version has no null"),
        ({"text": b"a"}, "text", "expected string, got bytes"),
        ({"text": "\ud800"}, "text", "not encodable"),
        ({"text": "x" * 32768}, "text", "too long"),
        ({"numbers": 5}, "numbers", "expected a list, got int"),
        ({"numbers": "12"}, "numbers", "expected a list, got str"),
        ({"numbers": [1, None]}, "numbers[1]", "expected int32, got NoneType"),
        ({"since_one": 3}, "since_one", "3 cannot be sent, the version has no such field"),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused_with_its_place(
    values: Any, field: str, reason: str
) -> None:
    with pytest.raises(ProtocolError, match="_Strict v0") as caught:
        _Strict(**values).encode(0)
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_an_ignorable_field_is_left_out_silently_if_the_version_lacks_it() -> None:
    assert _Strict.decode(_Strict(lossy=3).encode(0), 0) == _Strict()
    assert _Strict.decode(_Strict(lossy=3).encode(1), 1).lossy == 3


def test_a_string_has_the_brokers_length_limit_in_flexible_versions_too() -> None:
    message = _Strict(text="x" * 0x7FFF)
    assert _Strict.decode(message.encode(2), 2) == message
    with pytest.raises(ProtocolError, match="string of length 32768 is too long"):
        _Strict(text="x" * 0x8000).encode(2)


def test_a_deleted_field_is_refused() -> None:
    message = _Strict()
    del message.text
    with pytest.raises(ProtocolError, match="text: the field was deleted"):
        message.encode(0)


def test_tuples_and_any_buffer_are_encoded() -> None:
    assert _Strict(numbers=(1, 2)).encode(0) == _Strict(numbers=[1, 2]).encode(0)  # type: ignore[arg-type]
    expected = _produce(b"abc").encode(9)
    for records in (bytearray(b"abc"), memoryview(b"abc")):
        assert _produce(records).encode(9) == expected  # type: ignore[arg-type]


def _produce(records: bytes | memoryview) -> ProduceRequest:
    partition = ProduceRequest.Topic.Partition(index=1, records=records)
    return ProduceRequest(
        acks=-1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[partition])]
    )


def test_records_are_decoded_without_a_copy() -> None:
    frame = bytearray(_produce(b"payload").encode(9))
    records = ProduceRequest.decode(frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"payload"
    place = frame.index(b"payload")
    frame[place : place + 7] = b"changed"
    assert bytes(records) == b"changed"
    assert records.obj is frame


def test_records_keep_their_frame_alive() -> None:
    def decode() -> Any:
        return (
            ProduceRequest.decode(_produce(b"payload" * 1000).encode(9), 9)
            .topic_data[0]
            .partition_data[0]
            .records
        )

    records = decode()
    gc.collect()
    assert records == b"payload" * 1000


def test_structs_that_nest_too_deeply_cannot_be_declared() -> None:
    meta: Any = type(Struct)
    cls = _Strict.Inner
    for _ in range(MAX_DEPTH - 1):
        cls = meta("Outer", (Struct,), {"inner": struct(cls)})
    with pytest.raises(TypeError, match="nests deeper"):
        meta("Outer", (Struct,), {"inner": struct(cls)})


def _rounds(count: int) -> None:
    message = MetadataResponse(
        brokers=[MetadataResponse.Broker(host="h", rack="r")],
        topics=[
            MetadataResponse.Topic(
                name="t", partitions=[MetadataResponse.Topic.Partition(isr_nodes=[1000])]
            )
        ],
    )
    body = message.encode(12)
    for _ in range(count):
        MetadataResponse.decode(body, 12).encode(12)
        for broken in (body[:-3], body + b"\0"):
            with contextlib.suppress(ProtocolError):
                MetadataResponse.decode(broken, 12)
        with contextlib.suppress(ProtocolError):
            _Strict(text="\ud800").encode(0)


def test_nothing_leaks() -> None:
    """Several attempts, because threads of earlier tests may be busy."""
    _rounds(50)
    grown = []
    for _ in range(5):
        gc.collect()
        before = sys.getallocatedblocks()
        _rounds(500)
        gc.collect()
        grown.append(sys.getallocatedblocks() - before)
        if grown[-1] < 100:
            return
    pytest.fail(f"500 rounds leave so many blocks: {grown}")


def _best_milliseconds(call: Any) -> float:
    times = []
    for _ in range(7):
        start = time.process_time()
        call()
        times.append((time.process_time() - start) * 1000)
    return min(times)


def test_metadata_of_ten_thousand_partitions_is_read_as_fast_as_json() -> None:
    partitions = [
        MetadataResponse.Topic.Partition(
            partition_index=i, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for i in range(10)
    ]
    topics = [MetadataResponse.Topic(name=f"topic-{i}", partitions=partitions) for i in range(1000)]
    body = MetadataResponse(topics=topics).encode(12)
    partition = {
        "error": 0,
        "index": 1,
        "leader": 1,
        "epoch": -1,
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "offline": [],
    }
    text = json.dumps(
        [{"error": 0, "name": f"topic-{i}", "partitions": [partition] * 10} for i in range(1000)]
    )
    ours, theirs = (
        _best_milliseconds(lambda: MetadataResponse.decode(body, 12)),
        _best_milliseconds(lambda: json.loads(text)),
    )
    print(f"{ours:.1f} ms, json.loads {theirs:.1f} ms")
    assert ours < 5 * theirs  # a careless loop costs an order of magnitude


def test_a_produce_request_of_1_mb_is_read_without_touching_its_records() -> None:
    body = _produce(bytes(1 << 20)).encode(9)

    def ten_times() -> None:
        for _ in range(10):
            ProduceRequest.decode(body, 9)

    touching = _best_milliseconds(lambda: [zlib.adler32(body) for _ in range(10)])
    assert _best_milliseconds(ten_times) < touching
