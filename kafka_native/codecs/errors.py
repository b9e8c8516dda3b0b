"""The errors of decoders and encoders."""

from __future__ import annotations

__all__ = ["DecodeError", "EncodeError", "MessageDecodeError", "SchemaError", "SchemaLookupError"]


class SchemaError(ValueError):
    """A schema is malformed, unsupported, or doesn't resolve against the reader's schema.

    Attributes
    ----------
    path : str
        The field, as in ``customer.address.city``. ``[]`` is an item of an array or map. Empty: the
        whole schema.
    """

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path


class DecodeError(ValueError):
    """A record doesn't decode.

    Attributes
    ----------
    row : int or None
        The index of the record. None: there was only one.
    path : str
        The field, as in `SchemaError`.
    position : int
        The byte of the record where the bad value begins.
    """

    def __init__(self, problem: str, *, row: int | None = None, path: str, position: int) -> None:
        place = f"field {path}" if path else "the record"
        start = "" if row is None else f"record {row}, "
        super().__init__(f"{start}{place}, byte {position}: {problem}")
        self.problem = problem
        self.row = row
        self.path = path
        self.position = position


class MessageDecodeError(DecodeError):
    """A consumed message doesn't decode.

    The message isn't lost: the next call returns to it. To go on, seek to the offset after it, or
    consume with ``on_error="null"``.

    Attributes
    ----------
    topic : str
        The message's topic.
    partition : int
        The message's partition.
    offset : int
        The message's offset.
    field : str
        ``"key"`` or ``"value"``.
    schema_id : int or None
        The schema's id, if the framing has one.
    schema_guid : str or None
        The schema's GUID, if the framing has one.
    position : int
        The byte of the key or value, counted with its framing. -1: no single byte.
    """

    def __init__(
        self,
        problem: str,
        *,
        topic: str,
        partition: int,
        offset: int,
        field: str,
        schema: int | str | None,
        path: str,
        position: int,
    ) -> None:
        """``schema`` is an id or a GUID."""
        super().__init__(problem, row=0, path=path, position=position)
        place = f"{topic} [{partition}] at offset {offset}"
        advice = f'seek to offset {offset + 1} or consume with on_error="null"'
        self.args = (f"{place}: its {field} doesn't decode: {problem}; nothing is lost, {advice}",)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.field = field
        self.schema_id = schema if isinstance(schema, int) else None
        self.schema_guid = schema if isinstance(schema, str) else None


class SchemaLookupError(Exception):
    """The schema registry doesn't return a schema that a call needs.

    The registry's own error is the ``__cause__``. No message is lost: the next call asks again.
    """


class EncodeError(ValueError):
    """A row doesn't fit the schema.

    Attributes
    ----------
    row : int
        The index of the row, counted from the first one of the data.
    path : str
        The field, as in `SchemaError`.
    """

    def __init__(self, problem: str, *, row: int, path: str) -> None:
        place = f"field {path}" if path else "the record"
        super().__init__(f"row {row}, {place}: {problem}")
        self.problem = problem
        self.row = row
        self.path = path
