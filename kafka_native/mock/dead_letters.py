"""Dead-letter queues of share groups (KIP-1191): topics with the records that a group gave up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._native import records

if TYPE_CHECKING:
    from kafka_native.mock.topics import Partition, Topic

REJECTED = "Offset rejected by client."
LIMIT_REACHED = "Offset delivery count exceeded the threshold."
"""Kafka's reasons, in the header ``__dlq.errors.message``."""
PREFIX = "dlq."
"""The default of the brokers' errors.deadletterqueue.topic.name.prefix."""
_MAY_BE_QUEUE = "errors.deadletterqueue.group.enable"


def write(
    queue: Topic | None,
    source: Partition,
    offset: int,
    *,
    group_id: str,
    deliveries: int,
    reason: str,
    copies: bool,
    now_ms: int,
) -> None:
    """Write about a record to the group's queue.

    ``copies``: with the record's key and value. Nothing is written if the topic is missing, or if
    its name or its setting doesn't allow it to be a queue.
    """
    if queue is None or queue.config(_MAY_BE_QUEUE) != "true":
        return
    if not queue.name.startswith(PREFIX):
        return
    record = _record_at(source, offset) if copies else None
    headers = {
        "__dlq.errors.topic": source.topic,
        "__dlq.errors.partition": source.index,
        "__dlq.errors.offset": offset,
        "__dlq.errors.group": group_id,
        "__dlq.errors.delivery.count": deliveries,
        "__dlq.errors.message": reason,
    }
    letter = records.Record(
        timestamp=now_ms,
        key=None if record is None else record.key,
        value=None if record is None else record.value,
        headers=[(name, str(value).encode()) for name, value in headers.items()],
    )
    target = queue.partitions[source.index % len(queue.partitions)]
    data = records.encode_batch(
        [letter],
        base_offset=target.log.end_offset,
        partition_leader_epoch=target.leader_epoch,
    )
    target.log.store(memoryview(bytearray(data)), 1, now_ms, target.leader_epoch)
    target.wake()


def _record_at(source: Partition, offset: int) -> records.Record | None:
    slices, _ = source.log.read(offset, 1)
    for batch in records.decode_batches(b"".join(slices)):
        for record in batch.records:
            if record.offset == offset:
                return record
    return None
