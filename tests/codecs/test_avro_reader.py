"""Avro records as Python objects: values, classes, recursive records, and hostile input."""

from __future__ import annotations

import dataclasses
import enum
import gc
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NewType, TypedDict

import pytest

from kafka_native._native.avro_objects import OBJECT_CODES, ObjectProgram
from kafka_native.codecs import AvroReader, DecodeError, SchemaError
from tests.codecs import avro_schemas as avro
from tests.harness.libraries import not_under_tsan

Schema = Any


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    made = [
        {"name": each[0], "type": each[1], **(each[2] if len(each) > 2 else {})} for each in fields
    ]
    return {"type": "record", "name": name, "fields": made, **more}


def enum_of(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


TREE = record(
    ("value", "int"), ("left", ["null", "Tree"]), ("right", ["null", "Tree"]), name="Tree"
)
LEAF = {"value": 1, "left": None, "right": None}


def nested_tree(depth: int) -> bytes:
    """Return a tree whose left branches are nested."""
    return b"\x02\x02" * (depth - 1) + b"\x02\x00\x00" + b"\x00" * (depth - 1)


# --- values ---


def test_recursive_records() -> None:
    tree = {"value": 2, "left": LEAF, "right": {"value": 3, "left": None, "right": LEAF}}
    assert AvroReader(TREE).read(avro.encode(TREE, tree)) == tree
    forest = record(("trees", {"type": "array", "items": TREE}), name="Forest")
    assert AvroReader(forest).read(avro.encode(forest, {"trees": [tree, LEAF]})) == {
        "trees": [tree, LEAF]
    }


def test_records_that_contain_each_other() -> None:
    person = record(("name", "string"), ("dogs", {"type": "map", "values": "Dog"}), name="Person")
    dog = record(("owner", ["null", person]), ("age", "long"), name="Dog")
    value = {"owner": {"name": "Ann", "dogs": {"rex": {"owner": None, "age": 3}}}, "age": 7}
    assert AvroReader(dog).read(avro.encode(dog, value)) == value
    older = record(("dog", dog), ("x", "int"), name="Kennel")
    wanted = record(("x", "int"), name="Kennel")
    data = avro.encode(older, {"dog": value, "x": 5})
    assert AvroReader(older, wanted).read(data) == {"x": 5}


def test_a_recursive_writer_and_another_reader() -> None:
    reader = record(
        ("left", ["null", "Node"]), ("count", "int", {"default": 9}), name="Node", aliases=["Tree"]
    )
    tree = {"value": 2, "left": LEAF, "right": LEAF}
    expected = {"left": {"left": None, "count": 9}, "count": 9}
    assert AvroReader(TREE, reader).read(avro.encode(TREE, tree)) == expected


def test_a_branch_whose_record_does_not_resolve_is_left_out() -> None:
    inner = record(("next", ["null", "Inner"]), ("x", "string"), name="Inner")
    writer = record(("u", ["int", inner]), ("v", ["null", "Inner"]), name="Outer")
    wrong = record(("next", ["null", "Inner"]), ("x", "int"), name="Inner")
    reader = record(("u", ["long", wrong]), ("v", ["null", "Inner"]), name="Outer")
    program = AvroReader(writer, reader)
    assert program.read(avro.encode(writer, {"u": 5, "v": None})) == {"u": 5, "v": None}
    for value in (
        {"u": {"next": None, "x": "a"}, "v": None},
        {"u": 5, "v": {"next": None, "x": "a"}},
    ):
        with pytest.raises(DecodeError, match="doesn't fit the reader's type"):
            program.read(avro.encode(writer, value))


def test_a_branch_that_does_not_resolve_in_a_recursive_record() -> None:
    def schema(kind: str) -> Schema:
        bad = record(("y", kind), name="Bad")
        return record(("x", ["int", bad]), ("next", ["null", "R"]), ("z", ["Bad", "int"]))

    program = AvroReader(schema("string"), schema("int"))
    value = {"x": 1, "next": {"x": 2, "next": None, "z": 3}, "z": 4}
    assert program.read(avro.encode(schema("string"), value)) == value
    with pytest.raises(DecodeError, match="doesn't fit the reader's type") as caught:
        program.read(avro.encode(schema("string"), {**value, "z": {"y": "a"}}))
    assert caught.value.path == "z"


def test_records_that_others_use_twice() -> None:
    """A resolution that tried each path again would take 2^40 steps."""

    def chain(kind: str) -> Schema:
        schema = record(("x", kind), name="R0")
        for i in range(1, 20):
            # the first use is the definition
            fields = (
                ("a", [schema, "int"]),
                ("b", [f"R{i - 1}", "int"]),
                ("c", [f"R{i - 1}", "int"]),
            )
            schema = record(*fields, name=f"R{i}")
        return schema

    program = AvroReader(chain("string"), chain("int"))
    assert program.read(b"\x02\x02\x02\x04\x02\x06") == {"a": 1, "b": 2, "c": 3}
    assert AvroReader(chain("int")).read(b"\x02\x02\x02\x04\x02\x06") == {"a": 1, "b": 2, "c": 3}


def test_a_default_that_many_branches_almost_fit() -> None:
    """An encoder that tried each path again would take 2^20 steps."""
    bottom: Schema = "int"
    value: Any = "not a number"
    pairs: list[Schema] = [bottom]
    for i in range(20):
        first = record(("n", pairs), name=f"P{i}")
        again = [each if isinstance(each, str) else each["name"] for each in pairs]
        pairs = [first, record(("n", again), name=f"Q{i}")]
        value = {"n": value}
    with pytest.raises(SchemaError, match=r"f: the default .* isn't a union"):
        AvroReader(record(), record(("f", pairs, {"default": value})))


def test_a_decimal_of_too_many_digits() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 10**12}
    with pytest.raises(SchemaError, match="f: a decimal of 1000000000000 digits is too long"):
        AvroReader(record(("f", kind)))
    assert AvroReader(record(("f", kind)), record()).read(b"\x02\x01") == {}


