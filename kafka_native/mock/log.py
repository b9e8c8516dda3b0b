"""The log of one partition: raw record batches, in order, with what is needed to find one.

Batches stay the bytes that the producer sent; only their base offset and leader epoch are rewritten, in place. Records
are decoded for look-ups by time and for nothing else. Every method is called under the cluster's lock, except
``check_batches``, which does the expensive part of an append without it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import crc32c

from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

# What the checksum of a batch covers begins behind base offset, length, leader epoch, magic and the checksum itself.
_CRC_START = 21
_ZSTD = 4
_CODECS = 5
_REMEMBERED_BATCHES = 5
_SEQUENCE_MASK = 0x7FFFFFFF
_MARKER_KEY = struct.Struct(">hh")  # version, 1 for a commit
_MARKER_VALUE = struct.Struct(">hi")  # version, the coordinator's epoch
# Below this a batch is cheaper to copy than to pass to the kernel as a slice of its own.
_SMALL_BYTES = 4096
_SLICES_MAX = 256


class Refused(Exception):
    """An append that the log refuses: an error code for the client and a text."""

    def __init__(self, code: ErrorCode, text: str, bad_records: Sequence[int] = ()) -> None:
        """Keep all; ``bad_records`` are the places in the batch of those that are the reason (KIP-467)."""
        super().__init__(text)
        self.code = code
        self.text = text
        self.bad_records = bad_records


class Batch:
    """One stored batch, or a whole legacy message set planted by a test."""

    __slots__ = ("base_offset", "data", "last_offset", "leader_epoch", "max_timestamp")

    def __init__(
        self,
        data: memoryview,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
    ) -> None:
        """Keep the bytes and what their header says."""
        self.data = data
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.leader_epoch = leader_epoch


def check_batches(data: memoryview, *, version: int, max_bytes: int) -> records.BatchHeader:
    """Verify what a Produce request carries for one partition: exactly one intact batch of magic 2.

    Raises ``Refused`` with the code that Apache Kafka answers.
    """
    try:
        headers = records.batch_headers(data)
    except records.RecordError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if len(headers) != 1 or headers[0].magic != 2 or headers[0].size_bytes != len(data):
        raise Refused(
            ErrorCode.INVALID_RECORD, "a partition of a Produce request carries exactly one batch"
        )
    header = headers[0]
    if header.size_bytes > max_bytes:
        text = f"the batch has {header.size_bytes} bytes, at most {max_bytes} are allowed"
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, text)
    if crc32c.crc32c(data[_CRC_START:]) != header.crc:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    if (
        header.record_count < 1
        or header.last_offset - header.base_offset + 1 != header.record_count
    ):
        raise Refused(
            ErrorCode.INVALID_RECORD, "record count and last offset of the batch don't agree"
        )
    codec = header.attributes & 7
    if codec >= _CODECS or (codec == _ZSTD and version < 7):
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} in Produce version {version}"
        )
    if header.is_control:
        raise Refused(ErrorCode.INVALID_RECORD, "clients don't write control batches")
    return header


class Appended(NamedTuple):
    """Where a batch landed; ``is_new`` is False for a batch that was there already."""

    base_offset: int
    is_new: bool


class _Written(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


class Aborted(NamedTuple):
    """Where records of a producer are void: from its first record in the transaction to the marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class ProducerState(NamedTuple):
    """What is told of one producer id: -1 for what isn't there."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int


class _Producer:
    """The sequence numbers of one producer id in one partition."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp")

    def __init__(self, epoch: int, coordinator_epoch: int = -1, last_timestamp: int = -1) -> None:
        self.epoch = epoch
        self.batches: deque[_Written] = deque(maxlen=_REMEMBERED_BATCHES)
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp


