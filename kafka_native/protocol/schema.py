"""The language of message declarations: classes with typed fields that have version ranges.

    class FindCoordinatorRequest(
        Request, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"
    ):
        key: str = string("0-3")
        key_type: int = int8("1+")
        coordinator_keys: list[str] = array(string(), "4+")

The classes encode and decode themselves. Ranges have Kafka's notation: ``"3+"``, ``"0-12"``,
``"5"``, ``"none"``. A field outside its range is not on the wire. Decoding gives it its default.
Encoding another value is a ``ProtocolError``, unless the field is ``ignorable``. A field with a
``tag`` is in the tagged section of a flexible version, and only if it differs from its default.
Structs nest as classes nest.

The first ``encode`` or ``decode`` of a version compiles the class into a ``wire.Plan``, which the
class keeps. There is no lock: two threads may compile the same plan without harm.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kafka_native._native import decoder, wire
from kafka_native._native.layout import Layout, StructBase

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self, dataclass_transform

    from kafka_native.protocol.api_keys import ApiKey
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Do nothing at run time: the metaclass below does the work."""
        return lambda cls: cls


# The maximum nesting of structs. Kafka's deepest message has four levels.
MAX_DEPTH = 8
_LAST = 0x7FFF
ZERO_UUID = bytes(16)


class Versions(NamedTuple):
    """A range of versions, both ends included; empty if ``last`` is below ``first``."""

    first: int
    last: int

    @classmethod
    @cache  # Every field of every message has two ranges
    def parse(cls, text: str) -> Versions:
        """Parse ``"3+"``, ``"0-12"``, ``"5"`` or ``"none"``."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _LAST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def has(self, version: int) -> bool:
        """Return True if the range includes this version."""
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == _LAST:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


class Field(NamedTuple):
    """One declared field in ``Struct.fields``. ``item`` is the kind of an array's elements.

    ``cleaned``: decoding makes the string safe for an error text
    (`kafka_native.cleaning.error_text`).
    """

    name: str
    kind: str
    item: str | None
    struct: type[Struct] | None
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    ignorable: bool
    flexible: bool
    cleaned: bool

    def with_name(self, name: str) -> Field:
        """Return the field with the name of its attribute."""
        return Field(name, *self[1:])  # `_replace()` takes several times as long

    @property
    def type_name(self) -> str:
        """The required annotation of the field's attribute, with ``None`` if nullable."""
        item = self.struct.__name__ if self.struct else ""
        inner = {
            "bool": "bool",
            "float64": "float",
            "string": "str",
            "uuid": "bytes",
            "bytes": "bytes",
            "records": "bytes | memoryview",
            "struct": item,
        }
        kind = inner.get(self.kind, "int")
        if self.kind == "array":
            kind = f"list[{inner.get(self.item or '', 'int')}]"
        return (
            f"{kind} | None"
            if self.nullable.first <= self.nullable.last or self.default is None
            else kind
        )


def _field(
    kind: str,
    versions: str,
    default: Any,
    *,
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
    item: str | None = None,
    struct: type[Struct] | None = None,
    flexible: bool = True,
    cleaned: bool = False,
) -> Any:
    present, may_be_null = Versions.parse(versions), Versions.parse(nullable)
    return Field(
        "", kind, item, struct, present, may_be_null, tag, default, ignorable, flexible, cleaned
    )


