"""Avro schemas: reading, writing in one form, and whether a reader reads what a writer wrote."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_native.mock.schema_registry.errors import InvalidSchemaError

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
PROMOTIONS: Final[dict[str, frozenset[str]]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""A reader's type, and the writers' types that it also reads."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NESTING_MAX = 200
_RESERVED: Final[dict[str, frozenset[str]]] = {
    "record": frozenset({"type", "name", "namespace", "doc", "fields", "aliases"}),
    "enum": frozenset({"type", "name", "namespace", "doc", "symbols", "default", "aliases"}),
    "fixed": frozenset({"type", "name", "namespace", "doc", "size", "aliases"}),
    "array": frozenset({"type", "items"}),
    "map": frozenset({"type", "values"}),
    "field": frozenset({"name", "type", "doc", "default", "order", "aliases"}),
}
_NO_DEFAULT: Final = object()


@dataclass(eq=False)
class Field:
    """A field of a record."""

    name: str
    type: Type
    default: Any = _NO_DEFAULT
    aliases: list[str] = field(default_factory=list)
    order: str | None = None
    doc: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        """Whether a reader can fill in this field."""
        return self.default is not _NO_DEFAULT


@dataclass(eq=False)
class Type:
    """A type of Avro. A named type exists once; all its uses are the same object."""

    kind: str
    name: str = ""
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    default: str | None = None
    size: int = 0
    parts: list[Type] = field(default_factory=list)
    """The items of an array, the values of a map, or the branches of a union."""
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


Names = dict[str, Type]


def parse(text: str, names: Names | None = None) -> Type:
    """Read a schema. ``names`` has the types of its references, and gets its own.

    Raises ``InvalidSchemaError``.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        # A bare word is the name of a type, as in Avro's own parser.
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", text.strip()):
            raise InvalidSchemaError("the Avro schema is not JSON") from None
        document = text.strip()
    return _Parser({} if names is None else names).type(document, "", 0)


