"""The records: orders of a shop, flat with ten fields, and nested with arrays and maps."""

from __future__ import annotations

import io
import random
from typing import Any

import fastavro

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
