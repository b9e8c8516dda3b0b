"""A run: members, load and faults on a cluster, and its history."""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from tests.broker.chaos import commit_log
from tests.broker.chaos.history import FOREVER, History, Key, Life, Round
from tests.broker.chaos.hosts import END_S, Host, Member
from tests.broker.chaos.member import Settings
from tests.broker.cluster import Broker, Cluster
from tests.broker.support import create, in_sync, leaders
from tests.harness.load import NumberedLoad
from tests.harness.runs import FaultRun
from tests.waiting import wait_for

MORE_PARTITIONS_MAX = 10
ROUND_S = 25.0
FAULT_EVERY_S = (0.3, 2.5)
STORM_EVERY_S = (0.02, 0.2)
AWAY_S = (0.5, 4.0)
IN_SYNC_S = 90
MIXED = "mixed"
OTHER_PROTOCOL = {"classic": "consumer", "consumer": "classic"}
TARGET_SHARE = 0.8
"""How many members that join have the protocol that the group migrates to."""
HANDOVERS = 5
"""A migration replaces the members in so many parts."""

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

# As many changes of the group as possible. A crash and a freeze delay the next rebalance by a
# session's timeout, so they are rare.
STORM = (*("join", "leave") * 6, *("join",) * 3, "crash", "resubscribe", "freeze")


