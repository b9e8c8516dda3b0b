"""The records: orders of a shop, flat with ten fields, and nested with arrays and maps."""

from __future__ import annotations

import io
import json as json_text
import random
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

POOL = 10_000  # different records


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    made = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": made}


FLAT = _record(
    "Order",
    ("id", "long"),
    ("customer", "string"),
    ("product", "string"),
    ("quantity", "int"),
    ("price", "double"),
    ("country", "string"),
    ("status", "string"),
    ("paid", "boolean"),
    ("created", {"type": "long", "logicalType": "timestamp-millis"}),
    ("note", ["null", "string"]),
)
ITEM = _record("Item", ("sku", "string"), ("quantity", "int"), ("price", "double"))
ADDRESS = _record("Address", ("street", "string"), ("city", "string"), ("zip", ["null", "string"]))
NESTED = _record(
    "Basket",
    ("id", "long"),
    ("customer", "string"),
    ("address", ADDRESS),
    ("items", {"type": "array", "items": ITEM}),
    ("tags", {"type": "array", "items": "string"}),
    ("attributes", {"type": "map", "values": "string"}),
    ("created", {"type": "long", "logicalType": "timestamp-millis"}),
)
WORDS = ("red", "green", "large", "small", "cotton", "steel", "sale", "new", "used", "gift")


@dataclass
class Order:
    """A flat record as an object."""

    id: int
    customer: str
    product: str
    quantity: int
    price: float
    country: str
    status: str
    paid: bool
    created: Any  # a datetime of Avro, and a number of the others
    note: str | None


def flat_row(chance: random.Random, number: int) -> dict[str, Any]:
    """Return an order, about 80 bytes in Avro."""
    return {
        "id": 1_000_000 + number,
        "customer": f"customer-{chance.randrange(1_000_000)}",
        "product": f"product-{chance.choice(WORDS)}-{chance.randrange(5000)}",
        "quantity": chance.randrange(1, 20),
        "price": round(chance.random() * 100, 2),
        "country": chance.choice(["de", "fr", "us", "jp"]),
        "status": chance.choice(["new", "packed", "shipped", "returned"]),
        "paid": chance.random() < 0.5,
        "created": 1_700_000_000_000 + number * 7,
        "note": f"leave it at door {number % 97}" if chance.random() < 0.5 else None,
    }


def nested_row(chance: random.Random, number: int) -> dict[str, Any]:
    """Return a basket with one to four items, about 160 bytes in Avro."""
    return {
        "id": 1_000_000 + number,
        "customer": f"customer-{chance.randrange(1_000_000)}",
        "address": {
            "street": f"Main Street {chance.randrange(500)}",
            "city": chance.choice(["Berlin", "Paris", "Boston", "Kyoto"]),
            "zip": f"{chance.randrange(100_000):05}" if chance.random() < 0.8 else None,
        },
        "items": [
            {
                "sku": f"sku-{chance.randrange(100_000)}",
                "quantity": chance.randrange(1, 9),
                "price": round(chance.random() * 100, 2),
            }
            for _ in range(chance.randrange(1, 5))
        ],
        "tags": chance.sample(WORDS, chance.randrange(0, 4)),
        "attributes": {
            chance.choice(WORDS): str(chance.randrange(100)) for _ in range(chance.randrange(0, 4))
        },
        "created": 1_700_000_000_000 + number * 7,
    }


def rows(*, nested: bool, count: int = POOL) -> list[dict[str, Any]]:
    """Return the records as dicts, the same ones each time."""
    chance = random.Random(1)
    make = nested_row if nested else flat_row
    return [make(chance, number) for number in range(count)]


def schema(*, nested: bool) -> dict[str, Any]:
    """Return the Avro schema."""
    return NESTED if nested else FLAT


def avro(*, nested: bool, count: int = POOL) -> list[bytes]:
    """Return the records in Avro's encoding, without a framing."""
    parsed = fastavro.parse_schema(schema(nested=nested))
    found = []
    for row in rows(nested=nested, count=count):
        file = io.BytesIO()
        fastavro.schemaless_writer(file, parsed, row)
        found.append(file.getvalue())
    return found


def table(*, timestamps: bool, count: int = POOL) -> pyarrow.Table:
    """Return the flat records as columns. ``timestamps``: the times aren't plain numbers."""
    kinds = json_schema(nested=False)
    if timestamps:
        created = pyarrow.field("created", pyarrow.timestamp("ms", "UTC"))
        kinds = kinds.set(kinds.get_field_index("created"), created)
    return pyarrow.Table.from_pylist(rows(nested=False, count=count), kinds)


