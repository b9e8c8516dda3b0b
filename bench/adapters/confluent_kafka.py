"""The adapter of confluent_kafka."""

from __future__ import annotations

from functools import partial
from typing import Any

import confluent_kafka

from bench.adapters import (
    Figures,
    Task,
    consumer_api,
    import_time,
    producer_api,
    transactions,
)

# With its defaults the client pauses for a second when 100,000 messages of a partition are queued.
TUNING: dict[str, Any] = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 1}
AIO_MESSAGES = 30_000  # limit of aio_poll, where a message takes 0.1 ms and more

produce = partial(producer_api.produce, confluent_kafka)
callback = partial(producer_api.callback, confluent_kafka)
spread = partial(producer_api.spread, confluent_kafka)
consume = partial(consumer_api.consume, confluent_kafka, **TUNING)
group = partial(consumer_api.group, confluent_kafka, **TUNING)
poll = partial(consumer_api.poll, confluent_kafka, **TUNING)
# Its consumer has no iteration.
iterate = poll
memory = partial(consumer_api.memory, confluent_kafka, **TUNING)
latency = partial(producer_api.latency, confluent_kafka)
round_trip = partial(producer_api.round_trip, confluent_kafka)
call = partial(producer_api.call, confluent_kafka)
end_to_end = partial(consumer_api.end_to_end, confluent_kafka)
cold = partial(consumer_api.cold, confluent_kafka)
wide = partial(consumer_api.wide, confluent_kafka, **TUNING)
imports = partial(import_time.imports, "confluent_kafka", "Producer, Consumer")
transaction = partial(transactions.transaction, confluent_kafka)


def arrow(task: Task) -> Figures:
    """Make record batches of key, value and offset from messages."""
    import pyarrow

    schema = pyarrow.schema(
        [("key", pyarrow.binary()), ("value", pyarrow.binary()), ("offset", pyarrow.int64())]
    )

    def take(consumer: confluent_kafka.Consumer, task: Task, wanted: int) -> int:
        taken = 0
        while taken < wanted:
            messages = consumer.consume(
                min(consumer_api.STEP, wanted - taken), consumer_api.WAIT_S / 6
            )
            keys = [message.key() for message in messages]
            values = [message.value() for message in messages]
            offsets = [message.offset() for message in messages]
            taken += pyarrow.record_batch([keys, values, offsets], schema=schema).num_rows
            if not messages:
                raise RuntimeError(f"only {taken} of {wanted} messages came")
        return taken

    return consumer_api.timed(consumer_api.reader(confluent_kafka, task, **TUNING), task, take)


def aio_produce(task: Task) -> Figures:
    """See asyncio_api. Its import is here, because it takes a part of a short run."""
    from confluent_kafka import aio  # older releases don't have it

    from bench.adapters import asyncio_api

    return asyncio_api.aio_produce(aio, task)


def aio_poll(task: Task) -> Figures:
    """See asyncio_api."""
    from confluent_kafka import aio

    from bench.adapters import asyncio_api

    return asyncio_api.aio_poll(confluent_kafka, aio, task, AIO_MESSAGES, **TUNING)


def copy(task: Task) -> Figures:
    """See transactions."""
    return transactions.copy(confluent_kafka, task, transactions.one_by_one, **TUNING)
