"""Types of the compiled codec; see wire.pyx."""

from __future__ import annotations

from typing import Any

MAX_ELEMENTS: int
KINDS: tuple[str, ...]

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

class Plan:
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    def __init__(
        self,
        layout: Layout,
        name: str,
        version: int,
        flexible: bool,
        fields: list[tuple[str, str, str | None, Plan | None, int, bool, bool, bool, bool]],
    ) -> None: ...

class StructBase:
    def __init__(self, **values: Any) -> None: ...

def decode(plan: Plan, data: bytes | bytearray | memoryview, offset: int = 0) -> Any: ...
def decode_prefix(plan: Plan, data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[Any, int]: ...
def encode(plan: Plan, message: Any, prefix: bytes = b"") -> bytes: ...
