"""Invalid bytes end in a ProtocolError or in a message, never in another exception."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_filling import EVERY_VERSION, examples, version_id
from systematic import check, check_all
from typing_extensions import Self

from kafka_native._native import decoder
from kafka_native.protocol import ProtocolError, decode_request, registry
from kafka_native.protocol.fetch import FetchResponse
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.offsets import OffsetFetchRequest
from kafka_native.protocol.produce import ProduceRequest
from kafka_native.protocol.schema import Message
from kafka_native.protocol.share import ShareFetchResponse
from kafka_native.protocol.versions import ApiVersionsResponse

every_version = pytest.mark.parametrize(("cls", "version"), EVERY_VERSION, ids=version_id)


@every_version
def test_truncated_anywhere_is_a_protocol_error(cls: type[Message], version: int) -> None:
    for message in examples(cls, version, 3):
        body = message.encode(version)
        for size in range(len(body)):
            with pytest.raises(ProtocolError):
                cls.decode(body[:size], version)
        with pytest.raises(ProtocolError, match="1 bytes left over"):
            cls.decode(body + b"\0", version)


@every_version
def test_flipped_bytes_are_read_or_refused(cls: type[Message], version: int) -> None:
    pick = random.Random(f"{cls.__name__} {version}")
    for message in examples(cls, version, 3):
        body = message.encode(version)
        for _ in range(30 if body else 0):
            broken = bytearray(body)
            for _ in range(pick.choice((1, 1, 2, 5))):
                broken[pick.randrange(len(broken))] = pick.choice(
                    (0, 0x7F, 0x80, 0xFF, pick.randrange(256))
                )
            try:
                read = cls.decode(broken, version)
            except ProtocolError as error:
                assert str(error).startswith(f"{cls.__name__} v{version}: ")  # noqa: PT017
            else:
                assert cls.decode(read.encode(version), version) == read


@every_version
def test_damage_and_extreme_lengths_are_read_or_refused(cls: type[Message], version: int) -> None:
    """At some of a message's bytes. ``systematic.py`` alone does it at each of them."""
    found = check_all(cls, version, places_max=12)
    assert set(found) <= {"read", "refused"}


def test_a_decoder_that_takes_too_much_memory_is_found() -> None:
    class Greedy(MetadataRequest):
        @classmethod
        def decode(cls, *args: object) -> Self:  # type: ignore[override]
            bytearray(1 << 20)
            raise ProtocolError("too long", "Greedy", 0)

    tracemalloc.start()
    try:
        with pytest.raises(AssertionError, match="took"):
            check(Greedy, 0, b"")
    finally:
        tracemalloc.stop()


@settings(max_examples=300, deadline=None)
@given(which=st.sampled_from(EVERY_VERSION), body=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(which: tuple[type[Message], int], body: bytes) -> None:
    cls, version = which
    try:
        read = cls.decode(body, version)
    except ProtocolError:
        return
    assert cls.decode(read.encode(version), version) == read


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_random_frames_are_read_or_refused(frame: bytes) -> None:
    try:
        header, request = decode_request(frame)
    except ProtocolError:
        return
    assert registry.request(header.request_api_key) is type(request)


@pytest.mark.parametrize(
    ("cls", "version", "body"),
    [
        (MetadataRequest, 1, b"\x7f\xff\xff\xff"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f"),
        (MetadataRequest, 1, b"\x00\x00\x00\x01\x7f\xff"),
        (MetadataRequest, 9, b"\x02\xff\xff\xff\xff\x0f"),
        (MetadataResponse, 0, b"\x7f\xff\xff\xff" + bytes(100)),
        (
            ProduceRequest,
            3,
            b"\xff\xff\xff\xff"
            + bytes(4)
            + b"\0\0\0\1\0\1t\0\0\0\1"
            + bytes(4)
            + b"\x7f\xff\xff\xff",
        ),
        (FetchResponse, 12, bytes(10) + b"\xfe\xff\xff\xff\x0f" + bytes(50)),
        (OffsetFetchRequest, 8, b"\xff\xff\xff\x7f" + bytes(50)),
        (ApiVersionsResponse, 3, bytes(2) + b"\x01" + bytes(4) + b"\xff\xff\xff\xff\x0f"),
        (ApiVersionsResponse, 3, bytes(2) + b"\x01" + bytes(4) + b"\x01\x00\xff\xff\xff\xff\x0f"),
    ],
    ids=lambda value: value.hex()[:24] if isinstance(value, bytes) else version_id(value),
)
def test_a_huge_length_costs_no_memory(cls: type[Message], version: int, body: bytes) -> None:
    cls.plan(version)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            cls.decode(body, version)
        assert tracemalloc.get_traced_memory()[1] < 64_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [-2, -32768])
def test_a_negative_length_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"array with the length {length}"):
        MetadataRequest.decode(struct.pack(">i", length), 1)
    with pytest.raises(ProtocolError, match=rf"topics\[0\].name: string with the length {length}"):
        MetadataRequest.decode(struct.pack(">ih", 1, length), 1)


