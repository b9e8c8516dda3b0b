"""``python -m bench.control_calls``: how long calls take beside a Fetch and a busy broker.

Another process produces as fast as the broker accepts. One consumer has a Fetch at the broker for
up to ``fetch.wait.max.ms``, and one fetches nothing. Both make the same calls in turn, so they have
the same load. The first commit of new consumers is timed too. confluent_kafka makes a few of the
same calls, because each can take as long as its Fetch.
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from bench.adapters import percentiles
from bench.broker import broker, topic
from kafka_native import Producer

WAIT_MS = 8000
LOAD_BYTES = 1000
LOAD_PARTITIONS = 4
SETTLE_S = 2.0  # until the load is steady
HELD_S = 0.05  # after an assignment, until the Fetch is at the broker
TIMEOUT_S = 60.0
FIRST_COMMITS = 5
PEER_CALLS = 3


def saturate(bootstrap: str, name: str) -> None:
    """Produce until the process is ended."""
    value = bytes(LOAD_BYTES)
    number = 0
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        while True:
            try:
                producer.produce(name, value, partition=number % LOAD_PARTITIONS)
                number += 1
            except BufferError:
                producer.poll(0.01)


@contextmanager
def load(bootstrap: str, name: str) -> Iterator[None]:
    """Run `saturate()` in another process."""
    command = [sys.executable, "-m", "bench.control_calls", "--saturate", name]
    with subprocess.Popen(command, env={**os.environ, "BOOTSTRAP": bootstrap}) as producer:
        try:
            time.sleep(SETTLE_S)
            if producer.poll() is not None:
                raise click.ClickException("the load has ended")
            yield
        finally:
            producer.terminate()


class Caller:
    """A consumer of one client, with or without a Fetch at the broker."""

    def __init__(self, client: str, bootstrap: str, name: str, *, fetching: bool):
        self.module = importlib.import_module(client)
        self.name = name
        group = f"{name}-{client}-{fetching}-{time.monotonic_ns()}"
        self.consumer: Any = self.module.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "fetch.wait.max.ms": WAIT_MS,
                "socket.timeout.ms": int(TIMEOUT_S * 1000),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        if fetching:
            self.consumer.assign([self.partition()])
            if self.consumer.poll(TIMEOUT_S) is None:
                raise click.ClickException(f"no message within {TIMEOUT_S:.0f} s")

    def partition(self, *offset: int) -> Any:
        """The quiet topic's partition, as the client's own class."""
        return self.module.TopicPartition(self.name, 0, *offset)

    def calls(self) -> dict[str, Callable[[], Any]]:
        """The calls to time, by name."""
        consumer = self.consumer
        return {
            "list_topics": lambda: consumer.list_topics(timeout=TIMEOUT_S),
            "get_watermark_offsets": lambda: consumer.get_watermark_offsets(
                self.partition(), timeout=TIMEOUT_S, cached=False
            ),
            "commit": lambda: consumer.commit(offsets=[self.partition(1)], asynchronous=False),
            "committed": lambda: consumer.committed([self.partition()], timeout=TIMEOUT_S),
        }


def timed(call: Callable[[], Any]) -> float:
    """Return how many milliseconds the call takes."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def first_commit(client: str, bootstrap: str, name: str) -> float:
    """Return how long the first commit of a new consumer takes, with a Fetch at the broker."""
    caller = Caller(client, bootstrap, name, fetching=True)
    try:
        time.sleep(HELD_S)
        return timed(caller.calls()["commit"])
    finally:
        caller.consumer.close()


def compare(bootstrap: str, name: str, count: int) -> Table:
    """Time the calls of the consumers that fetch and of the one that doesn't."""
    fetching = Caller("kafka_native", bootstrap, name, fetching=True)
    idle = Caller("kafka_native", bootstrap, name, fetching=False)
    peer = Caller("confluent_kafka", bootstrap, name, fetching=True)
    table = Table("call, ms", "fetching p50", "p99", "idle p50", "p99", "ratio p99", "confluent")
    for call in fetching.calls():
        ours, theirs, others = fetching.calls()[call], idle.calls()[call], peer.calls()[call]
        ours(), theirs()  # these may open a connection
        pairs = [(timed(ours), timed(theirs)) for _ in range(count)]
        busy, free = (percentiles(list(times)) for times in zip(*pairs, strict=True))
        table.add_row(
            call,
            f"{busy['p50']:.2f}",
            f"{busy['p99']:.2f}",
            f"{free['p50']:.2f}",
            f"{free['p99']:.2f}",
            f"{busy['p99'] / free['p99']:.2f}",
            f"{statistics.median(timed(others) for _ in range(PEER_CALLS)):.0f}",
        )
    for caller in (fetching, idle, peer):
        caller.consumer.close()
    return table


@click.command(help=__doc__)
@click.option("--count", default=300, show_default=True, help="How often each call is timed.")
@click.option("--saturate", "target", hidden=True)
def main(count: int, target: str | None) -> None:
    """Print the times of the calls."""
    if target is not None:
        saturate(os.environ["BOOTSTRAP"], target)
        return
    console = Console()
    with (
        broker(os.environ.get("BOOTSTRAP")) as servers,
        topic(servers.plain, LOAD_PARTITIONS) as busy,
        topic(servers.plain, 1) as quiet,
    ):
        with Producer({"bootstrap.servers": servers.plain}) as producer:
            producer.produce(quiet, b"x")
        with load(servers.plain, busy):
            console.print(compare(servers.plain, quiet, count))
            for client in ("kafka_native", "confluent_kafka"):
                times = [first_commit(client, servers.plain, quiet) for _ in range(FIRST_COMMITS)]
                console.print(
                    f"first commit of a new consumer, {client}: "
                    + ", ".join(f"{each:.1f}" for each in times)
                    + " ms"
                )


if __name__ == "__main__":
    main()
