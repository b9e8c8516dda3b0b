"""Message sets of magic 0 and 1, for clusters that act as old brokers and for raw appends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.log import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_native.mock.log import PartitionLog

_CODEC = 0x07
# A producer may write any offset at the front of a compressed message. The offsets inside count
# back from it, so it must be high enough for them.
_FAR = 1 << 40


class _Message(NamedTuple):
    data: memoryview
    record_count: int
    max_timestamp: int
    # Not empty: the offsets inside are absolute, so the message must be compressed again.
    codec: str = ""
    inside: Sequence[records.Record] = ()


def check(data: memoryview, *, max_bytes: int) -> list[_Message]:
    """Verify a message set. Raises ``Refused``."""
    try:
        headers = records.batch_headers(data, check_crcs=True)
    except records.RecordError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if not headers or sum(header.size_bytes for header in headers) != len(data):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "the message set ends in the middle of a message")
    messages = []
    for header in headers:
        if header.magic > 1:
            raise Refused(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                "a batch of magic 2 in an old Produce request",
            )
        if header.size_bytes > max_bytes:
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a message has {header.size_bytes} bytes")
        messages.append(
            _message(data[header.position : header.position + header.size_bytes], header)
        )
    return messages


def _message(data: memoryview, header: records.BatchHeader) -> _Message:
    if not header.attributes & _CODEC:
        return _Message(data, 1, header.max_timestamp)
    if header.magic == 1:
        data[:8] = _FAR.to_bytes(8, "big")
    try:
        inner = records.decode_batches(data)[0].records
    except records.RecordError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if header.magic == 0:
        return _Message(data, len(inner), -1, header.codec or "", inner)
    return _Message(data, len(inner), max((record.timestamp for record in inner), default=-1))


def store(log: PartitionLog, messages: list[_Message], leader_epoch: int) -> None:
    """Append checked messages.

    Each message gets its offset at the front. A compressed message gets the offset of its last
    record. A compressed message of magic 0 is compressed again with the offsets of all records, as
    old brokers did.
    """
    for message in messages:
        if message.codec:
            base = log.end_offset
            encoded = records.encode_message_set(
                message.inside, magic=0, codec=message.codec, base_offset=base
            )
            log.store(
                memoryview(bytearray(encoded)),
                message.record_count,
                message.max_timestamp,
                leader_epoch,
            )
            continue
        message.data[:8] = (log.end_offset + message.record_count - 1).to_bytes(8, "big")
        log.store(message.data, message.record_count, message.max_timestamp, leader_epoch)
