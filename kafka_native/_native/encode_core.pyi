from collections.abc import Iterable, Iterator
from typing import Any, final

from kafka_native._native.codec_core import BuiltColumn

NESTED_KINDS: dict[str, int]
ENCODE_CODES: dict[str, int]
ENCODE_NUMBERS: dict[str, int]
ENCODE_DECIMALS: dict[str, int]

@final
class EncodeProgram:
    def __new__(
        cls,
        nodes: Iterable[tuple[int, int, int, int]],
        ops: Iterable[tuple[int, int, int, int, int]],
        table: Iterable[int],
        constants: bytes,
    ) -> EncodeProgram: ...

@final
class Records(BuiltColumn): ...

@final
class ColumnInput:
    description: tuple[Any, ...]
    before: int
    def __new__(cls, data: Any) -> ColumnInput: ...
    @property
    def rows(self) -> int: ...
    def next(self) -> bool: ...
    def bind(self, program: EncodeProgram, columns: int | tuple[int, ...] | None = ...) -> Any: ...
    def check_rows(self) -> None: ...

def encode(
    program: EncodeProgram, bound: Any, prefix: bytes, first: int, end: int, bytes_max: int
) -> tuple[Records, int, tuple[int, str] | None]: ...
def encode_each(
    program: EncodeProgram, bound: Any, prefix: bytes, first: int, end: int, bytes_max: int
) -> tuple[Records, int, list[tuple[int, int, str]]]: ...
def shorten(records: Records, length: int) -> None: ...
def empty_records() -> Records: ...

class ArrayStream:
    error: BaseException | None
    def __arrow_c_stream__(self, requested_schema: Any = ...) -> Any: ...

@final
class RecordsStream(ArrayStream):
    def __new__(cls, records: list[Records]) -> RecordsStream: ...

@final
class RowsStream(ArrayStream):
    def __new__(
        cls,
        input: ColumnInput,
        kept: int,
        encoded: int,
        pieces: Iterator[tuple[int, list[Records]]],
    ) -> RowsStream: ...
