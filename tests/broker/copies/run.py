"""A run: a feeder, copiers and faults on a cluster whose clients go through proxies, and its
result.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka

import kafka_native
from kafka_native import KafkaException
from tests.broker import java
from tests.broker.cluster import Cluster, quiet
from tests.broker.copies.verify import Records, Result, ends, read, size
from tests.broker.support import create, delete
from tests.broker.transformer import Settings, figures
from tests.harness import readers
from tests.harness.cluster_run import (
    ABORTS_SOON,
    NETWORK_FAULTS,
    PROXIES,
    STEP_S,
    CheckedRun,
    FaultOptions,
    Rig,
    rig,
)
from tests.harness.load import Load
from tests.harness.processes import Child, Process
from tests.harness.runs import counted
from tests.waiting import wait_for

PARTITIONS = 4
DOOMED = 0.05
"""The share of the transactions before which the feeder aborts one. One is before the first."""
CALL_S = 90.0
WELL_S = 900.0
END_S = 60.0
RESTART_S = 1.0
"""The time from the end of a copier of Kafka to the start of the next one."""
BYTES_MAX = 1_000_000
KINDS = ("ours", "java")
# Each is drawn once before any comes again.
DECK = (
    *("kill_ours", "kill_java", "kill_broker", "cut", "leaders", "freeze", "refuse"),
    *("kill_ours", "kill_java", "kill_broker", "stop_broker", "cut", "pause", "stall"),
    *NETWORK_FAULTS,
)


def copies_rig(seed: int, network: str = PROXIES) -> AbstractContextManager[Rig]:
    """Return the cluster of a run, as a context manager."""
    return rig(seed, ABORTS_SOON, BYTES_MAX, network)


@dataclass
class Options(FaultOptions):
    """``rate``: the most messages of the feeder in a second. ``lead``: it stops while the copies
    are so many messages behind. Half of the processes are Kafka's copiers.
    """

    rate: int = 5000
    lead: int = 100_000
    messages: int = 500  # of a copier's transaction
    fault_every_s: tuple[float, float] = (1.0, 6.0)
    bug: str = ""
    faults: tuple[str, ...] = field(default=DECK)

    def __str__(self) -> str:
        bug = f", --bug {self.bug}" if self.bug else ""
        return f"{self.processes} copiers{bug}, --seed {self.seed}"


class Doomed(Exception):
    """The transaction is to be aborted."""


class Feeder(Load):
    """Numbered messages in transactions. Aborted messages have negative numbers."""

    step_s = 0.2

    def __init__(
        self, cluster: Cluster, topic: str, options: Options, copied: Callable[[], int]
    ) -> None:
        timeouts = {"transaction.timeout.ms": 180_000, "message.timeout.ms": 180_000}
        super().__init__(
            cluster,
            options.rate,
            lambda number: self.message(topic, number),
            **{"transactional.id": f"{topic}-feeder", **timeouts},
        )
        self._lead, self._copied = options.lead, copied
        self._random = random.Random(options.seed)
        self.aborted = 0

    def message(self, topic: str, number: int) -> dict[str, Any]:
        """Return the arguments of produce()."""
        text = str(number)
        return {"topic": topic, "partition": number % PARTITIONS, "key": text, "value": text}

    def _produce_on(self) -> None:
        self._producer.init_transactions(CALL_S)
        super()._produce_on()

    def _produce_some(self, count: int) -> None:
        if self.sent - self._copied() > self._lead:
            return
        if not self.sent or self._random.random() < DOOMED:
            self._write(range(-count, 0))
        if self._write(range(self.sent, self.sent + count)):
            self.sent += count

    def _write(self, numbers: range) -> bool:
        """Write messages in a transaction, and return whether it was committed."""
        try:
            with self._producer.transaction(timeout=CALL_S):
                for number in numbers:
                    self._producer.produce(**self._message(number))
                if numbers.start < 0:
                    self._producer.flush(CALL_S)
                    raise Doomed
        except Doomed:
            self.aborted += 1
            return False
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.aborted += 1
            return False
        return True


class Reader(threading.Thread):
    """Reads the copies during the run, through the faults."""

    def __init__(self, conf: dict[str, Any], topic: str) -> None:
        super().__init__(daemon=True)
        self._conf, self._topic = conf, topic
        self._ended = threading.Event()
        self.reading = [Records() for _ in range(PARTITIONS)]
        self.count = 0
        self.errors: Counter[str] = Counter()
        self.failed: list[str] = []

    def run(self) -> None:
        """Read in the thread."""
        try:
            with kafka_native.Consumer(quiet(self._conf)) as consumer:
                consumer.assign(
                    [kafka_native.TopicPartition(self._topic, it, 0) for it in range(PARTITIONS)]
                )
                while not self._ended.is_set():
                    for message in consumer.consume(1000, 0.2):
                        self._take(message)
        except Exception as error:
            self.failed.append(f"the reader ended: {error}")

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is None:
            self.reading[message.partition()].add(message)
            self.count += 1
        elif error.fatal():
            self.failed.append(str(error))
        else:
            self.errors[error.name()] += 1

    def end(self) -> None:
        """Stop."""
        self._ended.set()
        self.join(END_S)


class Run(CheckedRun):
    """Use `Run(rig, options).run()`."""

    def __init__(self, rig: Rig, options: Options) -> None:
        self._options = options
        self._group = f"copies-{uuid.uuid4().hex[:8]}"
        self._source, self._target = f"{self._group}-in", f"{self._group}-out"
        internal = ("__transaction_state", "__consumer_offsets")
        super().__init__("copies", rig, options, (self._source, self._target, *internal))
        self._slots_of = {
            kind: range(at, options.processes, len(KINDS)) for at, kind in enumerate(KINDS)
        }
        self._ends: Counter[str] = Counter()  # how Kafka's copiers ended by themselves
        self.result = Result()
        conf = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        self._reader = Reader(conf, self._target)
        self._feeder = Feeder(self._cluster, self._source, options, lambda: self._reader.count)

    def run(self) -> Result:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(delete, self._cluster, self._source, self._target)
            stack.callback(self._reader.end)
            stack.callback(self._clean_up)
            create(self._cluster, self._source, PARTITIONS)
            create(self._cluster, self._target, PARTITIONS)
            self._reader.start()
            self._feeder.start()
            self._make_faults()
            self._feeder.end(WELL_S)
            self._read_input()
            wait_for(self._all_is_copied, "the end of the input to be committed", WELL_S)
            self._end_copiers()
            self._read_copies()
        self.seconds = time.monotonic() - began
        return self.result

    def _watch(self, until: float) -> None:
        """Start Kafka's copiers again. Each ends after the messages that were there at its last
        rebalance, or after an error.
        """
        while True:
            for slot in self._slots_of["java"]:
                code = self._slots[slot].code() if slot in self._slots else None
                if code is not None and slot not in self._start_at:
                    self._ends[f"with {code}"] += 1
                    self._start_at[slot] = time.monotonic() + RESTART_S
            super()._watch(min(until, time.monotonic() + STEP_S))
            if time.monotonic() >= until:
                return

    # --- the end ---

    def _read_input(self) -> None:
        self.result.sent = self._feeder.sent
        found = readers.messages(confluent_kafka, self._cluster, self._source, PARTITIONS)
        self.result.input = read(found, PARTITIONS)

    def _all_is_copied(self) -> bool:
        self._watch(time.monotonic())
        self._all_alive(self._slots_of["ours"])
        until = ends(self.result.input)
        return readers.is_committed(self._cluster, self._source, PARTITIONS, self._group, until)

    def _end_copiers(self) -> None:
        for slot, process in self._slots.items():
            if slot in self._slots_of["ours"]:
                process.leave()
            else:
                process.kill()
        wait_for(lambda: self._all_gone(self._slots_of["ours"]), "copiers that leave", END_S)

    def _read_copies(self) -> None:
        result = self.result
        for library in (kafka_native, confluent_kafka):
            found = readers.messages(library, self._cluster, self._target, PARTITIONS)
            result.readings[library.__name__] = read(found, PARTITIONS)
        count = size(result.readings["kafka_native"])
        deadline = time.monotonic() + END_S
        while self._reader.count < count and time.monotonic() < deadline:
            time.sleep(STEP_S)
        self._reader.end()
        result.readings["the reader during the run"] = self._reader.reading
        result.reader_errors = self._reader.failed
        result.open_transactions = readers.open_transactions(
            self._cluster, self._target, self._group
        )
        result.copied = self._copied()

    def _copied(self) -> dict[str, int]:
        """Return how many messages each copier has copied. Kafka's copiers report totals."""
        found: Counter[str] = Counter({self._name(slot): 0 for slot in self._slots})
        for output in self.directory.glob("*.out"):
            name = output.name.partition(".")[0]
            texts = output.read_text(errors="replace").splitlines()
            said = [json.loads(text) for text in texts if text[:1] == "{" and text[-1:] == "}"]
            found[name] += sum(each.get("messages", 0) for each in said)
            found[name] += max((each.get("totalProcessed", 0) for each in said), default=0)
        return dict(found)

    # --- processes ---

    def _name(self, slot: int) -> str:
        return f"{KINDS[slot % len(KINDS)]}-{slot}"

    def _start(self, slot: int) -> None:
        output = self.directory / f"{self._name(slot)}.{self._lives}.out"
        start = self._ours if slot in self._slots_of["ours"] else self._kafkas
        self._slots[slot] = start(f"{self._group}-{self._name(slot)}", output)
        self._lives += 1

    def _ours(self, transactional_id: str, output: Any) -> Process:
        options = self._options
        common = {"bootstrap.servers": self._bootstrap, "reconnect.backoff.max.ms": 500}
        consumer = {
            "group.id": self._group,
            "group.protocol": "classic",  # the only one that Kafka's copier supports
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": (
                "read_uncommitted" if options.bug == "uncommitted" else "read_committed"
            ),
        }
        producer = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(options.timeout_s * 1000),
        }
        settings = Settings(
            *(self._source, self._target, common | consumer, common | producer),
            seed=options.seed + self._lives,
            doom=0.1 / options.messages,
            messages=options.messages,
            bug=options.bug,
        )
        return Child("tests.broker.copier", settings, output)

    def _kafkas(self, transactional_id: str, output: Any) -> Process:
        options = self._options
        command = java.java_command(
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *("--broker-list", self._bootstrap, "--input-partition", "0", "--group-mode"),
            *("--input-topic", self._source, "--output-topic", self._target),
            *("--consumer-group", self._group, "--use-group-metadata", "--enable-random-aborts"),
            *("--transaction-size", str(options.messages), "--transactional-id", transactional_id),
            *("--transaction-timeout", str(int(options.timeout_s * 1000))),
        )
        return Process(*command, output=output)

    def _fault_kill_ours(self) -> bool:
        return self._kill(self._victim(self._slots_of["ours"]))

    def _fault_kill_java(self) -> bool:
        return self._kill(self._victim(self._slots_of["java"]))

    # --- figures ---

    def records(self) -> int:
        """Return the number of messages of the feeder."""
        return self.result.sent

    def figures(self) -> dict[str, Any]:
        """Return how many messages each copier has copied."""
        return {"copied": self.result.copied}

    def lines(self) -> list[str]:
        """Return the figures of the run."""
        done, errors = figures(self.directory)
        return [
            self._fault_line(),
            (
                f"messages: {self.result.sent}; the feeder aborted {self._feeder.aborted} "
                "transactions; copies seen: "
                + ", ".join(f"{name} {size(each)}" for name, each in self.result.readings.items())
            ),
            f"copied by: {counted(self.result.copied)}; processes: {self._lives}",
            (
                f"our transactions: {done['transactions']} committed, {done['aborted']} aborted; "
                f"new clients after: {counted(errors)}"
            ),
            f"ends of Kafka's copiers: {counted(self._ends)}",
            f"errors of the reader during the run: {counted(self._reader.errors)}",
            f"open in the brokers' logs: {len(self.result.open_transactions)}",
        ]