def test_defaults_are_values_of_their_type() -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    reader = record(
        ("bytes", "bytes", {"default": "\xff"}),
        ("at", at, {"default": 1000}),
        ("list", {"type": "array", "items": "int"}, {"default": [1]}),
        ("kind", enum_of("A", "B"), {"default": "B"}),
        ("any", ["string", "null", "int"], {"default": "s"}),
        ("inner", record(("x", "int", {"default": 4}), name="Inner"), {"default": {}}),
    )
    program = AvroReader(record(), reader)
    first, second = program.read(b""), program.read(b"")
    assert first == second
    assert str(first.pop("at")) == "1970-01-01 00:00:01+00:00"
    assert first == {"bytes": b"\xff", "list": [1], "kind": "B", "any": "s", "inner": {"x": 4}}
    assert first["list"] is not second["list"]
    assert first["inner"] is not second["inner"]


def test_a_default_that_contains_itself() -> None:
    with pytest.raises(SchemaError, match="a default value contains itself"):
        AvroReader(record(), record(("f", "R", {"default": {}})))


def test_a_record_in_other_bytes() -> None:
    program = AvroReader("string")
    framed = b"\x00\x00\x00\x00\x07\x04ab\x00"
    assert program.read(framed, 5) == "ab"
    with pytest.raises(DecodeError) as caught:
        program.read(framed[:7], 5)
    assert (caught.value.position, caught.value.path, caught.value.row) == (0, "", None)
    assert str(caught.value) == "the record, byte 0: the record ends too early"
    for start in (-1, 10):
        with pytest.raises(ValueError, match="outside of the record"):
            program.read(framed, start)
    with pytest.raises(TypeError, match="must be bytes, not str"):
        program.read("x")  # type: ignore[arg-type]


def test_a_uuid() -> None:
    program = AvroReader({"type": "string", "logicalType": "uuid"})
    value = uuid.UUID("01234567-89ab-cdef-0123-456789ABCDEF")
    read = program.read(b"\x48" + str(value).upper().encode())
    assert (read, hash(read), repr(read), read.is_safe) == (
        value,
        hash(value),
        repr(value),
        value.is_safe,
    )


# --- classes ---


class Color(enum.Enum):
    RED = "RED"
    BLUE = "blue"


@dataclasses.dataclass
class Address:
    city: str
    zip: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    age: int | None
    color: Color
    address: Address
    others: tuple[Address, ...]
    tags: set[str]
    scores: Mapping[str, float]
    extra: int = 5


