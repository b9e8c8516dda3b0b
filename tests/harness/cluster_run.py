"""Runs of processes, with faults. Their clients reach three brokers of our own through proxies, or
through a network of namespaces.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException

import kafka_native
from kafka_native import ElectionType
from kafka_native.admin import AdminClient, NewPartitionReassignment
from kafka_native.protocol import ApiKey
from tests.broker import java
from tests.broker.cluster import Broker, Cluster, Host, Listener, NoBroker, quiet, start
from tests.broker.support import in_sync
from tests.harness import network as networks
from tests.harness.aims import Aims, drawn_aim
from tests.harness.network import BROKERS, CLIENTS, SIDES, Fault, Network, drawn_fault
from tests.harness.processes import Child, Process, said
from tests.harness.proxy import Chaos, Proxy
from tests.harness.runs import FaultRun, counted
from tests.harness.wall_clock import WallClock

STEP_S = 0.05
ABORTS_SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
"""A property of brokers that soon abort a transaction that takes too long."""
BYTES_MAX = 30_000
"""A connection is cut before it has carried more bytes, even inside a request."""
ADMIN_S = 10.0
HOLD_S = 10
"""A process keeps its interpreter lock for so long."""
JUMPS_S = (-20 * 3600, -3600, -60, 0, 60, 1800)
"""The jumps of a wall clock. Brokers refuse messages from later than in an hour.

When a broker starts, it forgets producers whose last message has a time of more than a day ago
(producer.id.expiration.ms). Then it can't recognize what such a producer repeats.
"""
ROLL_EVERY_S = 0.5
ROLL_S = 120.0
NETWORK_FAULTS = ("aimed", "hold_back")
"""Faults of single requests and answers, and of one direction of a broker's connections."""
PROXIES, NAMESPACES = "proxies", "namespaces"
"""Faults are made in proxies in front of the brokers, or in a `Network`."""
PROXY_FAULTS = ("cut", "refuse", *NETWORK_FAULTS)
NAMESPACE_FAULTS = networks.KINDS
LISTENER = "CLIENTS"
"""The brokers' listener for the processes of a run. The run itself uses the plaintext one."""
FAULT_S = (0.5, 12.0)
"""A fault in namespaces lasts so long."""
RESET_S = 0.5
AIMS = 3
"""A fault aims at so many frames at once. Those that no frame hits aren't counted."""
AIM_S = 12.0
APIS = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
)
CLIENT_FAULTS = ("files", "hold", "fork", "clock")
"""Faults in the client's process. It has to obey `client_faults`, and be a `_child()`."""


class Rig(NamedTuple):
    """Three brokers, and either a proxy for each or a network that can have faults.

    ``fates`` are the faults of the proxies' connections.
    """

    cluster: Cluster
    proxies: list[Proxy]
    fates: Chaos
    network: Network | None = None


def rig(
    seed: int, changes: Mapping[str, str], bytes_max: int = BYTES_MAX, network: str = PROXIES
) -> AbstractContextManager[Rig]:
    """Return the running cluster, as a context manager. ``changes`` are properties of its brokers."""
    fates = Chaos(seed, bytes_max=bytes_max, answer_bytes_max=bytes_max)
    if network == NAMESPACES:
        return _rig_in_namespaces(fates, dict(changes))
    return _rig_behind_proxies(fates, dict(changes))


@contextmanager
def _rig_behind_proxies(fates: Chaos, changes: dict[str, str]) -> Iterator[Rig]:
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(None, fates, aims=Aims())) for _ in range(3)]
        advertised = [proxy.port for proxy in proxies]
        listeners = {LISTENER: Listener("PLAINTEXT", {}, advertised)}
        cluster = start(3, changes=changes, listeners=listeners)
        stack.callback(cluster.close)
        for proxy, behind in zip(proxies, cluster.listeners[LISTENER].split(","), strict=True):
            proxy.target = behind
        yield Rig(cluster, proxies, fates)


@contextmanager
def _rig_in_namespaces(fates: Chaos, changes: dict[str, str]) -> Iterator[Rig]:
    """Yield the cluster. This thread, and those that it starts, are in the clients' namespace."""
    if why := networks.missing() or java.missing():
        raise NoBroker(why)
    java.jars()  # there is no internet in the namespaces
    with Network(3) as network, network.joined(), ExitStack() as stack:
        hosts = [
            Host(
                network.address(BROKERS, broker),
                network.address(CLIENTS, broker),
                network.broker(broker).command,
            )
            for broker in range(1, 4)
        ]
        listeners = {LISTENER: Listener("PLAINTEXT", {})}
        cluster = start(3, changes=changes, listeners=listeners, hosts=hosts)
        stack.callback(cluster.close)
        yield Rig(cluster, [], fates, network)


