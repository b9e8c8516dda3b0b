"""Produces a table, row by row as messages, with one delivery report.

Needs `pip install 'kafka-native[arrow]'`.
"""

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
    """flush() calls this once; there is no callback per row."""
    print(f"{report.delivered} of {report.rows} rows delivered, {len(report.failed)} failed")


with Producer({"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}) as producer:
    queued = producer.produce_arrow(
        "temperatures", table, key="city", value="reading", on_delivery=on_delivery
    )
    print(f"{queued} rows queued")

    # For a missing column or impossible value, the exception has the place and the number of rows.
    try:
        producer.produce_arrow("temperatures", table, value="readings")
    except ValueError as error:
        print(f"refused: {error}")
