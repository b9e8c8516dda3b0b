"""Types of the compiled struct classes; see layout.pyx."""

from typing import Any, final

from typing_extensions import Never

class ProtocolError(ValueError):
    reason: str
    message: str
    version: int
    field: str
    def __init__(
        self, reason: str, message: str = "", version: int = -1, field: str = ""
    ) -> None: ...

@final
class Layout:
    @property
    def names(self) -> tuple[str, ...]: ...
    def __new__(cls, struct: type, fields: list[tuple[str, Any]]) -> Layout: ...

class StructBase:
    def __init__(self, *args: Never, **values: Any) -> None: ...
