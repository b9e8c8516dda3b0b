#!/usr/bin/env python3
"""Writes the seed corpus, tests/fuzz/corpus: small inputs that reach every branch of a reader.

Run it when a format or a target changes. The output is the same each time.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from google.protobuf import (  # noqa: E402
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field  # noqa: E402
from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: E402
from google.protobuf.descriptor_pool import DescriptorPool  # noqa: E402

from kafka_native._native import primitives, records  # noqa: E402
from kafka_native._native.codec_core import AVRO_CODES, JSON_CODES, NODE_KINDS  # noqa: E402
from kafka_native._native.encode_core import ENCODE_CODES  # noqa: E402
from kafka_native.codecs.arrow_types import ArrowType  # noqa: E402
from kafka_native.codecs.avro_decoder import ColumnTypes, Compiler  # noqa: E402
from kafka_native.codecs.avro_encoder import Compiler as AvroEncodeCompiler  # noqa: E402
from kafka_native.codecs.avro_schema import parse_schema  # noqa: E402
from kafka_native.codecs.encode_compiler import EncodeCompiler  # noqa: E402
from kafka_native.codecs.json_encoder import Compiler as JsonEncodeCompiler  # noqa: E402
from kafka_native.codecs.json_schema import column_of_schema  # noqa: E402
from kafka_native.codecs.layout import Node  # noqa: E402
from kafka_native.codecs.protobuf_decoder import Compiler as ProtobufCompiler  # noqa: E402
from kafka_native.codecs.protobuf_encoder import Compiler as ProtobufEncodeCompiler  # noqa: E402
from tests.codecs.protobuf_schemas import BUILTIN_FILES  # noqa: E402
from tests.oracle import legacy  # noqa: E402

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
CODECS = records.CODEC_NAMES
CAPS = b"\x00\x01\x02\x03"  # the first byte of a codec input chooses the cap

SAMPLE: list[records.RecordLike] = [
    (1000, b"key", b"value", None),
    (999, None, b"x" * 70, [("h", b"1"), ("null", None)]),
    (1 << 40, b"", None, [("", b"")]),
    (1001, b"k" * 200, b"", None),
]


def write(target: str, name: str, data: bytes) -> None:
    """Write one seed."""
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def batches() -> None:
    """Write seeds for the readers of batches and message sets."""
    for codec in CODECS:
        batch = records.encode_batch(
            SAMPLE, codec=codec, base_offset=5, producer_id=9, producer_epoch=1, base_sequence=3
        )
        write("batch", f"v2-{codec}", batch)
        write("batch", f"v2-{codec}-twice-and-partial", batch + batch + batch[:30])
        for magic in (0, 1):
            messages = [
                legacy.Message(offset, b"k", b"v" * offset, timestamp=5) for offset in range(3)
            ]
            data = legacy.encode_set(messages, magic=magic, codec=codec)
            write("legacy", f"v{magic}-{codec}", data)
            write("batch", f"v{magic}-{codec}", data)
    plain = records.encode_batch(SAMPLE)
    write("records", "sample", bytes([len(SAMPLE), 0]) + plain[61:])
    write("records", "log-append", bytes([len(SAMPLE), 8]) + plain[61:])
    for magic in (0, 1, 2):
        inner = (
            plain[61:]
            if magic == 2
            else legacy.encode_set(
                [legacy.Message(i, None, b"v", timestamp=7) for i in range(4)], magic=magic
            )
        )
        for codec in range(4):
            write("wrapped", f"v{magic}-{codec}", bytes([codec, magic, 4]) + inner)
    write("write", "sample", b"\x02\x03key\x05value\x01\xff\x00\x81\x80\x01\xff\xff")
    write("header", "sample", b"\x02h\x021\x08null\x01\x00\x00")
    write(
        "span",
        "sample",
        b"".join(primitives.varint_encode(n) for n in (0, -1, 63, 64, 1 << 31, -(1 << 63)))
        + b"\xff" * 11,
    )


def codecs() -> None:
    """Write seeds for the decompressors."""
    text = b"".join(b"line %d of a text that repeats\n" % i for i in range(40))
    for codec in CODECS[1:]:
        for name, plain in (("text", text), ("empty", b""), ("zeros", bytes(100_000))):
            packed = records.compress(codec, plain)
            for target in ("gzip", "gzip_zlib") if codec == "gzip" else (codec,):
                write(target, name, CAPS[3:] + packed)
            if codec == "lz4":
                write("lz4_legacy", name, CAPS[3:] + legacy.break_lz4_checksum(packed))
    two = (
        gzip.compress(text, mtime=0)
        + gzip.compress(b"", mtime=0)
        + gzip.compress(text[:50], mtime=0)
    )
    write("gzip", "members", CAPS[3:] + two)
    write("gzip_zlib", "members", CAPS[3:] + two)
    block = records.compress("snappy", text)
    framed = legacy.XERIAL_HEADER + len(block).to_bytes(4, "big") + block
    write("snappy", "xerial", CAPS[3:] + framed)
    write("snappy", "xerial-twice", CAPS[3:] + framed + framed)
    frame = records.compress("lz4", text)
    write("lz4", "frames", CAPS[3:] + frame + frame)
    frame = records.compress("zstd", text)
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    write("zstd", "frames", CAPS[3:] + frame + skippable + frame)


ARROW_FORMATS = (
    "n",
    "z",
    "u",
    "Z",
    "U",
    "vz",
    "vu",
    "+l",
    "+m",
    "+L",
    "+s",
    "c",
    "C",
    "s",
    "S",
    "i",
    "I",
    "l",
    "L",
    "tsm",
    "tss",
    "w5",
    "w0",
)


def arrow() -> None:
    """Write seeds of foreign columns, in the form of fuzz_arrow.c: the type of a column, then its
    buffers.
    """
    for index, name in enumerate(ARROW_FORMATS):
        head = bytes(
            [1, 5, 0, index, 10, 0, 1, 0]
        )  # rows 1-6 of ten, after an offset of one; no validity bitmap
        write("arrow", name.replace("+", "nested-"), head + bytes([1, *range(1, 41)]) * 5)
    entries = bytes([10, 20, 0, 0, 0])
    texts = bytes([1, 20, 0, 0, 0, 1]) + bytes([2, 0, 0, 0]) * 21 + b"header " * 6 + b"\x00"
    write(
        "arrow",
        "headers",
        bytes([0, 4, 0, 7, 4, 0, 0, 0, 1]) + bytes([3, 0, 0, 0]) * 5 + entries + texts + texts,
    )
    words = bytes([1, 3, 0, 0, 0, 1]) + bytes([2, 0, 0, 0]) * 4 + b"one two."
    write("arrow", "dictionary", bytes([0, 4, 0, 11, 4, 0, 0, 0, 0, 1, 2, 1, 1]) + words)


def tunnels() -> None:
    """Write seeds of a proxy's answers, in the form of fuzz_tunnel.c: kind of proxy, size of
    pieces, answers.
    """
    socks5, http, login, address = 0, 1, 2, 4
    bound = {1: bytes(4), 3: b"\x04name", 4: bytes(16)}
    for kind, where in bound.items():
        reply = b"\x05\x00\x00" + bytes([kind]) + where + b"\x04\x38"
        write("tunnel", f"socks5-{kind}", bytes([socks5 | address, kind]) + b"\x05\x00" + reply)
        write(
            "tunnel",
            f"socks5-login-{kind}",
            bytes([socks5 | login, 255]) + b"\x05\x02\x01\x00" + reply,
        )
    write("tunnel", "socks5-refused", bytes([socks5, 255]) + b"\x05\x00\x05\x05")
    write(
        "tunnel",
        "http",
        bytes([http, 255]) + b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n",
    )
    write("tunnel", "http-login", bytes([http | login, 3]) + b"HTTP/1.0 200 \r\n\r\n")
    write(
        "tunnel",
        "http-refused",
        bytes([http, 20]) + b"HTTP/1.1 407 Proxy Authentication Required\r\n",
    )


def record(*types: object) -> dict[str, object]:
    """Return the schema of a record with fields of these types."""
    fields = [{"name": f"f{i}", "type": each} for i, each in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}
# name: writer's types, reader's schema (None: the same), record
AVRO_SEEDS: dict[str, tuple[list[object], object, bytes]] = {
    "numbers": (
        ["boolean", "int", "long", "float", "double"],
        None,
        b"\x01\x02\x80\x01" + bytes(12),
    ),
    "bytes": (
        ["bytes", "string", {"type": "fixed", "name": "F", "size": 2}],
        None,
        b"\x02a\x04bcde",
    ),
    "nullable": ([["null", "long"], ["string", "null"]], None, b"\x02\x06\x02"),
    "texts": ([["null", ENUM, "int"], "int"], None, b"\x02\x02\x02"),
    "union": ([["null", "int", "string"], ["int", ENUM]], None, b"\x04\x02a\x02\x02"),
    "array": (
        [{"type": "array", "items": ["null", "string"]}],
        None,
        b"\x03\x06\x00\x02\x02a\x02\x00\x00",
    ),
    "map": (
        [{"type": "map", "values": {"type": "array", "items": "int"}}],
        None,
        b"\x02\x02k\x02\x0e\x00\x00",
    ),
    "nulls": ([{"type": "array", "items": "null"}], None, b"\x80\x01\x00"),
    "logical": (
        [{"type": "bytes", **DECIMAL}, {"type": "string", "logicalType": "uuid"}],
        None,
        b"\x02\xff\x4801234567-89ab-cdef-0123-456789abcdef",
    ),
    "fixed": (
        [
            {"type": "fixed", "name": "F", "size": 5, **DECIMAL},
            {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        ],
        None,
        bytes(17),
    ),
    "promoted": (
        ["int", "int", "int", "long", "long", "float"],
        record("long", "float", "double", "float", "double", "double"),
        bytes(9),
    ),
    "skipped": (
        [
            "int",
            {"type": "array", "items": ["null", "string"]},
            {"type": "map", "values": "double"},
            "bytes",
            "int",
        ],
        {"type": "record", "name": "R", "fields": [{"name": "f4", "type": "int"}]},
        b"\x02\x01\x04\x00\x00\x00\x00\x02a\x02",
    ),
    "defaults": (
        ["int"],
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": {"type": "array", "items": "string"}, "default": ["x", "y"]},
                {"name": "b", "type": ["null", record("int") | {"name": "I"}], "default": None},
                {"name": "f0", "type": ["string", "long"]},
            ],
        },
        b"\x02",
    ),
}


def bytes_of_nodes(nodes: list[Node]) -> list[int]:
    """Return nodes in the form of fuzz_columns.h."""
    found = []
    for node in nodes:
        nullable = 2 * node.nullable
        found += [NODE_KINDS[node.kind], node.width_bytes, 0, len(node.children), nullable]
        found.append(len(node.values))
    return found


def framings() -> None:
    """Write seeds of records with schema ids, in the form of fuzz_framing.c."""
    schema_id, guid = b"\0\0\0\0\5", b"\1" + bytes(range(16))
    for name, kind, headers, value in [
        ("none", 0, [], b"record"),
        ("id", 1, [], schema_id + b"record"),
        ("guid", 1, [], guid + b"record"),
        ("indexes", 2, [], schema_id + b"\4\2\x80\1record"),
        ("first_index", 2, [], guid + b"\0record"),
        ("header", 1, [(b"__value_schema_id", schema_id)], b"record"),
        ("second_header", 2, [(b"x", b""), (b"__value_schema_id", guid + b"\0")], b"record"),
        ("key_header", 5, [(b"__key_schema_id", guid)], b"record"),
    ]:
        encoded = b"".join(bytes([2 * len(each)]) + each for header in headers for each in header)
        head = bytes([kind | len(headers) << 3, len(encoded)])
        write("framing", name, head + encoded + value)


def avro() -> None:
    """Write seeds of programs with a record, in the form of fuzz_avro.c."""
    for name, (types, reader, data) in AVRO_SEEDS.items():
        types_of_texts = ColumnTypes(enums="string", unions="struct")
        compiler = Compiler(types_of_texts if name == "texts" else None)
        writer = parse_schema(record(*types))
        nodes = list(
            compiler.compile(writer, writer if reader is None else parse_schema(reader)).walk()
        )
        head = [len(nodes), len(compiler.ops), len(compiler.table), len(compiler.constants)]
        head += bytes_of_nodes(nodes)
        for op in compiler.ops:
            head += [AVRO_CODES[op.code], op.node & 255, op.end, op.arg, 0, op.count, 0]
        head += [entry & 255 for entry in compiler.table]
        write("avro", name, bytes(head) + bytes(compiler.constants) + data)


def column(format: str, *children: object, values: object = None) -> object:
    """Return the description of a nullable column."""
    return format, "", 2, children, values, None


def rename(column: Any, name: str) -> object:
    """Return a column with another name."""
    return column[0], name, *column[2:]


# name: types, the columns for them
AVRO_ENCODE_SEEDS: dict[str, tuple[list[object], list[object]]] = {
    "numbers": (
        ["boolean", "int", "long", "float", "double", "double"],
        [column(each) for each in ("b", "l", "C", "e", "f", "I")],
    ),
    "bytes": (
        ["bytes", "string", "string", {"type": "fixed", "name": "F", "size": 2}],
        [column(each) for each in ("Z", "u", "vu", "w:2")],
    ),
    "nullable": ([["null", "long"], ["string", "null"]], [column("l"), column("u")]),
    "enum": ([["null", ENUM]], [column("c", values=column("u"))]),
    "lists": (
        [{"type": "array", "items": {"type": "array", "items": ["null", "int"]}}],
        [column("+L", column("+w:2", column("i")))],
    ),
    "map": (
        [{"type": "map", "values": "int"}],
        [column("+m", column("+s", column("u"), column("c")))],
    ),
    "unions": (
        [["null", "int", "string"], ["int", "string"]],
        [column("+ud:0,1", column("i"), column("u")), column("+us:2,1", column("u"), column("i"))],
    ),
    "choice": (
        [["null", "int", "string"]],
        [column("+s", rename(column("i"), "int"), rename(column("u"), "string"))],
    ),
    "nulls": ([{"type": "array", "items": "null"}], [column("+l", column("n"))]),
    "logical": (
        [
            {"type": "bytes", **DECIMAL},
            {"type": "fixed", "name": "D", "size": 5, **DECIMAL},
            {"type": "string", "logicalType": "uuid"},
            {"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"},
            {"type": "int", "logicalType": "time-millis"},
            {"type": "long", "logicalType": "timestamp-nanos"},
        ],
        [column(each) for each in ("d:9,2", "d:40,1,256", "w:16", "tin", "tts", "tsu:UTC")],
    ),
}


CONNECT = "org.apache.kafka.connect.data."
# name: the fields of a JSON Schema, None: there is none; the columns for them
JSON_ENCODE_SEEDS: dict[str, tuple[dict[str, object] | None, list[object]]] = {
    "json-values": (
        None,
        [
            column(each)
            for each in ("b", "c", "L", "e", "f", "g", "u", "vz", "w:2", "tdD", "tts", "ttn", "tsm:")
        ],
    ),
    "json-nested": (
        None,
        [
            column("+L", column("+w:2", column("i"))),
            column("+m", column("+s", column("u"), column("c"))),
            column("c", values=column("u")),
            column("+ud:0,1", column("i"), column("u")),
            column("d:9,2"),
            column("tsn:UTC"),
        ],
    ),
    "json-schema": (
        {
            "enum": {"enum": ["A", "B"]},
            "json": {},
            "days": {"type": "integer", "title": f"{CONNECT}Date"},
            "coarse": {"type": "integer", "title": f"{CONNECT}Timestamp"},
            "fine": {"type": "integer", "title": f"{CONNECT}Time"},
            "uuid": {"type": "string", "format": "uuid"},
            "decimal": {
                "type": "string",
                "title": f"{CONNECT}Decimal",
                "connect.parameters": {"scale": "3"},
            },
            "text": {"type": "string"},
            "time": {"type": "string", "format": "time"},
        },
        [column(each) for each in ("u", "u", "tdD", "tss:UTC", "tts", "w:16", "d:9,2", "d:60,2,256", "ttm")],
    ),
    "json-uuid": ({"uuid": {"type": "string", "format": "uuid"}}, [column("U")]),
}  # fmt: skip


# Of google.protobuf.Field: an enum, numbers, texts, a repeated message with a message, and a bool.
PROTOBUF_COLUMNS = {
    "kind": column("i"),
    "number": column("l"),
    "name": column("u"),
    "packed": column("b"),
    "options": column("+l", column("+s")),
}


# name, FieldDescriptorProto.Type, name of a message or enum, column
PROTOBUF_FIELDS = [
    ("fixed", 7, "", column("I")),
    ("zigzag", 18, "", column("l")),
    ("at", 11, ".google.protobuf.Timestamp", column("tsu:UTC")),
    ("span", 11, ".google.protobuf.Duration", column("tDm")),
    ("enum", 14, ".Kind", column("c", values=column("u"))),
    ("left", 5, "", column("i")),
    ("right", 12, "", column("vz")),
    ("wrapped", 11, ".google.protobuf.Int64Value", column("l")),
    ("json", 11, ".google.protobuf.Value", column("u")),
]
JSON_VALUE = b'[1,{"a":"\\u0041"},-2.5e1,null,true]'


def protobuf_message() -> Any:
    """Return the descriptor of a message with these fields and a oneof."""
    file = FileDescriptorProto(name="seeds.proto", syntax="proto3")
    pool = DescriptorPool()
    for module in (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        file.dependency.append(module.DESCRIPTOR.name)
    file.enum_type.add(name="Kind").value.add(name="A", number=0)
    message = file.message_type.add(name="M")
    message.oneof_decl.add(name="choice")
    for number, (name, kind, type_name, _) in enumerate(PROTOBUF_FIELDS, 1):
        field = message.field.add(name=name, number=number, type=kind, label=1)
        if type_name:
            field.type_name = type_name
        if name in ("left", "right"):
            field.oneof_index = 0
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName("M")


def array_bytes(node: ArrowType, length: int) -> bytes:
    """Return an array in the form of fuzz_encode.c: every item is valid and of some value."""
    # Of a oneof only "left" is set, of a union's struct only "int".
    validity = b"\0" if node.name in ("right", "string") else b"\xff"
    head = bytes([length, 0, 255]) + validity * ((length + 7) // 8)
    children = (node.values,) if node.values is not None else node.children
    kind, width = node.kind, node.width
    items = length * width if kind == "fixed_list" else length
    own = {
        "bits": b"\5" * ((length + 7) // 8),
        "fixed": (b"\1" + bytes(width))[:width] * length,
        "bytes32": b"A" * 128 + bytes([0] + [1] * length),
        "bytes64": b"A" * 128 + bytes([0] + [1] * length),
        "list32": bytes([0] + [1] * length),
        "list64": bytes([0] + [1] * length),
        "views": b"\x0d\0\3" * length + b"a" * 128,
        "dense_union": bytes(range(length)) + bytes([1] * length),
        "sparse_union": bytes([1] * length),
        "dictionary": bytes(length),
    }
    if node.name == "json":
        text = JSON_VALUE.ljust(128)
        own["bytes32"] = text + bytes([0, len(JSON_VALUE)] + [0] * (length - 1))
    parts = [array_bytes(child, items) for child in children]
    return head + own.get(kind or "", b"") + b"".join(parts)


def encoders() -> None:
    """Write seeds of programs with columns, in the form of fuzz_encode.c."""
    for name, (types, columns) in AVRO_ENCODE_SEEDS.items():
        compiler = AvroEncodeCompiler(False)
        top = struct_of(f"f{i}" for i in range(len(columns)))(columns)
        compiler.compile(parse_schema(record(*types)), top)
        write_encoder(name, compiler, top)
    messages = ProtobufEncodeCompiler(False)
    top = struct_of(PROTOBUF_COLUMNS)(PROTOBUF_COLUMNS.values())
    messages.compile(type_pb2.Field.DESCRIPTOR, top)
    write_encoder("message", messages, top)
    others = ProtobufEncodeCompiler(False)
    top = struct_of(each[0] for each in PROTOBUF_FIELDS)(each[3] for each in PROTOBUF_FIELDS)
    others.compile(protobuf_message(), top)
    write_encoder("message-of-all", others, top)


def json_encoders() -> None:
    """Write seeds as encoders() does, for JSON."""
    for name, (fields, columns) in JSON_ENCODE_SEEDS.items():
        names = (f"f{i}" for i in range(len(columns))) if fields is None else fields
        top = struct_of(names)(columns)
        schema = {"type": "object", "properties": fields}
        wanted = None if fields is None else column_of_schema(schema, {}, "n")
        compiler = JsonEncodeCompiler(False)
        compiler.compile(wanted, top)
        write_encoder(name, compiler, top)


def struct_of(names: Iterable[str]) -> Callable[[Iterable[Any]], ArrowType]:
    """Return a function that makes a struct of columns with these names."""

    def make(columns: Iterable[Any]) -> ArrowType:
        named = tuple((each[0], name, *each[2:]) for name, each in zip(names, columns, strict=True))
        return ArrowType(("+s", "", 0, named, None, None))

    return make


def write_encoder(name: str, compiler: EncodeCompiler, top: ArrowType) -> None:
    nodes = top.number()
    head = [len(nodes), len(compiler.ops), len(compiler.table), len(compiler.constants)]
    for node in nodes:
        head += node
    for op in compiler.ops:
        place = -1 if op.column is None else op.column.node
        head += [ENCODE_CODES[op.code], place & 255, op.end, op.arg & 255, op.count]
    head += [(each.node if isinstance(each, ArrowType) else each) & 255 for each in compiler.table]
    data = array_bytes(top, 3) + b"\0\0"
    write("encode", name, bytes(head) + bytes(compiler.constants) + data)


def field(name: str, number: int, kind: int, label: int = 1, type_name: str = "") -> Field:
    """Return a field. Kinds and labels are those of FieldDescriptorProto."""
    made = Field(name=name, number=number, type=kind, label=label)
    if type_name:
        made.type_name = type_name
    return made


VALUE = ".google.protobuf.Value"
TIMESTAMP, WRAPPER = ".google.protobuf.Timestamp", ".google.protobuf.StringValue"
# name: syntax, fields of the message M, record. I is {int32 x = 1; repeated string s = 2;}, E an enum.
PROTOBUF_SEEDS: dict[str, tuple[str, list[Field], bytes]] = {
    "numbers": (
        "proto3",
        [field(f"f{n}", n, n) for n in (1, 2, 3, 5, 7, 8, 17, 18)],
        b"\x09" + bytes(8) + b"\x15" + bytes(4) + b"\x18\x80\x01\x28\x05\x40\x01\x88\x01\x05",
    ),
    "texts": (
        "proto3",
        [field("a", 1, 9), field("b", 2, 12)],
        b"\x0a\x01a\x12\x02\xff\xff\x0a\x00",
    ),
    "lists": (
        "proto3",
        [field("a", 1, 5, 3), field("b", 2, 2, 3), field("c", 3, 9, 3)],
        b"\x0a\x02\x01\x02\x08\x03\x12\x04" + bytes(4) + b"\x1a\x01a",
    ),
    "messages": (
        "proto3",
        [field("a", 1, 11, 1, ".I"), field("b", 2, 11, 3, ".I")],
        b"\x0a\x02\x08\x05\x12\x03\x12\x01s\x0a\x03\x12\x01t",
    ),
    "enums": (
        "proto3",
        [field("a", 1, 14, 1, ".E"), field("b", 2, 14, 3, ".E")],
        b"\x08\x02\x12\x02\x01\x09",
    ),
    "closed": (
        "proto2",
        [field("a", 1, 14, 1, ".E"), field("b", 2, 14, 3, ".E")],
        b"\x08\x09\x10\x02",
    ),
    "known": (
        "proto3",
        [
            field("a", 1, 11, 1, TIMESTAMP),
            field("b", 2, 11, 1, WRAPPER),
            field("c", 3, 11, 3, WRAPPER),
        ],
        b"\x0a\x04\x08\x05\x10\x07\x12\x00\x1a\x03\x0a\x01x\x0a\x02\x10\x08",
    ),
    "json": (
        "proto3",
        [field("a", 1, 11, 1, ".google.protobuf.Struct"), field("b", 2, 11, 3, VALUE)],
        b"\x0a\x0d\x0a\x0b\x0a\x01k\x12\x06\x32\x04\x0a\x02\x20\x01\x0a\x02\x0a\x00\x12\x03\x1a\x01s",
    ),
    "required": ("proto2", [field("a", 1, 5, 2), field("g", 2, 5)], b"\x08\x01\x1b\x20\x01\x1c"),
}


def protobuf() -> None:
    """Write seeds of programs with a record, in the form of fuzz_protobuf.c."""
    for name, (syntax, fields, data) in PROTOBUF_SEEDS.items():
        write("protobuf", name, protobuf_seed(syntax, fields, data))
    pair = [field("a", 1, 5), field("b", 2, 11, 1, ".I")]
    write(
        "protobuf", "oneof", protobuf_seed("proto3", pair, b"\x08\x01\x12\x02\x08\x02\x08\x03", 1)
    )
    entry = [field("m", 1, 11, 3, ".M.MEntry")]
    two = b"\x0a\x05\x0a\x01k\x10\x05\x0a\x03\x0a\x01k\x0a\x00"
    write("protobuf", "map", protobuf_seed("proto3", entry, two))
    write("protobuf", "empty-keys", protobuf_seed("proto3", entry, b"\x0a\x00\x0a\x00"))


def protobuf_seed(syntax: str, fields: list[Field], data: bytes, oneofs: int = 0) -> bytes:
    """Return one seed."""
    file = FileDescriptorProto(name="seed.proto", syntax=syntax)
    file.dependency.extend(each.name for each in BUILTIN_FILES)
    message = file.message_type.add(name="M", field=fields)
    for each in message.field if oneofs else []:
        each.oneof_index = 0
    if oneofs:
        message.oneof_decl.add(name="choice")
    entry = message.nested_type.add(name="MEntry", field=[field("key", 1, 9), field("value", 2, 5)])
    entry.options.map_entry = True
    file.message_type.add(name="I", field=[field("x", 1, 5), field("s", 2, 9, 3)])
    values = file.enum_type.add(name="E")
    for number in range(3):
        values.value.add(name=f"E{number}", number=number)
    pool = DescriptorPool()
    for each in [*BUILTIN_FILES, file]:
        pool.AddSerializedFile(each.SerializeToString() if each is file else each.serialized_pb)
    compiler = ProtobufCompiler("names", "us")
    nodes = list(compiler.compile(pool.FindMessageTypeByName("M"), None).walk())
    counts = [nodes, compiler.ops, compiler.messages, compiler.table, compiler.constants]
    head = [*map(len, counts), *bytes_of_nodes(nodes)]
    for code, node, number, shape, missing, arg, count, oneof, constant, size in compiler.ops:
        head += [code, node & 255, number & 255, number >> 8, arg & 255, arg >> 8]
        head += [shape, missing, count, oneof & 255, constant, size]
    for place in compiler.messages:
        head += place
    head += compiler.table
    return bytes(head) + bytes(compiler.constants) + data


# JSON programs: kind, width, values, rule, argument, scale; then the children.
JSON_LEAVES: dict[str, tuple[str, int, int, str, int, int]] = {
    "none": ("none", 0, 0, "NONE", 0, 0),
    "boolean": ("bits", 0, 0, "BOOLEAN", 0, 0),
    "int": ("fixed", 8, 0, "INT", 0, 0),
    "byte": ("fixed", 1, 0, "INT", 0, 0),
    "uint": ("fixed", 8, 0, "UINT", 0, 0),
    "float": ("fixed", 4, 0, "FLOAT", 0, 0),
    "double": ("fixed", 8, 0, "DOUBLE", 0, 0),
    "text": ("bytes", 0, 0, "TEXT", 0, 0),
    "raw": ("bytes", 0, 0, "RAW", 0, 0),
    "binary": ("bytes", 0, 0, "BINARY", 0, 0),
    "fixed": ("fixed", 3, 0, "FIXED", 0, 0),
    "uuid": ("fixed", 16, 0, "UUID", 0, 0),
    "decimal": ("fixed", 16, 0, "DECIMAL", 20, 2),
    "wide": ("fixed", 32, 0, "DECIMAL", 70, -3),
    "unscaled": ("fixed", 16, 0, "DECIMAL_BYTES", 30, 2),
    "date": ("fixed", 4, 0, "DATE", 0, 0),
    "time": ("fixed", 4, 0, "TIME", 3, 0),
    "timestamp": ("fixed", 8, 0, "TIMESTAMP", 9, 0),
    "zoned": ("fixed", 8, 0, "TIMESTAMP", 6, 1),
    "enum": ("dictionary", 0, 3, "ENUM", 0, 0),
}
JSON_SEEDS: dict[str, tuple[Any, str]] = {
    "numbers": (
        ["int", "byte", "uint", "float", "double", "boolean"],
        ('{"a":-9223372036854775808,"b":-128,"c":18446744073709551615,"d":1.5e-7,'
        '"e":0.12345678901234567,"f":true}'),
    ),
    "texts": (["text", "raw", "binary", "fixed", "uuid", "enum"],
              ('{"f":"b","e":"12345678-9abc-def0-1234-56789abcdef0","d":"AAEC","c":"_-8=",'
              '"b":[1, {"x":null}],"a":"\\u00e9\\ud83d\\ude00\\n, and more than 16"}')),
    "times": (["date", "time", "timestamp", "zoned", "decimal", "wide"],
              ('{"a":"2024-02-29","b":"23:59:59.123Z","c":"1969-12-31T23:59:59.123456789",'
              '"d":"2024-01-01 00:00+05:30","e":"-12.50","f":12e30}')),
    "nested": ([["int", "text"], {"list": ["text", {"map": "int"}]}, {"list": {"list": "none"}}],
               ' {"b" : [{"b":{"x":1,"y":null}},{"a":"z"},null],"a":{"b":"q","a":2},"c":[[null],[]]} '),
    "unknown": (["int", "int"], '{"x":{"y":[1,"\\""]},"a":1,"a":null,"\\u0062":3,"a":2}'),
    "names": (["int"] * 16, ('{"a name that is longer than all of them":1,"12345678901234567":2,'
              '"\\"":3,"\\\\":4,"é":5,"":6,"12345678":7,"123456789":8}')),
    "root": ("double", " -1.5e3 "),
    "unscaled": (["unscaled", "unscaled"], '{"a":"AJY=","b":"/2o="}'),
}  # fmt: skip


def json_nodes(kind: Any, name: int = 6) -> list[int]:
    """Return the bytes of a column's nodes, in the form of fuzz_json.c."""
    if isinstance(kind, list):
        head = [NODE_KINDS["struct"], 0, len(kind), 2, 0, name, JSON_CODES["STRUCT"], 0, 0]
        return head + [
            byte for number, each in enumerate(kind) for byte in json_nodes(each, number)
        ]
    if isinstance(kind, dict) and "list" in kind:
        head = [NODE_KINDS["list"], 0, 1, 2, 0, name, JSON_CODES["LIST"], 0, 0]
        return head + json_nodes(kind["list"])
    if isinstance(kind, dict):
        head = [NODE_KINDS["list"], 0, 1, 2, 0, name, JSON_CODES["MAP"], 0, 0]
        head += [NODE_KINDS["struct"], 0, 2, 0, 0, 6, JSON_CODES["STRUCT"], 0, 0]
        head += [NODE_KINDS["bytes"], 0, 0, 0, 0, 0, JSON_CODES["TEXT"], 0, 0]
        return head + json_nodes(kind["map"], 1)
    physical, width, values, code, arg, scale = JSON_LEAVES[kind]
    return [NODE_KINDS[physical], width, 0, 2, values, name, JSON_CODES[code], arg, scale & 255]


def json_records() -> None:
    """Write seeds of programs with a record, in the form of fuzz_json.c."""
    for name, (kind, record_text) in JSON_SEEDS.items():
        nodes = json_nodes(kind)
        data = bytes([len(nodes) // 9, *nodes]) + record_text.encode()
        for target in ("json", "json_plain"):
            write(target, name, data)


if __name__ == "__main__":
    shutil.rmtree(CORPUS, ignore_errors=True)
    batches()
    codecs()
    arrow()
    tunnels()
    framings()
    avro()
    encoders()
    json_encoders()
    protobuf()
    json_records()
