"""Types of the compiled codec's tables and encoder; see wire.pyx."""

from typing import Any, final

from kafka_native._native.layout import Layout
from kafka_native._native.layout import ProtocolError as ProtocolError

KINDS: tuple[str, ...]

@final
class Plan:
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    def __new__(
        cls,
        layout: Layout,
        name: str,
        version: int,
        flexible: bool,
        fields: list[tuple[str, str, str | None, Plan | None, int, bool, bool, bool, bool, bool]],
    ) -> Plan: ...

def encode(plan: Plan, message: Any, prefix: bytes = b"") -> bytes: ...
