"""The log of one partition: its raw record batches in order, with an index.

Batches stay the bytes that the producer sent. Only their base offset and leader epoch are
overwritten, in place. Records are decoded only for look-ups by time. The caller holds the cluster's
lock in every method. ``check_batches()`` needs no lock, and does the expensive part of an append.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native._native import primitives, records
from kafka_native._reference.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

# The checksum of a batch starts after base offset, length, leader epoch, magic and checksum.
_CRC_START = 21
_ZSTD = 4
_CODECS = 5
_REMEMBERED_BATCHES = 5
_SEQUENCE_MASK = 0x7FFFFFFF
_MARKER_KEY = struct.Struct(">hh")  # version, 1 for a commit
_MARKER_VALUE = struct.Struct(">hi")  # version, the coordinator's epoch
# A batch below this size is cheaper to copy than to pass to the kernel as its own slice.
_SMALL_BYTES = 4096
_SLICES_MAX = 256


class Refused(Exception):
    """A failed request, with an error code and a text for the client."""

    def __init__(self, code: ErrorCode, text: str, bad_records: Sequence[int] = ()) -> None:
        """Store the error.

        ``bad_records`` are the indexes of the invalid records in the batch (KIP-467).
        """
        super().__init__(text)
        self.code = code
        self.text = text
        self.bad_records = bad_records


class Batch:
    """One stored batch, or a whole legacy message set that a test appended."""

    __slots__ = ("base_offset", "data", "last_offset", "leader_epoch", "max_timestamp")

    def __init__(
        self,
        data: memoryview,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
    ) -> None:
        """Store the bytes and the fields of their header."""
        self.data = data
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.leader_epoch = leader_epoch


def check_batches(data: memoryview, *, version: int, max_bytes: int) -> records.BatchHeader:
    """Check that a Produce request has exactly one intact batch of magic 2 for a partition.

    Raises ``Refused`` with the error code that Apache Kafka returns.
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
    if primitives.crc32c(data[_CRC_START:]) != header.crc:
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
        raise Refused(ErrorCode.INVALID_RECORD, "clients must not write control batches")
    return header


class Appended(NamedTuple):
    """The base offset of a batch. ``is_new`` is False for a batch that was stored before."""

    base_offset: int
    is_new: bool


