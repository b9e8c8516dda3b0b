"""Invalid Arrow data and calls: a clear error, and no row of the chunk is queued."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import ArrowReport, KafkaException, Producer
from kafka_native.codecs import Avro

from .support import NOWHERE

LIMIT = 2**31 - 1
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def producer() -> Iterator[Producer]:
    producer = Producer(NOWHERE)
    yield producer
    producer.close(0)


def refused(
    producer: Producer,
    kind: type[BaseException],
    match: str,
    data: Any,
    rows: int = 0,
    **arguments: Any,
) -> None:
    """Check that the call raises and queues so many rows."""
    queued = len(producer)
    with pytest.raises(kind, match=match) as caught:
        producer.produce_arrow(**{"topic": "t", "data": data, "on_delivery": print, **arguments})
    assert caught.value.queued == rows  # type: ignore[attr-defined]
    assert len(producer) == queued + rows


def ints(*numbers: int, size: int = 4) -> bytes:
    return b"".join(number.to_bytes(size, "little", signed=True) for number in numbers)


def array(kind: pa.DataType, length: int, *parts: bytes) -> pa.Array:
    """Return an array with these buffers, filled in after pyarrow's check."""
    memory = [bytearray(len(part)) for part in parts]
    made = pa.Array.from_buffers(kind, length, [None, *map(pa.py_buffer, memory)])
    for target, part in zip(memory, parts, strict=True):
        target[:] = part
    return made


def table(**columns: pa.Array) -> pa.Table:
    return pa.table(columns)


VALUE = {"value": pa.array([b"a", b"b", b"c"])}


@pytest.mark.parametrize(
    ("kind", "match", "arguments"),
    [
        (ValueError, "value='nix': there is no such column, but 'value', 'n'", {"value": "nix"}),
        (ValueError, "key='nix'", {"key": "nix"}),
        (ValueError, "key=7", {"key": 7}),
        (ValueError, "key=-1", {"key": -1}),
        (TypeError, "key must be a column's name or index, or a codec .*, not float", {"key": 1.5}),
        (TypeError, "key must be a column's name or index, or a codec .*, not bool", {"key": True}),
        (TypeError, "value must be .*, or a codec .*, not the class Avro", {"value": Avro}),
        (TypeError, "column 'n' is no key: binary or string .* the format 'l'", {"key": "n"}),
        (TypeError, "column 'value' is no headers: list<struct<key, value>>", {"headers": "value"}),
        (TypeError, "column 'value' is no timestamp", {"timestamp": "value"}),
        (TypeError, "column 'value' is no partition: integer", {"partition": "value"}),
        (TypeError, "column 'n' is no topic_column", {"topic_column": "n"}),
        (TypeError, "topic must be a str, not int", {"topic": 1}),
        (TypeError, "topic_column has to be given", {"topic": None}),
        (ValueError, "topic's name", {"topic": ""}),
        (ValueError, "partition must be from -1 to 2147483647, not -2", {"partition": -2}),
        (ValueError, "partition must be from -1", {"partition": 2**40}),
        (ValueError, "timestamp must be from 0", {"timestamp": -1}),
        (TypeError, "float", {"timestamp": 1.5}),
        (TypeError, "on_delivery must be callable", {"on_delivery": 1}),
        (TypeError, "__arrow_c_stream__", {"data": [b"a"]}),
        (TypeError, "str", {"timeout": "x"}),
    ],
    ids=str,
)
def test_wrong_arguments(
    producer: Producer, kind: type[BaseException], match: str, arguments: dict[str, Any]
):
    data = pa.table({**VALUE, "n": pa.array([1, 2, 3])})
    refused(producer, kind, match, **{"data": data, **arguments})


def test_duplicate_column_name(producer: Producer):
    data = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["value", "value"])
    refused(producer, ValueError, "2 columns have this name", data)
    assert producer.produce_arrow("t", data, value=1) == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5]),
        pa.array([5]),
        pa.array([[1]]),
        pa.array([True]),
        pa.array([{"a": 1}]),
        pa.array([1]).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays([1], ["a"]),
        pa.array([["a"]], pa.list_view(pa.string())),
    ],
    ids=lambda column: str(column.type),
)
def test_values_of_another_type(producer: Producer, column: pa.Array):
    refused(producer, TypeError, "column 'value' is no value", table(value=column))