@dataclass
class Options:
    """The options of a run.

    ``client``: ours, confluent or mixed. ``protocol``: classic, consumer, or mixed: then the group
    migrates between the protocols in each round. ``assignor``: of members with the classic
    protocol. ``per_process``: members in the same process crash and freeze together.
    """

    protocol: str = "classic"
    assignor: str = "range"
    client: str = "ours"
    seconds: float = 60.0
    seed: int = 0
    rate: int = 500
    take: str = "consume"
    commits: str = "mixed"  # sync, async, store
    members: int = 6
    per_process: int = 1
    storm: bool = False
    static: bool = False
    regex: bool = False
    bug: str = ""
    session_s: float = 6.0
    max_poll_s: float = 8.0
    settle_s: float = 30.0
    round_s: float = ROUND_S
    fault_every_s: tuple[float, float] = FAULT_EVERY_S
    faults: tuple[str, ...] = DECK

    def __post_init__(self) -> None:
        """Choose the faults of a storm, unless they are given."""
        if self.storm and self.faults == DECK:
            self.faults = STORM
        if self.storm and self.fault_every_s == FAULT_EVERY_S:
            self.fault_every_s = STORM_EVERY_S

    def __str__(self) -> str:
        how = "the broker assigns" if self.protocol == "consumer" else self.assignor
        more = [name for name in ("storm", "static", "regex") if getattr(self, name)]
        size = f"{self.members} members"
        return " ".join([self.client, self.protocol, how, size, *more, f"--seed {self.seed}"])


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
        self._counts = dict(
            zip(self._topics, (options.members, max(options.members // 2, 1)), strict=True)
        )
        self._load = NumberedLoad(cluster, options.rate, self.history.acked)
        self._slots: dict[int, Member | None] = dict.fromkeys(range(options.members))
        self._hosts: dict[int, Host] = {}
        self._free_at: dict[int, float] = {}  # when a slot's group.instance.id may be used again
        self._lives = itertools.count()
        self._keep = options.members // 2 if options.storm else 1
        self._target = "classic" if options.protocol == MIXED else options.protocol
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
        for slot in range(max(self._options.members // 2, 1)):
            self._join(slot)
        self._settle()

    def _round(self, until: float) -> None:
        """Make faults until a time. Then end all faults, and wait until the group is stable."""
        while time.monotonic() < until:
            self._fault()
            pause = self._random.uniform(*self._options.fault_every_s)
            self._watch(min(time.monotonic() + pause, until))
        self._heal()
        if self._options.protocol == MIXED:
            self._migrate()
        self._settle()

    def _migrate(self) -> None:
        """Replace the members of one protocol by members of the other, a part after the other."""
        self._target = OTHER_PROTOCOL[self._target]
        old = [member for member in self._living() if member.protocol != self._target]
        for first in range(HANDOVERS):
            part = [(member.life.slot, member) for member in old[first::HANDOVERS]]
            for _, member in part:
                member.leave()
            while any(self._slots[slot] is member for slot, member in part):
                self._watch(time.monotonic() + 0.05)
            for slot, _ in part:
                self._join(slot, self._target)
        self.faults["migrate"] += bool(old)

    def _finish(self) -> None:
        """Stop the load with all members. They read and commit everything, and leave."""
        self._watch(max([0.0, *self._free_at.values()]))
        for slot, member in self._slots.items():
            if member is None:
                self._join(slot)
        self._load.end()
        self._settle(end=True)
        for member in self._living():
            member.leave()
        wait_for(self._all_gone, "members that leave", 2 * END_S)
        self.history.seconds = time.time() - self._started
        log = commit_log.read(self._cluster, self._group)
        self.history.commits, self.history.generations = log.commits, log.generations
        self.history.migrations = log.migrations

    def _clean_up(self) -> None:
        for member in self._living():
            if member.life.alive:
                member.host.kill()
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

    def _living(self) -> list[Member]:
        members = self._slots.values()
        return [member for member in members if member is not None and member.life.alive]

    def _watch(self, until: float) -> None:
        """Resume processes that are due, and notice ended members, until a time."""
        while True:
            with contextlib.suppress(queue.Empty):
                self._back.get_nowait().start()
            self.history.feed()
            for slot, member in self._slots.items():
                if member is None:
                    continue
                due = member.host.resume_at
                if due is not None and time.monotonic() >= due:
                    member.host.resume()
                if member.ended():
                    self._slots[slot] = None
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

    def _join(self, slot: int, protocol: str = "") -> None:
        """Start the member of a slot: in a process with others, if that may take it."""
        name = f"m{slot}.{next(self._lives)}"
        options = self._options
        protocol = protocol or self._drawn_protocol()
        commits = (
            self._random.choice(["sync", "async", "store"])
            if options.commits == "mixed"
            else options.commits
        )
        log = self.directory / f"{name}.log"
        topics = [f"^{self._group.replace('-', '[-]')}-.*"] if options.regex else self._topics
        conf = self._conf(name, slot, commits, protocol)
        settings = Settings(
            *(name, str(log), self._client(slot), conf, topics),
            *(options.take, commits, options.bug if slot == 0 else ""),
        )
        host = self._hosts.get(slot // options.per_process)
        if host is None or not host.takes_members:
            host = Host(settings, self.directory / f"{name}.out")
            self._hosts[slot // options.per_process] = host
        life = Life(
            *(name, slot, log, time.time()),
            client=self._client(slot),
            protocol=protocol,
            output=host.output,
        )
        self.history.lives.append(life)
        self._slots[slot] = host.join(settings, life, protocol)

    def _drawn_protocol(self) -> str:
        if self._options.protocol != MIXED or self._random.random() < TARGET_SHARE:
            return self._target
        return OTHER_PROTOCOL[self._target]

    def _conf(self, name: str, slot: int, commits: str, protocol: str) -> dict[str, Any]:
        options = self._options
        conf: dict[str, Any] = {
            "bootstrap.servers": self._cluster.bootstrap,
            "group.id": self._group,
            "client.id": name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": commits == "store",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 300,
            "max.poll.interval.ms": int(options.max_poll_s * 1000),
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
        }
        if protocol == "classic":
            conf["session.timeout.ms"] = int(options.session_s * 1000)
            conf["heartbeat.interval.ms"] = 200 if options.storm else 500
            conf["partition.assignment.strategy"] = options.assignor
        if options.static:
            conf["group.instance.id"] = f"slot-{slot}"
        if self._client(slot) == "confluent":
            conf["log_level"] = 0
        return conf

    # --- faults ---

    def _ready(self) -> list[Member]:
        """Return the healthy members that have subscribed."""
        return [
            member for member in self._living() if member.free and member.life.ready is not None
        ]

    def _victim(self, *clients: str) -> Member | None:
        """Return one of them, if enough remain."""
        ready = self._ready()
        fit = [member for member in ready if not clients or member.life.client in clients]
        return self._random.choice(fit) if fit and len(ready) > self._keep else None

    def _host(self) -> Host | None:
        """Return the process of one of them, if enough remain in other processes."""
        victim = self._victim()
        if victim is None:
            return None
        others = [member for member in self._ready() if member.host is not victim.host]
        keep = min(self._keep, self._options.members - 2 * self._options.per_process)
        return victim.host if len(others) >= max(keep, 1) else None

    def _fault_join(self) -> bool:
        now = time.monotonic()
        slots = [
            slot
            for slot, member in self._slots.items()
            if member is None and self._free_at.get(slot, 0) <= now
        ]
        if slots:
            self._join(self._random.choice(slots))
        return bool(slots)

    def _fault_crash(self) -> bool:
        host = self._host()
        if host is not None:
            slots = [member.life.slot for member in host.members]
            host.kill()
            if self._options.static and self._options.protocol != "classic":
                # The broker refuses a second member with this id until the first one's session ends:
                # fatal, by design.
                until = time.monotonic() + 2 * self._options.session_s
                self._free_at.update(dict.fromkeys(slots, until))
        return host is not None

    def _fault_leave(self) -> bool:
        victim = self._victim()
        if victim is not None:
            victim.leave()
        return victim is not None

    def _fault_pause(self) -> bool:
        """Freeze for less than the session timeout."""
        return self._freeze(self._host(), (0.1, 0.5), self._options.session_s)

    def _fault_freeze(self) -> bool:
        """Freeze for longer than the session timeout."""
        return self._freeze(self._host(), (1.1, 1.8), self._options.session_s)

    def _fault_stall(self) -> bool:
        """Make the application exceed its poll interval.

        Not for librdkafka: if it leaves the group while it has to revoke partitions, it never
        rejoins, and keeps the others.
        """
        victim = self._victim("ours")
        if victim is not None:
            seconds = self._options.max_poll_s * self._random.uniform(1.1, 1.4)
            victim.send(f"stall {seconds:.1f}")
            victim.busy_until = time.monotonic() + seconds + 1
        return victim is not None

    def _fault_resubscribe(self) -> bool:
        victim = self._victim()
        if victim is not None:
            victim.send("resubscribe")
            victim.busy_until = time.monotonic() + 1
        return victim is not None

    def _fault_partitions(self) -> bool:
        topic = self._random.choice(self._topics)
        count = self._counts[topic] + self._random.randint(1, 2)
        if count > self._options.members + MORE_PARTITIONS_MAX or self._cluster_busy():
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
        for member in self._living():
            member.host.resume()
        self._watch(max([0.0, *(member.busy_until for member in self._living())]))
        deadline = time.monotonic() + 2 * IN_SYNC_S
        while self._cluster_busy() or any(member.leaving is not None for member in self._living()):
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
        if everybody and (len(living) < self._options.members or idle):
            return f"{len(living)} members, without partitions: {idle}"
        return ""

    def _was_read(self, key: Key, end: int) -> bool:
        """Return whether an earlier owner has read everything, so that nothing is left for this
        one.
        """
        return end == 0 or any(
            each.got and each.got[-1][1] + 1 >= end
            for life in reversed(self.history.lives)
            for each in life.assignments
            if each.key == key
        )
