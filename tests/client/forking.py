"""A program that forks repeatedly while its threads use clients of all kinds, see `test_fork`.

Each child uses its copies of the parent's clients, and ends as programs do, with destructors and
atexit. A child that hangs prints its stacks and ends with status 1. A child whose calls do not fail
as documented raises an error.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import logging
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kafka_native import Consumer, KafkaException, Producer, ShareConsumer
from kafka_native.admin import AdminClient

HANG_S = 60.0
"""The timeout of a child."""
PARENT = "belongs to the parent"


class Program:
    """The parent's threads, and their clients."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.conf: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 20,
            "debug": "all",
            "logger": _logger(),
        }
        self.topic = topic
        small = {"queue.buffering.max.messages": 1000, "linger.ms": 1}
        self.producer = Producer({**self.conf, **small})
        group = {"group.id": "g", "auto.offset.reset": "earliest"}
        self.consumer = Consumer({**self.conf, **group})
        self.consumer.subscribe([topic])
        self.share = ShareConsumer({**self.conf, "group.id": "s"})
        self.admin = AdminClient(self.conf)
        self.kept: list[Any] = []  # messages, columns, futures: objects that outlive clients
        self.over = False
        self.threads = [
            threading.Thread(target=self._run, args=(work,), daemon=True)
            for work in (
                self.produce,
                self.poll,
                self.consume,
                self.columns,
                self.open_and_close,
                self.call_admin,
                self.log,
            )
        ]

    def _run(self, work: Callable[[], None]) -> None:
        while not self.over:
            with contextlib.suppress(BufferError, KafkaException):
                work()

    def produce(self) -> None:
        for _ in range(200):
            self.producer.produce(self.topic, b"x" * 100, on_delivery=_nothing)

    def poll(self) -> None:
        self.producer.poll(0.001)

    def consume(self) -> None:
        self.kept = self.consumer.consume(100, 0.01)
        self.consumer.commit(asynchronous=True)

    def columns(self) -> None:
        self.kept_columns = self.consumer.consume_arrow(1000, 0.01)

    def open_and_close(self) -> None:
        with Producer(self.conf) as producer:
            producer.produce(self.topic, b"y")
            self.kept_producer = producer
        consumer = Consumer({**self.conf, "group.id": "h"})
        consumer.subscribe([self.topic])
        consumer.poll(0.01)
        consumer.close()
        AdminClient(self.conf).close()

    def call_admin(self) -> None:
        self.admin.list_topics(timeout=5)
        self.kept_future: Future[Any] = self.admin.describe_cluster()
        self.kept_future.result(5)

    def log(self) -> None:
        logging.getLogger("app").warning("a line")
        time.sleep(0.001)

    def check_promises(self, rng: random.Random) -> None:
        """Check in a child that calls are refused and that closing works, in random order."""
        refused: list[Callable[[], object]] = [
            lambda: self.producer.produce(self.topic, b"child"),
            lambda: self.producer.produce("another", b"child"),
            lambda: self.producer.produce_many(self.topic, [b"child"]),
            lambda: self.producer.poll(0),
            lambda: self.producer.flush(0),
            lambda: self.producer.list_topics(),
            lambda: self.consumer.poll(0),
            lambda: self.consumer.consume(1, 0),
            lambda: self.consumer.consume_arrow(1, 0),
            lambda: self.consumer.commit(asynchronous=False),
            lambda: self.consumer.assignment(),
            lambda: self.consumer.metrics(),
            lambda: self.share.poll(0),
            lambda: self.admin.list_topics(),
            lambda: self.admin.describe_cluster(),
            lambda: self.admin.poll(0),
        ]
        ends = [
            self.producer.close, self.consumer.close, self.share.close, self.admin.close,
            lambda: len(self.producer), lambda: repr(self.consumer), gc.collect, self.kept.clear,
        ]  # fmt: skip
        calls = [(call, True) for call in refused] + [(call, False) for call in ends]
        rng.shuffle(calls)
        for call, is_refused in calls:
            try:
                call()
            except RuntimeError as error:
                if PARENT not in str(error):
                    raise
            else:
                if is_refused:
                    raise AssertionError(f"call {refused.index(call)} of a child returned")


def _nothing(error: object, message: object) -> None:
    """A delivery report."""


def _logger() -> logging.Logger:
    """Return a logger that writes to stderr, as programs do."""
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    return logging.getLogger("kafka")


def child(program: Program, seed: int, own: bool) -> None:
    faulthandler.dump_traceback_later(HANG_S, exit=True, file=sys.__stdout__)
    rng = random.Random(seed)
    if rng.random() < 0.5:
        program.check_promises(rng)
    if own:  # the child can create a client
        with Producer(program.conf) as producer:
            producer.produce(program.topic, b"z", on_delivery=_nothing)
            if producer.flush(HANG_S / 2):
                raise AssertionError("not delivered")
    logging.getLogger("app").warning("a child's line")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--forks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    # Python 3.12 and later warn of a fork in a process with threads
    warnings.simplefilter("ignore", DeprecationWarning)
    rng = random.Random(options.seed)
    program = Program(options.bootstrap, options.topic)
    for thread in program.threads:
        thread.start()
    failed = 0
    for number in range(options.forks):
        time.sleep(rng.random() * 0.02)
        seed, own = rng.randrange(1 << 30), number % 10 == 0
        pid = os.fork()
        if pid == 0:
            child(program, seed, own)
            sys.exit(0)
        if status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            print(f"child {number} ended with {status}", flush=True)
            failed += 1
    program.over = True
    for thread in program.threads:
        thread.join()
    print(f"{failed} of {options.forks} failed")
    sys.exit(min(failed, 1))


if __name__ == "__main__":
    main()
