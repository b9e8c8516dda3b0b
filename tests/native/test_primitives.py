"""Checksums, hashes and varints against pure-Python twins and other packages."""

from __future__ import annotations

import zlib

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_native._native import primitives
from tests.oracle import checksum

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NEAR_POWERS = st.builds(
    lambda bit, near, sign: max(min(sign * ((1 << bit) + near), (1 << 63) - 1), -(1 << 63)),
    st.integers(0, 63),
    st.integers(-1, 1),
    st.sampled_from([-1, 1]),
)


@given(st.binary(max_size=300), st.integers(0, (1 << 32) - 1))
def test_crc32c_is_its_definition(data: bytes, start: int) -> None:
    expected = checksum.crc32c(data, start)
    assert primitives.crc32c(data, start) == expected
    assert primitives.crc32c_portable(data, start) == expected


@given(st.integers(0, 40_000), st.integers(0, 15), st.randoms(use_true_random=False))
def test_crc32c_agrees_with_the_package_at_any_length_and_alignment(
    size: int, skip: int, random: object
) -> None:
    data = random.randbytes(size + skip)  # type: ignore[attr-defined]
    view = memoryview(data)[skip:]
    assert primitives.crc32c(view) == crc32c.crc32c(view) == primitives.crc32c_portable(view)


@given(st.binary(max_size=3000), st.integers(0, 3000))
def test_a_checksum_continues_where_it_stopped(data: bytes, cut: int) -> None:
    assert primitives.crc32c(data[cut:], primitives.crc32c(data[:cut])) == primitives.crc32c(data)
    assert primitives.crc32(data[cut:], primitives.crc32(data[:cut])) == zlib.crc32(data)


def test_a_large_checksum_is_computed_without_the_interpreter_lock() -> None:
    data = bytes(range(256)) * 4096
    assert primitives.crc32c(data) == crc32c.crc32c(data)
    assert primitives.crc32(data) == zlib.crc32(data)


@given(st.binary(max_size=200))
def test_murmur2_is_its_definition(data: bytes) -> None:
    assert primitives.murmur2(data) == checksum.murmur2(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"", 275646681),
    ],
)
def test_murmur2_is_the_java_clients(data: bytes, expected: int) -> None:
    assert primitives.murmur2(data) == checksum.murmur2(data) == expected


@given(st.binary(max_size=200))
def test_fnv1a_is_its_definition(data: bytes) -> None:
    assert primitives.fnv1a(data) == checksum.fnv1a(data)


@given(INT64 | NEAR_POWERS)
def test_varints_are_their_definition_both_ways(value: int) -> None:
    data = checksum.varint(value)
    assert primitives.varint_encode(value) == data
    assert primitives.varint_decode(data) == (value, len(data))
    assert primitives.varint_decode(data, bounded=True) == (value, len(data))
    if -(1 << 31) <= value < 1 << 31:
        assert primitives.varint_decode(data, bits=32) == (value, len(data))
    else:
        with pytest.raises(ValueError, match="varint"):
            primitives.varint_decode(data, bits=32)


@given(st.integers(0, (1 << 64) - 1))
def test_unsigned_varints_are_their_definition_both_ways(value: int) -> None:
    data = checksum.uvarint(value)
    assert primitives.uvarint_encode(value) == data
    if value < 1 << 32:
        assert primitives.uvarint_decode(data) == (value, len(data))
    else:
        with pytest.raises(ValueError, match="varint"):
            primitives.uvarint_decode(data)


@given(st.binary(max_size=12), st.sampled_from([32, 64]))
def test_any_bytes_are_a_varint_or_refused_as_the_twin_does(data: bytes, bits: int) -> None:
    try:
        expected = checksum.read_varint(data, bits=bits)
    except ValueError:
        with pytest.raises(ValueError, match="varint"):
            primitives.varint_decode(data, bits=bits)
        return
    assert primitives.varint_decode(data, bits=bits) == expected


@given(INT64)
def test_a_cut_varint_is_refused(value: int) -> None:
    data = checksum.varint(value)
    for bounded in (False, True):
        with pytest.raises(ValueError, match="varint"):
            primitives.varint_decode(data[:-1], bounded=bounded)


def test_the_backend_has_a_name() -> None:
    assert primitives.crc32c_backend() in ("avx2+vpclmulqdq", "sse4.2+pclmul", "armv8", "portable")


def test_object_without_a_buffer_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        primitives.crc32c("text")  # type: ignore[arg-type]
