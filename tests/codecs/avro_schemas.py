"""Random Avro schemas with values, and what Arrow must show for a value that fastavro decoded."""

from __future__ import annotations

import decimal
import io
import uuid
from typing import Any

import fastavro
from hypothesis import strategies as st

Schema = Any
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}


def encode(schema: Schema, value: Any) -> bytes:
    """Return one record as fastavro writes it."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return file.getvalue()


def decode(data: bytes, writer: Schema, reader: Schema | None = None) -> Any:
    """Return one record as fastavro reads it."""
    parsed = None if reader is None else fastavro.parse_schema(reader)
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(writer), parsed)


class Names:
    """Numbers for the names of types, which must be different in one schema."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return f"T{self.count}"


@st.composite
def schemas(draw: st.DrawFn, names: Names, depth: int, in_union: bool = False) -> Schema:
    """Draw a type. `depth` more types may be nested in it."""
    leaves = ["primitive", "logical", "decimal", "fixed", "enum", "uuid"]
    kinds = leaves + (["array", "map", "record"] + ([] if in_union else ["union"])) * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    inner = depth - 1
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES[1:] if in_union else PRIMITIVES))
    if kind == "logical":
        logical = draw(st.sampled_from(sorted(LOGICAL)))
        return {"type": LOGICAL[logical], "logicalType": logical}
    if kind == "decimal":
        precision = draw(st.integers(1, 70))
        scale = draw(st.integers(0, precision))
        extra = {"logicalType": "decimal", "precision": precision, "scale": scale}
        if draw(st.booleans()):
            return {"type": "bytes", **extra}
        return {"type": "fixed", "name": names.next(), "size": 30, **extra}
    if kind == "fixed":
        return {"type": "fixed", "name": names.next(), "size": draw(st.integers(0, 20))}
    if kind == "enum":
        return {"type": "enum", "name": names.next(), "symbols": ["A", "B", "C"]}
    if kind == "uuid":
        return {"type": "string", "logicalType": "uuid"}
    if kind == "array":
        return {"type": "array", "items": draw(schemas(names, inner))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(names, inner))}
    if kind == "record":
        return draw(records(names, inner))
    return draw(unions(names, inner))


@st.composite
def records(draw: st.DrawFn, names: Names, depth: int) -> Schema:
    name = names.next()
    count = draw(st.integers(0 if depth < 3 else 1, 4))
    fields = [{"name": f"f{i}", "type": draw(schemas(names, depth))} for i in range(count)]
    return {"type": "record", "name": name, "fields": fields}


def branch_name(schema: Schema) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


@st.composite
def unions(draw: st.DrawFn, names: Names, depth: int) -> Schema:
    branches: dict[str, Schema] = {}
    if draw(st.booleans()):
        branches["null"] = "null"
    for _ in range(draw(st.integers(1, 3))):
        branch = draw(schemas(names, depth, in_union=True))
        branches.setdefault(branch_name(branch), branch)
    return draw(st.permutations(list(branches.values())))


NATIVE = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=40),
    "string": st.text(max_size=40),
}


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Return values of a type, without logical types: as `bare()` leaves it."""
    if isinstance(schema, list):
        return st.one_of(*(st.tuples(st.just(branch_name(each)), values(each)) for each in schema))
    if isinstance(schema, str):
        return NATIVE[schema]
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "date":
        return st.integers(-700_000, 2_000_000)
    if logical == "time-millis":
        return st.integers(0, 86_399_999)
    if logical == "time-micros":
        return st.integers(0, 86_399_999_999)
    if logical is not None and "timestamp" in logical:
        ticks = 1000 if logical.endswith("millis") else 1_000_000
        return st.integers(-60_000_000_000 * ticks, 200_000_000_000 * ticks)
    if logical == "decimal":
        limit = 10 ** schema["precision"] - 1
        return st.integers(-limit, limit).map(lambda number: decimal_bytes(schema, number))
    if logical == "uuid":
        return st.uuids().map(str)
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=4)
    if kind == "map":
        return st.dictionaries(st.text(max_size=5), values(schema["values"]), max_size=3)
    return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]})


def decimal_bytes(schema: Schema, number: int) -> bytes:
    if schema["type"] == "fixed":
        return number.to_bytes(schema["size"], "big", signed=True)
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def bare(schema: Schema) -> Schema:
    """Return the type without its logical types, so that fastavro converts nothing."""
    if isinstance(schema, list):
        return [bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = ("logicalType", "precision", "scale")
    plain = {key: each for key, each in schema.items() if key not in dropped}
    for key in ("items", "values"):
        if key in plain:
            plain[key] = bare(plain[key])
    if "fields" in plain:
        plain["fields"] = [{**each, "type": bare(each["type"])} for each in plain["fields"]]
    return plain["type"] if plain.keys() == {"type"} else plain


def shown(schema: Schema, value: Any) -> Any:
    """Return the Python object that pyarrow must show for a value of `values()`."""
    if isinstance(schema, list):
        name, inner = value
        return shown(next(each for each in schema if branch_name(each) == name), inner)
    if isinstance(schema, str):
        return value
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical is not None:
        return shown_logical(schema, logical, value)
    if kind == "array":
        return [shown(schema["items"], each) for each in value]
    if kind == "map":
        return [(key, shown(schema["values"], each)) for key, each in value.items()]
    if kind == "record":
        return {each["name"]: shown(each["type"], value[each["name"]]) for each in schema["fields"]}
    return value


def shown_logical(schema: Schema, logical: str, value: Any) -> Any:
    if logical == "uuid":
        return uuid.UUID(value).bytes
    if logical == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        return decimal.Decimal(number).scaleb(-schema["scale"], decimal.Context(prec=80))
    if logical == "date":
        return value
    ticks = 1000 if logical.endswith("millis") else 1
    return value * ticks
