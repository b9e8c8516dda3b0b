"""A run: processes and faults on a cluster whose clients go through proxies, and its history."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import confluent_kafka

import kafka_native
from tests.broker.histories.history import ASSIGN, OK, Move, Operation, Poll, read
from tests.broker.histories.process import Settings
from tests.broker.histories.verify import count_cycles
from tests.broker.support import create, delete
from tests.harness import readers
from tests.harness.cluster_run import (
    ABORTS_SOON,
    CLIENT_FAULTS,
    NETWORK_FAULTS,
    PROXIES,
    CheckedRun,
    FaultOptions,
    Rig,
    rig,
)
from tests.harness.processes import said
from tests.harness.runs import counted
from tests.waiting import wait_for

KEYS = 6
END_S = 120.0
BYTES_MAX = 1_000_000
# Each is drawn once before any comes again.
DECK = (
    *("kill", "freeze", "cut", "refuse", "kill", "pause", "broker", "cut", "leaders", "stall"),
    *(*NETWORK_FAULTS, *CLIENT_FAULTS),
)


def histories_rig(seed: int, network: str = PROXIES) -> AbstractContextManager[Rig]:
    """Return the cluster of a run, as a context manager."""
    return rig(seed, ABORTS_SOON, BYTES_MAX, network)


@dataclass
class Options(FaultOptions):
    """``client``: a name of `process.CLIENTS`. ``protocol``: of the group of those that subscribe."""

    protocol: str = "consumer"
    client: str = "ours"
    bug: str = ""
    faults: tuple[str, ...] = field(default=DECK)

    def __str__(self) -> str:
        bug = f", --bug {self.bug}" if self.bug else ""
        return (
            f"{self.processes} processes of {self.client}, {self.protocol}{bug}, --seed {self.seed}"
        )


class Run(CheckedRun):
    """Use `Run(rig, options).run()`."""

    def __init__(self, rig: Rig, options: Options) -> None:
        self._options = options
        self._group = f"histories-{uuid.uuid4().hex[:8]}"
        self._topic = f"{self._group}-keys"
        internal = ("__transaction_state", "__consumer_offsets")
        super().__init__("histories", rig, options, (self._topic, *internal))
        self.operations: list[Operation] = []

    def run(self) -> list[Operation]:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(delete, self._cluster, self._topic)
            stack.callback(self._clean_up)
            create(self._cluster, self._topic, KEYS)
            self._make_faults()
            self._all_alive()
            for process in self._slots.values():
                process.leave()
            wait_for(self._all_gone, "processes that leave", END_S)
            at_end = [
                self._read_all(-number, library)
                for number, library in enumerate((kafka_native, confluent_kafka), start=1)
            ]
        self.operations = [*read(said(self.directory)), *at_end]
        self.seconds = time.monotonic() - began
        return self.operations

    def _read_all(self, number: int, library: ModuleType) -> Operation:
        """Read all keys to the end, as one operation of a process with this number."""
        everything = Move(ASSIGN, dict.fromkeys(range(KEYS), 0))
        operation = Operation(number, time.monotonic(), [everything], OK)
        poll = Poll({key: [] for key in range(KEYS)})
        for message in readers.messages(library, self._cluster, self._topic, KEYS):
            poll.messages[message.partition()].append((message.offset(), int(message.value())))
        poll.time = operation.commit = operation.end = time.monotonic()
        operation.steps.append(poll)
        return operation

    # --- processes ---

    def _start(self, slot: int) -> None:
        options = self._options
        common = {"bootstrap.servers": self._bootstrap, "reconnect.backoff.max.ms": 500}
        consumer: dict[str, Any] = {
            "group.id": self._group,
            "group.protocol": options.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": (
                "read_uncommitted" if options.bug == "dirty-poll" else "read_committed"
            ),
        }
        if options.protocol == "classic":
            consumer |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
        producer = {
            "transactional.id": f"{self._group}-{slot}",
            "transaction.timeout.ms": int(options.timeout_s * 1000),
            "linger.ms": 0,
        }
        settings = Settings(
            *(self._lives, options.client, self._topic, KEYS, common | consumer, common | producer),
            seed=options.seed + self._lives,
            bug=options.bug,
        )
        output = self.directory / f"p{slot}.{self._lives}.out"
        self._slots[slot] = self._child(slot, "tests.broker.histories.process", settings, output)
        self._lives += 1

    # --- figures ---

    def records(self) -> int:
        """Return the number of transactions whose begin is in the history."""
        return sum(not each.is_move() for each in self.operations)

    def lines(self) -> list[str]:
        """Return the figures of the run."""
        outcomes = Counter(each.outcome for each in self.operations if not each.is_move())
        moves: Counter[str] = Counter()
        polled = 0
        for operation in self.operations:
            moves.update(step.kind for step in operation.moves())
            polled += sum(len(it) for poll in operation.polls() for it in poll.messages.values())
        errors = Counter(each["name"] for each in said(self.directory) if each["e"] == "error")
        return [
            self._fault_line(),
            f"transactions: {counted(outcomes)}; processes: {self._lives}",
            f"messages polled: {polled}; moves: {counted(moves)}",
            f"operations in cycles that are normal: {counted(count_cycles(self.operations))}",
            f"errors: {counted(errors)}",
        ]
