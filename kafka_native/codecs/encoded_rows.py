"""Rows to produce whose keys or values are encoded from typed columns.

The rows become a stream of arrays with binary columns, which `Producer.produce_arrow` takes like
any other one. The stream encodes an array as a whole before the producer gets a row of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kafka_native._native.encode_core import (
    ColumnInput,
    EncodeProgram,
    Records,
    RowsStream,
    encode,
    shorten,
)
from kafka_native.codecs.column_encoder import BYTES_MAX, ColumnEncoder
from kafka_native.codecs.errors import EncodeError

__all__ = ["ColumnCodec", "Columns", "TypedColumns", "produce_encoded", "typed_columns"]

Columns = str | int | Sequence[str | int]
"""One column, or those that make a struct."""


@runtime_checkable
class ColumnCodec(Protocol):
    """What makes the encoders for `Producer.produce_arrow`, such as a codec for Avro."""

    def encoder(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> ColumnEncoder:
        """Return the encoder of a topic's keys or values.

        :param topic: None if each row names its topic.
        :param field: ``"key"`` or ``"value"``.
        :param column_type: The type of the columns, as `ColumnInput.description`.
        :raises SchemaError: The type has no schema, or doesn't fit it.
        """


class TypedColumns(NamedTuple):
    """A codec, and the columns that it encodes; None: the default ones."""

    codec: ColumnCodec
    columns: Columns | None


def typed_columns(
    roles: dict[str, Any], columns: Mapping[str, Columns | None]
) -> dict[str, TypedColumns]:
    """Take the codecs out of the roles of columns.

    :raises TypeError: There are columns to encode for a role without a codec.
    """
    found = {}
    for role, chosen in columns.items():
        if isinstance(roles[role], ColumnCodec) and not isinstance(roles[role], type):
            found[role] = TypedColumns(roles.pop(role), chosen)
        elif chosen is not None:
            raise TypeError(f"{role}_columns needs a codec: {role}=Avro(...)")
    return found


def produce_encoded(
    produce: Callable[..., int],
    topic: str | None,
    data: Any,
    roles: Mapping[str, Any],
    typed: Mapping[str, TypedColumns],
    options: tuple[Any, Any, Any, Any],
) -> int:
    """Encode typed columns and produce the rows.

    :param produce: ``f(data, columns, *options, added_headers=)``.
    :param roles: The columns that aren't encoded.
    :param options: Timestamp, partition, callback and timeout.
    """
    try:
        others = [each for each in options[:2] if isinstance(each, str)]
        rows = EncodedRows(topic, data, roles, others, typed)
    except BaseException as error:
        error.queued = 0  # type: ignore[attr-defined]
        raise
    try:
        return produce(rows, rows.columns, *options, added_headers=rows.headers)
    except OSError as failure:
        cause = rows.error
        if cause is None:
            raise
        cause.queued = failure.queued  # type: ignore[attr-defined]
        raise cause from None


class _Part(NamedTuple):
    """A column to encode."""

    role: str
    columns: int | tuple[int, ...] | None
    program: EncodeProgram
    paths: list[str]
    prefix: bytes


class EncodedRows:
    """The input of `Producer.produce_arrow`, with encoded columns behind its own.

    Attributes
    ----------
    columns : dict
        The column of each role: of an encoded one its index, else what was given.
    headers : dict
        Name and value of the header with the schema, for ``"value"`` or ``"key"``.
    """

    def __init__(
        self,
        topic: str | None,
        data: Any,
        roles: Mapping[str, str | int | None],
        others: Sequence[str],
        typed: Mapping[str, TypedColumns],
    ) -> None:
        """Look up or register the schemas, and check the types.

        :param roles: The columns that aren't encoded, by role.
        :param others: Further columns that aren't part of the value.
        :param typed: The columns to encode, for ``"value"`` or ``"key"``.
        :raises SchemaError: The columns don't fit the schema.
        """
        self._source = ColumnInput(data)
        format, _, _, self._children, _, _ = self._source.description
        self._is_table = format == "+s"
        kept = len(self._children) if self._is_table else 0
        self.columns: dict[str, str | int | None] = dict(roles)
        key = self._chosen("key", typed["key"].columns, set()) if "key" in typed else None
        plain = [each for each in (*roles.values(), *others) if each is not None]
        used = self._used([*plain, *_each(key)])
        self._has_plain = self._is_table and bool(plain)
        self.headers: dict[str, tuple[bytes, bytes]] = {}
        self._parts: list[_Part] = []
        for role, (codec, columns) in typed.items():
            chosen = key if role == "key" else self._chosen(role, columns, used)
            description = self._description(chosen)
            encoder = codec.encoder(topic, role, description)
            program, paths = encoder.program_for(description)
            self.columns[role] = kept + len(self._parts)
            self._parts.append(_Part(role, chosen, program, paths, encoder.prefix))
            if encoder.header:
                self.headers[role] = _header_name(role), encoder.header
        self._stream = RowsStream(self._source, kept, len(self._parts), self._pieces())

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the stream."""
        return self._stream.error

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a capsule with the rows. Part of the Arrow PyCapsule interface."""
        return self._stream.__arrow_c_stream__(requested_schema)

    def _used(self, columns: Sequence[Any]) -> set[int]:
        """Return the columns that have another role, or that are part of the key."""
        names = [child[1] for child in self._children]
        found = [names.index(each) if each in names else each for each in columns]
        return {each for each in found if isinstance(each, int)}

    def _chosen(
        self, role: str, columns: Columns | None, used: set[int]
    ) -> int | tuple[int, ...] | None:
        """Return the columns to encode, as indices. None: the data are the column."""
        names = [child[1] for child in self._children]
        if not self._is_table:
            if role == "key" or columns is not None:
                raise ValueError(
                    "the data are one column without a name, which can only be the value"
                )
            return None
        if isinstance(columns, (str, int)):
            return self._index(role, columns, names)
        if columns is not None:
            return tuple(self._index(role, each, names) for each in columns)
        if role in names:
            return self._index(role, role, names)
        if role == "key":
            raise ValueError("there is no column 'key': pass key_columns=")
        return tuple(index for index in range(len(names)) if index not in used)

    @staticmethod
    def _index(role: str, column: Any, names: list[str]) -> int:
        if isinstance(column, str):
            if names.count(column) == 1:
                return names.index(column)
            count = names.count(column)
            problem = "there is no such column" if not count else f"{count} columns have this name"
            raise ValueError(f"{role}_columns={column!r}: {problem}")
        if isinstance(column, bool) or not isinstance(column, int):
            raise TypeError(f"{role}_columns has names or indices, not {type(column).__name__}")
        if not 0 <= column < len(names):
            raise ValueError(f"{role}_columns={column}: there are {len(names)} columns")
        return column

    def _description(self, chosen: int | tuple[int, ...] | None) -> tuple[Any, ...]:
        if chosen is None:
            return self._source.description
        if isinstance(chosen, tuple):
            return "+s", "", 0, tuple(self._children[each] for each in chosen), None, None
        child: tuple[Any, ...] = self._children[chosen]
        return child

    def _pieces(self) -> Iterator[tuple[int, list[Records]]]:
        """Yield encoded columns. All pieces of an array are encoded before the first one."""
        while self._source.next():
            if self._has_plain:
                self._source.check_rows()  # a null row has no value for columns as they are
            bounds = [self._source.bind(each.program, each.columns) for each in self._parts]
            first, pieces = 0, []
            while first < self._source.rows:
                encoded = self._encoded(bounds, first)
                pieces.append((first, encoded))
                first += len(encoded[0])
            yield from pieces

    def _encoded(self, bounds: list[Any], first: int) -> list[Records]:
        """Encode rows until the first of the columns is full."""
        end, made = self._source.rows, []
        for part, bound in zip(self._parts, bounds, strict=True):
            records, end, problem = encode(part.program, bound, part.prefix, first, end, BYTES_MAX)
            if problem is not None:
                instruction, text = problem
                path = part.paths[instruction]
                row = self._source.before + end
                raise EncodeError(text, row=row, path=f"{part.role}.{path}" if path else part.role)
            made.append(records)
        for records in made:
            shorten(records, end - first)
        return made


def _header_name(role: str) -> bytes:
    from kafka_native.schema_registry import schema_ids

    is_key = role == "key"
    name = schema_ids.KEY_SCHEMA_ID_HEADER if is_key else schema_ids.VALUE_SCHEMA_ID_HEADER
    return name.encode()


def _each(columns: int | tuple[int, ...] | None) -> tuple[int, ...]:
    if columns is None:
        return ()
    return columns if isinstance(columns, tuple) else (columns,)
