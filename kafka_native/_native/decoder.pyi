"""Types of the compiled codec's decoder; see decoder.pyx."""

from collections.abc import Sequence
from typing import Any, final, overload

from kafka_native._native.wire import Plan

MAX_ELEMENTS: int
EAGER_VALUES: int

@final
class LazyArray(Sequence[Any]):
    @overload
    def __getitem__(self, which: int, /) -> Any: ...
    @overload
    def __getitem__(self, which: slice, /) -> list[Any]: ...
    def __len__(self) -> int: ...

def decode(
    plan: Plan,
    data: bytes | bytearray | memoryview,
    offset: int = 0,
    whole: bool = True,
    eager: int = ...,
) -> Any: ...
def decode_prefix(
    plan: Plan, data: bytes | bytearray | memoryview, offset: int = 0
) -> tuple[Any, int]: ...
