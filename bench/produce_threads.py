"""Threads that call produce() of one producer, against one thread that does.

    python -m bench.produce_threads [CALLS] [ROUNDS] [--locks]

Each line has the sum of calls per second over all threads, and the processor time of a call. They
differ if threads wait for each other, or for a processor. The messages go nowhere: the producer
keeps them until it is purged.
"""

from __future__ import annotations

import logging
import os
import statistics
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import click

from kafka_native import KafkaError, Message, Producer
from kafka_native.mock import MockCluster

PARTITIONS = 4
VALUE_BYTES = 100
LINGER_MS = 600_000
THREAD_COUNTS = (1, 2, 4)


class Result(NamedTuple):
    """The figures of one round."""

    calls_per_s: float
    cpu_ns: float


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """A delivery callback."""


def run(cluster: MockCluster, threads: int, calls: int, arguments: dict[str, Any]) -> Result:
    """Return the figures of this many threads that share the calls."""
    logger = logging.getLogger("bench.produce_threads")
    logger.setLevel(logging.CRITICAL)  # the messages are dropped on purpose
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "linger.ms": LINGER_MS,
        "batch.size": 100_000_000,
        "queue.buffering.max.messages": calls + 1,
        "queue.buffering.max.kbytes": 2_000_000,
        "message.timeout.ms": 2 * LINGER_MS,
    }
    producer = Producer(conf, logger=logger)
    producer.list_topics("topic")
    barrier = threading.Barrier(threads)
    spans: list[tuple[float, float, float]] = []

    def work(partition: int) -> None:
        produce, count = producer.produce, calls // threads
        value = bytes(VALUE_BYTES)  # its own: threads would share the reference count of another
        barrier.wait()
        start, cpu_start = time.perf_counter(), time.thread_time()
        for _ in range(count):
            produce("topic", value, partition=partition, **arguments)
        spans.append((start, time.perf_counter(), time.thread_time() - cpu_start))

    workers = [threading.Thread(target=work, args=(each % PARTITIONS,)) for each in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    producer.purge()
    producer.close(0)
    seconds = max(end for _, end, _ in spans) - min(start for start, _, _ in spans)
    made = calls // threads * threads
    return Result(made / seconds, sum(cpu for _, _, cpu in spans) / made * 1e9)


def with_lock_times() -> None:
    """Begin this program again with a library that measures mutexes, and prints what it found."""
    with TemporaryDirectory() as folder:
        library = Path(folder) / "lock_times.so"
        source = Path(__file__).with_name("lock_times.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        words = [word for word in sys.argv[1:] if word != "--locks"]
        command = [sys.executable, "-m", "bench.produce_threads", *words]
        done = subprocess.run(command, env={**os.environ, "LD_PRELOAD": str(library)}, check=False)
    sys.exit(done.returncode)


@click.command()
@click.argument("calls", default=100_000)
@click.argument("rounds", default=15)
@click.option(
    "--locks", is_flag=True, help="Also print how long mutexes are held. Calls are slower."
)
def main(calls: int, rounds: int, locks: bool) -> None:
    """Print a line for each number of threads, without and with a callback."""
    if locks:
        with_lock_times()
    lock = "without" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with"
    print(f"Python {sys.version.split()[0]} {lock} an interpreter lock")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("no callback", {}),
        ("a callback", {"on_delivery": on_delivery}),
    ]
    with MockCluster() as cluster:
        cluster.create_topic("topic", PARTITIONS)
        for name, arguments in cases:
            for threads in THREAD_COUNTS:
                results = [run(cluster, threads, calls, arguments) for _ in range(rounds)]
                best = max(each.calls_per_s for each in results) / 1e6
                median = statistics.median(each.calls_per_s for each in results) / 1e6
                cpu_ns = statistics.median(each.cpu_ns for each in results)
                print(
                    f"{name}, {threads} threads: {best:.2f} million calls/s at best, "
                    f"{median:.2f} in the median, {cpu_ns:.0f} ns of processor time a call",
                    flush=True,
                )


if __name__ == "__main__":
    main()