class _Written(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


class Aborted(NamedTuple):
    """An aborted transaction of a producer, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class ProducerState(NamedTuple):
    """The state of one producer id. Unknown fields are -1."""

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
    """The batches of one partition and its watermarks. An append is committed at once."""

    def __init__(self) -> None:
        """Make an empty log that begins at offset 0."""
        self.start_offset = 0
        self.end_offset = 0
        self.size_bytes = 0
        self.epochs: list[tuple[int, int]] = []  # (leader epoch, its first offset)
        self._batches: list[Batch] = []
        self._bases: list[int] = []
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}  # the first offset of each producer's open transaction
        self._aborted: list[Aborted] = []
        self.rejects_unknown_producers = False

    # --- files ---

    def saved(self) -> tuple[dict[str, Any], list[memoryview]]:
        """Return the state for a file, and the bytes of the batches in their order."""
        state = {
            "start": self.start_offset,
            "end": self.end_offset,
            "epochs": self.epochs,
            "batches": [
                [
                    len(each.data),
                    each.base_offset,
                    each.last_offset,
                    each.max_timestamp,
                    each.leader_epoch,
                ]
                for each in self._batches
            ],
            "producers": [
                [
                    number,
                    each.epoch,
                    each.coordinator_epoch,
                    each.last_timestamp,
                    list(each.batches),
                ]
                for number, each in self._producers.items()
            ],
            "open": list(self._open.items()),
            "aborted": self._aborted,
            "rejects_unknown_producers": self.rejects_unknown_producers,
        }
        return state, [each.data for each in self._batches]

    def restore(self, saved: dict[str, Any], data: memoryview) -> int:
        """Take over the state from a file, and return how many bytes of ``data`` belong to it.

        Raises ``ValueError`` if ``data`` has fewer.
        """
        self.start_offset, self.end_offset = saved["start"], saved["end"]
        self.epochs = [(epoch, start) for epoch, start in saved["epochs"]]
        position = 0
        for size, base, last, timestamp, epoch in saved["batches"]:
            # A copy, because the cluster changes stored batches in place.
            piece = memoryview(bytearray(data[position : position + size]))
            if len(piece) != size:
                raise ValueError("records are missing")
            self._batches.append(Batch(piece, base, last, timestamp, epoch))
            self._bases.append(base)
            position += size
        self.size_bytes = position
        for number, epoch, coordinator_epoch, timestamp, written in saved["producers"]:
            producer = self._producers[number] = _Producer(epoch, coordinator_epoch, timestamp)
            producer.batches.extend(_Written(*each) for each in written)
        self._open = dict(saved["open"])
        self._aborted = [Aborted(*each) for each in saved["aborted"]]
        self.rejects_unknown_producers = saved["rejects_unknown_producers"]
        return position

    # --- writing ---

    def append(
        self,
        data: memoryview,
        header: records.BatchHeader,
        leader_epoch: int,
        append_time: int | None,
    ) -> Appended:
        """Store a checked batch. Raises ``Refused``.

        A batch with a sequence that is already stored is not stored again.
        """
        producer = None
        if header.producer_id >= 0:
            producer = self._producers.get(header.producer_id)
            known = None if producer is None else self._check_sequence(producer, header)
            if known is not None:
                return Appended(known, False)
            if producer is None and self.rejects_unknown_producers and header.base_sequence != 0:
                raise Refused(
                    ErrorCode.UNKNOWN_PRODUCER_ID,
                    f"unknown producer {header.producer_id}",
                )
            if producer is None or producer.epoch != header.producer_epoch:
                coordinator_epoch = -1 if producer is None else producer.coordinator_epoch
                producer = self._producers[header.producer_id] = _Producer(
                    header.producer_epoch, coordinator_epoch
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
        """Append bytes as this many records, without a check."""
        base = self.end_offset
        self.begin_epoch(leader_epoch)
        self._batches.append(
            Batch(data, base, base + record_count - 1, max_timestamp, leader_epoch)
        )
        self._bases.append(base)
        self.end_offset = base + record_count
        self.size_bytes += len(data)

    def end_transaction(
        self, producer_id: int, epoch: int, timestamp: int, leader_epoch: int, *, commit: bool
    ) -> int:
        """Write a producer's transaction marker, and return its size in bytes.

        It fences older epochs.
        """
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
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None and not commit:
            self._aborted.append(Aborted(producer_id, first_offset, self.end_offset))
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = self._producers[producer_id] = _Producer(epoch)
        # The mock cluster has one coordinator epoch, 0.
        producer.coordinator_epoch, producer.last_timestamp = (
            0,
            timestamp,
        )
        self.store(memoryview(bytearray(marker)), 1, timestamp, leader_epoch)
        return len(marker)

    def producers(self) -> list[ProducerState]:
        """Return the state of each producer id."""
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
        """Return whether a marker of this epoch is allowed. A fenced producer's marker is not."""
        known = self._producers.get(producer_id)
        return known is None or epoch >= known.epoch

    def forget_producers(self, *, refuse: bool) -> None:
        """Forget all producer ids, as if their last batches had expired.

        From then on the log accepts a first batch with any sequence, as Apache Kafka does since
        2.5. With ``refuse`` it accepts only sequence 0, as older versions do.
        """
        self._producers.clear()
        self.rejects_unknown_producers = refuse

    def forget_earlier_batches(self) -> None:
        """Forget all but the last batch of each producer, as a restart of the broker does.

        An earlier batch that is sent again is then out of order, and no duplicate.
        """
        for producer in self._producers.values():
            while len(producer.batches) > 1:
                producer.batches.popleft()

    @staticmethod
    def _check_sequence(producer: _Producer, header: records.BatchHeader) -> int | None:
        """Return the offset of a batch that was stored before, or None for the next sequence."""
        if header.producer_epoch < producer.epoch:
            raise Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH, f"the producer's epoch is {producer.epoch} now"
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
        """Delete the first batch, and return its size in bytes."""
        batch = self._batches[0]
        del self._batches[0]
        del self._bases[0]
        self.start_offset = max(self.start_offset, batch.last_offset + 1)
        self.size_bytes -= len(batch.data)
        return len(batch.data)

    def truncate_before(self, offset: int) -> int:
        """Move the start of the log to this offset, and return the number of freed bytes.

        Only batches that end before the offset are freed.
        """
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))
        freed = 0
        while self._batches and self._batches[0].last_offset < self.start_offset:
            freed += self.drop_oldest()
        return freed

    def begin_epoch(self, epoch: int) -> None:
        """Note that a leader epoch begins at the end of the log, unless it has begun.

        As in Kafka, the leader notes it before its first record. So a log that was truncated to
        nothing still knows that older epochs ended at its start. An epoch without records is
        replaced by the next one.
        """
        if self.epochs and self.epochs[-1][0] == epoch:
            return
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            self.epochs.pop()
        self.epochs.append((epoch, self.end_offset))

    def truncate_from(self, offset: int) -> None:
        """Delete the records from this offset on, and the batch that it is in.

        The log also forgets the producers that wrote only these records.
        """
        while self._batches and self._batches[-1].last_offset >= offset:
            self.size_bytes -= len(self._batches.pop().data)
            offset = min(offset, self._bases.pop())
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)  # it was within the first batch
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        self._open = {number: first for number, first in self._open.items() if first < offset}
        self._aborted = [each for each in self._aborted if each.last_offset < offset]
        for number, producer in list(self._producers.items()):
            while producer.batches and producer.batches[-1].base_offset >= offset:
                producer.batches.pop()
            if not producer.batches:
                del self._producers[number]

    def move_end(self, offset: int) -> None:
        """Move the end of the log to this offset, as if records before it had been deleted."""
        self.end_offset = max(self.end_offset, offset)

    # --- reading ---

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, or the end of the log."""
        return min(self._open.values(), default=self.end_offset)

    def aborted_transactions(self, first: int, end: int) -> list[Aborted]:
        """Return the aborted transactions with records between these offsets."""
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
        """Return the batches from ``offset`` on as slices, and their total size.

        The first batch is whole even if it is larger than ``max_bytes``, unless ``at_least_one`` is
        False. ``cut`` adds the beginning of the batch that doesn't fit, as a broker does that reads
        from a file. Batches that end after ``end`` are omitted.
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
        """Return copies of all stored batches."""
        return [bytes(batch.data) for batch in self._batches]

    def batch_count(self) -> int:
        """Return the number of stored batches."""
        return len(self._batches)

    def _index_of(self, offset: int) -> int:
        """Return the index of the first batch whose last offset isn't below ``offset``."""
        index = max(bisect_right(self._bases, offset) - 1, 0)
        while index < len(self._batches) and self._batches[index].last_offset < offset:
            index += 1
        return index

    # --- look-ups ---

    def first_offset_since(self, timestamp: int) -> int:
        """Return the offset after the first batches that are older than a timestamp.

        A batch without a timestamp isn't old.
        """
        for batch in self._batches:
            if not 0 <= batch.max_timestamp < timestamp:
                return max(batch.base_offset, self.start_offset)
        return self.end_offset if self._batches else self.start_offset

    def offset_of_time(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return offset, timestamp and leader epoch of the first record that is not older."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp:
                for record in self._records_of(batch):
                    if record.timestamp >= timestamp and record.offset >= self.start_offset:
                        return record.offset, record.timestamp, batch.leader_epoch
        return None

    def offset_of_max_time(self) -> tuple[int, int, int] | None:
        """Return offset, timestamp and leader epoch of the record with the largest timestamp.

        Among equal timestamps it is the first record.
        """
        if not self._batches:
            return None
        batch = max(self._batches, key=lambda one: one.max_timestamp)
        for record in self._records_of(batch):
            if record.timestamp == batch.max_timestamp:
                return record.offset, record.timestamp, batch.leader_epoch
        return batch.last_offset, batch.max_timestamp, batch.leader_epoch

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at an offset, or -1 in an empty log."""
        found = -1
        for epoch, start in self.epochs:
            if start > offset:
                break
            found = epoch
        return found

    def end_of_epoch(self, epoch: int, current_epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to the requested one, and the offset at which it ended."""
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
            return []  # unreadable bytes that a test appended have no timestamps
