"""JSON records as Arrow columns: schemas compiled to programs for csrc/codecs/json_decode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from kafka_native._native.codec_core import JSON_CODES, JsonProgram
from kafka_native.codecs import layout
from kafka_native.codecs.column_decoder import ColumnDecoder, field_names
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.json_columns import JsonColumn, column_of_arrow, project
from kafka_native.codecs.json_inference import infer_column
from kafka_native.codecs.json_schema import column_of_schema

__all__ = ["JsonDecoder"]

UNIT_LETTERS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}


class JsonDecoder(ColumnDecoder):
    """Decodes JSON records into an Arrow column, in C and without the interpreter lock.

    Parameters
    ----------
    schema : Arrow schema, str, bytes or dict
        The columns of the result: an object with ``__arrow_c_schema__``, such as a
        ``pyarrow.Schema``; or a JSON Schema, as text or as parsed JSON.
    fields : sequence of str, optional
        Only these fields, as in ``["id", "customer.city"]``. Other fields are checked, not built.
    references : mapping of str to schema, optional
        Other JSON Schemas by the names that ``$ref`` has.
    timestamp_unit : str
        The unit of columns for ``date-time`` and ``time`` of a JSON Schema: ``"s"``, ``"ms"``,
        ``"us"`` or ``"ns"``.

    Raises
    ------
    SchemaError
        The schema is malformed, has a type that JSON can't fill, or lacks a field.
    NotImplementedError
        kafka-native was built without simdjson.

    Notes
    -----
    Fields of a record may come in any order. Fields that the schema lacks are ignored. A field that
    a record lacks is null. These are errors of a record:

    - It isn't JSON, or bytes follow its value.
    - A field is missing or null, and its column can't be null.
    - A value doesn't fit its column exactly.
    """

    __slots__ = ()

    def __init__(
        self,
        schema: Any,
        *,
        fields: Iterable[str] | None = None,
        references: Mapping[str, Any] | None = None,
        timestamp_unit: Literal["s", "ms", "us", "ns"] = "us",
    ) -> None:
        if timestamp_unit not in UNIT_LETTERS:
            raise ValueError(
                f'timestamp_unit must be "s", "ms", "us" or "ns", not {timestamp_unit!r}'
            )
        if isinstance(schema, JsonColumn):
            column = schema
        elif hasattr(schema, "__arrow_c_schema__"):
            column = column_of_arrow(schema)
        else:
            column = column_of_schema(schema, references or {}, UNIT_LETTERS[timestamp_unit])
        fields = field_names(fields)
        if fields is not None:
            column = project(column, fields)
        try:
            program = JsonProgram(layout.layout_of(column), list(_rules(column)))
        except ValueError as error:
            raise SchemaError(str(error)) from None
        super().__init__(program, list(column.paths()))

    @classmethod
    def infer(
        cls,
        records: Iterable[Any],
        *,
        record_count: int = 1000,
        fields: Iterable[str] | None = None,
        timestamps: bool = False,
    ) -> JsonDecoder:
        """Return a decoder for columns with the types of the first records.

        All fields can be null. Places with values of several types become JSON text, as do fields
        that are always null. Integers and floats together become doubles.

        Parameters
        ----------
        records : iterable of bytes or None, or binary Arrow column
            An example of the records. None is ignored.
        record_count : int
            How many of them are used.
        fields : sequence of str, optional
            As in the constructor.
        timestamps : bool
            Whether strings become timestamps where all are in ISO 8601, with microseconds at most.

        Raises
        ------
        DecodeError
            A record isn't JSON.
        SchemaError
            No record has a value.
        TypeError
            A record is neither bytes nor None.
        """
        column = infer_column(records, count=record_count, timestamps=timestamps)
        return cls(column, fields=fields)


def _rules(column: JsonColumn) -> Iterable[tuple[int, int, int]]:
    for node in column.walk():
        assert isinstance(node, JsonColumn)
        yield JSON_CODES[node.code], node.arg, node.scale
