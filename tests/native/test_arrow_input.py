"""Columns of other libraries that a call reads once: acknowledgement types and records to decode."""

from __future__ import annotations

import ctypes
import errno
import gc
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native._native.share_core import column_values
from kafka_native.codecs import AvroDecoder

pa = pytest.importorskip("pyarrow")

LONGS = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "long"}]}
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Stream(ctypes.Structure):
    """struct ArrowArrayStream."""

    _fields_ = [
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Array(ctypes.Structure):
    """The fields of struct ArrowArray up to its buffers."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("length", "null_count", "offset", "n_buffers", "n_children")
        ),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ]


class Failing:
    """A chunked array whose stream fails behind the first chunk."""

    def __init__(self, chunk: Any) -> None:
        self.chunks = pa.chunked_array([chunk, chunk])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        capsule = self.chunks.__arrow_c_stream__()
        stream = Stream.from_address(pointer_of(capsule, b"arrow_array_stream"))
        read = GET_NEXT(stream.get_next)
        calls: list[int] = []

        def get_next(stream: int, array: int) -> int:
            calls.append(array)
            return read(stream, array) if len(calls) == 1 else errno.EIO

        self.get_next = GET_NEXT(get_next)  # as long as the stream may call it
        stream.get_next = ctypes.cast(self.get_next, ctypes.c_void_p).value
        return capsule


class Forged:
    """An array with a changed struct."""

    def __init__(self, array: Any, change: Callable[[Array], None]) -> None:
        self.array, self.change = array, change

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, array = self.array.__arrow_c_array__()
        self.change(Array.from_address(pointer_of(array, b"arrow_array")))
        return schema, array


def without_data(array: Array) -> None:
    array.buffers[1] = None


CHANGES: dict[str, tuple[Callable[[Array], None], str]] = {
    "length": (lambda array: setattr(array, "length", -1), "length or offset"),
    "offset": (lambda array: setattr(array, "offset", 1 << 62), "length or offset"),
    "buffers": (lambda array: setattr(array, "n_buffers", 0), "number of buffers"),
    "data": (without_data, "no data buffer"),
}


def test_every_chunk_is_read() -> None:
    types = pa.chunked_array([[1, None], [], [3]], pa.uint8())
    assert column_values(types) == (False, bytes([1, 255, 3]))
    assert column_values(pa.array([True, None, False])) == (True, bytes([1, 255, 0]))
    records = pa.chunked_array([[b"\x02", None], [], [b"\x04"]], pa.binary())
    decoded = AvroDecoder(LONGS).decode(records)
    assert pa.array(decoded).to_pylist() == [{"f": 1}, None, {"f": 2}]


@pytest.mark.parametrize("is_decoded", [False, True])
def test_a_stream_that_fails(is_decoded: bool) -> None:
    chunk = pa.array([b"\x02"], pa.binary()) if is_decoded else pa.array([1])
    gc.collect()
    before = pa.total_allocated_bytes()
    with pytest.raises(OSError, match="the Arrow stream failed") as caught:
        AvroDecoder(LONGS).decode(Failing(chunk)) if is_decoded else column_values(Failing(chunk))
    assert caught.value.errno == errno.EIO
    del caught
    gc.collect()
    assert pa.total_allocated_bytes() <= before


@pytest.mark.parametrize("change", CHANGES)
def test_a_malformed_array_is_refused(change: str) -> None:
    forge, problem = CHANGES[change]
    with pytest.raises(ValueError, match=problem):
        column_values(Forged(pa.array([1, 2, 3]), forge))
