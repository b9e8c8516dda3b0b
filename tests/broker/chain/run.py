"""A round: a load, members on three levels and faults, and its result."""

from __future__ import annotations

import time
import uuid
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka

import kafka_native
from tests.broker.chain.verify import Result
from tests.broker.copies.verify import Copy, Reading, ends, read
from tests.broker.support import create, delete
from tests.broker.transformer import Settings, figures
from tests.harness import readers
from tests.harness.cluster_run import (
    ABORTS_SOON,
    NETWORK_FAULTS,
    ClusterRun,
    FaultOptions,
    Rig,
    rig,
)
from tests.harness.load import Load
from tests.harness.processes import Child
from tests.harness.runs import counted
from tests.waiting import wait_for

LEVELS = 3
PARTITIONS = 6
WELL_S = 300.0
END_S = 60.0
BYTES_MAX = 1_000_000
ASSIGNORS: dict[str, dict[str, str]] = {
    **{
        name: {
            "group.protocol": "classic",
            "partition.assignment.strategy": name,
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
        }
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    },
    **{
        f"broker-{name}": {"group.protocol": "consumer", "group.remote.assignor": name}
        for name in ("uniform", "range")
    },
}
"""The settings of each assignor: those of the clients, and those of the broker."""
# Each is drawn once before any comes again.
DECK = (
    *("leave", "join", "leave", "join", "leave", "join", "kill", "leave", "join", "cut", "pause"),
    *NETWORK_FAULTS,
)


def chain_rig(seed: int) -> AbstractContextManager[Rig]:
    """Return the cluster of all rounds, as a context manager."""
    return rig(seed, ABORTS_SOON, BYTES_MAX)


@dataclass
class Options(FaultOptions):
    """``seconds`` are those of a round. ``processes``: the most members of all levels."""

    seconds: float = 40.0
    processes: int = 9
    rate: int = 2000
    messages: int = 500  # of a transaction
    assignor: str = "range"
    fault_every_s: tuple[float, float] = (0.3, 1.5)
    bug: str = ""
    faults: tuple[str, ...] = field(default=DECK)

    def __str__(self) -> str:
        bug = f", --bug {self.bug}" if self.bug else ""
        return f"{self.processes} members, {self.assignor}{bug}, --seed {self.seed}"


class Run(ClusterRun):
    """One round. Use `Run(rig, options).run()`."""

    def __init__(self, rig: Rig, options: Options) -> None:
        self._options = options
        self._mark = f"chain-{uuid.uuid4().hex[:8]}"
        self._names = [f"{self._mark}-{level}" for level in range(LEVELS + 1)]
        super().__init__("chain", rig, options, self._names)
        self._leaving: set[int] = set()  # slots whose process has left, or will
        self.result = Result()
        self._load = Load(self._cluster, options.rate, self._message)

    def _message(self, number: int) -> dict[str, Any]:
        text = str(number)
        place = {"topic": self._names[0], "partition": number % PARTITIONS}
        return {**place, "key": text, "value": text}

    def run(self) -> Result:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(delete, self._cluster, *self._names)
            stack.callback(self._clean_up)
            for name in self._names:
                create(self._cluster, name, PARTITIONS)
            self._load.start()
            self._make_faults()
            self._load.end(WELL_S)
            self._complete()
            self._read_levels()
            for process in self._slots.values():
                process.leave()
            wait_for(self._all_gone, "members that leave", END_S)
            self.result.open_transactions = readers.open_transactions(
                self._cluster, self._mark, self._mark
            )
        self.seconds = time.monotonic() - began
        return self.result

    # --- the end ---

    def _complete(self) -> None:
        """Start a member in each slot whose member has left."""
        wait_for(lambda: self._all_gone(self._leaving), "members that leave", END_S)
        for slot in sorted(self._leaving):
            self._start(slot)
        self._leaving.clear()

    def _read_levels(self) -> None:
        """Read each topic, once the next level has committed the end of the one before."""
        copy = self._read(self._names[0], [])
        for level, name in enumerate(self._names[1:]):
            found = copy.readings["kafka_native"]
            self._wait_until_copied(level, found)
            copy = self._read(name, found)
            self.result.levels.append(copy)

    def _read(self, topic: str, source: Reading) -> Copy:
        copy = Copy(self._load.sent, source)
        for library in (kafka_native, confluent_kafka):
            found = readers.messages(library, self._cluster, topic, PARTITIONS)
            copy.readings[library.__name__] = read(found, PARTITIONS)
        return copy

    def _wait_until_copied(self, level: int, source: Reading) -> None:
        name = self._names[level]

        def is_copied() -> bool:
            self._all_alive()
            return readers.is_committed(self._cluster, name, PARTITIONS, f"{name}-g", ends(source))

        wait_for(is_copied, f"the end of {name} to be committed", WELL_S)

    # --- processes ---

    def _start(self, slot: int) -> None:
        options, level = self._options, slot % LEVELS
        source, target = self._names[level : level + 2]
        common = {"bootstrap.servers": self._bootstrap, "reconnect.backoff.max.ms": 500}
        consumer: dict[str, Any] = {
            "group.id": f"{source}-g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **ASSIGNORS[options.assignor],
        }
        producer = {
            "transactional.id": f"{self._mark}-{slot}",
            "transaction.timeout.ms": int(options.timeout_s * 1000),
        }
        settings = Settings(
            *(source, target, common | consumer, common | producer),
            seed=options.seed + self._lives,
            doom=0.1 / options.messages,
            messages=options.messages,
            bug=options.bug,
        )
        output = self.directory / f"{level}-{slot}.{self._lives}.out"
        self._slots[slot] = Child("tests.broker.copier", settings, output)
        self._lives += 1

    def _victim(self, among: Any = None) -> int | None:
        """Return a healthy member that won't leave."""
        return super()._victim(set(self._slots) - self._leaving)

    def _fault_leave(self) -> bool:
        slot = self._victim()
        if slot is not None:
            self._slots[slot].leave()
            self._leaving.add(slot)
        return slot is not None

    def _fault_join(self) -> bool:
        """Start a member in a slot whose member has left."""
        ended = sorted(slot for slot in self._leaving if self._slots[slot].code() == 0)
        if not ended:
            return False
        slot = self._random.choice(ended)
        self._leaving.discard(slot)
        self._start(slot)
        return True

    # --- figures ---

    @property
    def records(self) -> int:
        """The messages whose copies were checked on each level."""
        return self._load.sent

    def lines(self) -> list[str]:
        """Return the figures of the round."""
        done, errors = figures(self.directory)
        return [
            self._fault_line(),
            (
                f"messages: {self._load.sent}; transactions: {done['transactions']} committed, "
                f"{done['aborted']} aborted; processes: {self._lives}"
            ),
            f"new clients after: {counted(errors)}",
            f"open in the brokers' logs: {len(self.result.open_transactions)}",
        ]
