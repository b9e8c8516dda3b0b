"""The errors of decoders."""

from __future__ import annotations

__all__ = ["DecodeError", "SchemaError"]


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
