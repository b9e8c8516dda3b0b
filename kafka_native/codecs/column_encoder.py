"""Encoded columns, and what the encoders of all formats do with a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka_native._native.encode_core import (
    ColumnInput,
    EncodeProgram,
    Records,
    RecordsStream,
    empty_records,
    encode,
    encode_each,
)
from kafka_native.codecs.arrow_types import ArrowType
from kafka_native.codecs.errors import EncodeError, SchemaError

__all__ = ["ColumnEncoder", "EncodedColumn"]

BYTES_MAX = (1 << 31) - 1
"""The bytes of a binary column with 32-bit offsets."""
PROGRAMS_MAX = 64
"""The types of columns that an encoder remembers."""


class EncodedColumn:
    """Encoded records: a binary Arrow column with a row for each row of the input.

    It implements the Arrow PyCapsule interface: ``pyarrow.chunked_array(column)`` takes it without
    a copy. A chunk has at most 2 GB.
    """

    __slots__ = ("_chunks",)

    def __init__(self, chunks: list[Records]) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return sum(len(chunk) for chunk in self._chunks)

    @property
    def nbytes(self) -> int:
        """The bytes of the column's buffers."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def __arrow_c_schema__(self) -> Any:
        """Return a capsule with the type. Part of the Arrow PyCapsule interface."""
        return self._chunks[0].__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a capsule with a stream of the chunks. Part of the Arrow PyCapsule interface."""
        return RecordsStream(self._chunks).__arrow_c_stream__(requested_schema)


class ColumnEncoder:
    """Encodes Arrow columns as records: the base of the formats' encoders.

    Attributes
    ----------
    prefix : bytes
        The bytes before each record, such as the framing of a schema registry.
    header : bytes
        The framing for a header of the message, in place of the prefix; empty: none.
    """

    __slots__ = ("_programs", "header", "prefix")

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.header = b""
        self._programs: dict[tuple[Any, ...], tuple[EncodeProgram, list[str]]] = {}

    def _compile(self, column: ArrowType) -> tuple[EncodeProgram, list[str]]:
        """Return the program for a type, and the field of each instruction, for errors.

        :raises ValueError: The type doesn't fit the schema, or is too large.
        """
        raise NotImplementedError

    def program_for(self, description: tuple[Any, ...]) -> tuple[EncodeProgram, list[str]]:
        """Return the program for a type as `ColumnInput` describes it, and the fields' paths.

        :raises SchemaError: The type doesn't fit the schema.
        """
        found = self._programs.get(description)
        if found is None:
            if len(self._programs) >= PROGRAMS_MAX:
                self._programs.clear()
            try:
                found = self._compile(ArrowType(description))
            except SchemaError:
                raise
            except ValueError as error:
                raise SchemaError(str(error)) from None
            self._programs[description] = found
        return found

    def encode(self, column: Any) -> EncodedColumn:
        """Encode each row of a column as one record.

        Parameters
        ----------
        column : Arrow data
            Any object with Arrow's PyCapsule interface: an array or chunked array, or a table or
            record batch, whose rows are structs. A null row becomes a null.

        Returns
        -------
        EncodedColumn
            One record for each row.

        Raises
        ------
        SchemaError
            The column's type doesn't fit the schema.
        EncodeError
            A value doesn't fit the schema: it is null, out of range, or would lose digits.
        TypeError
            The column isn't Arrow data.
        ValueError
            The column is malformed.
        """
        source = ColumnInput(column)
        program, paths = self.program_for(source.description)
        chunks: list[Records] = []
        while source.next():
            bound = source.bind(program)
            chunks += encoded(program, paths, bound, self.prefix, source.rows, source.before)
        return EncodedColumn(chunks or [empty_records()])

    def encode_each(self, column: Any) -> tuple[EncodedColumn, list[EncodeError]]:
        """Encode each row of a column. A row that doesn't fit the schema becomes a null.

        The parameter is that of `encode`.

        Returns
        -------
        tuple[EncodedColumn, list[EncodeError]]
            One record for each row, and the errors of the rows that don't fit.

        Raises
        ------
        SchemaError
            The column's type doesn't fit the schema.
        TypeError
            The column isn't Arrow data.
        ValueError
            The column is malformed.
        """
        source = ColumnInput(column)
        program, paths = self.program_for(source.description)
        chunks: list[Records] = []
        errors: list[EncodeError] = []
        while source.next():
            bound, row = source.bind(program), 0
            while row < source.rows:
                records, row, failed = encode_each(
                    program, bound, self.prefix, row, source.rows, BYTES_MAX
                )
                chunks.append(records)
                errors += [
                    EncodeError(text, row=source.before + at, path=paths[instruction])
                    for at, instruction, text in failed
                ]
        return EncodedColumn(chunks or [empty_records()]), errors


def encoded(
    program: EncodeProgram, paths: list[str], bound: Any, prefix: bytes, rows: int, before: int
) -> Iterator[Records]:
    """Yield the records of the rows of a bound array. ``before`` counts the rows before it."""
    row = 0
    while True:
        records, row, problem = encode(program, bound, prefix, row, rows, BYTES_MAX)
        if problem is not None:
            instruction, text = problem
            raise EncodeError(text, row=before + row, path=paths[instruction])
        yield records
        if row >= rows:
            return
