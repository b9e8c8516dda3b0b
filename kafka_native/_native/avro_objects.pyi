from collections.abc import Callable, Iterable
from typing import Any, final

OBJECT_CODES: dict[str, int]
AVRO_NESTING_MAX: int
AVRO_FREE_VALUES_MAX: int

class Missing: ...

class Malformed(ValueError):
    args: tuple[str, str, int]

@final
class ObjectProgram:
    def __new__(
        cls,
        nodes: Iterable[
            tuple[
                int,
                int,
                int,
                list[tuple[int, str, str | None, int]],
                Any,
                tuple[str, ...] | None,
            ]
        ],
    ) -> ObjectProgram: ...
    def read(self, record: bytes, start: int = 0) -> Any: ...

@final
class IntCheck:
    def __new__(
        cls, kind: str, choose: Callable[[Any], tuple[IntCheck | None, Any]] | None = None
    ) -> IntCheck: ...
    def add(self, name: str, check: IntCheck) -> None: ...
    def find(self, value: Any) -> tuple[str, Any] | None: ...
