from collections.abc import Callable, Iterable
from typing import Any, final

from kafka_native._native.arrow_decoding import DecodedType
from kafka_native._native.codec_core import Layout
from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.engine import EngineHandle
from kafka_native._native.message import Message

@final
class ColumnPlan:
    count: int
    names: tuple[str, ...]
    types: tuple[str | DecodedType | Layout, ...]
    decoded: list[tuple[int, DecodedType]]
    malformed: ColumnPlan | None
    def __init__(
        self, columns: Iterable[tuple[str, str | DecodedType | Layout]], *, splits: bool = ...
    ) -> None: ...
    def __arrow_c_schema__(self) -> Any: ...

class UnfitError(ValueError):
    problem: str
    def __init__(self, problem: str, advice: str) -> None: ...

class MissingSchema(Exception):
    source: Any
    key: bytes
    place: tuple[str, int, int]
    def __init__(self, source: Any, key: bytes, place: tuple[str, int, int]) -> None: ...
    def look_up(self) -> None: ...

@final
class ColumnMemory:
    awaited: bool

@final
class ColumnBatch:
    plan: ColumnPlan
    positions: dict[tuple[str, int], int]
    ends: list[Message]
    ended: bool
    missing: MissingSchema | None
    malformed: ColumnBatch | None
    def __len__(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: Any = ...) -> tuple[Any, Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = ...) -> Any: ...

@final
class ColumnTaker: ...

@final
class Feed: ...

def take_columns(
    core: ConsumerCore,
    plan: ColumnPlan,
    memory: ColumnMemory,
    count_max: int,
    timeout: float,
    *,
    return_early: bool = ...,
    iterating: bool = ...,
    defer_lookups: bool = ...,
    bytes_max: int = ...,
) -> ColumnBatch: ...

@final
class ColumnCollector:
    def __init__(
        self, core: ConsumerCore, plan: ColumnPlan, memory: ColumnMemory, count_max: int
    ) -> None: ...
    def take(self, step_max: int) -> bool: ...
    @property
    def enough(self) -> bool: ...
    @property
    def in_hand(self) -> bool: ...
    @property
    def missing(self) -> MissingSchema | None: ...
    def resume(self) -> None: ...
    def taken(self) -> list[Message]: ...
    def batch(self) -> ColumnBatch: ...

def descriptor(core: ConsumerCore) -> int: ...
def is_ready(core: ConsumerCore) -> bool | None: ...
def begin_waiting(core: ConsumerCore) -> EngineHandle: ...
def end_waiting(core: ConsumerCore) -> None: ...
def stream_of(
    plan: ColumnPlan,
    next_columns: Callable[[], ColumnBatch | None],
    failed: Callable[[BaseException], object],
) -> Any: ...