USER = record(
    ("age", ["null", "int"]),
    ("ignored", record(("deep", {"type": "map", "values": "bytes"}), name="Ignored")),
    ("name", "string"),
    ("color", enum_of("RED", "BLUE")),
    ("address", record(("zip", "string"), ("city", "string"), name="Address")),
    ("others", {"type": "array", "items": "Address"}),
    ("tags", {"type": "array", "items": "string"}),
    ("scores", {"type": "map", "values": "int"}),
    name="User",
)
ANN = {
    "age": 36,
    "ignored": {"deep": {"k": b"v"}},
    "name": "Ann",
    "color": "BLUE",
    "address": {"zip": "1000", "city": "Bern"},
    "others": [{"zip": "2000", "city": "Basel"}],
    "tags": ["a", "b", "a"],
    "scores": {"x": 1},
}


def test_dataclasses() -> None:
    program = AvroReader(USER, type=User)
    user = program.read(avro.encode(USER, ANN))
    assert user == User(
        name="Ann",
        age=36,
        color=Color.BLUE,
        address=Address("Bern", "1000"),
        others=(Address("Basel", "2000"),),
        tags={"a", "b"},
        scores={"x": 1},
    )
    assert program.read(avro.encode(USER, {**ANN, "age": None})).age is None


class Point(NamedTuple):
    x: int
    y: float = 2.5


class Shape(TypedDict):
    points: list[Point]
    name: NewType("Name", str)  # type: ignore[valid-type]


def test_named_tuples_and_typed_dicts() -> None:
    point = record(("y", "double"), ("z", "int"), ("x", "long"), name="Point")
    schema = record(
        ("points", {"type": "array", "items": point}), ("id", "int"), ("name", "string")
    )
    data = avro.encode(schema, {"points": [{"x": 1, "y": 2.0, "z": 3}], "id": 4, "name": "n"})
    shape = AvroReader(schema, type=Shape).read(data)
    assert shape == {"points": [Point(1, 2.0)], "name": "n"}
    assert type(shape["points"][0]) is Point
    assert AvroReader(record(("x", "int"), name="Point"), type=Point).read(b"\x02") == Point(1)


@dataclasses.dataclass
class Tree:
    value: int
    left: Tree | None
    right: Annotated[Tree | None, "a note"] = None


def test_a_class_that_contains_itself() -> None:
    data = avro.encode(TREE, {"value": 2, "left": LEAF, "right": None})
    assert AvroReader(TREE, type=Tree).read(data) == Tree(2, Tree(1, None))


@dataclasses.dataclass
class Cat:
    lives: int


@dataclasses.dataclass
class Dog:
    name: str


@dataclasses.dataclass
class Owner:
    pet: Cat | Dog | str | None
    items: Sequence[Any] = ()


def test_unions_choose_the_class_by_its_name() -> None:
    cat, dog = record(("lives", "int"), name="Cat"), record(("name", "string"), name="Dog")
    schema = record(("pet", ["null", cat, dog, "string"]))
    program = AvroReader(schema, type=Owner)
    for value, pet in (
        (None, None),
        (("Cat", {"lives": 9}), Cat(9)),
        (("Dog", {"name": "rex"}), Dog("rex")),
        ("fish", "fish"),
    ):
        assert program.read(avro.encode(schema, {"pet": value})) == Owner(pet)


def test_msgspec_structs() -> None:
    msgspec = pytest.importorskip("msgspec", reason="msgspec isn't installed")
    inner = msgspec.defstruct("Address", [("city", str), ("zip", str | None, None)])
    outer = msgspec.defstruct(
        "User",
        [
            ("user_name", str),
            ("address", inner),
            ("all", list[inner], msgspec.field(default_factory=list)),
        ],
        rename="camel",
        frozen=True,
        kw_only=True,
    )
    address = record(("city", "string"), ("ignored", "int"), name="Address")
    schema = record(("address", address), ("userName", "string"))
    data = avro.encode(schema, {"address": {"city": "Bern", "ignored": 1}, "userName": "Ann"})
    user = AvroReader(schema, type=outer).read(data)
    assert user == outer(user_name="Ann", address=inner(city="Bern"))


@not_under_tsan
def test_msgspec_is_not_imported_without_use() -> None:
    import subprocess

    program = "import sys, kafka_native.codecs; assert 'msgspec' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@dataclasses.dataclass
class Checked:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise LookupError(f"{self.x} is negative")


def test_an_exception_of_a_class_arrives_unchanged() -> None:
    program = AvroReader(record(("x", "int")), type=Checked)
    assert program.read(b"\x02") == Checked(1)
    with pytest.raises(LookupError, match="-1 is negative"):
        program.read(b"\x01")


@dataclasses.dataclass
class Any1:
    f: Any


