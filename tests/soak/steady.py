"""``python -m tests.soak.steady``: all kinds of clients work in one process, with a fault a minute.

Its memory, descriptors, threads and objects stay constant, and each message is consumed. It ends
with 1 if a rule is broken.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from kafka_native import Consumer, KafkaException, Producer
from kafka_native.admin import AdminClient, NewTopic
from tests.harness.reliability import record
from tests.harness.runs import Deck, FaultRun, broken, counted, drawn, report
from tests.soak.clients import KINDS, Loop, Opened, ignore, unique
from tests.soak.mock_process import MockProcess
from tests.soak.planted import Planted
from tests.soak.resources import MIB, Sample, growth, idle_sample, left, sample
from tests.waiting import wait_for

TOPIC, COPIES, OTHERS = "numbers", "copies", "others"
PARTITIONS = 3
STEP_S = 0.1
COMMIT_S = USE_S = 1.0
WARM_UP_SHARE = 0.4
"""The share of a short run that warms up. A long one takes `WARM_UP_S`."""
WARM_UP_S = 1800.0
LONG_S = 3600.0
SHORT_S = 300.0
"""A shorter run shows no growth: buffers and caches are still filling."""
SHORT_GROWTH_BYTES = MIB
LONG_GROWTH_BYTES_H = MIB / 2
OBJECTS_GROWTH = 2000.0
"""Samples come at different moments of requests and rebalances."""
DRAIN_S = 90.0
RETENTION_BYTES = 64 * MIB
FAULTS = ("cut", "stall", "restart", "leader", "topic", "rebalance")
M_ARENA_MAX = -8  # of mallopt()
STALL_S = 3.0
DOWN_S = 2.0


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    seconds: float = 600.0
    seed: int = 0
    rate: int = 200
    """Messages a second."""
    fault_every_s: float = 60.0
    sample_every_s: float = 10.0
    open_every_s: float = 5.0
    """So often another client is opened and closed."""
    arenas: int = 0
    """The most arenas of glibc's malloc(); 0: its default, eight for each core.

    Each arena keeps free memory of its own, which fills slowly. With one arena, memory that grows
    is in use.
    """
    bug: str = ""


@dataclass
class Result:
    """What a run has found."""

    options: Options
    before: Sample
    after: Sample
    samples: list[Sample]
    sent: dict[str, int]
    """By topic: the messages that were reported as written."""
    consumed: dict[str, Seen] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Worker(threading.Thread):
    """Repeats a step in a thread. An exception that isn't a passing one is a failure."""

    def __init__(
        self, name: str, step: Callable[[], None], pause_s: float, failures: list[str]
    ) -> None:
        """``pause_s``: between two steps."""
        super().__init__(name=name, daemon=True)
        self._step, self._pause_s, self._failures = step, pause_s, failures
        self.ended = threading.Event()

    def run(self) -> None:
        """Work in the thread."""
        while not self.ended.is_set():
            try:
                self._step()
            except Exception as error:
                self._failures.append(f"{self.name}: {error!r}")
            self.ended.wait(self._pause_s)


def nothing_is_left_behind(result: Result) -> Iterator[str]:
    yield from left(result.before, result.after)


def memory_stays_constant(result: Result) -> Iterator[str]:
    seconds = result.options.seconds
    if seconds < SHORT_S:
        return
    warm_s = WARM_UP_S if seconds > LONG_S else WARM_UP_SHARE * seconds
    warm = [each for each in result.samples if each.at_s - result.samples[0].at_s >= warm_s]
    grown = growth(warm)
    hours = (seconds - warm_s) / 3600
    limit = LONG_GROWTH_BYTES_H * hours if seconds > LONG_S else SHORT_GROWTH_BYTES
    if grown.rss_bytes > limit:
        yield f"{grown.rss_bytes / MIB:.2f} MiB more in {hours:.2f} hours"
    if grown.objects > OBJECTS_GROWTH:
        yield f"{grown.objects:.0f} Python objects more in {hours:.2f} hours"


