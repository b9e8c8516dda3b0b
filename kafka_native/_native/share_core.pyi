from typing_extensions import Buffer

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
) -> tuple[list[Message], list[bytearray], list[tuple[int, int]]]: ...
