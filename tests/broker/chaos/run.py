"""A run: members, load and faults on a cluster, and its history."""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from tests.broker import payload
from tests.broker.chaos import commit_log
from tests.broker.chaos.history import FOREVER, History, Key, Life, Round
from tests.broker.chaos.member import Settings
from tests.broker.cluster import Broker, Cluster
from tests.broker.support import create, in_sync, leaders
from tests.harness.load import Load
from tests.harness.processes import Child
from tests.harness.runs import FaultRun
from tests.waiting import wait_for

SLOTS = 6
PARTITIONS = (6, 3)  # of the two topics, at the start
PARTITIONS_MAX = 16
ROUND_S = 25.0
FAULT_EVERY_S = (0.3, 2.5)
AWAY_S = (0.5, 4.0)
IN_SYNC_S = 90
END_S = 40.0  # from the command to leave to the end of a member
ROOT = Path(__file__).resolve().parents[3]

# Each is drawn once before any is drawn again.
DECK = (
    *(
        "crash",
        "join",
        "leave",
        "join",
        "pause",
        "freeze",
        "stall",
        "resubscribe",
        "partitions",
        "broker",
    ),
    *("crash", "join", "freeze", "join"),
)


@dataclass
class Options:
    """The options of a run.

    ``client``: ours, confluent or mixed. ``assignor``: only for the classic protocol.
    """

    protocol: str = "classic"
    assignor: str = "range"
    client: str = "ours"
    seconds: float = 60.0
    seed: int = 0
    rate: int = 500
    take: str = "consume"
    commits: str = "mixed"  # sync, async, store
    static: bool = False
    regex: bool = False
    bug: str = ""
    session_s: float = 6.0
    max_poll_s: float = 8.0
    settle_s: float = 30.0
    round_s: float = ROUND_S
    fault_every_s: tuple[float, float] = FAULT_EVERY_S
    faults: tuple[str, ...] = field(default=DECK)

    def __str__(self) -> str:
        how = self.assignor if self.protocol == "classic" else "the broker assigns"
        more = [name for name in ("static", "regex") if getattr(self, name)]
        return " ".join([self.client, self.protocol, how, *more, f"--seed {self.seed}"])


class Process(Child):
    """A member's process, and the facts of its life that it can't log itself."""

    def __init__(self, life: Life, settings: Settings, output: Path) -> None:
        super().__init__("tests.broker.chaos.member", settings, output)
        self.life = life
        self.busy_until = 0.0
        self.leaving: float | None = None

    def kill(self) -> None:
        super().kill()
        self.life.end(time.time(), "killed")

    def stop(self, seconds: float) -> None:
        super().stop(seconds)
        self.life.pauses.append((time.time(), FOREVER))

    def resume(self) -> None:
        if self.resume_at is not None:
            self.life.pauses[-1] = (self.life.pauses[-1][0], time.time())
            super().resume()

    def leave(self) -> None:
        super().leave()
        self.leaving = time.monotonic() + END_S

    def ended(self) -> bool:
        """Return whether it has ended. If so, its life ends too."""
        code = self.code()
        if code is None:
            if (
                self.leaving is not None
                and self.resume_at is None
                and time.monotonic() > self.leaving
            ):
                self.life.errors.append(
                    (time.time(), f"did not end in {END_S:g} s after the command to leave", True)
                )
                self.kill()
                return True
            return False
        if self.life.alive:
            self.life.end(
                time.time(), "closed" if code == 0 and self.leaving is not None else "died"
            )
        return True

    @property
    def free(self) -> bool:
        """Return whether a fault may hit it now."""
        return (
            self.resume_at is None and self.leaving is None and time.monotonic() >= self.busy_until
        )


class Values(Load):
    """Produces numbered values to every partition, and keeps the acked ones."""

    def __init__(self, cluster: Cluster, rate: int, acked: dict[Key, dict[int, int]]) -> None:
        super().__init__(
            cluster, rate, self._value, **{"linger.ms": 5, "message.timeout.ms": 120_000}
        )
        self._acked = acked
        self._partitions: list[Key] = []
        self.ends: dict[Key, int] = {}  # one past the last acked

    def widen(self, topic: str, count: int) -> None:
        """Set the topic's number of partitions."""
        known = set(self._partitions)
        self._partitions = [
            *self._partitions,
            *((topic, n) for n in range(count) if (topic, n) not in known),
        ]

    def _value(self, number: int) -> dict[str, Any]:
        partitions = self._partitions
        topic, partition = partitions[number % len(partitions)]
        return {
            "topic": topic,
            "value": payload.make(topic, partition, number),
            "partition": partition,
        }

    def acked(self, number: int, message: Any) -> None:
        key = message.topic(), message.partition()
        self._acked.setdefault(key, {})[message.offset()] = number
        self.ends[key] = max(self.ends.get(key, 0), message.offset() + 1)