def each_message_is_consumed_once(result: Result) -> Iterator[str]:
    """A rebalance or a fault between a message and its commit may repeat messages, never skip."""
    for name, seen in result.consumed.items():
        topic = COPIES if name == "committed" else TOPIC
        sent = result.sent[topic]
        if seen.low < sent:
            yield f"{name}: {sent - seen.low - len(seen.ahead)} of {sent} are missing: {seen.low}"
        elif seen.low > sent or seen.ahead:
            yield f"{name}: messages that nobody sent"


def work_succeeds(result: Result) -> Iterator[str]:
    yield from result.failures


RULES = (
    nothing_is_left_behind,
    memory_stays_constant,
    each_message_is_consumed_once,
    work_succeeds,
)


class Sender:
    """An idempotent or transactional producer of the numbers from 0 on."""

    def __init__(self, producer: Producer, topic: str, transactional: bool) -> None:
        """A transactional producer has been initialized."""
        self._producer, self._topic, self._transactional = producer, topic, transactional
        self.count = 0

    def send(self, count: int) -> None:
        """Send the next numbers. A transaction that can be aborted is repeated."""
        first = self.count
        if not self._transactional:
            for number in range(first, first + count):
                self._producer.produce(self._topic, b"%d" % number, on_delivery=ignore)
            self.count += count
            self._producer.poll(0)
            return
        while True:
            try:
                self._producer.begin_transaction()
                for number in range(first, first + count):
                    self._producer.produce(self._topic, b"%d" % number, on_delivery=ignore)
                self._producer.commit_transaction(DRAIN_S)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._producer.abort_transaction(DRAIN_S)
            else:
                self.count += count
                return


class Seen:
    """Numbers that were consumed. It needs no more memory with time, unless some are missing."""

    def __init__(self) -> None:
        """Nothing is seen."""
        self.low = self.repeated = 0
        """All numbers below ``low`` are seen. ``repeated``: how many came again."""
        self.ahead: set[int] = set()

    def add(self, number: int) -> None:
        """Count a number."""
        if number < self.low or number in self.ahead:
            self.repeated += 1
            return
        self.ahead.add(number)
        while self.low in self.ahead:
            self.ahead.discard(self.low)
            self.low += 1


class Reader:
    """A member of a group that counts the numbers it sees."""

    def __init__(self, consumer: Consumer, commits: bool) -> None:
        """``commits``: it commits itself, now and then."""
        self.consumer, self._commits = consumer, commits
        self.seen = Seen()
        self._commit_at = 0.0

    def read(self) -> None:
        """Take messages for a moment. Errors of partitions pass."""
        for message in self.consumer.consume(1000, STEP_S):
            if message.error() is None:
                self.seen.add(int(message.value() or b"-1"))
        if self._commits and time.monotonic() > self._commit_at:
            self._commit_at = time.monotonic() + COMMIT_S
            with suppress(KafkaException):  # a rebalance, or nothing to commit
                self.consumer.commit(asynchronous=False)


