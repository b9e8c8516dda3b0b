"""The libraries that decode or encode records without a broker.

`prepare()` returns a function that decodes or encodes the chunk of a scenario once. What a program
does once, such as parsing a schema, isn't measured.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pyarrow

from bench.codecs import (
    ALL_GOOD,
    CHUNK,
    ENCODE,
    EVERYTHING,
    FROM_TOPIC,
    MESSAGES,
    NESTED,
    OURS,
    PROJECTION,
    RAW,
    READER,
    messages,
    records,
)
from kafka_native import codecs
from kafka_native.codecs import AvroDecoder

Decode = Callable[[], Any]
FORMATS = {"avro": "Avro", "json": "Json", "protobuf": "Protobuf"}


def missing(scenario: str, contestant: str) -> str | None:
    """Return why a contestant can't run here, or None."""
    if contestant in (ALL_GOOD, EVERYTHING, RAW, READER):
        return None
    if contestant == OURS and scenario in (*MESSAGES, *FROM_TOPIC):
        return None
    name = FORMATS.get(scenario.partition("_")[0], "Avro")
    name += "Encoder" if scenario in ENCODE else "Decoder"
    if contestant == OURS:
        return None if hasattr(codecs, name) else f"kafka_native.codecs has no {name}"
    module = {"protobuf": "google.protobuf"}.get(contestant, contestant)
    if importlib.util.find_spec(module) is not None:
        return None
    return f"{module} isn't installed: pip install 'kafka-native[bench]'"


def prepare(scenario: str, contestant: str, stack: ExitStack, count: int = CHUNK) -> Decode:
    """Return a function that decodes ``count`` records: to a column, a list or an iterator.

    Of an encoder: a function that returns encoded records, as a column or a list.
    """
    nested = scenario in NESTED
    if scenario in MESSAGES:
        return messages.prepare(scenario, contestant, stack, nested=nested, count=count)
    if scenario in ENCODE:
        table = records.table(timestamps=scenario == "avro_encode", count=count)
        return ENCODERS[scenario, contestant](table)
    if scenario.startswith("json"):
        return JSON[contestant](records.json(nested=nested, count=count), nested=nested)
    if scenario.startswith("protobuf"):
        return PROTOBUF[contestant](records.protobuf(nested=nested, count=count), nested=nested)
    payloads = records.avro(nested=nested, count=count)
    if scenario == "avro_projection":
        return PROJECTIONS[contestant](payloads)
    if contestant == "confluent_kafka":
        return confluent_columns(payloads, stack, nested=nested)
    return COLUMNS[contestant](payloads, nested=nested)


# --- a column of structs ---


def column_type(*, nested: bool) -> pyarrow.DataType:
    """Return the type of the column."""
    decoder = AvroDecoder(records.schema(nested=nested))
    return pyarrow.array(decoder.decode([])).type


def ours(payloads: list[bytes], *, nested: bool) -> Decode:
    """Decode a column of bytes, as consume_arrow() returns it."""
    decoder, column = AvroDecoder(records.schema(nested=nested)), pyarrow.array(payloads)
    return lambda: pyarrow.array(decoder.decode(column))


def pyruhvro(payloads: list[bytes], *, nested: bool) -> Decode:
    """Decode a list of bytes in Rust."""
    import pyruhvro as module

    text = json.dumps(records.schema(nested=nested))
    return lambda: module.deserialize_array(payloads, text)


def fastavro(payloads: list[bytes], *, nested: bool) -> Decode:
    """Decode to dicts, and make a column of them."""
    import fastavro as module

    parsed = module.parse_schema(records.schema(nested=nested))
    return _through_dicts(
        lambda payload: module.schemaless_reader(io.BytesIO(payload), parsed, None),
        payloads,
        column_type(nested=nested),
    )


def confluent_columns(payloads: list[bytes], stack: ExitStack, *, nested: bool) -> Decode:
    """Decode to dicts with AvroDeserializer, and make a column of them."""
    decode, framed = messages.deserializer(
        "avro", "confluent_kafka", payloads, stack, nested=nested
    )
    return _through_dicts(decode, framed, column_type(nested=nested))


def _through_dicts(
    decode: Callable[[bytes], Any], payloads: list[bytes], kind: pyarrow.DataType
) -> Decode:
    return lambda: pyarrow.array([decode(payload) for payload in payloads], kind)


COLUMNS: dict[str, Any] = {OURS: ours, "pyruhvro": pyruhvro, "fastavro": fastavro}


# --- two of ten fields ---


def our_projection(payloads: list[bytes]) -> Decode:
    """Build two columns and skip the other fields."""
    decoder = AvroDecoder(records.FLAT, fields=PROJECTION)
    column = pyarrow.array(payloads)
    return lambda: pyarrow.array(decoder.decode(column))


def fastavro_projection(payloads: list[bytes]) -> Decode:
    """Read with a reader's schema of two fields."""
    import fastavro as module

    chosen = [each for each in records.FLAT["fields"] if each["name"] in PROJECTION]
    written = module.parse_schema(records.FLAT)
    wanted = module.parse_schema({**records.FLAT, "fields": chosen})
    kind = pyarrow.array(AvroDecoder(records.FLAT, fields=PROJECTION).decode([])).type
    return _through_dicts(
        lambda payload: module.schemaless_reader(io.BytesIO(payload), written, wanted),
        payloads,
        kind,
    )