def boolean(
    versions: str = "0+", *, default: bool = False, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare a boolean: one byte on the wire."""
    return _field("bool", versions, default, tag=tag, ignorable=ignorable)


def int8(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare a signed 8-bit integer."""
    return _field("int8", versions, default, tag=tag, ignorable=ignorable)


def int16(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare a signed 16-bit integer."""
    return _field("int16", versions, default, tag=tag, ignorable=ignorable)


def int32(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare a signed 32-bit integer."""
    return _field("int32", versions, default, tag=tag, ignorable=ignorable)


def int64(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare a signed 64-bit integer."""
    return _field("int64", versions, default, tag=tag, ignorable=ignorable)


def uint16(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare an unsigned 16-bit integer."""
    return _field("uint16", versions, default, tag=tag, ignorable=ignorable)


def uint32(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare an unsigned 32-bit integer."""
    return _field("uint32", versions, default, tag=tag, ignorable=ignorable)


def float64(
    versions: str = "0+", *, default: float = 0.0, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare an IEEE 754 double."""
    return _field("float64", versions, default, tag=tag, ignorable=ignorable)


def uuid(
    versions: str = "0+",
    *,
    default: bytes = ZERO_UUID,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a UUID: 16 raw bytes. All zero means "none"."""
    return _field("uuid", versions, default, tag=tag, ignorable=ignorable)


def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
    flexible: bool = True,
) -> Any:
    """Declare a UTF-8 string.

    ``flexible=False`` keeps the 16-bit length even in flexible versions.
    """
    return _field(
        "string",
        versions,
        default,
        nullable=nullable,
        tag=tag,
        ignorable=ignorable,
        flexible=flexible,
    )


def error_text(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: str | None = "",
    ignorable: bool = False,
) -> Any:
    """Declare a broker's error text: decoding cleans and cuts it, encoding doesn't change it."""
    return _field("string", versions, default, nullable=nullable, ignorable=ignorable, cleaned=True)


def data(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare raw bytes. Decoding copies them out of the frame."""
    return _field("bytes", versions, default, nullable=nullable, tag=tag, ignorable=ignorable)


def record_batches(versions: str = "0+", *, nullable: str = "none", ignorable: bool = False) -> Any:
    """Declare record batches.

    Decoding returns a memoryview into the frame. Encoding accepts any bytes-like object.
    """
    return _field("records", versions, None, nullable=nullable, ignorable=ignorable)


def struct(
    cls: type[Struct],
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a nested struct. The default is ``None`` if nullable, else a struct of defaults."""
    default = cls if nullable == "none" else None
    return _field(
        "struct", versions, default, struct=cls, nullable=nullable, tag=tag, ignorable=ignorable
    )


def array(
    item: Any,
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: type[list[Any]] | None = list,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a list of structs (``array(Topic)``) or of a plain type (``array(int32())``).

    The default is an empty list.
    """
    if isinstance(item, Field):
        kind, cls = item.kind, None
    else:
        kind, cls = "struct", item
    return _field(
        "array",
        versions,
        default,
        item=kind,
        struct=cls,
        nullable=nullable,
        tag=tag,
        ignorable=ignorable,
    )


@dataclass_transform(kw_only_default=True, eq_default=True)
class StructMeta(type):
    """Converts the declared fields of a class to slots, a layout, and one plan per version."""

    fields: tuple[Field, ...]
    depth: int
    __layout__: Layout

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any
    ) -> StructMeta:
        """Move the declarations out of the namespace, and create slots for their values."""
        fields = tuple(
            value.with_name(key) for key, value in namespace.items() if isinstance(value, Field)
        )
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["fields"] = fields
        cls = super().__new__(mcs, name, bases, namespace, **keywords)
        cls.depth = 1 + max((field.struct.depth for field in fields if field.struct), default=0)
        if cls.depth > MAX_DEPTH:
            raise TypeError(f"{cls.__qualname__} nests deeper than {MAX_DEPTH}")
        cls.__layout__ = Layout(cls, [(field.name, _layout_default(field)) for field in fields])
        return cls

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any
    ) -> None:
        """``__init_subclass__`` has taken the keywords."""
        super().__init__(name, bases, namespace)


def _layout_default(field: Field) -> Any:
    if field.kind == "struct" and field.default is not None:
        assert field.struct is not None
        return field.struct.__layout__
    return field.default


class Struct(StructBase, metaclass=StructMeta):
    """A group of fields with value equality.

    The constructor takes the fields by keyword. The defaults are Kafka's.
    """

    fields: ClassVar[tuple[Field, ...]]


def compile_plan(cls: type[Struct], version: int, flexible: Versions) -> wire.Plan:
    """Return one version of a struct as a table for the codec."""
    is_flexible = flexible.has(version)
    rows = []
    for field in cls.fields:
        present = field.versions.has(version)
        sub = compile_plan(field.struct, version, flexible) if field.struct else None
        tag = -1 if field.tag is None else field.tag
        compact = is_flexible and field.flexible
        nullable = field.nullable.has(version)
        rows.append(
            (
                field.name,
                field.kind,
                field.item,
                sub,
                tag,
                compact,
                nullable,
                present,
                field.ignorable,
                field.cleaned,
            )
        )
    return wire.Plan(cls.__layout__, cls.__qualname__, version, is_flexible, rows)


class Versioned(Struct):
    """A struct that is encoded on its own, with versions, ``encode`` and ``decode``."""

    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_since: ClassVar[int | None]
    _plans: ClassVar[dict[int, wire.Plan]]

    def __init_subclass__(
        cls, *, versions: str = "", flexible: str = "none", **keywords: Any
    ) -> None:
        """Read ``versions="0-13", flexible="9+"`` of the class line.

        A class without versions is only a base class.
        """
        super().__init_subclass__(**keywords)
        if not versions:
            return
        cls.versions = Versions.parse(versions)
        cls.flexible = Versions.parse(flexible)
        cls.min_version, cls.max_version = cls.versions
        cls.flexible_since = cls.flexible.first if cls.flexible.first <= cls.flexible.last else None
        cls._plans = {}

    @classmethod
    def plan(cls, version: int) -> wire.Plan:
        """Return the compiled table of a version. The first call compiles it."""
        plan = cls._plans.get(version)
        if plan is None:
            if not cls.versions.has(version):
                raise wire.ProtocolError(
                    f"the versions are {cls.versions}", cls.__qualname__, version
                )
            plan = cls._plans[version] = compile_plan(cls, version, cls.flexible)
        return plan

    def encode(self, version: int, prefix: bytes = b"") -> bytes:
        """Return ``prefix`` and the body in this version."""
        return wire.encode(self.plan(version), self, prefix)

    @classmethod
    def decode(
        cls,
        body: bytes | bytearray | memoryview,
        version: int,
        offset: int = 0,
        *,
        whole: bool = True,
    ) -> Self:
        """Decode the body that begins at ``offset``.

        The body has to end where ``body`` ends, unless ``whole`` is False.

        :raises ProtocolError: The body is malformed.
        """
        message: Self = decoder.decode(cls.plan(version), body, offset, whole)
        return message


class Message(Versioned):
    """The base class of requests and responses."""

    api_key: ClassVar[ApiKey]

    def __init_subclass__(cls, *, api_key: ApiKey | None = None, **keywords: Any) -> None:
        """Read ``api_key=`` of the class line."""
        super().__init_subclass__(**keywords)
        if api_key is not None:
            cls.api_key = api_key


class Request(Message):
    """A message from a client to a broker."""

    def expressible_versions(self) -> tuple[int, int]:
        """The first and the last version that can express this message."""
        return self.min_version, self.max_version

    def for_version(self, version: int) -> Self:
        """Return the message without fields that the version lacks but old brokers don't need."""
        return self


class Response(Message):
    """A broker's response to a request."""