class _Parser:
    def __init__(self, names: Names) -> None:
        self._names = names

    def type(self, document: Any, namespace: str, depth: int) -> Type:
        if depth > _NESTING_MAX:
            raise InvalidSchemaError("the Avro schema is nested too deeply")
        if isinstance(document, str):
            return self._named(document, namespace)
        if isinstance(document, list):
            return self._union(document, namespace, depth)
        if not isinstance(document, dict) or "type" not in document:
            raise InvalidSchemaError(f"no type in {_shown(document)}")
        kind = document["type"]
        if not isinstance(kind, str):
            return self.type(kind, namespace, depth + 1)
        if kind in PRIMITIVES:
            attributes = {key: value for key, value in document.items() if key != "type"}
            return Type(kind, attributes=attributes)
        if kind in ("record", "error"):
            return self._record(document, namespace, depth)
        if kind == "enum":
            return self._enum(document, namespace)
        if kind == "fixed":
            return self._fixed(document, namespace)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            if key not in document:
                raise InvalidSchemaError(f"the {kind} has no {key}")
            part = self.type(document[key], namespace, depth + 1)
            return Type(kind, parts=[part], attributes=_attributes(kind, document))
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._names.get(full) or self._names.get(name)
        if found is None:
            raise InvalidSchemaError(f"Undefined name: {_shown(name)}")
        return found

    def _union(self, document: list[Any], namespace: str, depth: int) -> Type:
        branches = [self.type(each, namespace, depth + 1) for each in document]
        seen: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchemaError("a union contains a union")
            key = branch.name or branch.kind
            if key in seen:
                raise InvalidSchemaError(f"Duplicate in union: {key}")
            seen.add(key)
        return Type("union", parts=branches)

    def _begin(self, document: dict[str, Any], kind: str, namespace: str) -> tuple[Type, str]:
        """Return the new named type, and the namespace of what it contains."""
        name, space = document.get("name"), document.get("namespace")
        if not isinstance(name, str) or not (space is None or isinstance(space, str)):
            raise InvalidSchemaError(f"the {kind} has no name")
        if "." in name:
            space, _, name = name.rpartition(".")
        elif space is None:
            space = namespace
        if not all(_NAME.fullmatch(part) for part in [*filter(None, space.split(".")), name]):
            raise InvalidSchemaError(f"Illegal name: {_shown(name)}")
        full = f"{space}.{name}" if space else name
        if full in self._names or full in PRIMITIVES:
            raise InvalidSchemaError(f"Can't redefine: {full}")
        aliases = _names_in(document, "aliases")
        made = Type(
            kind,
            full,
            doc=document.get("doc"),
            aliases=[each if "." in each or not space else f"{space}.{each}" for each in aliases],
            attributes=_attributes(kind, document),
        )
        self._names[full] = made
        return made, space

    def _record(self, document: dict[str, Any], namespace: str, depth: int) -> Type:
        made, space = self._begin(document, "record", namespace)
        fields = document.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"Record has no fields: {made.name}")
        for each in fields:
            made.fields.append(self._field(each, space, depth))
        names = [each.name for each in made.fields]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidSchemaError(f"Duplicate field {repeated[0]} in record {made.name}")
        return made

    def _field(self, document: Any, namespace: str, depth: int) -> Field:
        name = document.get("name") if isinstance(document, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidSchemaError(f"Illegal field: {_shown(document)}")
        if "type" not in document:
            raise InvalidSchemaError(f"No field type: {name}")
        made = Field(
            name,
            self.type(document["type"], namespace, depth + 1),
            document.get("default", _NO_DEFAULT),
            _names_in(document, "aliases"),
            document.get("order"),
            document.get("doc"),
            _attributes("field", document),
        )
        if made.order not in (None, "ascending", "descending", "ignore"):
            raise InvalidSchemaError(f"Illegal order of field {name}: {_shown(made.order)}")
        if made.has_default and not fits(made.type, made.default):
            raise InvalidSchemaError(
                f"Invalid default for field {name}: {_shown(made.default)} "
                f"not a {_shown(document['type'])}"
            )
        return made

    def _enum(self, document: dict[str, Any], namespace: str) -> Type:
        made, _ = self._begin(document, "enum", namespace)
        made.symbols = _names_in(document, "symbols")
        if "symbols" not in document:
            raise InvalidSchemaError(f"Enum has no symbols: {made.name}")
        if len(set(made.symbols)) < len(made.symbols) or not all(
            map(_NAME.fullmatch, made.symbols)
        ):
            raise InvalidSchemaError(f"Illegal or duplicate enum symbol in {made.name}")
        made.default = document.get("default")
        if made.default is not None and made.default not in made.symbols:
            raise InvalidSchemaError(f"The Enum Default: {made.default} is not in the enum symbols")
        return made

    def _fixed(self, document: dict[str, Any], namespace: str) -> Type:
        made, _ = self._begin(document, "fixed", namespace)
        size = document.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidSchemaError(f"Invalid or no size: {made.name}")
        made.size = size
        return made


def _shown(document: Any) -> str:
    return json.dumps(document)[:200]


def _names_in(document: dict[str, Any], key: str) -> list[str]:
    value = document.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidSchemaError(f"{key} is not a list of names: {_shown(value)}")
    return value


def _attributes(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in _RESERVED[kind]}


def fits(kind: Type, value: Any) -> bool:
    """Return whether a JSON value is a default of a type. A union takes that of any branch."""
    if kind.kind == "union":
        return any(fits(branch, value) for branch in kind.parts)
    if kind.kind == "null":
        return value is None
    if kind.kind == "boolean":
        return isinstance(value, bool)
    if kind.kind in ("int", "long"):
        bits = 31 if kind.kind == "int" else 63
        is_int = isinstance(value, int) and not isinstance(value, bool)
        return is_int and -(1 << bits) <= value < 1 << bits
    if kind.kind in ("float", "double"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind.kind in ("string", "bytes", "fixed", "enum"):
        return isinstance(value, str) and (kind.kind != "enum" or value in kind.symbols)
    if kind.kind == "array":
        return isinstance(value, list) and all(fits(kind.parts[0], each) for each in value)
    if not isinstance(value, dict):
        return False
    if kind.kind == "map":
        return all(fits(kind.parts[0], each) for each in value.values())
    return all(
        fits(each.type, value[each.name]) if each.name in value else each.has_default
        for each in kind.fields
    )


def text_of(schema: Type, normalize: bool = False, known: frozenset[str] = frozenset()) -> str:
    """Return a schema as compact JSON. Schemas that mean the same have mostly the same text.

    With ``normalize`` further attributes are sorted. The types ``known`` are named only.
    """
    document = _Writer(normalize, known).type(schema, "")
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


class _Writer:
    def __init__(self, normalize: bool, known: frozenset[str]) -> None:
        self._normalize = normalize
        self._written = set(known)

    def type(self, schema: Type, namespace: str) -> Any:
        if schema.kind == "union":
            return [self.type(each, namespace) for each in schema.parts]
        if not schema.name:
            return self._unnamed(schema, namespace)
        space, _, name = schema.name.rpartition(".")
        if schema.name in self._written:
            return name if space == namespace else schema.name
        self._written.add(schema.name)
        document: dict[str, Any] = {"type": schema.kind, "name": name}
        if space != namespace:
            document["namespace"] = space
        if schema.doc is not None:
            document["doc"] = schema.doc
        if schema.kind == "record":
            document["fields"] = [self._field(each, space) for each in schema.fields]
        elif schema.kind == "enum":
            document["symbols"] = schema.symbols
            if schema.default is not None:
                document["default"] = schema.default
        else:
            document["size"] = schema.size
        return self._end(document, schema.attributes, self._aliases(schema, space))

    def _unnamed(self, schema: Type, namespace: str) -> Any:
        if not schema.parts:
            if not schema.attributes:
                return schema.kind
            return self._end({"type": schema.kind}, schema.attributes, [])
        key = "items" if schema.kind == "array" else "values"
        document = {"type": schema.kind, key: self.type(schema.parts[0], namespace)}
        return self._end(document, schema.attributes, [])

    def _field(self, each: Field, namespace: str) -> dict[str, Any]:
        document: dict[str, Any] = {"name": each.name, "type": self.type(each.type, namespace)}
        if each.doc is not None:
            document["doc"] = each.doc
        if each.has_default:
            document["default"] = each.default
        if each.order not in (None, "ascending"):
            document["order"] = each.order
        return self._end(document, each.attributes, each.aliases)

    def _aliases(self, schema: Type, space: str) -> list[str]:
        own = f"{space}."
        return [each.removeprefix(own) if space else each for each in schema.aliases]

    def _end(
        self, document: dict[str, Any], attributes: dict[str, Any], aliases: list[str]
    ) -> dict[str, Any]:
        document |= dict(sorted(attributes.items())) if self._normalize else attributes
        if aliases:
            document["aliases"] = sorted(aliases) if self._normalize else aliases
        return document


def incompatibilities(reader: Type, writer: Type) -> list[str]:
    """Return why data of ``writer`` can't be read with ``reader``: none, or one text each."""
    found: list[str] = []
    _compare(reader, writer, "/", found, set())
    return found


_Pairs = set[tuple[int, int]]


def _report(found: list[str], kind: str, path: str, why: str) -> None:
    found.append(f"{{errorType:'{kind}', description:'{why} at path {path}'}}")


def _compare(reader: Type, writer: Type, path: str, found: list[str], open_: _Pairs) -> None:
    pair = (id(reader), id(writer))
    if pair in open_:
        return  # a recursive type: the comparison that is going on decides
    open_.add(pair)
    try:
        if writer.kind == "union":
            for branch in writer.parts:
                _compare(reader, branch, path, found, open_)
        elif reader.kind == "union":
            _compare_with_union(reader, writer, path, found, open_)
        elif reader.kind == writer.kind:
            _compare_same_kind(reader, writer, path, found, open_)
        elif writer.kind not in PROMOTIONS.get(reader.kind, ()):
            _report(
                found,
                "TYPE_MISMATCH",
                path,
                f"a reader of type {reader.kind} can not read type {writer.kind}",
            )
    finally:
        open_.discard(pair)


def _compare_with_union(
    reader: Type, writer: Type, path: str, found: list[str], open_: _Pairs
) -> None:
    for branch in reader.parts:
        problems: list[str] = []
        _compare(branch, writer, path, problems, open_)
        if not problems:
            return
    _report(
        found,
        "MISSING_UNION_BRANCH",
        path,
        f"no branch of the reader's union reads type {writer.name or writer.kind}",
    )


def _compare_same_kind(
    reader: Type, writer: Type, path: str, found: list[str], open_: _Pairs
) -> None:
    if reader.kind in ("array", "map"):
        key = "items" if reader.kind == "array" else "values"
        _compare(reader.parts[0], writer.parts[0], f"{path.rstrip('/')}/{key}", found, open_)
        return
    if reader.name and not _same_name(reader, writer):
        _report(
            found,
            "NAME_MISMATCH",
            path,
            f"the reader's name {reader.name} is not the writer's name {writer.name}",
        )
    elif reader.kind == "fixed" and reader.size != writer.size:
        _report(
            found,
            "FIXED_SIZE_MISMATCH",
            path,
            f"the reader's size {reader.size} is not the writer's size {writer.size}",
        )
    elif reader.kind == "enum" and reader.default is None:
        if missing := [each for each in writer.symbols if each not in reader.symbols]:
            _report(
                found,
                "MISSING_ENUM_SYMBOLS",
                path,
                f"the reader lacks the symbols {', '.join(missing)} and has no default",
            )
    elif reader.kind == "record":
        _compare_fields(reader, writer, path, found, open_)


def _same_name(reader: Type, writer: Type) -> bool:
    return reader.short_name == writer.short_name or writer.name in reader.aliases


def _compare_fields(reader: Type, writer: Type, path: str, found: list[str], open_: _Pairs) -> None:
    written = {each.name: each for each in writer.fields}
    for number, each in enumerate(reader.fields):
        place = f"{path.rstrip('/')}/fields/{number}"
        name = next((name for name in [each.name, *each.aliases] if name in written), None)
        if name is not None:
            _compare(each.type, written[name].type, f"{place}/type", found, open_)
        elif not each.has_default:
            _report(
                found,
                "READER_FIELD_MISSING_DEFAULT_VALUE",
                place,
                f"the writer lacks the field {each.name}, which has no default",
            )