class Run(FaultRun):
    """The clients, the load and the faults."""

    def __init__(self, cluster: MockProcess, options: Options) -> None:
        """The cluster has proxies."""
        super().__init__("steady", options.seed, FAULTS)
        self._cluster, self._options = cluster, options
        self._conf: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "error_cb": ignore,
            "log_cb": ignore,
            "reconnect.backoff.max.ms": 1000,
        }
        self._planted = Planted(options.bug)
        self._failures: list[str] = []
        self._kinds = Deck(KINDS, self._random)
        self._rival: Consumer | None = None
        self.samples: list[Sample] = []
        self.opened: Counter[str] = Counter()

    def run(self) -> Result:
        """Work for the time of the options, drain, close everything, and return what was found."""
        before = sample()
        self._open()
        workers = [Worker(name, *how, self._failures) for name, how in self._steps().items()]
        for worker in workers:
            worker.start()
        self._watch()
        for worker in workers:
            if not worker.name.startswith("read"):
                worker.ended.set()
                worker.join(DRAIN_S)
        self._drain()
        for worker in workers:
            worker.ended.set()
            worker.join(DRAIN_S)
        self._close()
        sent = {sender: each.count for sender, each in self._senders.items()}
        seen = {name: reader.seen for name, reader in self._readers.items()}
        after = idle_sample(before)
        return Result(self._options, before, after, self.samples, sent, seen, self._failures)

    def _open(self) -> None:
        conf = self._conf
        self._producer = Producer(
            {**conf, "enable.idempotence": True, "message.timeout.ms": 300_000}
        )
        self._transactional = Producer({**conf, "transactional.id": "steady"})
        self._transactional.init_transactions(DRAIN_S)
        self._senders = {
            TOPIC: Sender(self._producer, TOPIC, False),
            COPIES: Sender(self._transactional, COPIES, True),
        }
        group = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        self._readers = {
            "auto": Reader(self._member("auto", TOPIC, **group), False),
            "manual": Reader(
                self._member("manual", TOPIC, **group, **{"enable.auto.commit": False}), True
            ),
            "committed": Reader(self._member("committed", COPIES, **group), False),
        }
        self._loop = Loop()
        self._others = [kind(conf, OTHERS, self._loop) for kind in KINDS]
        for each in self._others:
            each.begin()
        self._admin = AdminClient(conf)

    def _member(self, group: str, topic: str, **more: Any) -> Consumer:
        consumer = Consumer({**self._conf, "group.id": f"steady-{group}", **more})
        consumer.subscribe([topic])
        return consumer

    def _steps(self) -> dict[str, tuple[Callable[[], None], float]]:
        """Return the work of each thread, and the pause after it."""
        share = max(1, round(self._options.rate * STEP_S))

        def send(topic: str, count: int) -> None:
            self._senders[topic].send(count)
            for _ in range(count):
                if self._options.bug == "memory":
                    self._planted.leak()

        return {
            "send": (lambda: send(TOPIC, share), STEP_S),
            "send in transactions": (lambda: send(COPIES, max(1, share // 4)), STEP_S),
            **{f"read {name}": (reader.read, 0.0) for name, reader in self._readers.items()},
            "use": (self._use_others, USE_S),
            "open and close": (self._open_and_close, self._options.open_every_s),
        }

    def _use_others(self) -> None:
        """Let the other clients work once: share, asyncio, admin, shared."""
        for each in self._others:
            if "consumes" in each.traits:  # what isn't consumed would fill their queues
                each.drain()
            elif "transactional" not in each.traits:
                self._finish(each)
        self._admin.list_topics(timeout=DRAIN_S)

    def _finish(self, each: Opened) -> None:
        if each.name == "admin":
            with suppress(KafkaException):  # a fault; admin calls aren't repeated
                each.finish()
        elif "consumes" not in each.traits:
            each.finish()
        else:
            each.begin()

    def _open_and_close(self) -> None:
        """Open a client, use it and close it."""
        kind = self._kinds.draw()
        each = kind(self._conf, OTHERS, self._loop)
        try:
            self._finish(each)
        finally:
            each.close(2.0)
        self.opened[each.name] += 1
        if self._options.bug in ("descriptor", "client"):
            self._planted.leak()

    def _watch(self) -> None:
        """Take samples and make faults until the time is up."""
        if self._options.seconds >= SHORT_S:
            self._warm_up()
        options, now = self._options, time.monotonic()
        end, fault_at, sample_at = now + options.seconds, now + options.fault_every_s, now
        while (now := time.monotonic()) < end:
            if now >= sample_at:
                self.samples.append(sample())
                sample_at += options.sample_every_s
            if now >= fault_at:
                self._fault()
                fault_at += options.fault_every_s
            if self._rival is not None:
                self._rival.consume(1000, 0)  # what isn't consumed would fill its queue
            time.sleep(STEP_S)

    def _warm_up(self) -> None:
        """Let every client lose every broker once: its first log line starts its log thread."""
        for broker in self._cluster.call("broker_ids"):
            self._restart(broker)

    def _drain(self) -> None:
        """Wait until each message is delivered and consumed."""
        if self._producer.flush(DRAIN_S):
            self._failures.append(f"{len(self._producer)} messages were not delivered")

        def all_seen() -> bool:
            return all(
                reader.seen.low >= self._senders[COPIES if name == "committed" else TOPIC].count
                for name, reader in self._readers.items()
            )

        with suppress(AssertionError):  # the rules name what is missing
            wait_for(all_seen, timeout_s=DRAIN_S)

    def _close(self) -> None:
        for reader in self._readers.values():
            reader.consumer.close(10)
        for each in self._others:
            each.close(10)
        self._producer.close(10)
        self._transactional.close(10)
        self._admin.close()
        self._loop.close()
        if self._rival is not None:
            self._rival.close(10)

    # --- faults ---

    def _fault_cut(self) -> bool:
        self._cluster.cut(self._random.choice(self._cluster.call("broker_ids")))
        return True

    def _fault_stall(self) -> bool:
        """Delay all responses of a broker."""
        broker = self._random.choice(self._cluster.call("broker_ids"))
        self._cluster.call("delay_responses", broker, STALL_S / 10)
        time.sleep(STALL_S)
        self._cluster.call("delay_responses", broker, 0)
        return True

    def _fault_restart(self) -> bool:
        self._restart(self._random.choice(self._cluster.call("broker_ids")))
        return True

    def _restart(self, broker: int) -> None:
        self._cluster.call("broker_down", broker)
        time.sleep(DOWN_S)
        self._cluster.call("broker_up", broker)

    def _fault_leader(self) -> bool:
        for partition in range(PARTITIONS):
            leader = self._cluster.call("leader", TOPIC, partition)
            others = [each for each in self._cluster.call("broker_ids") if each != leader]
            self._cluster.call("move_leader", TOPIC, partition, self._random.choice(others))
        return True

    def _fault_topic(self) -> bool:
        """Create and delete a topic."""
        name = unique("made")
        with suppress(KafkaException):
            self._admin.create_topics([NewTopic(name, 2, 1)])[name].result(DRAIN_S)
            self._admin.delete_topics([name])[name].result(DRAIN_S)
        return True

    def _fault_rebalance(self) -> bool:
        """Let another member join, or leave."""
        if self._rival is None:
            self._rival = self._member("auto", OTHERS)
            self._rival.poll(0.1)
        else:
            self._rival.close(5)
            self._rival = None
        return True

    def lines(self, result: Result) -> list[str]:
        """Return the figures as text."""
        grown = growth(result.samples[len(result.samples) // 3 :])
        tenths = [
            f"{each.rss_bytes / MIB:.1f}"
            for each in result.samples[:: max(1, len(result.samples) // 10)]
        ]
        return [
            f"messages: {result.sent}; faults: {counted(self.faults)}",
            f"opened and closed: {counted(self.opened)}",
            f"repeated: { {name: seen.repeated for name, seen in result.consumed.items()} }",
            f"growth of the last two thirds of the samples: {grown.rss_bytes / MIB:.2f} MiB",
            f"growth: {grown.objects:.0f} Python objects, in {len(result.samples)} samples",
            f"resident in MiB, ten times: {', '.join(tenths)}",
            f"at work: {result.samples[-1].text()}",
            f"before: {result.before.text()}; after: {result.after.text()}",
        ]


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--rate", default=200, show_default=True, help="Messages a second.")
@click.option("--fault-every", "fault_every_s", default=60.0, show_default=True)
@click.option("--sample-every", "sample_every_s", default=10.0, show_default=True)
@click.option("--open-every", "open_every_s", default=5.0, show_default=True)
@click.option("--arenas", default=0, help="The most arenas of glibc's malloc(); 0: its default.")
@click.option("--bug", default="", type=click.Choice(["", *Planted.BUGS]), help="A planted leak.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(seed: int | None, recorded: bool, **given: Any) -> None:
    """Let all kinds of clients work under faults; check that nothing grows and nothing is lost."""
    options = Options(seed=drawn(seed), **given)
    click.echo(f"{options}")
    if options.arenas:
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, options.arenas)
    with ExitStack() as stack:
        cluster = stack.enter_context(
            MockProcess(proxied=True, brokers=3, retention_bytes=RETENTION_BYTES)
        )
        for topic in (TOPIC, COPIES, OTHERS):
            cluster.call("create_topic", topic, PARTITIONS)
        run = Run(cluster, options)
        result = run.run()
        found = broken(RULES, result, 10)
        report(run.lines(result), found)
    if recorded:
        consumed = sum(seen.low for seen in result.consumed.values())
        record("steady", asdict(options), options.seconds, run.faults, consumed, found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
