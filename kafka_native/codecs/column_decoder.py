"""Decoded columns, and what the decoders of all formats do with a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kafka_native._native.codec_core import Decoded, Program
from kafka_native.codecs.errors import DecodeError

__all__ = ["ColumnDecoder", "DecodedColumn"]


class DecodedColumn:
    """Decoded records: one Arrow column with a row for each record.

    It implements the Arrow PyCapsule interface: ``pyarrow.array(column)`` takes it without a copy.

    Attributes
    ----------
    errors : list of DecodeError
        Why rows are null, with ``on_error="null"``.
    is_full : bool
        The last records are missing: a column with 32-bit offsets has no more room, or small
        records became much larger. Decode them with another call.
    """

    __slots__ = ("_decoded", "errors", "is_full")

    def __init__(self, decoded: Decoded, errors: list[DecodeError]) -> None:
        self._decoded = decoded
        self.errors = errors
        self.is_full = decoded.full

    def __len__(self) -> int:
        return len(self._decoded)

    @property
    def nbytes(self) -> int:
        """The bytes of the column's buffers."""
        return self._decoded.nbytes

    def __arrow_c_schema__(self) -> Any:
        """Return a capsule with the type. Part of the Arrow PyCapsule interface."""
        return self._decoded.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Return capsules with the type and the column. Part of the Arrow PyCapsule interface."""
        return self._decoded.__arrow_c_array__(requested_schema)


class ColumnDecoder:
    """Decodes records into an Arrow column: the base of the formats' decoders."""

    __slots__ = ("_paths", "_program")

    def __init__(self, program: Program, paths: Sequence[str]) -> None:
        """``paths`` has the field of each instruction, for errors."""
        self._program = program
        self._paths = paths

    @property
    def program(self) -> Program:
        """The program, for calls that decode in C."""
        return self._program

    @property
    def paths(self) -> Sequence[str]:
        """The field of each instruction of the program."""
        return self._paths

    def __arrow_c_schema__(self) -> Any:
        """Return a capsule with the type of the result. Part of the Arrow PyCapsule interface."""
        return self._program.layout.__arrow_c_schema__()

    def decode(
        self, records: Any, *, on_error: Literal["raise", "null"] = "raise"
    ) -> DecodedColumn:
        """Decode records, without a framing, into one column.

        Parameters
        ----------
        records : binary Arrow column, or iterable of bytes or None
            A column is any object with Arrow's PyCapsule interface, such as an array or a chunked
            array of pyarrow. None becomes a null. Bytes after an Avro record are ignored. Bytes
            after a JSON value are an error.
        on_error : str
            ``"raise"``: the first record that doesn't decode raises its error. ``"null"``: its row
            is null, and `DecodedColumn.errors` has the reason.

        Returns
        -------
        DecodedColumn
            One row for each record.

        Raises
        ------
        DecodeError
            A record is malformed, ends too early, or doesn't fit its column.
        TypeError
            A record is neither bytes nor None, or the column has another type.
        ValueError
            ``on_error`` is unknown, or the column is malformed.
        OSError
            The stream of the column fails.
        """
        if on_error not in ("raise", "null"):
            raise ValueError(f'on_error must be "raise" or "null", not {on_error!r}')
        decoded = self._program.decode(records, skip_errors=on_error == "null")
        errors = [
            DecodeError(text, row=row, path=self._paths[instruction], position=position)
            for row, _, instruction, position, text in decoded.errors
        ]
        if errors and on_error == "raise":
            raise errors[0]
        return DecodedColumn(decoded, errors)


def field_names(fields: Iterable[str] | None) -> list[str] | None:
    """Return the argument ``fields`` of a codec as a list. TypeError: it is one str."""
    if isinstance(fields, str):
        raise TypeError("fields must be a sequence of names, not one str")
    return None if fields is None else list(fields)