@pytest.mark.parametrize(
    ("column", "row", "what"),
    [
        (pa.array([0, -1, 5], pa.timestamp("us")), 1, "timestamp out of range"),
        (pa.array([0, 1, -5], pa.int64()), 2, "timestamp out of range"),
        (pa.array([1, 2**62, 3], pa.timestamp("s")), 1, "timestamp out of range"),
        (pa.array([1_700_000_000_000_000_000], pa.int64()), 0, "another unit"),
    ],
)
def test_timestamps_out_of_range(producer: Producer, column: pa.Array, row: int, what: str):
    data = table(value=pa.array([b"x"] * len(column)), t=column)
    refused(
        producer, ValueError, rf"column 't' \(timestamp\), row {row}: .*{what}", data, timestamp="t"
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, -2], pa.int32()),
        pa.array([0, 2**31], pa.int64()),
        pa.array([0, 2**64 - 1], pa.uint64()),
    ],
)
def test_partitions_out_of_range(producer: Producer, column: pa.Array):
    data = table(value=pa.array([b"x"] * 2), p=column)
    refused(
        producer,
        ValueError,
        r"column 'p' \(partition\), row 1: a partition out of range",
        data,
        partition="p",
    )


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        (
            pa.array([[], [{"key": "a", "value": b""}, {"key": None, "value": b""}]], HEADERS),
            "key is null",
        ),
        (pa.array([None, [None]], HEADERS), "a header that is null"),
        (
            pa.array(
                [[], [{"key": b"a\xff", "value": b""}]],
                pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])),
            ),
            "isn't UTF-8",
        ),
    ],
)
def test_invalid_headers(producer: Producer, headers: pa.Array, what: str):
    refused(
        producer,
        ValueError,
        rf"column 'h' \(headers\), row 1: .*{what}",
        table(value=pa.array([b"x"] * 2), h=headers),
        headers="h",
    )


@pytest.mark.parametrize("names", [["a", None], ["a", ""], ["a", "x" * 40_000]])
def test_invalid_topics(producer: Producer, names: list[str | None]):
    data = table(value=pa.array([b"x"] * 2), t=pa.array(names))
    refused(
        producer,
        ValueError,
        r"column 't' \(topic_column\), row 1: ",
        data,
        topic=None,
        topic_column="t",
    )


def test_the_row_counts_across_chunks_and_earlier_chunks_are_kept(producer: Producer):
    data = table(
        value=pa.chunked_array([[b"a"], [], [b"b", b"c"], [b"d", b"e"]]),
        p=pa.chunked_array([[1], [], [1, 1], [1, -7]]),
    )
    refused(producer, ValueError, "row 4: a partition out of range", data, 3, partition="p")


HOSTILE = [
    (array(pa.binary(), 2, ints(0, 5, 3), b"hello"), "row 1: decreasing offsets"),
    (array(pa.binary(), 2, ints(-1, 1, 3), b"hello"), "row 0: decreasing offsets"),
    (
        array(pa.large_binary(), 2, ints(0, 1 << 40, 3, size=8), b"hello"),
        "row 1: decreasing offsets",
    ),
    *(
        (array(pa.binary_view(), 1, ints(*view), b"x" * 30), "row 0: a view outside of its buffers")
        for view in ((20, 0, 5, 0), (20, 0, 0, 15), (20, 0, 0, -1), (-1, 0, 0, 0))
    ),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, 3], pa.int8()), pa.array([b"a"]), safe=False),
        "row 1: a dictionary index that is out of range",
    ),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, -1], pa.int32()), pa.array([b"a"]), safe=False),
        "row 1: a dictionary index",
    ),
]


@pytest.mark.parametrize(("column", "what"), HOSTILE, ids=[what for _, what in HOSTILE])
def test_hostile_buffers(producer: Producer, column: pa.Array, what: str):
    refused(producer, ValueError, rf"column '' \(value\)(, )?.*{what}", column)


