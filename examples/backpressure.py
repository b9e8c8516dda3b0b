"""With max.block.ms, produce() of a fast producer waits when the queue is full."""

from __future__ import annotations

import os

from kafka_native import Producer

CONFIG = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
    "queue.buffering.max.messages": 1000,
    "max.block.ms": 30_000,
}


def main() -> None:
    """Produce a hundred times the size of the queue, without a check of its free room."""
    failed: list[object] = []
    with Producer(
        CONFIG, on_delivery=lambda error, message: failed.append(error) if error else None
    ) as producer:
        for number in range(100_000):
            # waits for room; BufferError after 30 s without room
            producer.produce("greetings", f"number {number}")
            if number % 1000 == 0:
                producer.poll(0)
        producer.flush(30)
    print(f"100000 messages through a queue of 1000, {len(failed)} failed")


if __name__ == "__main__":
    main()