@pytest.mark.parametrize(
    ("kind", "annotation", "message"),
    [
        ("string", int, "f: the annotation int has no room for str"),
        (["null", "int"], int, "f: the annotation int has no room for None"),
        ({"type": "int", "logicalType": "date"}, int, "f: the annotation int has no room for date"),
        ({"type": "array", "items": "int"}, list[str], r"f\[\]: the annotation str has no room"),
        ({"type": "array", "items": "int"}, str, "f: the annotation str has no room for an array"),
        ({"type": "map", "values": "int"}, list[int], "no room for a map"),
        (
            {"type": "map", "values": "int"},
            dict[int, int],
            r"f\[\]: the annotation int has no room",
        ),
        ({"type": "array", "items": "int"}, tuple[int, int], "no room for an array"),
        ({"type": "array", "items": "int"}, tuple[int], "no room for an array"),
        (record(name="S"), int, "f: the annotation int has no room for the record S"),
        (record(name="Address"), Address, "f.city: Address needs this field, which the schema"),
        (record(name="S"), Cat | Dog, "f: the record S could be several classes"),
        (enum_of("GREEN"), Color, "f: Color has no member for the symbol 'GREEN'"),
        (enum_of("GREEN"), int, "f: the annotation int has no room for str"),
    ],
)
def test_a_class_that_does_not_fit_is_refused(kind: Schema, annotation: Any, message: str) -> None:
    made = dataclasses.make_dataclass("R", [("f", annotation)])
    with pytest.raises(SchemaError, match=message):
        AvroReader(record(("f", kind)), type=made)
    assert AvroReader(record(("f", kind)), type=Any1)


def test_annotations_that_can_not_be_resolved() -> None:
    made = dataclasses.make_dataclass("Local", [("f", "Nowhere")])
    with pytest.raises(TypeError, match="annotations of Local can't be resolved: name 'Nowhere'"):
        AvroReader(record(("f", "int")), type=made)


# --- hostile input ---


def test_nesting_has_a_limit() -> None:
    program = AvroReader(TREE)
    assert program.read(nested_tree(100))["left"]["value"] == 1
    for size in (101, 100_000):
        with pytest.raises(DecodeError, match="nested deeper than 100 levels"):
            program.read(nested_tree(size))
    skipping = AvroReader(record(("t", TREE)), record())
    assert skipping.read(nested_tree(99)) == {}
    with pytest.raises(DecodeError, match="nested deeper than 100 levels") as caught:
        skipping.read(nested_tree(100))
    assert caught.value.path == "t" + ".left" * 99
    with pytest.raises(DecodeError, match="nested deeper"):
        AvroReader(record(("r", "R"))).read(b"")


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("boolean", b"", "ends too early"),
        ("int", b"\x80\x80\x80\x80\x10", "too many bits"),
        ("long", b"\x80" * 11, "too many bits"),
        ("int", b"\x80", "ends too early"),
        ("float", b"123", "ends too early"),
        ("double", b"1234567", "ends too early"),
        ("string", b"\x04\xff\xff", "isn't UTF-8"),
        ("string", b"\x02\xff", "isn't UTF-8"),
        ("bytes", b"\x03", "negative"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "ends too early"),
        ({"type": "fixed", "name": "F", "size": 4}, b"123", "ends too early"),
        ({"type": "string", "logicalType": "uuid"}, b"\x48" + b"0" * 36, "UUID is malformed"),
        ({"type": "string", "logicalType": "uuid"}, b"\x40" + b"0" * 32, "UUID is malformed"),
        (
            {"type": "string", "logicalType": "uuid"},
            b"\x48g" + str(uuid.UUID(int=0)).encode()[1:],
            "UUID is malformed",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5},
            b"\x22\x01" + bytes(16),
            "too many digits",
        ),
        (enum_of("A"), b"\x02", "no such symbol"),
        (enum_of("A"), b"\x01", "no such symbol"),
        (["null", "int"], b"\x04", "no such branch"),
        (["null", "int"], b"\x01", "no such branch"),
        ({"type": "int", "logicalType": "date"}, b"\xff\xff\xff\xff\x0f", "the years 1 to 9999"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", "outside of the day"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x80\xf0\xb2\x52", "outside of the day"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            b"\xff" * 9 + b"\x01",
            "the years 1 to 9999",
        ),
        ({"type": "array", "items": "null"}, b"\x80\x80\x80\x80\x08\x00", "without bytes"),
        ({"type": "array", "items": "int"}, b"\x80\x80\x80\x80\x08\x00", "ends too early"),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01", "too large"),
        ({"type": "map", "values": "null"}, b"\x80\x80\x80\x80\x08\x00", "ends too early"),
    ],
)
def test_a_bad_record_is_refused_with_its_field(kind: Schema, data: bytes, message: str) -> None:
    program = AvroReader(record(("a", "int"), ("f", kind)))
    with pytest.raises(DecodeError, match=message) as caught:
        program.read(b"\x02" + data)
    assert caught.value.path in ("f", "f[]")
    assert caught.value.position == 1


