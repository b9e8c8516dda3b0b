"""A run: orders, processors and faults on a cluster whose clients go through proxies, and its
result.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.broker.bank.processor import Settings
from tests.broker.bank.verify import Result
from tests.broker.cluster import Cluster
from tests.broker.support import create, delete
from tests.broker.transformer import figures
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
from tests.harness.load import Load
from tests.harness.runs import counted
from tests.waiting import wait_for

ACCOUNTS = 50
PARTITIONS = 4
WELL_S = 400.0
END_S = 60.0
# Each is drawn once before any comes again.
DECK = (
    *("kill", "freeze", "cut", "refuse", "kill", "pause", "broker", "cut"),
    *(*NETWORK_FAULTS, *CLIENT_FAULTS),
)


def bank_rig(seed: int, network: str = PROXIES) -> AbstractContextManager[Rig]:
    """Return the cluster of a run, as a context manager."""
    return rig(seed, ABORTS_SOON, network=network)


@dataclass
class Options(FaultOptions):
    rate: int = 200
    protocol: str = "consumer"
    bug: str = ""
    faults: tuple[str, ...] = field(default=DECK)

    def __str__(self) -> str:
        return f"{self.processes} processors, {self.protocol}, --seed {self.seed}"


class Orders(Load):
    """Numbered transfers."""

    def __init__(
        self, cluster: Cluster, topic: str, options: Options, acked: dict[int, tuple[int, int, int]]
    ) -> None:
        super().__init__(cluster, options.rate, self._order)
        self._topic, self._acked = topic, acked
        self._random = random.Random(options.seed)
        self._sent: dict[int, tuple[int, int, int]] = {}

    def _order(self, number: int) -> dict[str, Any]:
        payer, payee = self._random.sample(range(ACCOUNTS), 2)
        self._sent[number] = order = (payer, payee, self._random.randint(1, 100))
        return {"topic": self._topic, "value": json.dumps([number, *order])}

    def acked(self, number: int, message: Any) -> None:
        self._acked[number] = self._sent.pop(number)


class Run(CheckedRun):
    """Use `Run(rig, options).run()`."""

    def __init__(self, rig: Rig, options: Options) -> None:
        self._options = options
        mark = uuid.uuid4().hex[:8]
        self._orders_topic, self._entries_topic, self._group = (
            f"bank-{mark}-{it}" for it in ("orders", "entries", "g")
        )
        internal = ("__transaction_state", "__consumer_offsets")
        super().__init__("bank", rig, options, (self._orders_topic, self._entries_topic, *internal))
        self.result = Result()
        self._orders = Orders(self._cluster, self._orders_topic, options, self.result.orders)

    def run(self) -> Result:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(delete, self._cluster, self._orders_topic, self._entries_topic)
            stack.callback(self._clean_up)
            create(self._cluster, self._orders_topic, PARTITIONS)
            create(self._cluster, self._entries_topic, PARTITIONS)
            self._orders.start()
            self._make_faults()
            self._orders.end(WELL_S)
            wait_for(self._all_is_committed, "the end of the orders to be committed", WELL_S)
            for process in self._slots.values():
                process.leave()
            wait_for(self._all_gone, "processors that leave", END_S)
            self._read()
        self.seconds = time.monotonic() - began
        return self.result

    def _read(self) -> None:
        by_reader = {
            "kafka_native": readers.by_ours,
            "confluent_kafka": readers.by_theirs,
            "Java": readers.by_java,
        }
        count = 0
        for name, read in by_reader.items():
            self.result.readings[name] = read(self._cluster, self._entries_topic, PARTITIONS, count)
            count = len(self.result.readings[name])
        self.result.open_transactions = readers.open_transactions(
            self._cluster, self._entries_topic, self._group
        )

    # --- processes ---

    def _start(self, slot: int) -> None:
        common = {"bootstrap.servers": self._bootstrap, "reconnect.backoff.max.ms": 500}
        consumer: dict[str, Any] = {
            "group.id": self._group,
            "group.protocol": self._options.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        if self._options.protocol == "classic":
            consumer |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
        producer = {
            "transactional.id": f"{self._group}-{slot}",
            "transaction.timeout.ms": int(self._options.timeout_s * 1000),
        }
        settings = Settings(
            *(self._orders_topic, self._entries_topic, common | consumer, common | producer),
            seed=self._options.seed + self._lives,
            bug=self._options.bug,
        )
        output = self.directory / f"p{slot}.{self._lives}.out"
        self._slots[slot] = self._child(slot, "tests.broker.bank.processor", settings, output)
        self._lives += 1

    def _all_is_committed(self) -> bool:
        self._all_alive()
        return readers.is_committed(self._cluster, self._orders_topic, PARTITIONS, self._group)

    # --- figures ---

    def records(self) -> int:
        """Return the number of orders that were acknowledged."""
        return len(self.result.orders)

    def lines(self) -> list[str]:
        """Return the figures of the run."""
        done, ends = figures(self.directory)
        return [
            self._fault_line(),
            f"orders: {len(self.result.orders)}; entries seen: "
            + ", ".join(f"{name} {len(found)}" for name, found in self.result.readings.items()),
            (
                f"transactions: {done['transactions']} committed, {done['aborted']} aborted; "
                f"processes: {self._lives}"
            ),
            f"new clients after: {counted(ends)}",
            f"open in the brokers' logs: {len(self.result.open_transactions)}",
        ]