PROJECTIONS: dict[str, Any] = {
    OURS: our_projection,
    EVERYTHING: lambda payloads: ours(payloads, nested=False),
    "fastavro": fastavro_projection,
}


# --- JSON ---


def our_json(payloads: list[bytes], *, nested: bool) -> Decode:
    """Decode a column of bytes."""
    decoder = codecs.JsonDecoder(records.json_schema(nested=nested))
    column = pyarrow.array(payloads)
    return lambda: pyarrow.array(decoder.decode(column))


def pyarrow_json(payloads: list[bytes], *, nested: bool) -> Decode:
    """Read a file of lines in memory, in one thread."""
    import pyarrow.json

    lines = b"\n".join(payloads)
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    parsing = pyarrow.json.ParseOptions(explicit_schema=records.json_schema(nested=nested))
    return lambda: pyarrow.json.read_json(io.BytesIO(lines), reading, parsing)


def json_loads(module: str) -> Callable[..., Decode]:
    """Return what prepares a parser of the Python standard library's kind."""

    def prepared(payloads: list[bytes], *, nested: bool) -> Decode:
        loads = importlib.import_module(module).loads
        kind = pyarrow.struct(records.json_schema(nested=nested))
        return _through_dicts(loads, payloads, kind)

    return prepared


JSON: dict[str, Any] = {
    OURS: our_json,
    "pyarrow": pyarrow_json,
    "orjson": json_loads("orjson"),
    "json": json_loads("json"),
}


# --- Protobuf ---


def our_protobuf(payloads: list[bytes], *, nested: bool) -> Decode:
    """Decode a column of bytes."""
    decoder = codecs.ProtobufDecoder(records.message_class(nested=nested))
    column = pyarrow.array(payloads)
    return lambda: pyarrow.array(decoder.decode(column))


def protobuf_messages(payloads: list[bytes], *, nested: bool) -> Decode:
    """Parse messages, take their fields, and make a column of them."""
    class_ = records.message_class(nested=nested)
    fields_of = basket_fields if nested else order_fields
    kind = column_type(nested=nested)
    return lambda: pyarrow.array([fields_of(class_.FromString(each)) for each in payloads], kind)


def order_fields(order: Any) -> dict[str, Any]:
    """Return the fields of a flat message."""
    return {
        "id": order.id,
        "customer": order.customer,
        "product": order.product,
        "quantity": order.quantity,
        "price": order.price,
        "country": order.country,
        "status": order.status,
        "paid": order.paid,
        "created": order.created,
        "note": order.note if order.HasField("note") else None,
    }


def basket_fields(basket: Any) -> dict[str, Any]:
    """Return the fields of a nested message."""
    address = basket.address
    return {
        "id": basket.id,
        "customer": basket.customer,
        "address": {
            "street": address.street,
            "city": address.city,
            "zip": address.zip if address.HasField("zip") else None,
        },
        "items": [
            {"sku": item.sku, "quantity": item.quantity, "price": item.price}
            for item in basket.items
        ],
        "tags": list(basket.tags),
        "attributes": list(basket.attributes.items()),
        "created": basket.created,
    }


PROTOBUF: dict[str, Any] = {OURS: our_protobuf, "protobuf": protobuf_messages}


# --- the way back: the rows of a table as records ---


def our_encoder(make: Callable[[], Any]) -> Callable[[pyarrow.Table], Decode]:
    """Return what prepares an encoder of columns. It compiles its schema only once."""

    def prepared(table: pyarrow.Table) -> Decode:
        encoder = make()
        return lambda: pyarrow.chunked_array(encoder.encode(table))

    return prepared


def fastavro_encoder(table: pyarrow.Table) -> Decode:
    """Make dicts of the rows, and encode each."""
    import fastavro as module

    parsed = module.parse_schema(records.FLAT)

    def record(row: dict[str, Any]) -> bytes:
        file = io.BytesIO()
        module.schemaless_writer(file, parsed, row)
        return file.getvalue()

    return lambda: [record(row) for row in table.to_pylist()]


def orjson_encoder(table: pyarrow.Table) -> Decode:
    """Make dicts of the rows, and encode each."""
    import orjson as module

    return lambda: [module.dumps(row) for row in table.to_pylist()]


def json_encoder(table: pyarrow.Table) -> Decode:
    """Make dicts of the rows, and encode each."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return lambda: [encode(row).encode() for row in table.to_pylist()]


def protobuf_encoder(table: pyarrow.Table) -> Decode:
    """Make messages of the rows, and serialize each."""
    class_ = records.message_class(nested=False)
    return lambda: [class_(**row).SerializeToString() for row in table.to_pylist()]


ENCODERS: dict[tuple[str, str], Callable[[pyarrow.Table], Decode]] = {
    ("avro_encode", OURS): our_encoder(lambda: codecs.AvroEncoder(records.FLAT)),
    ("avro_encode", "fastavro"): fastavro_encoder,
    ("json_encode", OURS): our_encoder(lambda: codecs.JsonEncoder()),
    ("json_encode", "orjson"): orjson_encoder,
    ("json_encode", "json"): json_encoder,
    ("protobuf_encode", OURS): our_encoder(
        lambda: codecs.ProtobufEncoder(records.message_class(nested=False))
    ),
    ("protobuf_encode", "protobuf"): protobuf_encoder,
}