def test_offsets_at_the_limit_of_int32(producer: Producer):
    """Only the last offset shows the end of the data. The row of 2 GiB fails alone."""
    reports: list[ArrowReport] = []
    column = array(pa.binary(), 2, ints(0, 5, LIMIT), b"hello")
    assert producer.produce_arrow("t", column, on_delivery=reports.append) == 2
    wide = array(pa.large_binary(), 2, ints(0, 5, 1 << 45, size=8), b"hello")
    assert producer.produce_arrow("t", wide, on_delivery=reports.append) == 2
    producer.purge()
    assert producer.flush(10) == 0
    for report in reports:
        assert [(row, error.name()) for row, error in report.failed] == [
            (0, "_PURGE_QUEUE"),
            (1, "MSG_SIZE_TOO_LARGE"),
        ]
    with pytest.raises(KafkaException, match=r"row 1 \(1 queued\)"):
        producer.produce_arrow("t", wide)


def test_null_rows_of_a_struct(producer: Producer):
    data = pa.array([{"value": "a"}, None], pa.struct([("value", pa.string())]))
    refused(producer, ValueError, "row 1: the struct that should be a row is null", data)


class Schema(ctypes.Structure):
    """The fields of struct ArrowSchema that tests change."""

    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Array(ctypes.Structure):
    """The fields of struct ArrowArray."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("length", "null_count", "offset", "n_buffers", "n_children")
        ),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Forged:
    """A batch with changed exported structs. They are restored before their release."""

    def __init__(self, part: str, **fields: Any) -> None:
        self._part, self._fields = part, fields

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        batch = pa.record_batch(VALUE)
        schema, whole = batch.__arrow_c_array__()
        self.array = Array.from_address(pointer_of(whole, b"arrow_array"))
        self.column = ctypes.cast(self.array.children[0], ctypes.POINTER(Array)).contents
        self.schema = Schema.from_address(pointer_of(schema, b"arrow_schema"))
        target = getattr(self, self._part)
        for name, value in self._fields.items():
            if name == "buffers":
                self.column.buffers[value] = None
            else:
                setattr(target, name, value)
        return schema, whole


@pytest.mark.parametrize(
    ("part", "fields", "what"),
    [
        ("array", {"length": -1}, "length or offset"),
        ("array", {"length": 1 << 62}, "length or offset"),
        ("array", {"offset": -5}, "length or offset"),
        ("array", {"offset": 1 << 62}, "length or offset"),
        ("array", {"length": 4}, "fewer rows than the table"),
        ("array", {"offset": 1}, "fewer rows than the table"),
        ("array", {"n_buffers": 0}, "number of buffers"),
        ("array", {"null_count": 4}, "number of nulls"),
        ("column", {"length": 2}, "fewer rows than the table"),
        ("column", {"length": -3}, "length or offset"),
        ("column", {"offset": 1 << 60}, "length or offset"),
        ("column", {"n_buffers": 2}, "number of buffers"),
        ("column", {"n_buffers": -1}, "number of buffers"),
        ("column", {"null_count": -2}, "number of nulls"),
        ("column", {"null_count": 2}, "no validity bitmap"),
        ("column", {"buffers": 1}, "no buffer of offsets"),
        ("column", {"buffers": 2}, "no data buffer"),
    ],
    ids=str,
)
def test_forged_structs(producer: Producer, part: str, fields: dict[str, int], what: str):
    refused(producer, ValueError, what, Forged(part, **fields))


def test_capsules_that_were_used_before(producer: Producer):
    class Again:
        def __init__(self, kind: str) -> None:
            self._capsules = (
                getattr(pa.table(VALUE), kind)()
                if kind == "__arrow_c_stream__"
                else pa.record_batch(VALUE).__arrow_c_array__()
            )
            setattr(type(self), kind, lambda self, requested_schema=None: self._capsules)

    for kind in ("__arrow_c_stream__", "__arrow_c_array__"):
        data = type("Again", (Again,), {})(kind)
        assert producer.produce_arrow("t", data) == 3
        refused(producer, ValueError, "released", data)


def test_objects_that_are_no_capsules(producer: Producer):
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return object()

    class Pair:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return pa.schema([]).__arrow_c_schema__(), pa.schema([]).__arrow_c_schema__()

    class One:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return pa.schema([]).__arrow_c_schema__()

    class Fails:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise LookupError("nothing here")

    refused(producer, TypeError, "'arrow_array_stream' is expected, not object", Stream())
    refused(producer, TypeError, "'arrow_array' is expected", Pair())
    refused(producer, TypeError, "two capsules", One())
    refused(producer, LookupError, "nothing here", Fails())


def test_a_closed_producer():
    producer = Producer(NOWHERE)
    producer.close(0)
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce_arrow("t", pa.table(VALUE))
