"""A run: producers and faults on a cluster whose clients go through proxies, and its result."""

from __future__ import annotations

import time
import uuid
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import confluent_kafka

import kafka_native
from kafka_native.protocol import ApiKey
from tests.broker import java, payload
from tests.broker.acked.java_producer import SOURCE as JAVA_SOURCE
from tests.broker.acked.ledger import NOT_PERSISTED, PERSISTED, Life, Log, Result
from tests.broker.acked.planted import BUGS
from tests.broker.acked.producer import Settings
from tests.broker.acked.verify import RULES
from tests.broker.cluster import Cluster, quiet
from tests.broker.support import create, delete
from tests.harness.cluster_run import (
    CLIENT_FAULTS,
    NETWORK_FAULTS,
    PROXIES,
    CheckedRun,
    FaultOptions,
    Rig,
    rig,
)
from tests.harness.processes import said
from tests.harness.readers import messages
from tests.harness.runs import count_broken
from tests.waiting import wait_for

PARTITIONS = 6
END_S = 200.0
SETTLED_S = 35.0
"""After the last fault, every message has its outcome within this time."""
CLOSE_S = 5.0
BYTES_MAX = 3_000_000
# Each is drawn once before any comes again.
DECK = (
    *("kill", "cut", "refuse", "leaders", "pause", "broker", "stall"),
    *("cut", "leaders", "freeze", "broker", "leaders"),
)
MORE = (*DECK, *NETWORK_FAULTS, *CLIENT_FAULTS, "roll")
CHANGES = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


def acked_rig(seed: int, network: str = PROXIES) -> AbstractContextManager[Rig]:
    """Return the cluster of a run, as a context manager."""
    return rig(seed, CHANGES, BYTES_MAX, network)


