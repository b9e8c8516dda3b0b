"""Threads that share one producer and one consumer, which another thread closes again and again.

    python -m tests.native.thread_stress 30

It runs against the mock cluster, prints what was counted as JSON, and fails if a message has no
report or two, or is consumed twice. On a free-threaded Python the threads really run at once.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from kafka_native import Consumer, KafkaException, Message, Producer, TopicPartition
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

PRODUCERS = 4
PARTITIONS = 2
GENERATION_S = 0.5
CLOSED = (RuntimeError, KafkaException, BufferError)
"""What a call may raise while another thread closes its client."""


class Generation:
    """One producer and one consumer of one topic, and the outcomes of their messages."""

    def __init__(self, cluster: MockCluster, number: int) -> None:
        topic = f"topic-{number}"
        cluster.create_topic(topic, PARTITIONS)
        base = {"bootstrap.servers": cluster.bootstrap_servers}
        self.topic = topic
        self.producer = Producer({**base, "linger.ms": 1, "message.timeout.ms": 60_000})
        self.consumer = Consumer({**base, "group.id": topic, "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        self.lock = threading.Lock()
        self.accepted = 0
        self.reports: Counter[bytes] = Counter()
        self.offsets: Counter[tuple[int | None, int | None]] = Counter()
        self.rows = 0  # records that were consumed as columns

    @property
    def consumed(self) -> int:
        """The number of consumed messages and rows."""
        return len(self.offsets) + self.rows

    def on_report(self, error: object, message: Message) -> None:
        """Count the report of a message."""
        value = message.value()
        assert isinstance(value, bytes)
        with self.lock:
            self.reports[value] += 1

    def close(self) -> None:
        """Close both clients while other threads use them."""
        self.consumer.close()
        self.producer.close(WAIT_S)

    def check(self) -> None:
        """Check the outcomes, after the last call of the other threads."""
        assert len(self.reports) == self.accepted, (len(self.reports), self.accepted)
        assert max(self.reports.values(), default=1) == 1, self.reports.most_common(3)
        assert max(self.offsets.values(), default=1) == 1, self.offsets.most_common(3)
        assert self.consumed <= self.accepted, (self.consumed, self.accepted)


class Stress:
    """The threads, and the generation that they use."""

    def __init__(self, cluster: MockCluster) -> None:
        self.cluster = cluster
        self.generation = Generation(cluster, 0)
        self.past: list[Generation] = []
        self.ends = False
        self.failures: list[BaseException] = []

    def repeat(self, step: Callable[[Generation, int], None]) -> Callable[[], None]:
        """Return a thread's function: it repeats a step until the end."""

        def run() -> None:
            number = 0
            while not self.ends:
                number += 1
                generation = self.generation
                try:
                    step(generation, number)
                except CLOSED:
                    time.sleep(0.001)
                except BaseException as error:
                    self.failures.append(error)
                    raise

        return run

    def produce(self, thread: int) -> Callable[[Generation, int], None]:
        """Return a step that produces a few messages."""

        def step(generation: Generation, number: int) -> None:
            for index in range(20):
                value = b"%d-%d-%d" % (thread, number, index)
                generation.producer.produce(
                    generation.topic,
                    value,
                    partition=thread % PARTITIONS,
                    on_delivery=generation.on_report,
                )
                with generation.lock:
                    generation.accepted += 1
            time.sleep(0.0005)

        return step

    def poll(self, generation: Generation, number: int) -> None:
        """Serve reports."""
        generation.producer.poll(0.01)
        if number % 50 == 0:
            generation.producer.flush(0.01)

    def consume(self, generation: Generation, number: int) -> None:
        """Take messages in each way."""
        consumer = generation.consumer
        if number % 3 == 0:
            messages = consumer.consume(50, 0.01)
        elif number % 3 == 1:
            messages = [message for message in [consumer.poll(0.01)] if message is not None]
        else:
            messages = []
            rows = len(consumer.consume_arrow(50, 0.01))
            with generation.lock:
                generation.rows += rows
        for message in messages:
            assert message.error() is None, message.error()
            with generation.lock:
                generation.offsets[message.partition(), message.offset()] += 1

    def close(self, _: Generation, number: int) -> None:
        """Replace the generation, and close it while the others use it."""
        time.sleep(GENERATION_S)
        old = self.generation
        self.past.append(old)
        self.generation = Generation(self.cluster, number)
        old.close()

    def run(self, seconds: float) -> dict[str, int]:
        """Run the threads, and return what they have counted."""
        steps = [
            *map(self.produce, range(PRODUCERS)),
            self.consume,
            self.consume,
            self.poll,
            self.close,
        ]
        threads = [threading.Thread(target=self.repeat(step)) for step in steps]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while not self.failures and time.monotonic() < deadline + WAIT_S:
            if time.monotonic() >= deadline and self.past and self.past[0].consumed:
                break  # a busy machine may need longer
            time.sleep(0.05)
        self.ends = True
        for thread in threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a thread hangs"
        self.generation.close()
        if self.failures:
            raise self.failures[0]
        every = [*self.past, self.generation]
        for generation in every:
            generation.check()
        return {
            "generations": len(every),
            "produced": sum(each.accepted for each in every),
            "consumed": sum(each.consumed for each in every),
        }


def main() -> None:
    """Run for the seconds of the first argument."""
    with MockCluster() as cluster:
        found = Stress(cluster).run(float(sys.argv[1]))
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(json.dumps({**found, "interpreter_lock": lock}))


if __name__ == "__main__":
    main()
