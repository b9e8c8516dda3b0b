from collections.abc import Sequence
from typing import Any, final

from kafka_native._native.codec_core import Layout, Program

FRAMINGS: dict[str, int]

def text_layout() -> Layout: ...

@final
class DecodedType:
    layout: Layout
    source: Any
    field: str
    skips_errors: bool
    has_reasons: bool
    keeps_bytes: bool
    is_flat: bool
    def __new__(
        cls,
        source: Any,
        field: str,
        *,
        skips_errors: bool,
        has_reasons: bool,
        keeps_bytes: bool,
        is_flat: bool,
    ) -> DecodedType: ...
    def column_names(self) -> list[str]: ...

@final
class SchemaDecoder:
    def __new__(
        cls, program: Program | None = ..., paths: Sequence[str] = ..., *, reason: str | None = ...
    ) -> SchemaDecoder: ...

@final
class Decoding: ...
