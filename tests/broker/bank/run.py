"""A run: orders, processors and faults on a cluster whose clients go through proxies, and its
result.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.broker.bank.processor import Settings
from tests.broker.bank.verify import Result
from tests.broker.cluster import Broker, Cluster, Listener, start
from tests.broker.support import create, delete, in_sync
from tests.harness import readers
from tests.harness.load import Load
from tests.harness.processes import Child, said
from tests.harness.proxy import Chaos, Proxy
from tests.harness.runs import FaultRun, counted
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
ACCOUNTS = 50
PARTITIONS = 4
STEP_S = 0.05
BYTES_MAX = 30_000
"""A connection is cut before it has carried more bytes, even inside a request."""
WELL_S = 400.0
END_S = 60.0
# Each is drawn once before any comes again.
DECK = ("kill", "freeze", "cut", "refuse", "kill", "pause", "broker", "cut")
CHANGES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
"""Brokers soon abort a transaction that takes too long."""


class Rig(NamedTuple):
    """Three brokers, a proxy for each, and ``fates``, the faults of connections."""

    cluster: Cluster
    proxies: list[Proxy]
    fates: Chaos


@contextmanager
def rig(seed: int) -> Iterator[Rig]:
    """Yield the running cluster."""
    fates = Chaos(seed, bytes_max=BYTES_MAX, answer_bytes_max=BYTES_MAX)
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(None, fates)) for _ in range(3)]
        advertised = [proxy.port for proxy in proxies]
        cluster = start(
            3, changes=CHANGES, listeners={"CLIENTS": Listener("PLAINTEXT", {}, advertised)}
        )
        stack.callback(cluster.close)
        for proxy, behind in zip(proxies, cluster.listeners["CLIENTS"].split(","), strict=True):
            proxy.target = behind
        yield Rig(cluster, proxies, fates)


@dataclass
class Options:
    seconds: float = 60.0
    seed: int = 0
    rate: int = 200
    processors: int = 4
    protocol: str = "consumer"
    timeout_s: float = 6.0  # of transactions
    bug: str = ""
    fault_every_s: tuple[float, float] = (0.5, 3.0)
    faults: tuple[str, ...] = field(default=DECK)

    def __str__(self) -> str:
        return f"{self.processors} processors, {self.protocol}, --seed {self.seed}"


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


class Run(FaultRun):
    """Use `Run(rig, options).run()`."""

    def __init__(self, rig: Rig, options: Options) -> None:
        self._cluster, self._proxies, self._fates = rig
        self._options = options
        super().__init__("bank", options.seed, options.faults)
        mark = uuid.uuid4().hex[:8]
        self._orders_topic, self._entries_topic, self._group = (
            f"bank-{mark}-{it}" for it in ("orders", "entries", "g")
        )
        self.result = Result()
        self._orders = Orders(self._cluster, self._orders_topic, options, self.result.orders)
        self._slots: dict[int, Child] = {}
        self._start_at: dict[int, float] = {}  # slots whose process was killed
        self._open_at: dict[
            Proxy, tuple[float, str]
        ] = {}  # proxies that refuse, with their targets
        self._away: tuple[Broker, float] | None = None
        self._lives = 0

    def run(self) -> Result:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(self._clean_up)
            create(self._cluster, self._orders_topic, PARTITIONS)
            create(self._cluster, self._entries_topic, PARTITIONS)
            self._fates.calm = False
            self._orders.start()
            for slot in range(self._options.processors):
                self._start(slot)
            deadline = time.monotonic() + self._options.seconds
            while time.monotonic() < deadline:
                self._fault()
                self._watch(
                    min(
                        time.monotonic() + self._random.uniform(*self._options.fault_every_s),
                        deadline,
                    )
                )
            self._heal()
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
        bootstrap = ",".join(proxy.address for proxy in self._proxies)
        common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500}
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
        self._slots[slot] = Child("tests.broker.bank.processor", settings, output)
        self._lives += 1

    def _watch(self, until: float) -> None:
        """Resume processes, start them and open proxies when they are due, until a time."""
        while True:
            now = time.monotonic()
            for process in self._slots.values():
                if process.resume_at is not None and now >= process.resume_at:
                    process.resume()
            for slot in [slot for slot, at in self._start_at.items() if now >= at]:
                del self._start_at[slot]
                self._start(slot)
            for proxy in [proxy for proxy, (at, _) in self._open_at.items() if now >= at]:
                proxy.target = self._open_at.pop(proxy)[1]
            if self._away is not None and now >= self._away[1]:
                self._away[0].start()
                self._away = None
            if now >= until:
                return
            time.sleep(min(until - now, STEP_S))

    def _heal(self) -> None:
        """End all faults."""
        self._fates.calm = True
        due = [*self._start_at.values(), *(at for at, _ in self._open_at.values())]
        due += [
            process.resume_at for process in self._slots.values() if process.resume_at is not None
        ]
        due += [] if self._away is None else [self._away[1]]
        self._watch(max([0.0, *due]))
        self._cluster.wait_until_up()

    def _all_is_committed(self) -> bool:
        died = {
            slot: process.code()
            for slot, process in self._slots.items()
            if process.code() is not None
        }
        assert not died, f"processors ended by themselves: {died}, see {self.directory}"
        return readers.is_committed(self._cluster, self._orders_topic, PARTITIONS, self._group)

    def _all_gone(self) -> bool:
        codes = [process.code() for process in self._slots.values()]
        assert set(codes) <= {0, None}, f"processors ended with {codes}, see {self.directory}"
        return None not in codes

    def _clean_up(self) -> None:
        for process in self._slots.values():
            if process.code() is None:
                process.kill()
        if self._away is not None:
            self._away[0].start()
        for proxy, (_, target) in self._open_at.items():
            proxy.target = target
        self._cluster.wait_until_up()
        delete(self._cluster, self._orders_topic, self._entries_topic)

    # --- faults ---

    def _victim(self) -> int | None:
        """Return a healthy processor, if there is another one."""
        well = [
            slot
            for slot, each in self._slots.items()
            if slot not in self._start_at and each.resume_at is None
        ]
        return self._random.choice(well) if len(well) > 1 else None

    def _well(self) -> Child | None:
        slot = self._victim()
        return None if slot is None else self._slots[slot]

    def _fault_kill(self) -> bool:
        slot = self._victim()
        if slot is not None:
            self._slots[slot].kill()
            self._start_at[slot] = time.monotonic() + self._random.uniform(0.0, 3.0)
        return slot is not None

    def _fault_pause(self) -> bool:
        """Freeze for less than the timeout of a transaction."""
        return self._freeze(self._well(), (0.1, 0.7), self._options.timeout_s)

    def _fault_freeze(self) -> bool:
        """Freeze for longer: another processor gets its partitions, and its transaction is aborted."""
        return self._freeze(self._well(), (1.3, 1.7), self._options.timeout_s)

    def _fault_cut(self) -> bool:
        """Cut every connection of a broker. Data on its way is lost."""
        self._random.choice(self._proxies).cut_all()
        return True

    def _fault_refuse(self) -> bool:
        """Make a broker unreachable for a while."""
        proxy = self._random.choice(self._proxies)
        if proxy.target is None:
            return False
        self._open_at[proxy] = time.monotonic() + self._random.uniform(0.5, 4.0), proxy.target
        proxy.target = None
        proxy.cut_all()
        return True

    def _fault_broker(self) -> bool:
        topics = (
            self._orders_topic,
            self._entries_topic,
            "__transaction_state",
            "__consumer_offsets",
        )
        if self._away is not None or not all(in_sync(self._cluster, topic) for topic in topics):
            return False
        broker = self._random.choice(list(self._cluster.brokers.values()))
        self._random.choice([broker.stop, broker.kill])()
        self._away = (broker, time.monotonic() + self._random.uniform(0.5, 4.0))
        return True

    # --- figures ---

    def _cuts(self) -> int:
        return sum(proxy.cuts for proxy in self._proxies)

    def lines(self) -> list[str]:
        """Return the figures of the run."""
        done: Counter[str] = Counter()
        ends: Counter[str] = Counter()
        for event in said(self.directory):
            if event["e"] == "progress":
                done += Counter({name: event[name] for name in ("committed", "aborted")})
            elif event["e"] == "error":
                ends[event["name"]] += 1
        return [
            (
                f"{self.seconds:.0f} s, faults: {counted(self.faults)}; connections cut on their "
                f"way: {self._cuts()}"
            ),
            f"orders: {len(self.result.orders)}; entries seen: "
            + ", ".join(f"{name} {len(found)}" for name, found in self.result.readings.items()),
            (
                f"transactions: {done['committed']} committed, {done['aborted']} aborted; "
                f"processes: {self._lives}"
            ),
            f"new clients after: {counted(ends)}",
            f"open in the brokers' logs: {len(self.result.open_transactions)}",
        ]
