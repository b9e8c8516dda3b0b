"""The adapter of kafka_native."""

from __future__ import annotations

from itertools import cycle, islice

import kafka_native
from bench.adapters import (
    Figures,
    Stopwatch,
    Task,
    asyncio_api,
    consumer_api,
    producer_api,
    transactions,
)
from kafka_native import aio

ARROW_ROWS = 100_000


def produce(task: Task) -> Figures:
    """See producer_api."""
    return producer_api.produce(kafka_native, task)


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


def callback(task: Task) -> Figures:
    """See producer_api."""
    return producer_api.callback(kafka_native, task)


def spread(task: Task) -> Figures:
    """See producer_api."""
    return producer_api.spread(kafka_native, task)


def consume(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.consume(kafka_native, task)


def group(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.group(kafka_native, task)


def poll(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.poll(kafka_native, task)


def iterate(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.iterate(kafka_native, task)


def memory(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.memory(kafka_native, task)


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

    return consumer_api.timed(consumer_api.by_hand(kafka_native, task), task, take)


def latency(task: Task) -> Figures:
    """See producer_api."""
    return producer_api.latency(kafka_native, task)


def call(task: Task) -> Figures:
    """See producer_api."""
    return producer_api.call(kafka_native, task)


def end_to_end(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.end_to_end(kafka_native, task)


def cold(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.cold(kafka_native, task)


def wide(task: Task) -> Figures:
    """See consumer_api."""
    return consumer_api.wide(kafka_native, task)


def aio_produce(task: Task) -> Figures:
    """See asyncio_api."""
    return asyncio_api.aio_produce(aio, task)


def aio_poll(task: Task) -> Figures:
    """See asyncio_api."""
    return asyncio_api.aio_poll(kafka_native, aio, task)


def transaction(task: Task) -> Figures:
    """See transactions."""
    return transactions.transaction(kafka_native, task)


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
