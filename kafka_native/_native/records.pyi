from collections.abc import Iterable, Sequence

from typing_extensions import Buffer

DECOMPRESSED_MAX_BYTES: int
CODEC_NAMES: tuple[str, ...]

class RecordError(Exception):
    status: int
    text: str
    def __init__(self, status: int, text: str) -> None: ...

class Record:
    def __new__(
        cls,
        offset: int = 0,
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
        attributes: int = 0,
        timestamp_type: int = 0,
    ) -> Record: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...
    @property
    def attributes(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...

class BatchHeader:
    @property
    def position(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def partition_leader_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def magic(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def codec(self) -> str | None: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...

class Batch(BatchHeader):
    @property
    def records(self) -> list[Record]: ...

# A record to write: a Record, or (timestamp, key, value), or (timestamp, key, value, headers).
RecordLike = (
    Record
    | tuple[int, bytes | None, bytes | None]
    | tuple[int, bytes | None, bytes | None, Sequence[tuple[str | bytes, bytes | None]] | None]
)

def features() -> dict[str, str]:
    """Return the libraries of the checksum and of each codec in this process.

    It is a dict of names to libraries, with "" for a missing one. A text that begins with "Python"
    names a Python package: the build has no C library for this codec.
    """

def live_buffers() -> int: ...
def compress(
    codec: str, data: Buffer, *, level: int = -1, python_codecs: bool = False
) -> bytes: ...
def decompress(
    codec: str,
    data: Buffer,
    *,
    max_bytes: int = 134217728,
    python_codecs: bool = False,
    lz4_legacy: bool = False,
) -> bytes: ...
def batch_headers(data: Buffer, *, check_crcs: bool = False) -> list[BatchHeader]: ...
def decode_batches(
    data: Buffer,
    *,
    check_crcs: bool = True,
    max_bytes: int = 134217728,
    python_codecs: bool = False,
) -> list[Batch]: ...
def encode_batch(
    records: Iterable[RecordLike],
    *,
    codec: str = "none",
    level: int = -1,
    base_offset: int = 0,
    base_sequence: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: int = 0,
    partition_leader_epoch: int = -1,
    python_codecs: bool = False,
) -> bytes: ...
def encode_message_set(
    records: Iterable[RecordLike],
    *,
    magic: int,
    codec: str = "none",
    level: int = -1,
    base_offset: int = 0,
    python_codecs: bool = False,
) -> bytes: ...
def set_base_offset(
    data: Buffer, offset: int, leader_epoch: int = -1, *, position: int = 0
) -> None: ...
def set_log_append_time(data: Buffer, timestamp: int, *, position: int = 0) -> None: ...
