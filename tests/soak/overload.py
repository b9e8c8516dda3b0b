"""``python -m tests.soak.overload``: messages are produced faster than a slow broker takes them,
while Python is busy.

The queue stays within its budget, produce() raises only BufferError, and a member of a group in the
same process stays a member. It ends with 1 if a rule is broken.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from kafka_native import Consumer, Producer
from kafka_native.protocol import ApiKey
from tests.harness.reliability import record
from tests.harness.runs import broken, report
from tests.soak.clients import ignore
from tests.soak.mock_process import MockProcess
from tests.soak.resources import KIB, MIB, Sample, idle_sample, left, rss_bytes, sample
from tests.waiting import WAIT_S, poll_until

TOPIC, QUIET_TOPIC = "flood", "quiet"
BUDGET_KIB = 32 * KIB
OVER_SHARE = 0.1
BASE_BYTES = 8 * MIB
"""For requests on their way, the reports that wait for a poll, and Python's heap."""
VALUE = bytes(range(256)) * 4
RESPONSE_S = 0.5
SESSION_MS = 6000
SAMPLE_S = 0.1
POLL_S = 0.2
RETENTION_BYTES = 16 * MIB


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    seconds: float = 60.0
    budget_kib: int = BUDGET_KIB
    bug: str = ""
    """"unbounded": the application keeps what the queue refuses."""


@dataclass
class Result:
    """What a run has found."""

    options: Options
    before: Sample
    after: Sample
    base_bytes: int
    peak_bytes: int = 0
    produced: int = 0
    refused: int = 0
    other_errors: Counter[str] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)
    rebalances: int = 0
    left_in_queue: int = 0


def memory_is_within_the_budget(result: Result) -> Iterator[str]:
    limit = result.options.budget_kib * KIB * (1 + OVER_SHARE) + BASE_BYTES
    used = result.peak_bytes - result.base_bytes
    if used > limit:
        yield f"{used / MIB:.0f} MiB for a queue of {result.options.budget_kib / KIB:.0f} MiB"


def produce_raises_only_buffer_error(result: Result) -> Iterator[str]:
    for text, count in result.other_errors.items():
        yield f"{count} times {text}"
    if not result.refused:
        yield "there was no overload: no message was refused"


def heartbeats_are_in_time(result: Result) -> Iterator[str]:
    if result.rebalances != 1:
        yield f"the quiet group had {result.rebalances} assignments"


def each_message_is_delivered(result: Result) -> Iterator[str]:
    for text, count in result.reports.items():
        if text:
            yield f"{count} reports of {text}"
    if result.reports[""] != result.produced or result.left_in_queue:
        yield f"{result.reports['']} of {result.produced} were delivered"


def nothing_is_left_behind(result: Result) -> Iterator[str]:
    yield from left(result.before, result.after)


RULES = (
    memory_is_within_the_budget,
    produce_raises_only_buffer_error,
    heartbeats_are_in_time,
    each_message_is_delivered,
    nothing_is_left_behind,
)


class Run:
    """A producer, a busy loop and a member of a group."""

    def __init__(self, cluster: MockProcess, options: Options) -> None:
        """The topics exist."""
        self._cluster, self._options = cluster, options
        self._ended = threading.Event()
        self._kept: list[bytes] = []

    def run(self) -> Result:
        """Flood the broker for the time of the options, drain and close."""
        before = sample()
        self.result = Result(self._options, before, before, rss_bytes())
        self._use(
            {"bootstrap.servers": self._cluster.bootstrap, "error_cb": ignore, "log_cb": ignore}
        )
        self.result.after = idle_sample(before)
        return self.result

    def _use(self, conf: dict[str, Any]) -> None:
        budget = {
            "queue.buffering.max.kbytes": self._options.budget_kib,
            "queue.buffering.max.messages": 10_000_000,
            "message.timeout.ms": int(10 * 1000 * WAIT_S),
        }
        group = {
            "group.id": "quiet",
            "group.protocol": "classic",
            "session.timeout.ms": SESSION_MS,
            "max.poll.interval.ms": SESSION_MS,
        }
        with Producer({**conf, **budget}) as producer, Consumer({**conf, **group}) as consumer:
            consumer.subscribe([QUIET_TOPIC], on_assign=self._count_assignment)
            poll_until(lambda: self.result.rebalances, consumer)
            self._cluster.call("delay_responses", None, RESPONSE_S, ApiKey.PRODUCE)
            threads = [
                threading.Thread(target=self._poll, args=(consumer,), daemon=True),
                threading.Thread(target=self._be_busy, daemon=True),
            ]
            for thread in threads:
                thread.start()
            self._flood(producer)
            self._cluster.call("delay_responses", None, 0, ApiKey.PRODUCE)
            self.result.left_in_queue = producer.flush(2 * WAIT_S)
            self._ended.set()
            for thread in threads:
                thread.join(WAIT_S)

    def _count_assignment(self, consumer: Consumer, partitions: list[Any]) -> None:
        self.result.rebalances += 1

    def _poll(self, consumer: Consumer) -> None:
        while not self._ended.is_set():
            consumer.poll(POLL_S)

    def _be_busy(self) -> None:
        """Keep Python busy, so that threads wait for the interpreter lock."""
        while not self._ended.is_set():
            sum(range(10_000))

    def _flood(self, producer: Producer) -> None:
        result = self.result

        def note(error: Any, message: Any) -> None:
            result.reports["" if error is None else error.name()] += 1

        end, sample_at = time.monotonic() + self._options.seconds, 0.0
        while (now := time.monotonic()) < end:
            try:
                producer.produce(TOPIC, VALUE, on_delivery=note)
                result.produced += 1
            except BufferError:
                result.refused += 1
                if self._options.bug == "unbounded":
                    self._kept.append(VALUE + b"%d" % result.refused)
                    producer.poll(0)
                else:
                    producer.poll(0.001)
            except Exception as error:
                result.other_errors[repr(error)] += 1
            if now >= sample_at:
                sample_at = now + SAMPLE_S
                result.peak_bytes = max(result.peak_bytes, rss_bytes())

    def lines(self) -> list[str]:
        """Return the figures as text."""
        result = self.result
        return [
            f"{result.produced} messages of {len(VALUE)} bytes, {result.refused} times refused",
            f"memory at most: {(result.peak_bytes - result.base_bytes) / MIB:.0f} MiB",
            f"budget of the queue: {self._options.budget_kib / KIB:.0f} MiB",
            f"assignments of the quiet group: {result.rebalances}",
        ]


@click.command()
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--budget-kib", default=BUDGET_KIB, show_default=True, help="Of the queue.")
@click.option("--bug", default="", type=click.Choice(["", "unbounded"]), help="A planted leak.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(recorded: bool, **given: Any) -> None:
    """Produce faster than the broker takes it; check memory, errors and heartbeats."""
    options = Options(**given)
    click.echo(f"{options}")
    with MockProcess(brokers=1, retention_bytes=RETENTION_BYTES) as cluster:
        for topic in (TOPIC, QUIET_TOPIC):
            cluster.call("create_topic", topic, 4)
        run = Run(cluster, options)
        result = run.run()
        found = broken(RULES, result, 10)
        report(run.lines(), found)
    if recorded:
        figures = {"peak_mib": round((result.peak_bytes - result.base_bytes) / MIB)}
        seconds, faults = options.seconds, {"refused": result.refused}
        record("overload", asdict(options), seconds, faults, result.produced, found, figures)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