def test_more_array_elements_than_a_message_may_hold_are_refused() -> None:
    # Metadata v0: no brokers, one topic of one partition with more replicas than the limit.
    count = decoder.MAX_ELEMENTS
    head = struct.pack(">iihhcihiii", 0, 1, 0, 1, b"t", 1, 0, 0, 0, count)
    body = head + bytes(4 * count) + struct.pack(">i", 0)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="array elements in one message"):
            MetadataResponse.decode(body, 0)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_null_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(ProtocolError, match="MetadataRequest v0: topics: null array"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
    with pytest.raises(ProtocolError, match=r"topics\[0\].name: null string"):
        MetadataRequest.decode(b"\x02\x00\x00" + bytes(4), 9)


@pytest.mark.parametrize("version", [1, 2])
def test_null_records_are_empty_where_the_version_has_no_null(version: int) -> None:
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    failed = topic.PartitionData(partition_index=7, error_code=29, records=b"0123456789")
    response = ShareFetchResponse(responses=[topic(topic_id=b"i" * 16, partitions=[failed])])
    encoded = response.encode(version)
    assert encoded.count(b"\x0b0123456789") == 1
    found = ShareFetchResponse.decode(encoded.replace(b"\x0b0123456789", b"\x00"), version)
    (partition,) = found.responses[0].partitions
    assert (partition.partition_index, partition.error_code) == (7, 29)
    assert partition.records == b""
    assert partition.acquired_records == []


def test_a_string_that_is_not_utf8_is_refused_with_its_place() -> None:
    with pytest.raises(ProtocolError) as caught:
        MetadataRequest.decode(b"\x00\x00\x00\x02\x00\x01a\x00\x02\xff\xfe", 0)
    assert (caught.value.message, caught.value.version, caught.value.field) == (
        "MetadataRequest",
        0,
        "topics[1].name",
    )
    assert "not UTF-8" in caught.value.reason


@pytest.mark.parametrize(
    "varint", [b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\x7f"]
)
def test_a_varint_over_32_bits_is_refused(varint: bytes) -> None:
    with pytest.raises(ProtocolError, match="does not fit 32 bits"):
        MetadataRequest.decode(varint, 9)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="t")])
    body = request.encode(9)
    assert body.endswith(b"\0\1\0\0\0")
    # One field of three bytes in the topic, and two in the message, one of them empty.
    body = body[:-5] + b"\1\x05\3abc" + b"\1\0\0" + b"\2\x01\0\xff\x7f\1x"
    assert MetadataRequest.decode(body, 9) == request


def test_a_tagged_field_of_the_wrong_size_is_refused() -> None:
    head = bytes(2) + b"\x01" + bytes(4)
    epoch = struct.pack(">q", 7)
    assert ApiVersionsResponse.decode(head + b"\1\1\x08" + epoch, 3).finalized_features_epoch == 7
    with pytest.raises(ProtocolError, match="finalized_features_epoch: 1 bytes left over"):
        ApiVersionsResponse.decode(head + b"\1\1\x09" + epoch + b"\0", 3)
    with pytest.raises(
        ProtocolError, match="finalized_features_epoch: int64 needs 8 bytes, 7 left"
    ):
        ApiVersionsResponse.decode(head + b"\1\1\x07" + epoch + b"\0", 3)


def test_an_offset_beyond_the_frame_is_refused() -> None:
    for offset in (-1, 5):
        with pytest.raises(ProtocolError, match="offset"):
            MetadataRequest.decode(bytes(4), 0, offset)


def test_other_things_than_bytes_are_a_type_error() -> None:
    with pytest.raises(TypeError):
        MetadataRequest.decode("text", 0)  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        MetadataRequest.decode(memoryview(bytes(8))[::2], 0)
