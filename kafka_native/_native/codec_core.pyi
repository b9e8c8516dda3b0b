from collections.abc import Iterable
from typing import Any, final

NODE_KINDS: dict[str, int]
AVRO_CODES: dict[str, int]
PROTOBUF_CODES: dict[str, int]
PROTOBUF_SHAPES: dict[str, int]
PROTOBUF_MISSING: dict[str, int]
JSON_CODES: dict[str, int]
HAS_JSON: bool
NO_JSON: str

@final
class Layout:
    def __new__(
        cls,
        nodes: Iterable[
            tuple[int, int, int, int, str, str, tuple[str, ...]]
            | tuple[int, int, int, int, str, str, tuple[str, ...], str]
        ],
    ) -> Layout: ...
    def __len__(self) -> int: ...
    def is_equal(self, other: Layout) -> bool: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class ProgramData:
    def __new__(cls, table: Iterable[int], constants: bytes) -> ProgramData: ...

class Program:
    layout: Layout
    def decode(self, values: Any, *, skip_errors: bool = ..., bytes_max: int = ...) -> Decoded: ...

@final
class AvroProgram(Program):
    def __new__(
        cls,
        layout: Layout,
        ops: Iterable[tuple[int, int, int, int, int]],
        table: Iterable[int],
        constants: bytes,
    ) -> AvroProgram: ...

@final
class ProtobufProgram(Program):
    def __new__(
        cls,
        layout: Layout,
        ops: Iterable[tuple[int, int, int, int, int, int, int, int, int, int]],
        messages: Iterable[tuple[int, int, int]],
        table: Iterable[int],
        constants: bytes,
    ) -> ProtobufProgram: ...

@final
class JsonProgram(Program):
    def __new__(cls, layout: Layout, rules: Iterable[tuple[int, int, int]]) -> JsonProgram: ...

def read_arrow_schema(schema: Any) -> tuple[str, str, int, tuple[Any, ...], Any, bytes | None]: ...

class BuiltColumn:
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_array__(self, requested_schema: Any = ...) -> tuple[Any, Any]: ...

@final
class Decoded(BuiltColumn):
    layout: Layout
    errors: list[tuple[int, int, int, int, str]]
    full: bool