# --- JSON ---


def json(*, nested: bool, count: int = POOL) -> list[bytes]:
    """Return the records as JSON, one line each."""
    return [json_text.dumps(row).encode() for row in rows(nested=nested, count=count)]


def json_schema(*, nested: bool) -> pyarrow.Schema:
    """Return the columns of the JSON records. pyarrow.json reads no maps: a struct has each key."""
    text, number = pyarrow.string(), pyarrow.int64()
    if not nested:
        kinds = [number, text, text, pyarrow.int32(), pyarrow.float64(), text, text]
        kinds += [pyarrow.bool_(), number, text]
        names = [each["name"] for each in FLAT["fields"]]
        return pyarrow.schema(list(zip(names, kinds, strict=True)))
    item = [("sku", text), ("quantity", pyarrow.int32()), ("price", pyarrow.float64())]
    address = [("street", text), ("city", text), ("zip", text)]
    return pyarrow.schema(
        [
            ("id", number),
            ("customer", text),
            ("address", pyarrow.struct(address)),
            ("items", pyarrow.list_(pyarrow.struct(item))),
            ("tags", pyarrow.list_(text)),
            ("attributes", pyarrow.struct([(word, text) for word in WORDS])),
            ("created", number),
        ]
    )


JSON_TYPES = {"long": "integer", "int": "integer", "double": "number"}


def validation_schema(*, nested: bool) -> dict[str, Any]:
    """Return the JSON Schema: each field is needed, and there are no others."""
    schema_ = schema(nested=nested)
    found = {"$schema": "http://json-schema.org/draft-07/schema#", "title": schema_["name"]}
    return {**found, **_json_type(schema_)}


def _json_type(kind: Any) -> dict[str, Any]:
    if isinstance(kind, list):  # null and a type
        return {"type": ["null", *(_json_type(each)["type"] for each in kind[1:])]}
    if isinstance(kind, str):
        return {"type": JSON_TYPES.get(kind, kind)}
    if kind["type"] == "array":
        return {"type": "array", "items": _json_type(kind["items"])}
    if kind["type"] == "map":
        return {"type": "object", "additionalProperties": _json_type(kind["values"])}
    if kind["type"] != "record":
        return _json_type(kind["type"])
    return {
        "type": "object",
        "properties": {each["name"]: _json_type(each["type"]) for each in kind["fields"]},
        "required": [each["name"] for each in kind["fields"]],
        "additionalProperties": False,
    }


# --- Protobuf ---

SCALARS = {"long": "int64", "int": "int32", "string": "string", "double": "double"}
SCALARS |= {"boolean": "bool"}


def message_class(*, nested: bool) -> Any:
    """Return the class of the Protobuf messages, whose fields are those of the Avro schema."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", syntax="proto3")
    schema_ = schema(nested=nested)
    _add_message(file, file.message_type.add(), schema_)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(schema_["name"]))


def _add_message(file: Any, message: Any, schema: dict[str, Any]) -> None:
    message.name = schema["name"]
    for number, each in enumerate(schema["fields"], 1):
        field = message.field.add(name=each["name"], number=number, label=1)
        kind = each["type"]
        if isinstance(kind, list):  # null and a type
            kind = kind[1]
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
        if isinstance(kind, dict) and kind["type"] == "array":
            field.label, kind = 3, kind["items"]
        if isinstance(kind, dict) and kind["type"] == "map":
            field.label, field.type = 3, 11
            field.type_name = f".{message.name}.AttributesEntry"
            _add_entry(message.nested_type.add(name="AttributesEntry"))
        elif isinstance(kind, dict) and kind["type"] == "record":
            field.type, field.type_name = 11, f".{kind['name']}"
            _add_message(file, file.message_type.add(), kind)
        else:
            name = SCALARS[kind["type"] if isinstance(kind, dict) else kind]
            field.type = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")


def _add_entry(entry: Any) -> None:
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, label=1, type=9)


def protobuf(*, nested: bool, count: int = POOL) -> list[bytes]:
    """Return the records as Protobuf messages."""
    class_ = message_class(nested=nested)
    return [class_(**row).SerializeToString() for row in rows(nested=nested, count=count)]
