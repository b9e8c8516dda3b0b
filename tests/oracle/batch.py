"""A pure-Python twin of the reader and writer of record batches (magic 2), from the definitions."""

from __future__ import annotations

import dataclasses
import struct

from tests.oracle import codecs
from tests.oracle.checksum import crc32c, read_varint, varint

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_START = 21
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20


@dataclasses.dataclass
class Record:
    """One record. Offset and timestamp are absolute."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]] = dataclasses.field(default_factory=list)
    attributes: int = 0


@dataclasses.dataclass
class Batch:
    """The fields of a batch in a broker's view."""

    records: list[Record]
    codec: str = "none"
    base_offset: int = 0
    base_timestamp: int | None = None  # the first record's
    max_timestamp: int | None = None
    last_offset_delta: int | None = None  # compaction may leave it beyond the last record
    attributes: int = 0  # without the codec
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


def _bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """Return one record in wire form."""
    delta = (record.timestamp - base_timestamp + (1 << 63)) % (1 << 64) - (1 << 63)
    body = (
        struct.pack(">b", record.attributes) + varint(delta) + varint(record.offset - base_offset)
    )
    body += _bytes(record.key) + _bytes(record.value) + varint(len(record.headers))
    for key, value in record.headers:
        body += _bytes(key) + _bytes(value)
    return varint(len(body)) + body


def encode(batch: Batch) -> bytes:
    """Return the batch in wire form."""
    records = batch.records
    base_timestamp = batch.base_timestamp
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    max_timestamp = batch.max_timestamp
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    last_delta = batch.last_offset_delta
    if last_delta is None:
        last_delta = records[-1].offset - batch.base_offset if records else -1
    section = b"".join(
        encode_record(record, batch.base_offset, base_timestamp) for record in records
    )
    section = codecs.compress(batch.codec, section)
    fields = [
        batch.attributes | codecs.NAMES.index(batch.codec),
        last_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(records),
    ]
    length = HEADER.size + len(section) - 12
    draft = (
        HEADER.pack(batch.base_offset, length, batch.partition_leader_epoch, 2, 0, *fields)
        + section
    )
    checksum = codecs.fast_crc32c(draft[CRC_START:])
    return (
        HEADER.pack(batch.base_offset, length, batch.partition_leader_epoch, 2, checksum, *fields)
        + section
    )


def decode(data: bytes) -> Batch:
    """Decode the one batch in `data`, with strict checks."""
    (
        base_offset,
        length,
        epoch,
        magic,
        crc,
        attributes,
        last_delta,
        base_time,
        max_time,
        pid,
        pepoch,
        seq,
        count,
    ) = HEADER.unpack_from(data)
    assert magic == 2
    assert len(data) == length + 12
    assert crc == (
        crc32c(data[CRC_START:]) if len(data) < 2000 else codecs.fast_crc32c(data[CRC_START:])
    )
    codec = codecs.NAMES[attributes & 7]
    section = codecs.decompress(codec, data[HEADER.size :])
    records = []
    at = 0
    for _ in range(count):
        record, at = _decode_record(section, at, base_offset, base_time)
        if attributes & LOG_APPEND_TIME:
            record.timestamp = max_time
        records.append(record)
    assert at == len(section)
    return Batch(
        records,
        codec,
        base_offset,
        base_time,
        max_time,
        last_delta,
        attributes & ~7,
        epoch,
        pid,
        pepoch,
        seq,
    )


def _decode_record(
    section: bytes, at: int, base_offset: int, base_timestamp: int
) -> tuple[Record, int]:
    size, at = read_varint(section, at, bits=32)
    end = at + size
    attributes = section[at]
    timestamp_delta, at = read_varint(section, at + 1)
    offset_delta, at = read_varint(section, at, bits=32)

    def take(at: int) -> tuple[bytes | None, int]:
        length, at = read_varint(section, at, bits=32)
        return (None, at) if length < 0 else (section[at : at + length], at + length)

    key, at = take(at)
    value, at = take(at)
    count, at = read_varint(section, at, bits=32)
    headers = []
    for _ in range(count):
        name, at = take(at)
        content, at = take(at)
        assert name is not None
        headers.append((name, content))
    assert at == end
    timestamp = (base_timestamp + timestamp_delta + (1 << 63)) % (1 << 64) - (1 << 63)
    return Record(base_offset + offset_delta, timestamp, key, value, headers, attributes), end
