"""Small records that become large: a batch ends before they take much memory, and nothing is lost.

Each record here becomes 16 to 20 MB. A batch holds 64 MiB of such records.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from kafka_native._native import codec_core
from kafka_native.codecs import Avro, AvroDecoder, DecodeError, JsonDecoder, ProtobufDecoder
from kafka_native.codecs.column_decoder import ColumnDecoder
from tests.codecs.consume_support import FakeRegistry, Topic, framed
from tests.waiting import WAIT_S

FIELDS = [f"f{number}" for number in range(2000)]
EMPTY = {"name": "E", "type": "record", "fields": [{"name": "n", "type": "null"}]}
WIDE = {
    "name": "E",
    "type": "record",
    "fields": [{"name": name, "type": "long", "default": 0} for name in FIELDS],
}


def avro_schema(items: dict[str, Any]) -> dict[str, Any]:
    many = {"name": "many", "type": {"type": "array", "items": items}}
    return {"name": "R", "type": "record", "fields": [many]}


def long(number: int) -> bytes:
    """Return a number as Avro writes it."""
    number, found = number << 1, b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def avro_record(count: int) -> bytes:
    return long(count) + b"\0" if count else b"\0"


def protobuf_decoder() -> ColumnDecoder:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="f", package="p", syntax="proto3")
    wide = file.message_type.add(name="W")
    for number in range(1, 500):
        wide.field.add(name=f"f{number}", number=number, type=field.TYPE_INT64, label=1)
    file.message_type.add(name="M").field.add(
        name="many", number=1, type=field.TYPE_MESSAGE, type_name=".p.W", label=3
    )
    files = descriptor_pb2.FileDescriptorSet(file=[file])
    return ProtobufDecoder(files.SerializeToString(), "p.M")


def json_decoder() -> ColumnDecoder:
    if not codec_core.HAS_JSON:
        pytest.skip("this build has no simdjson: JSON columns raise")
    wide = pa.struct([(f"f{number}", pa.decimal256(70, 0)) for number in range(3000)])
    return JsonDecoder(pa.schema([("many", pa.list_(wide))]))


CASES: dict[str, tuple[Callable[[], ColumnDecoder], Callable[[int], bytes]]] = {
    "avro": (lambda: AvroDecoder(avro_schema(EMPTY), avro_schema(WIDE)),
             lambda megabytes: avro_record(megabytes * 62)),
    "protobuf": (protobuf_decoder, lambda megabytes: b"\x0a\x00" * (megabytes * 250)),
    "json": (json_decoder, lambda megabytes: json.dumps(
        {"many": [{}] * (megabytes * 10)}).encode()),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[ColumnDecoder, Callable[[int], bytes]]:
    make, record = CASES[request.param]
    return make(), record


def test_a_column_ends_before_small_records_take_much_memory(case: Any) -> None:
    decoder, record = case
    records = [record(16)] * 10
    sizes = []
    while records:
        column = decoder.decode(records)
        assert (
            column.nbytes < 160 << 20
        )  # twice the limit, because columns grow to twice their size
        sizes.append(len(column))
        assert column.is_full == (len(column) < len(records))
        assert column.errors == []
        records = records[len(column) :]
    assert sum(sizes) == 10
    assert 2 <= max(sizes) <= 5


def test_a_record_that_fits_into_no_column_is_an_error_at_any_row(case: Any) -> None:
    decoder, record = case
    column = decoder.decode([record(0), record(400), record(0), record(400)], on_error="null")
    assert (len(column), column.is_full) == (4, False)
    assert [error.row for error in column.errors] == [1, 3]
    with pytest.raises(DecodeError, match="expand"):
        decoder.decode([record(400)])


def test_a_full_column_goes_on_with_a_bad_record(case: Any) -> None:
    """The bad record may fit into a new column, as far as the decoder knows. There it is an error."""
    decoder, record = case
    records = [record(48), record(400), record(1)]
    column = decoder.decode(records, on_error="null")
    assert (len(column), column.is_full) == (1, True)
    column = decoder.decode(records[1:], on_error="null")
    assert (len(column), column.is_full) == (2, False)
    assert [error.row for error in column.errors] == [0]


def test_a_record_with_a_bad_key_doesnt_count(topic: Topic) -> None:
    """Its value is decoded, and removed when its key doesn't decode."""
    registry = FakeRegistry()
    schema_id = registry.add(avro_schema(EMPTY))
    key_id = registry.add({"type": "long"})
    good = (0, 5, 11)
    for number in range(12):
        key = framed(key_id, long(number)) if number in good else b"bad"
        topic.produce(framed(schema_id, avro_record(1000 + number)), key=key)
    keys = Avro(registry, schema={"type": "long"})
    codec = Avro(registry, schema=avro_schema(WIDE))
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            12, WAIT_S, columns=["value", "key"], value=codec, key=keys, on_error="split"
        )
    found = pa.record_batch(batch).column(0).field(0).value_lengths().to_pylist()
    assert found == [1000 + number for number in good]
    assert batch.malformed is not None
    assert batch.malformed.num_rows == 9
    assert set(pa.record_batch(batch.malformed).column("field").to_pylist()) == {"key"}


def test_consumed_records_come_in_smaller_batches(topic: Topic) -> None:
    registry = FakeRegistry()
    schema_id = registry.add(avro_schema(EMPTY))
    codec = Avro(registry, schema=avro_schema(WIDE))
    topic.produce(*[framed(schema_id, avro_record(1000 + number)) for number in range(10)])
    counts: list[int] = []
    with topic.consumer() as consumer:
        while len(counts) < 10:
            batch = consumer.consume_arrow(10 - len(counts), WAIT_S, columns=["value"], value=codec)
            found = pa.record_batch(batch).column(0).field(0).value_lengths().to_pylist()
            assert 0 < len(found) < 6
            counts += found
    assert counts == [1000 + number for number in range(10)]
