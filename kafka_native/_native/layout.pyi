"""Types of the compiled struct classes; see layout.pyx."""

from typing import Any

class ProtocolError(ValueError):
    reason: str
    message: str
    version: int
    field: str
    def __init__(self, reason: str, message: str = "", version: int = -1, field: str = "") -> None: ...

class Layout:
    @property
    def names(self) -> tuple[str, ...]: ...
    def __init__(self, cls: type, fields: list[tuple[str, Any]]) -> None: ...

class StructBase:
    def __init__(self, **values: Any) -> None: ...