class Run(FaultRun):
    """Use `Run(cluster, options).run()`."""

    def __init__(
        self, cluster: Cluster, options: Options, say: Callable[[str], None] = print
    ) -> None:
        self._cluster, self._options, self._say = cluster, options, say
        super().__init__("chaos", options.seed, options.faults)
        self.history = History(options.session_s, options.max_poll_s, options.settle_s)
        self.history.faults = self.faults
        mark = uuid.uuid4().hex[:8]
        self._group = f"chaos-{mark}"
        self._topics = [f"chaos-{mark}-{letter}" for letter in "ab"]
        self._counts = dict(zip(self._topics, PARTITIONS, strict=True))
        self._load = Values(cluster, options.rate, self.history.acked)
        self._slots: dict[int, Process | None] = dict.fromkeys(range(SLOTS))
        self._free_at: dict[int, float] = {}  # when a slot's group.instance.id may be used again
        self._lives = itertools.count()
        self._cluster_work: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1)
        # A broker ends with the thread that started it (guard.py), so only the run's thread starts any.
        self._back: queue.SimpleQueue[Broker] = queue.SimpleQueue()
        self._started = time.time()

    # --- the run ---

    def run(self) -> History:
        """Run everything. The processes have ended at the end, however it ends."""
        try:
            self._prepare()
            deadline = time.monotonic() + self._options.seconds
            while time.monotonic() < deadline:
                self._round(min(deadline, time.monotonic() + self._options.round_s))
            self._finish()
        finally:
            self._clean_up()
        return self.history

    def _prepare(self) -> None:
        for topic, count in self._counts.items():
            create(self._cluster, topic, count)
            self._load.widen(topic, count)
        self._load.start()
        for slot in (0, 1, 2):
            self._join(slot)
        self._settle()

    def _round(self, until: float) -> None:
        """Make faults until a time. Then end all faults, and wait until the group is stable."""
        while time.monotonic() < until:
            self._fault()
            pause = self._random.uniform(*self._options.fault_every_s)
            self._watch(min(time.monotonic() + pause, until))
        self._heal()
        self._settle()

    def _finish(self) -> None:
        """Stop the load with all six members. They read and commit everything, and leave."""
        self._watch(max([0.0, *self._free_at.values()]))
        for slot, process in self._slots.items():
            if process is None:
                self._join(slot)
        self._load.end()
        self._settle(end=True)
        for process in self._living():
            process.leave()
        wait_for(self._all_gone, "members that leave", 2 * END_S)
        self.history.seconds = time.time() - self._started
        self.history.commits, self.history.generations = commit_log.read(self._cluster, self._group)

    def _clean_up(self) -> None:
        for process in self._living():
            process.kill()
        wait_for(self._cluster_is_well, "the cluster to become well", IN_SYNC_S * 2)
        self._pool.shutdown()
        admin = self._cluster.admin()
        for topic, future in admin.delete_topics(self._topics, operation_timeout=5).items():
            try:
                future.result(6)
            except (
                TimeoutError,
                KafkaException,
            ) as error:  # the run has its result; the cluster ends soon
                self._say(f"  {topic} stays: {error!r}")

    def _cluster_is_well(self) -> bool:
        self._watch(0)
        return not self._cluster_busy()

    def _all_gone(self) -> bool:
        self._watch(0)
        return not self._living()

    def _living(self) -> list[Process]:
        return [process for process in self._slots.values() if process is not None]

    def _watch(self, until: float) -> None:
        """Resume processes that are due, and notice ended ones, until a time."""
        while True:
            with contextlib.suppress(queue.Empty):
                self._back.get_nowait().start()
            for slot, process in self._slots.items():
                if process is None:
                    continue
                if process.resume_at is not None and time.monotonic() >= process.resume_at:
                    process.resume()
                if process.ended():
                    self._slots[slot] = None
            self.history.feed()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.05))

    # --- members ---

    def _client(self, slot: int) -> str:
        return (
            ("ours", "confluent")[slot % 2]
            if self._options.client == "mixed"
            else self._options.client
        )

    def _join(self, slot: int) -> None:
        name = f"m{slot}.{next(self._lives)}"
        options = self._options
        commits = (
            self._random.choice(["sync", "async", "store"])
            if options.commits == "mixed"
            else options.commits
        )
        log = self.directory / f"{name}.log"
        topics = [f"^{self._group.replace('-', '[-]')}-.*"] if options.regex else self._topics
        settings = Settings(
            *(name, str(log), self._client(slot), self._conf(name, slot, commits), topics),
            *(options.take, commits, options.bug if slot == 0 else ""),
        )
        life = Life(name, slot, log, time.time(), client=self._client(slot))
        self.history.lives.append(life)
        self._slots[slot] = Process(life, settings, self.directory / f"{name}.out")

    def _conf(self, name: str, slot: int, commits: str) -> dict[str, Any]:
        options = self._options
        conf: dict[str, Any] = {
            "bootstrap.servers": self._cluster.bootstrap,
            "group.id": self._group,
            "client.id": name,
            "group.protocol": options.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": commits == "store",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 300,
            "max.poll.interval.ms": int(options.max_poll_s * 1000),
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
        }
        if options.protocol == "classic":
            conf["session.timeout.ms"] = int(options.session_s * 1000)
            conf["heartbeat.interval.ms"] = 500
            conf["partition.assignment.strategy"] = options.assignor
        if options.static:
            conf["group.instance.id"] = f"slot-{slot}"
        if self._client(slot) == "confluent":
            conf["log_level"] = 0
        return conf

    # --- faults ---

    def _victim(self, keep: int, *clients: str) -> Process | None:
        """Return a healthy member that has subscribed, if more than ``keep`` remain."""
        free = [
            process for process in self._living() if process.free and process.life.ready is not None
        ]
        fit = [process for process in free if not clients or process.life.client in clients]
        return self._random.choice(fit) if fit and len(free) > keep else None

    def _fault_join(self) -> bool:
        now = time.monotonic()
        slots = [
            slot
            for slot, process in self._slots.items()
            if process is None and self._free_at.get(slot, 0) <= now
        ]
        if slots:
            self._join(self._random.choice(slots))
        return bool(slots)

    def _fault_crash(self) -> bool:
        victim = self._victim(1)
        if victim is not None:
            victim.kill()
            self._slots[victim.life.slot] = None
            if self._options.static and self._options.protocol == "consumer":
                # The broker refuses a second member with this id until the first one's session ends:
                # fatal, by design.
                self._free_at[victim.life.slot] = time.monotonic() + 2 * self._options.session_s
        return victim is not None

    def _fault_leave(self) -> bool:
        victim = self._victim(1)
        if victim is not None:
            victim.leave()
        return victim is not None

    def _fault_pause(self) -> bool:
        """Freeze for less than the session timeout."""
        return self._freeze(self._victim(1), (0.1, 0.5), self._options.session_s)

    def _fault_freeze(self) -> bool:
        """Freeze for longer than the session timeout."""
        return self._freeze(self._victim(1), (1.1, 1.8), self._options.session_s)

    def _fault_stall(self) -> bool:
        """Make the application exceed its poll interval.

        Not for librdkafka: if it leaves the group while it has to revoke partitions, it never
        rejoins, and keeps the others.
        """
        victim = self._victim(1, "ours")
        if victim is not None:
            seconds = self._options.max_poll_s * self._random.uniform(1.1, 1.4)
            victim.send(f"stall {seconds:.1f}")
            victim.busy_until = time.monotonic() + seconds + 1
        return victim is not None

    def _fault_resubscribe(self) -> bool:
        victim = self._victim(1)
        if victim is not None:
            victim.send("resubscribe")
            victim.busy_until = time.monotonic() + 1
        return victim is not None

    def _fault_partitions(self) -> bool:
        topic = self._random.choice(self._topics)
        count = self._counts[topic] + self._random.randint(1, 2)
        if count > PARTITIONS_MAX or self._cluster_busy():
            return False

        def work() -> None:
            wait_for(lambda: self._widened(topic, count), f"more partitions of {topic}", IN_SYNC_S)
            self._load.widen(topic, count)
            self._counts[topic] = count

        self._cluster_work = self._pool.submit(work)
        return True

    def _widened(self, topic: str, count: int) -> bool:
        """Request more partitions, each time with a new client: a client without its controller
        waits long.
        """
        admin = self._cluster.admin()
        if len(leaders(self._cluster, topic, admin)) == count:
            return True
        with contextlib.suppress(TimeoutError, KafkaException):
            admin.create_partitions([NewPartitions(topic, count)], operation_timeout=5)[
                topic
            ].result(6)
        return False

    def _fault_broker(self) -> bool:
        if self._cluster_busy() or not self._cluster.brokers:
            return False
        broker = self._random.choice(list(self._cluster.brokers.values()))
        end = self._random.choice([broker.stop, broker.kill])
        away_s = self._random.uniform(*AWAY_S)

        def work() -> None:
            self.history.outages.append((time.time(), FOREVER))
            end()
            time.sleep(away_s)
            self._back.put(broker)
            wait_for(self._back.empty, "the run to start a broker again")
            self._cluster.wait_until_up()
            topics = [*self._topics, commit_log.TOPIC]
            wait_for(
                lambda: all(in_sync(self._cluster, topic) for topic in topics),
                "replicas in sync",
                IN_SYNC_S,
            )
            self.history.outages[-1] = (self.history.outages[-1][0], time.time())

        self._cluster_work = self._pool.submit(work)
        return True

    def _cluster_busy(self) -> bool:
        if self._cluster_work is None or not self._cluster_work.done():
            return self._cluster_work is not None
        self._cluster_work.result()
        return False

    # --- becoming stable ---

    def _heal(self) -> None:
        """End all faults. Members that left stay away."""
        for process in self._living():
            process.resume()
        self._watch(max([0.0, *(process.busy_until for process in self._living())]))
        deadline = time.monotonic() + 2 * IN_SYNC_S
        while self._cluster_busy() or any(
            process.leaving is not None for process in self._living()
        ):
            assert time.monotonic() < deadline, "the cluster did not become well"
            self._watch(time.monotonic() + 0.1)

    def _settle(self, end: bool = False) -> None:
        """Wait until each partition has one owner that has read on.

        At the end it must have read everything, and its offset must be committed.
        """
        healed = time.time()
        wanted = dict(self._load.ends)
        deadline = time.monotonic() + self._options.settle_s
        while why := self._unsettled(wanted, end):
            if time.monotonic() > deadline:
                self.history.rounds.append(Round(healed, None, why))
                self._say(f"  not settled: {why}")
                return
            self._watch(time.monotonic() + 0.1)
        self.history.rounds.append(Round(healed, time.time()))

    def _unsettled(self, wanted: dict[Key, int], everybody: bool) -> str:
        """Return the first unmet condition."""
        self.history.feed()
        living = [life for life in self.history.lives if life.alive]
        partitions = [
            (topic, number) for topic, count in self._counts.items() for number in range(count)
        ]
        for key in partitions:
            owners = [life for life in living if key in life.owned]
            if len(owners) != 1:
                return f"{key[0]} [{key[1]}] has the owners {[life.name for life in owners]}"
            got = owners[0].owned[key].got
            end = wanted.get(key, 0)
            if not (got and got[-1][1] + 1 >= end) and not self._was_read(key, end):
                return (
                    f"{owners[0].name} has read {key[0]} [{key[1]}] to "
                    f"{got[-1][1] if got else None} of {end}"
                )
        if everybody:
            committed = {
                (key, offset) for life in self.history.lives for _, key, offset in life.reported
            }
            for key, end in wanted.items():
                if (key, end) not in committed:
                    return f"the end of {key[0]} [{key[1]}], {end}, isn't committed"
        idle = [life.name for life in living if not life.owned]
        if everybody and (len(living) < SLOTS or idle):
            return f"{len(living)} members, without partitions: {idle}"
        return ""

    def _was_read(self, key: Key, end: int) -> bool:
        """Return whether an earlier owner has read everything, so that nothing is left for this
        one.
        """
        return end == 0 or any(
            each.got and each.got[-1][1] + 1 >= end
            for life in self.history.lives
            for each in life.assignments
            if each.key == key
        )
