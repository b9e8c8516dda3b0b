from typing import Any

from typing_extensions import Buffer

from kafka_native._native.arrow_consumer import ColumnBatch, ColumnMemory, ColumnPlan
from kafka_native._native.engine import Engine
from kafka_native._native.message import Message

GAP: int
ACCEPT: int
RELEASE: int
REJECT: int
UNDECIDED: int

def open_acquired(
    engine: Engine,
    topic: str,
    partition: int,
    records: Buffer,
    ranges: list[tuple[int, int, int]],
    check_crcs: bool,
    max_bytes: int,
    columns: ColumnBatch | None = ...,
) -> tuple[list[Message], list[bytearray], list[tuple[int, int]]]: ...
def begin_columns(engine: Engine, plan: ColumnPlan, memory: ColumnMemory) -> ColumnBatch: ...
def end_columns(columns: ColumnBatch, memory: ColumnMemory) -> None: ...
def find_finished(
    statuses: bytearray, rows: bytes, types: bytes, start: int, finished: bytes
) -> int: ...
def set_types(statuses: bytearray, rows: bytes, types: bytes, start: int) -> None: ...
def column_values(column: Any) -> tuple[bool, bytes]: ...
def masked(types: bytes, mask: bytes) -> bytes: ...