def test_records_without_bytes_have_a_limit() -> None:
    """A few records within each other are many records, if each has several of the next one."""
    inner: dict[str, Any] = record(("n", "null"), name="R0")
    for level in range(1, 13):
        others = [(f"f{i}", f"R{level - 1}") for i in range(1, 10)]
        inner = record(("f0", inner), *others, name=f"R{level}")
    writer = record(("x", "int"), ("big", inner))
    for program in (AvroReader(writer), AvroReader(writer, record(("x", "int")))):
        with pytest.raises(DecodeError, match="more than 1000000 values without bytes") as caught:
            program.read(b"\x02")
        assert caught.value.path.startswith("big.f0.f0")
        assert "[]" not in caught.value.path


def test_values_without_bytes_have_a_limit() -> None:
    many = [(f"f{i}", "int", {"default": i}) for i in range(1000)]
    item = record(("x", "int"), name="Item")
    writer = record(("items", {"type": "array", "items": item}))
    reader = record(("items", {"type": "array", "items": record(("x", "int"), *many, name="Item")}))
    program = AvroReader(writer, reader)
    assert len(program.read(avro.encode(writer, {"items": [{"x": 1}] * 10}))["items"][9]) == 1001
    with pytest.raises(DecodeError, match="more than 1000000 values without bytes"):
        program.read(avro.encode(writer, {"items": [{"x": 1}] * 2000}))


def test_a_block_with_its_size_is_skipped() -> None:
    writer = record(("a", {"type": "array", "items": "long"}), ("b", "int"))
    program = AvroReader(writer, record(("b", "int")))
    assert program.read(b"\x03\x04\x02\x04\x02\x06\x00\x0a") == {"b": 5}
    with pytest.raises(DecodeError, match="ends too early"):
        program.read(b"\x03\x40\x02\x04\x00\x0a")
    assert AvroReader(writer).read(b"\x03\x04\x02\x04\x02\x06\x00\x0a") == {"a": [1, 2, 3], "b": 5}


def test_wrong_programs_are_refused() -> None:
    codes = OBJECT_CODES
    for nodes in (
        [],
        [(len(codes), 0, 0, [], None, None)],
        [(codes["ARRAY"], 0, 0, [], None, None)],
        [(codes["ARRAY"], 0, 0, [(1, "", None, 0)], None, None)],
        [(codes["ARRAY"], 0, 0, [(-1, "", None, 0)], None, None)],
        [(codes["DICT"], 0, 0, [], None, None)],
        [(codes["INSTANCE"], 0, 0, [(0, "", "x", 1)], dict, ("x",))],
        [(codes["INSTANCE"], 1 << 62, 0, [], dict, ())],
        [(codes["ENUM"], 0, 0, [], "A", None)],
        [(codes["DEFAULT"], 0, 0, [(0, "", None, 0)], "A", None)],
        [(codes["DECIMAL_BYTES"], 0, 0, [], (), None)],
        [(codes["FIXED"], -1, 0, [], None, None)],
    ):
        with pytest.raises(ValueError, match=r"is wrong|needs nodes"):
            ObjectProgram(nodes)
    for odd in ([5], [()], [(0, 0, 0, 5, None, None)], [(0, 0, 0, [(0, 5, None, 0)], None, None)]):
        with pytest.raises((TypeError, ValueError)):
            ObjectProgram(odd)  # type: ignore[arg-type]


# --- memory ---


def read_much() -> None:
    data = avro.encode(USER, ANN)
    for program in (AvroReader(USER), AvroReader(USER, type=User)):
        for size in range(len(data) + 1):
            try:
                program.read(data[:size])
            except DecodeError:
                assert size < len(data)


def test_reading_leaks_nothing() -> None:
    counts = []
    for _ in range(6):
        read_much()
        gc.collect()
        counts.append(sys.getallocatedblocks())
    # Caches of the interpreter may still grow a little. A leak is some objects a record.
    assert min(counts[3:]) - min(counts[:3]) < len(avro.encode(USER, ANN))