def module_rig(
    make: Callable[[int], AbstractContextManager[Rig]],
    missing: Callable[[], str | None] = lambda: None,
) -> Any:
    """Return a fixture with a running cluster for all tests of a module.

    ``missing`` returns what isn't installed here, if anything. Then the tests are skipped.
    """

    @pytest.fixture(scope="module")
    def three() -> Iterator[Rig]:
        if why := missing():
            pytest.skip(why)
        with rig_or_skip(make(0)) as found:
            yield found

    return three


@contextmanager
def rig_or_skip(made: AbstractContextManager[Rig]) -> Iterator[Rig]:
    """Yield the running cluster, or skip the test where no Apache Kafka can run."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(made)
        except NoBroker as reason:
            pytest.skip(f"no Apache Kafka: {reason}")
        yield found


@dataclass
class FaultOptions:
    """The options of every such run. A subclass gives its faults a default."""

    seconds: float = 60.0
    seed: int = 0
    processes: int = 4
    timeout_s: float = 6.0  # a process that is frozen for longer has lost its place
    fault_every_s: tuple[float, float] = (0.5, 3.0)
    faults: tuple[str, ...] = ()
    network: str = PROXIES

    def __post_init__(self) -> None:
        """Replace the faults of proxies by those of namespaces, unless some of these are given."""
        if self.network == NAMESPACES:
            kept = tuple(fault for fault in self.faults if fault not in PROXY_FAULTS)
            given = set(kept) & set(NAMESPACE_FAULTS)
            self.faults = kept if given else (*kept, *NAMESPACE_FAULTS, *NAMESPACE_FAULTS)


class ClusterRun(FaultRun):
    """Processes and faults. A subclass starts its processes in `_start()`."""

    apis: Sequence[ApiKey] = APIS
    """The requests that the fault "aimed" chooses from."""

    def __init__(self, name: str, rig: Rig, options: FaultOptions, topics: Sequence[str]) -> None:
        """``topics``: a broker goes away only while all their replicas are in sync."""
        super().__init__(name, options.seed, options.faults)
        self._cluster, self._proxies, self._fates, self._network = rig
        self._limits, self._topics = options, topics
        self._slots: dict[int, Process] = {}
        self._start_at: dict[int, float] = {}  # slots whose process was killed
        self._open_at: dict[
            Proxy, tuple[float, str]
        ] = {}  # proxies that refuse, with their targets
        self._away: tuple[Broker, float] | None = None  # a stopped broker, and when to start it
        self._frozen: tuple[Broker, float] | None = None
        self._roll: list[Broker] = []  # the brokers that are still to be restarted
        self._roll_at = 0.0
        self._held_until = 0.0  # see _fault_hold_back()
        self._network_faults: dict[Fault, float] = {}  # and when to end them
        self._links_rest_until = 0.0  # the start of a broker that is away
        self._clocks: dict[int, WallClock] = {}
        self._busy_until: dict[int, float] = {}  # slots that hold their interpreter lock
        self._lives = 0
        self.seconds = 0.0

    @property
    def _bootstrap(self) -> str:
        proxied = [proxy.address for proxy in self._proxies]
        return ",".join(proxied) or self._cluster.listeners[LISTENER]

    @abstractmethod
    def _start(self, slot: int) -> None:
        """Start the process of a slot, and count its life."""

    def _child(self, slot: int, module: str, settings: Any, output: Path) -> Child:
        """Start a process of a slot, with a wall clock of its own."""
        clock = self._clocks[slot] = WallClock(self.directory / f"clock-{slot}.{self._lives}")
        self._busy_until.pop(slot, None)
        return Child(module, settings, output, clock.environment)

    def _check_children(self) -> None:
        """Raise AssertionError if a client in a forked child wasn't refused, or hung there."""
        codes = [event["code"] for event in said(self.directory) if event["e"] == "forked"]
        assert not any(codes), f"forked children ended with {codes}, see {self.directory}"

    def _make_faults(self) -> None:
        """Start the processes, make faults for the time of the options, and end all faults."""
        self._fates.calm = False
        for slot in range(self._limits.processes):
            self._start(slot)
        deadline = time.monotonic() + self._limits.seconds
        while time.monotonic() < deadline:
            self._fault()
            pause_s = self._random.uniform(*self._limits.fault_every_s)
            self._watch(min(time.monotonic() + pause_s, deadline))
        self._heal()
        self._check_children()

    def _watch(self, until: float) -> None:
        """End the faults that are due, until a time."""
        while True:
            now = time.monotonic()
            for process in self._slots.values():
                if process.resume_at is not None and now >= process.resume_at:
                    process.resume()
                if process.unlimit_at is not None and now >= process.unlimit_at:
                    process.unlimit_files()
            for slot in [slot for slot, at in self._start_at.items() if now >= at]:
                del self._start_at[slot]
                self._start(slot)
            for proxy in [proxy for proxy, (at, _) in self._open_at.items() if now >= at]:
                proxy.target = self._open_at.pop(proxy)[1]
            self._end_network_faults(now)
            if self._frozen is not None and now >= self._frozen[1]:
                self._frozen[0].resume()
                self._frozen = None
            if self._away is not None and now >= self._away[1]:
                self._note(f"broker {self._away[0].node}: start")
                self._away[0].start()
                self._away = None
            if self._roll and now >= self._roll_at:
                self._restart_next(now)
            if now >= until:
                return
            time.sleep(min(until - now, STEP_S))

    def _restart_next(self, now: float) -> None:
        """Restart the next broker of a rolling restart, once the one before is back."""
        self._roll_at = now + ROLL_EVERY_S
        if self._may_end_a_broker() and self._all_brokers_are_well():
            broker = self._roll.pop()
            self._end_broker(broker, "stop", ROLL_EVERY_S)

    def _end_broker(self, broker: Broker, end: str, seconds: float) -> None:
        """Stop or kill a broker, and start it again after so many seconds."""
        self._note(f"broker {broker.node}: {end}")
        getattr(broker, end)()
        start_at = time.monotonic() + seconds
        self._away = (broker, start_at)
        self._links_rest_until = start_at

    def _heal(self) -> None:
        """End all faults."""
        self._fates.calm = True
        for proxy in self._proxies:
            if proxy.aims is not None:
                hits = proxy.aims.end()
                self.faults.update({f"aimed_{kind}": count for kind, count in hits.items()})
        deadline = time.monotonic() + ROLL_S
        while self._roll:
            assert time.monotonic() < deadline, "the brokers weren't all restarted"
            self._watch(time.monotonic() + ROLL_EVERY_S)
        due = [*self._start_at.values(), *(at for at, _ in self._open_at.values())]
        due += [
            process.resume_at for process in self._slots.values() if process.resume_at is not None
        ]
        due += [
            process.unlimit_at for process in self._slots.values() if process.unlimit_at is not None
        ]
        due += [*self._busy_until.values(), self._held_until, *self._network_faults.values()]
        due += [each[1] for each in (self._away, self._frozen) if each is not None]
        self._watch(max([0.0, *due]))
        self._cluster.wait_until_up()

    def _codes(self, among: Container[int] | None) -> dict[int, int | None]:
        """Return the exit codes of the processes in these slots."""
        return {
            slot: process.code()
            for slot, process in self._slots.items()
            if among is None or slot in among
        }

    def _all_alive(self, among: Container[int] | None = None) -> None:
        """Raise AssertionError if a process of these slots ended by itself."""
        died = {slot: code for slot, code in self._codes(among).items() if code is not None}
        assert not died, f"processes ended by themselves: {died}, see {self.directory}"

    def _all_gone(self, among: Container[int] | None = None) -> bool:
        codes = self._codes(among).values()
        assert set(codes) <= {0, None}, f"processes ended with {codes}, see {self.directory}"
        return None not in codes

    def _clean_up(self) -> None:
        for process in self._slots.values():
            if process.code() is None:
                process.kill()
        if self._frozen is not None:
            self._frozen[0].resume()
        if self._away is not None:
            self._away[0].start()
        self._end_network_faults()
        for proxy, (_, target) in self._open_at.items():
            proxy.target = target
        self._cluster.wait_until_up()

    def _cuts(self) -> int:
        return sum(proxy.cuts for proxy in self._proxies)

    def _fault_line(self) -> str:
        """Return the first line of the figures."""
        return (
            f"{self.seconds:.0f} s, faults: {counted(self.faults)}; connections cut on their way: "
            f"{self._cuts()}"
        )

    # --- faults ---

    def _victim(self, among: Container[int] | None = None) -> int | None:
        """Return a healthy process of these slots, if there is another one in any slot."""
        well = [
            slot
            for slot, each in self._slots.items()
            if slot not in self._start_at
            and each.resume_at is None
            and each.code() is None
            and self._busy_until.get(slot, 0.0) < time.monotonic()
        ]
        found = [slot for slot in well if among is None or slot in among]
        return self._random.choice(found) if found and len(well) > 1 else None

    def _well(self) -> Process | None:
        slot = self._victim()
        return None if slot is None else self._slots[slot]

    def _fault_kill(self) -> bool:
        return self._kill(self._victim())

    def _kill(self, slot: int | None) -> bool:
        """Kill the process of a slot, if there is one, and start it again later."""
        if slot is not None:
            self._slots[slot].kill()
            self._start_at[slot] = time.monotonic() + self._random.uniform(0.0, 3.0)
        return slot is not None

    def _fault_pause(self) -> bool:
        """Freeze a process for less than the time after which it has lost its place."""
        return self._freeze(self._well(), (0.1, 0.7), self._limits.timeout_s)

    def _fault_freeze(self) -> bool:
        """Freeze a process for longer."""
        return self._freeze(self._well(), (1.3, 1.7), self._limits.timeout_s)

    def _fault_cut(self) -> bool:
        """Cut every connection of a broker. Data on its way is lost."""
        if self._network is None:
            self._random.choice(self._proxies).cut_all()
            return True
        broker = self._random.choice(list(self._cluster.brokers))
        return self._begin(Fault("reset", CLIENTS, broker), RESET_S)

    def _fault_refuse(self) -> bool:
        """Make a broker unreachable for a while."""
        proxy = self._random.choice(self._proxies)
        if proxy.target is None:
            return False
        self._open_at[proxy] = time.monotonic() + self._random.uniform(0.5, 4.0), proxy.target
        proxy.target = None
        proxy.cut_all()
        return True

    def _fault_aimed(self) -> bool:
        """Aim at some requests or answers of any broker. `_heal()` counts those that were hit."""
        for _ in range(AIMS):
            aims = self._random.choice(self._proxies).aims
            assert aims is not None
            aims.add(drawn_aim(self._random, self.apis, AIM_S))
        return False

    def _fault_hold_back(self) -> bool:
        """Let a broker's requests, its answers or both get nowhere for a while."""
        requests, answers = self._random.choice([(True, False), (False, True), (True, True)])
        seconds = self._random.uniform(0.5, AIM_S)
        self._random.choice(self._proxies).hold(seconds, requests=requests, answers=answers)
        self._held_until = max(self._held_until, time.monotonic() + seconds)
        return True

    def _may_hit_a_broker(self) -> bool:
        return not self._roll and self._all_brokers_are_well()

    def _all_brokers_are_well(self) -> bool:
        if self._away is not None or self._frozen is not None or self._brokers_are_apart():
            return False
        return all(in_sync(self._cluster, topic) for topic in self._topics)

    def _fault_broker(self) -> bool:
        """Stop or kill a broker for a while."""
        return self._send_away(("stop", "kill"))

    def _fault_stop_broker(self) -> bool:
        return self._send_away(("stop",))

    def _fault_kill_broker(self) -> bool:
        return self._send_away(("kill",))

    def _send_away(self, ends: Sequence[str]) -> bool:
        """End a broker in one of these ways, and start it again later."""
        if not self._may_end_a_broker() or not self._may_hit_a_broker():
            return False
        broker = self._random.choice(list(self._cluster.brokers.values()))
        self._end_broker(broker, self._random.choice(ends), self._random.uniform(0.5, 4.0))
        return True

    def _may_end_a_broker(self) -> bool:
        """Return whether no link has a fault."""
        return not self._network_faults

    def _fault_roll(self) -> bool:
        """Restart all brokers, one after the other."""
        if not self._may_hit_a_broker():
            return False
        self._roll = list(self._cluster.brokers.values())
        self._random.shuffle(self._roll)
        return True

    def _fault_stall(self) -> bool:
        """Freeze a broker, for less or longer than the others wait for it."""
        if not self._may_hit_a_broker():
            return False
        broker = self._random.choice(list(self._cluster.brokers.values()))
        broker.suspend()
        self._frozen = (broker, time.monotonic() + self._random.uniform(0.5, 12.0))
        return True

    def _fault_leaders(self) -> bool:
        """Give every partition of the first topic another leader."""
        if not self._may_hit_a_broker():
            return False
        topic = self._topics[0]
        try:
            found = self._cluster.admin().list_topics(topic, timeout=ADMIN_S).topics[topic]
        except KafkaException:
            return False
        with AdminClient(quiet(self._cluster.conf())) as admin:
            moves = {
                kafka_native.TopicPartition(topic, number): NewPartitionReassignment(
                    [*each.replicas[1:], each.replicas[0]]
                )
                for number, each in found.partitions.items()
            }
            try:
                for future in admin.alter_partition_reassignments(moves).values():
                    future.result(ADMIN_S)
                admin.elect_leaders(ElectionType.PREFERRED, list(moves)).result(ADMIN_S)
            except kafka_native.KafkaException as error:
                if not error.args[0].retriable():
                    raise
                return False  # the controller has just moved
        return True

    # --- faults in namespaces ---

    def _fault_packets_lost(self) -> bool:
        return self._hit_a_link("packets_lost")

    def _fault_one_way(self) -> bool:
        return self._hit_a_link("one_way")

    def _fault_blackhole(self) -> bool:
        return self._hit_a_link("blackhole")

    def _fault_reset(self) -> bool:
        return self._hit_a_link("reset")

    def _fault_unreachable(self) -> bool:
        return self._hit_a_link("unreachable")

    def _fault_narrow(self) -> bool:
        return self._hit_a_link("narrow")

    def _hit_a_link(self, kind: str) -> bool:
        """Let a broker's link to its clients, or to the other brokers, have a fault for a while.

        `_end_network_faults()` counts those that have hit packets.
        """
        side = self._random.choice(SIDES)
        if side == BROKERS and not self._may_hit_a_broker():
            side = CLIENTS
        broker = self._random.choice(list(self._cluster.brokers))
        self._begin(drawn_fault(self._random, kind, side, broker), self._random.uniform(*FAULT_S))
        return False

    def _begin(self, fault: Fault, seconds: float) -> bool:
        """Begin a fault, unless its link has another one or has to rest."""
        assert self._network is not None, f"{fault.kind} needs namespaces"
        has_to_rest = bool(self._roll) or time.monotonic() < self._links_rest_until
        is_free = not has_to_rest and not self._network.is_hit(fault.side, fault.broker)
        if is_free:
            self._note(f"{fault} for {seconds:.1f} s")
            self._network.begin(fault)
            self._network_faults[fault] = time.monotonic() + seconds
        return is_free

    def _end_network_faults(self, now: float = math.inf) -> None:
        """End and count those that are due."""
        for fault in [fault for fault, at in self._network_faults.items() if now >= at]:
            assert self._network is not None
            del self._network_faults[fault]
            hits = self._network.end(fault)
            self._note(f"{fault.link} is well again, {hits} packets were hit")
            if hits:
                self.faults[f"{fault.side}_{fault.kind}"] += 1

    def _brokers_are_apart(self) -> bool:
        return any(fault.side == BROKERS for fault in self._network_faults)

    # --- faults of the client's process ---

    def _fault_files(self) -> bool:
        """Let a process open no socket for a while, and cut its connections to a broker."""
        process = self._well()
        if process is not None:
            process.limit_files(self._random.uniform(1.0, 6.0))
        return process is not None and self._fault_cut()

    def _fault_hold(self) -> bool:
        """Let a process keep its interpreter lock. The client's own threads go on."""
        slot = self._victim()
        if slot is not None:
            self._slots[slot].send(f"hold {HOLD_S}")
            self._busy_until[slot] = time.monotonic() + HOLD_S
        return slot is not None

    def _fault_fork(self) -> bool:
        """Let a process fork. The child uses the client and ends."""
        process = self._well()
        if process is not None:
            process.send("fork")
        return process is not None

    def _fault_clock(self) -> bool:
        """Let the wall clock of a process jump. Nothing may depend on it."""
        slot = self._victim()
        if slot is not None:
            self._clocks[slot].jump(self._random.choice(JUMPS_S))
        return slot is not None


class CheckedRun(ClusterRun):
    """A run whose command is `command.make_run()`."""

    @abstractmethod
    def run(self) -> Any:
        """Run everything, and return what the rules check."""

    @abstractmethod
    def records(self) -> int:
        """Return the number of records whose fate was checked."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the figures of the run."""

    def figures(self) -> dict[str, Any]:
        """Return what a recorded run has beside its faults and records."""
        return {}
