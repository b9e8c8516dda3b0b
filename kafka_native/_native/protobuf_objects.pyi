from collections.abc import Iterable
from typing import Any, final

WIRE_CODES: dict[str, int]
WIRE_SHAPES: dict[str, int]
WIRE_ONEOFS_MAX: int

class Unplain(Exception): ...

@final
class MessageProgram:
    def __new__(
        cls,
        types: Iterable[tuple[list[tuple[Any, ...]], Any, tuple[str, ...], int]],
    ) -> MessageProgram: ...
    def read(self, record: bytes) -> Any: ...