@dataclass
class Options(FaultOptions):
    """``weak``: with acks=1 and without idempotence, so that rules are broken.

    ``bug``: a name of `planted.BUGS`, or "each": every producer has another one.
    """

    rate: int = 1000
    size_bytes: int = 200
    client: str = "ours"
    codec: str = "none"
    message_timeout_ms: int = 120_000
    weak: bool = False
    bug: str = ""
    faults: tuple[str, ...] = field(default=MORE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.client != "ours":  # some waits of librdkafka become as long as the jump
            self.faults = tuple(fault for fault in self.faults if fault != "clock")

    def __str__(self) -> str:
        more = [name for name in ("weak",) if getattr(self, name)] + [self.bug] * bool(self.bug)
        return " ".join(
            [f"{self.processes} producers, {self.client}", *more, f"--seed {self.seed}"]
        )


class Run(CheckedRun):
    """Use `Run(rig, options).run()`."""

    apis = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID)

    def __init__(self, rig: Rig, options: Options) -> None:
        self._options = options
        self._topic = f"acked-{uuid.uuid4().hex[:8]}"
        super().__init__("acked", rig, options, (self._topic,))
        self.result = Result()
        self._life_of: dict[int, int] = {}  # the life of each slot's process
        self._classes = ""
        if options.client == "java":
            self._classes = str(java.compiled(JAVA_SOURCE, self.directory / "classes"))

    def run(self) -> Result:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(delete, self._cluster, self._topic)
            stack.callback(self._clean_up)
            create(self._cluster, self._topic, PARTITIONS)
            self._make_faults()
            dead = {slot for slot, each in self._slots.items() if each.code() is not None}
            for process in self._slots.values():
                process.leave()
            dead |= self._end_all()
            self._judge_ends()
            self._read_ledgers(dead)
            self._read_logs()
        self.seconds = time.monotonic() - began
        return self.result

    # --- processes ---

    def _start(self, slot: int) -> None:
        options, life = self._options, self._lives
        conf: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "client.id": f"life-{life}",
            "enable.idempotence": not options.weak,
            "acks": "1" if options.weak else "all",
            "message.timeout.ms": options.message_timeout_ms,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 10_000,
            "linger.ms": 5,
            "compression.type": options.codec,
        }
        settings = Settings(
            *(life, options.client, self._topic, PARTITIONS, options.rate, options.size_bytes),
            *(str(self._ledger_of(life)), quiet(conf), self._bug_of(slot), self._classes),
        )
        output = self.directory / f"p{slot}.{life}.out"
        self._slots[slot] = self._child(slot, "tests.broker.acked.producer", settings, output)
        self._life_of[slot] = life
        self._lives += 1

    def _bug_of(self, slot: int) -> str:
        return list(BUGS)[slot] if self._options.bug == "each" else self._options.bug

    def _ledger_of(self, life: int) -> Path:
        return self.directory / f"life-{life}.ledger"

    # --- the end ---

    def _judge_ends(self) -> None:
        for event in said(self.directory):
            if event["e"] == "forked":
                continue
            if event["e"] == "error":
                self.result.late.append(f"a producer ended: {event['text']}")
            elif event["unsettled"]:
                self.result.late.append(f"{event['unsettled']} messages had no outcome")
            elif event["flushed_s"] > SETTLED_S:
                self.result.late.append(f"the last outcome came after {event['flushed_s']:.1f} s")
            elif event["seconds"] - event["flushed_s"] > CLOSE_S:
                self.result.late.append(
                    f"close() took {event['seconds'] - event['flushed_s']:.1f} s"
                )

    def _end_all(self) -> set[int]:
        """Wait until the processes have left. Kill the others, and return their slots."""
        with suppress(AssertionError):
            wait_for(self._none_runs, "producers that leave", END_S)
        hanging = {slot for slot, process in self._slots.items() if process.code() is None}
        for slot in hanging:
            self.result.late.append(f"life {self._life_of[slot]} didn't end in {END_S:.0f} s")
            self._slots[slot].kill()
        return hanging

    def _none_runs(self) -> bool:
        return all(process.code() is not None for process in self._slots.values())

    def _read_ledgers(self, dead: set[int]) -> None:
        """``dead``: the slots whose process ended by itself, before the command to leave."""
        ended_well = {life for slot, life in self._life_of.items() if slot not in dead}
        for life in range(self._lives):
            found = Life.read(life, self._ledger_of(life), killed=life not in ended_well)
            self.result.lives.append(found)

    def _read_logs(self) -> None:
        for library in (confluent_kafka, kafka_native):
            log, damaged = read(library, self._cluster, self._topic)
            self.result.logs[library.__name__] = log
            self.result.damaged += damaged

    # --- figures ---

    def count(self, status: str) -> int:
        """Return the number of reports with a status."""
        reports = (report for life in self.result.lives for report in life.reports)
        return sum(report.status == status for report in reports)

    def records(self) -> int:
        """Return the number of messages whose fate was checked."""
        return sum(len(life.sent) for life in self.result.lives)

    def figures(self) -> dict[str, Any]:
        """Return how often each broken rule is broken."""
        return {"violations": count_broken(RULES, self.result)}

    def lines(self) -> list[str]:
        """Return the figures of the run."""
        acked, never = self.count(PERSISTED), self.count(NOT_PERSISTED)
        return [
            self._fault_line(),
            (
                f"messages: {self.records()} sent by {self._lives} producers, {acked} acked, "
                f"{never} reported as not written; records: "
                + ", ".join(
                    f"{name} {sum(map(len, log.values()))}"
                    for name, log in self.result.logs.items()
                )
            ),
        ]


def read(library: ModuleType, cluster: Cluster, topic: str) -> tuple[Log, list[str]]:
    """Read the topic to its end. Return the log, and texts about records that aren't ours."""
    log: Log = {number: [] for number in range(PARTITIONS)}
    damaged: list[str] = []
    for message in messages(library, cluster, topic, PARTITIONS):
        place = message.partition(), message.offset()
        try:
            number = payload.number_of(message.value(), topic, message.partition())
        except (AssertionError, ValueError) as error:
            damaged.append(f"[{place[0]}] @{place[1]}: {error}")
        else:
            log[place[0]].append((place[1], number))
    return log, damaged
