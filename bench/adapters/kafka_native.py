"""The adapter of kafka_native."""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice

import kafka_native
from bench.adapters import (
    Figures,
    Stopwatch,
    Task,
    consumer_api,
    import_time,
    producer_api,
    transactions,
)

ARROW_ROWS = 100_000

produce = partial(producer_api.produce, kafka_native)
callback = partial(producer_api.callback, kafka_native)
spread = partial(producer_api.spread, kafka_native)
consume = partial(consumer_api.consume, kafka_native)
group = partial(consumer_api.group, kafka_native)
poll = partial(consumer_api.poll, kafka_native)
iterate = partial(consumer_api.iterate, kafka_native)
memory = partial(consumer_api.memory, kafka_native)
latency = partial(producer_api.latency, kafka_native)
round_trip = partial(producer_api.round_trip, kafka_native)
call = partial(producer_api.call, kafka_native)
end_to_end = partial(consumer_api.end_to_end, kafka_native)
cold = partial(consumer_api.cold, kafka_native)
wide = partial(consumer_api.wide, kafka_native)
imports = partial(import_time.imports, "kafka_native", "Producer, Consumer")
transaction = partial(transactions.transaction, kafka_native)


def aio_produce(task: Task) -> Figures:
    """See asyncio_api. Its import is here, because it takes a part of a short run."""
    from bench.adapters import asyncio_api
    from kafka_native import aio

    return asyncio_api.aio_produce(aio, task)


def aio_poll(task: Task) -> Figures:
    """See asyncio_api."""
    from bench.adapters import asyncio_api
    from kafka_native import aio

    return asyncio_api.aio_poll(kafka_native, aio, task)


def many(task: Task) -> Figures:
    """Uses produce_many() with 10,000 values in each call, until all are acknowledged."""
    producer = kafka_native.Producer(task.config)
    values = list(islice(cycle(task.values()), producer_api.STEP))
    producer.list_topics(task.topic, 30)
    producer.produce(task.topic, values[0])
    producer.flush(producer_api.FLUSH_TIMEOUT_S)
    count = task.count - 1
    done = 0
    watch = Stopwatch()
    while done < count:
        step = values if count - done >= len(values) else values[: count - done]
        try:
            done += producer.produce_many(task.topic, step)
        except BufferError:
            producer.poll(0.01)
    left = producer.flush(producer_api.FLUSH_TIMEOUT_S)
    figures = watch.figures(count)
    if left:
        raise RuntimeError(f"{left} messages were not delivered")
    return figures


def produce_arrow(task: Task) -> Figures:
    """Produces tables of 100,000 rows, with a report for each, until all rows are acknowledged."""
    import pyarrow

    reports: list[kafka_native.ArrowReport] = []
    producer = kafka_native.Producer(task.config)
    table = pyarrow.table({"value": list(islice(cycle(task.values()), ARROW_ROWS))})
    producer.list_topics(task.topic, 30)
    producer.produce(task.topic, b"first")
    producer.flush(producer_api.FLUSH_TIMEOUT_S)
    count = task.count - 1
    done = 0
    watch = Stopwatch()
    while done < count:
        done += producer.produce_arrow(
            task.topic, table.slice(0, count - done), on_delivery=reports.append
        )
        producer.poll(0)
    left = producer.flush(producer_api.FLUSH_TIMEOUT_S)
    figures = watch.figures(count)
    if left or sum(report.delivered for report in reports) != count:
        raise RuntimeError("not everything was delivered")
    return figures


def arrow(task: Task) -> Figures:
    """Uses consume_arrow() with key, value and offset, as pyarrow's record batches."""
    import pyarrow

    def take(consumer: kafka_native.Consumer, task: Task, wanted: int) -> int:
        taken = 0
        while taken < wanted:
            batch = consumer.consume_arrow(
                min(consumer_api.ROWS, wanted - taken),
                consumer_api.WAIT_S / 6,
                columns=["key", "value", "offset"],
            )
            taken += pyarrow.record_batch(batch).num_rows
            if not len(batch):
                raise RuntimeError(f"only {taken} of {wanted} messages came")
        return taken

    return consumer_api.timed(consumer_api.reader(kafka_native, task), task, take)


def copy(task: Task) -> Figures:
    """Moves Arrow columns as they arrive."""

    def transfer(
        consumer: kafka_native.Consumer, producer: kafka_native.Producer, target: str, wanted: int
    ) -> int:
        batch = consumer.consume_arrow(
            min(ARROW_ROWS, wanted), transactions.WAIT_S, columns=["value"]
        )
        count = len(batch)
        if count:
            producer.produce_arrow(target, batch)
        return count

    return transactions.copy(kafka_native, task, transfer)
