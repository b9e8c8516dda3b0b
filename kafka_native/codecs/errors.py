"""The errors of decoders and encoders."""

from __future__ import annotations

__all__ = ["DecodeError", "EncodeError", "SchemaError"]


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
    row : int
        The index of the record.
    path : str
        The field, as in `SchemaError`.
    position : int
        The byte of the record where the bad value begins.
    """

    def __init__(self, problem: str, *, row: int, path: str, position: int) -> None:
        place = f"field {path}" if path else "the record"
        super().__init__(f"record {row}, {place}, byte {position}: {problem}")
        self.problem = problem
        self.row = row
        self.path = path
        self.position = position


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
