"""Produces a table, row by row as messages, and hears of it once."""

from __future__ import annotations

import os

import pyarrow

from kafka_native import ArrowReport, Producer

COUNT = 100_000

table = pyarrow.table(
    {
        "city": [f"city {number % 10}" for number in range(COUNT)],
        "reading": [f"{number / 7:.3f}" for number in range(COUNT)],
    }
)


def on_delivery(report: ArrowReport) -> None:
    """Called from flush(), once: there is no callback a row."""
    print(f"{report.delivered} of {report.rows} rows delivered, {len(report.failed)} failed")


with Producer({"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}) as producer:
    queued = producer.produce_arrow("temperatures", table, key="city", value="reading", on_delivery=on_delivery)
    print(f"{queued} rows queued")

    # A column that isn't there, a value that can't be: the exception says where, and how many rows came before it.
    try:
        producer.produce_arrow("temperatures", table, value="readings")
    except ValueError as error:
        print(f"refused: {error}")