class PartitionLog:
    """The batches of one partition and its watermarks. What is appended is committed at once."""

    def __init__(self) -> None:
        """Make an empty log that begins at offset 0."""
        self.start_offset = 0
        self.end_offset = 0
        self.size_bytes = 0
        self.epochs: list[tuple[int, int]] = []  # (leader epoch, the offset it began with)
        self._batches: list[Batch] = []
        self._bases: list[int] = []
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}  # where the open transactions of producers begin
        self._aborted: list[Aborted] = []
        self.refuses_strangers = False

    # --- writing ---

    def append(
        self,
        data: memoryview,
        header: records.BatchHeader,
        leader_epoch: int,
        append_time: int | None,
    ) -> Appended:
        """Store a checked batch; a batch of a sequence already stored is only found again. Raises ``Refused``."""
        producer = None
        if header.producer_id >= 0:
            producer = self._producers.get(header.producer_id)
            known = None if producer is None else self._check_sequence(producer, header)
            if known is not None:
                return Appended(known, False)
            if producer is None and self.refuses_strangers and header.base_sequence != 0:
                raise Refused(
                    ErrorCode.UNKNOWN_PRODUCER_ID,
                    f"nothing is known of producer {header.producer_id}",
                )
            if producer is None or producer.epoch != header.producer_epoch:
                marked = -1 if producer is None else producer.coordinator_epoch
                producer = self._producers[header.producer_id] = _Producer(
                    header.producer_epoch, marked
                )
        base = self.end_offset
        records.set_base_offset(data, base, leader_epoch)
        max_timestamp = header.max_timestamp
        if append_time is not None:
            records.set_log_append_time(data, append_time)
            max_timestamp = append_time
        if producer is not None:
            last = (header.base_sequence + header.record_count - 1) & _SEQUENCE_MASK
            producer.batches.append(_Written(header.base_sequence, last, base))
            producer.last_timestamp = max_timestamp
            if header.is_transactional:
                self._open.setdefault(header.producer_id, base)
        self.store(data, header.record_count, max_timestamp, leader_epoch)
        return Appended(base, True)

    def store(
        self, data: memoryview, record_count: int, max_timestamp: int, leader_epoch: int
    ) -> None:
        """Put bytes at the end that stand for so many offsets, without a look at them."""
        base = self.end_offset
        if not self.epochs or self.epochs[-1][0] != leader_epoch:
            self.epochs.append((leader_epoch, base))
        self._batches.append(
            Batch(data, base, base + record_count - 1, max_timestamp, leader_epoch)
        )
        self._bases.append(base)
        self.end_offset = base + record_count
        self.size_bytes += len(data)

    def end_transaction(
        self, producer_id: int, epoch: int, timestamp: int, leader_epoch: int, *, commit: bool
    ) -> int:
        """Write the marker of a producer, whose older epochs are over with it; its size in bytes."""
        key, value = _MARKER_KEY.pack(0, commit), _MARKER_VALUE.pack(0, 0)
        marker = records.encode_batch(
            [(timestamp, key, value)],
            base_offset=self.end_offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=True,
            control=True,
            partition_leader_epoch=leader_epoch,
        )
        began = self._open.pop(producer_id, None)
        if began is not None and not commit:
            self._aborted.append(Aborted(producer_id, began, self.end_offset))
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = self._producers[producer_id] = _Producer(epoch)
        producer.coordinator_epoch, producer.last_timestamp = (
            0,
            timestamp,
        )  # there is one coordinator, the first
        self.store(memoryview(bytearray(marker)), 1, timestamp, leader_epoch)
        return len(marker)

    def producers(self) -> list[ProducerState]:
        """Who has written with a producer id."""
        return [
            ProducerState(
                number,
                each.epoch,
                each.batches[-1].last_sequence if each.batches else -1,
                each.last_timestamp,
                each.coordinator_epoch,
                self._open.get(number, -1),
            )
            for number, each in self._producers.items()
        ]

    def may_end(self, producer_id: int, epoch: int) -> bool:
        """Whether a marker of this epoch isn't one of a producer that is fenced by now."""
        known = self._producers.get(producer_id)
        return known is None or epoch >= known.epoch

    def forget_producers(self, *, refuse: bool) -> None:
        """Lose what is known of all producer ids, as when their last batch has expired.

        From then on a batch of an unknown producer that doesn't begin at sequence 0 is taken as the beginning, as
        Apache Kafka has done since 2.5, or refused, as it did before.
        """
        self._producers.clear()
        self.refuses_strangers = refuse

    @staticmethod
    def _check_sequence(producer: _Producer, header: records.BatchHeader) -> int | None:
        """The offset of a batch that was stored before, None for the next one in sequence."""
        if header.producer_epoch < producer.epoch:
            raise Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH, f"the producer's epoch is {producer.epoch} by now"
            )
        first = header.base_sequence
        if header.producer_epoch > producer.epoch:
            if first != 0:
                raise Refused(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"a new epoch began with sequence {first}",
                )
            return None
        last = (first + header.record_count - 1) & _SEQUENCE_MASK
        for written in producer.batches:
            if (written.first_sequence, written.last_sequence) == (first, last):
                return written.base_offset
        if producer.batches:
            expected = (producer.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
            if first != expected:
                raise Refused(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {first} came, not {expected}"
                )
        return None

    def drop_oldest(self) -> int:
        """Forget the first batch; the number of bytes that it had."""
        batch = self._batches[0]
        del self._batches[0]
        del self._bases[0]
        self.start_offset = max(self.start_offset, batch.last_offset + 1)
        self.size_bytes -= len(batch.data)
        return len(batch.data)

    def truncate_before(self, offset: int) -> int:
        """Let the log begin at this offset; the number of bytes in batches wholly before it, which are freed."""
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))
        freed = 0
        while self._batches and self._batches[0].last_offset < self.start_offset:
            freed += self.drop_oldest()
        return freed

    def truncate_from(self, offset: int) -> None:
        """Lose what is at this offset and behind it, and what is known of the producers that wrote it."""
        while self._batches and self._batches[-1].last_offset >= offset:
            self.size_bytes -= len(self._batches.pop().data)
            self._bases.pop()
        self.end_offset = offset
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        self._open = {number: first for number, first in self._open.items() if first < offset}
        self._aborted = [each for each in self._aborted if each.last_offset < offset]
        for number, producer in list(self._producers.items()):
            while producer.batches and producer.batches[-1].base_offset >= offset:
                producer.batches.pop()
            if not producer.batches:
                del self._producers[number]

    def reach(self, offset: int) -> None:
        """Let the log end at this offset if it ends before, as if there had been records that are gone."""
        self.end_offset = max(self.end_offset, offset)

    # --- reading ---

    @property
    def last_stable_offset(self) -> int:
        """Where the first open transaction begins, or the end."""
        return min(self._open.values(), default=self.end_offset)

    def aborted(self, first: int, end: int) -> list[Aborted]:
        """The aborted transactions that have records between these offsets, as far as they are in the log still."""
        return [
            each for each in self._aborted if each.first_offset < end and each.last_offset >= first
        ]

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        cut: bool = False,
        end: int | None = None,
    ) -> tuple[list[memoryview], int]:
        """Batches from the one that holds ``offset`` on, as slices, and their total size.

        The first one comes whole even if it is larger than ``max_bytes``, unless ``at_least_one`` is False. ``cut``
        adds the beginning of the batch that doesn't fit, as a broker does that reads from a file; batches that end
        behind ``end`` are left out.
        """
        slices: list[memoryview] = []
        taken = 0
        for index in range(self._index_of(offset), len(self._batches)):
            data = self._batches[index].data
            if end is not None and self._batches[index].last_offset >= end:
                break
            if taken + len(data) > max_bytes and not (at_least_one and not slices):
                if cut and slices and max_bytes > taken:
                    slices.append(data[: max_bytes - taken])
                    taken = max_bytes
                break
            slices.append(data)
            taken += len(data)
        if len(slices) > _SLICES_MAX or (len(slices) > 8 and taken < _SMALL_BYTES * len(slices)):
            slices = [memoryview(b"".join(slices))]
        return slices, taken

    def batches(self) -> list[bytes]:
        """Copies of all stored batches."""
        return [bytes(batch.data) for batch in self._batches]

    def batch_count(self) -> int:
        """How many batches are stored."""
        return len(self._batches)

    def _index_of(self, offset: int) -> int:
        """The first batch whose last offset isn't below ``offset``."""
        index = max(bisect_right(self._bases, offset) - 1, 0)
        while index < len(self._batches) and self._batches[index].last_offset < offset:
            index += 1
        return index

    # --- looking up ---

    def offset_of_time(self, timestamp: int) -> tuple[int, int, int] | None:
        """Offset, timestamp and leader epoch of the first record that is not older."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp:
                for record in self._records_of(batch):
                    if record.timestamp >= timestamp and record.offset >= self.start_offset:
                        return record.offset, record.timestamp, batch.leader_epoch
        return None

    def offset_of_max_time(self) -> tuple[int, int, int] | None:
        """Offset, timestamp and leader epoch of the (first) record with the largest timestamp."""
        if not self._batches:
            return None
        batch = max(self._batches, key=lambda one: one.max_timestamp)
        for record in self._records_of(batch):
            if record.timestamp == batch.max_timestamp:
                return record.offset, record.timestamp, batch.leader_epoch
        return batch.last_offset, batch.max_timestamp, batch.leader_epoch

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at an offset, -1 in an empty log."""
        found = -1
        for epoch, start in self.epochs:
            if start > offset:
                break
            found = epoch
        return found

    def end_of_epoch(self, epoch: int, current_epoch: int) -> tuple[int, int]:
        """The largest epoch that is not larger than the one asked for, and the offset at which it ended."""
        if epoch == current_epoch:
            return epoch, self.end_offset
        known = [entry[0] for entry in self.epochs]
        index = bisect_left(known, epoch + 1)
        if index == 0:
            return (-1, -1) if epoch > current_epoch or not known else (epoch, self.epochs[0][1])
        end = self.epochs[index][1] if index < len(known) else self.end_offset
        return known[index - 1], end

    @staticmethod
    def _records_of(batch: Batch) -> list[records.Record]:
        try:
            return [
                record
                for decoded in records.decode_batches(batch.data)
                for record in decoded.records
            ]
        except records.RecordError:
            return []  # bytes that a test planted: nothing in there has a time
