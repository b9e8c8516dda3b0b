"""A share group in columns: a filter of pyarrow decides about each record.

Needs `pip install 'kafka-native[arrow]'`.
"""

from __future__ import annotations

import os

import pyarrow
import pyarrow.compute

from kafka_native import AcknowledgeType, Producer, ShareConsumer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
COUNT = 10_000
CONF = {
    "bootstrap.servers": BOOTSTRAP,
    "group.id": "example-columns",
    "share.acknowledgement.mode": "explicit",
}


def process(consumer: ShareConsumer) -> tuple[float, int, int]:
    """Take one batch: accept temperatures, reject other values.

    Returns the sum of the temperatures, their number, and the number of all records.
    """
    batch = consumer.consume_arrow(0.2, columns={"value": "string"})
    if not len(batch):
        return 0.0, 0, 0
    values = pyarrow.record_batch(batch)["value"]
    is_number = pyarrow.compute.match_substring_regex(values, r"^-?\d+(\.\d+)?$")
    numbers = pyarrow.compute.cast(values.filter(is_number), pyarrow.float64())
    consumer.acknowledge_arrow(batch, AcknowledgeType.REJECT)
    consumer.acknowledge_arrow(batch, AcknowledgeType.ACCEPT, mask=is_number)
    return pyarrow.compute.sum(numbers).as_py() or 0.0, len(numbers), len(values)


def main() -> None:
    """Produce temperatures, some of them unreadable, and sum them up in a share group."""
    total, accepted, seen = 0.0, 0, 0
    with ShareConsumer(CONF) as consumer, Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        consumer.subscribe(["temperatures"])
        # A new share group begins at a topic's end. The first record shows that it exists.
        while not seen:
            producer.produce("temperatures", "not a number")
            producer.flush()
            seen += process(consumer)[2]
        producer.produce_many(
            "temperatures", [str(each % 40) if each % 100 else "broken" for each in range(COUNT)]
        )
        producer.flush()
        while accepted < COUNT - COUNT // 100:
            more, good, _ = process(consumer)
            total, accepted = total + more, accepted + good
        print("errors:", [each for each in consumer.commit_sync().values() if each])
    print(f"{accepted} temperatures, sum {total:.0f}")


main()
