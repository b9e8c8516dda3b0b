"""``python -m tests.soak.open_close``: clients of each kind are opened and closed in each state.

They leave nothing behind: no object of the C core, descriptor, thread or memory. It ends with 1 if
a rule is broken.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import click

from kafka_native import KafkaException, Producer
from kafka_native.protocol import ApiKey
from tests.harness.reliability import record
from tests.harness.runs import broken, counted, report
from tests.soak.clients import KINDS, Loop, Opened, unique
from tests.soak.mock_process import MockProcess
from tests.soak.planted import Planted
from tests.soak.resources import IDLE_S, KIB, MIB, Sample, growth, idle_sample, left, sample

TOPIC = "messages"
MESSAGES = 50
CLOSE_S = 0.5
"""The timeout of each close()."""
ADMIN_CLOSE_S = 5.0
REACH_S = 0.05
CHILD_S = 60
SHORT_IDLE_S = 1.0
"""A forked child that takes longer hangs."""
RSS_CLIENT_BYTES = KIB
"""The memory of the process may grow by so much a client, and by `RSS_NOISE_BYTES` in all."""
RSS_NOISE_BYTES = MIB
OBJECTS_CLIENT = 0.05
OBJECTS_NOISE = 500.0


class Places(NamedTuple):
    """Clusters, and addresses at which no broker answers."""

    plain: MockProcess
    tls: MockProcess
    sasl: MockProcess
    refusing: str
    """Nothing listens there."""
    full: str
    """A listener there has no room for connections, so that connecting takes for ever."""


def _always(kind: type[Opened]) -> bool:
    return True


def _wait_a_moment(places: Places, opened: Sequence[Opened]) -> None:
    time.sleep(REACH_S)


@dataclass(frozen=True)
class State:
    """A state in which clients are closed.

    ``conf`` returns their properties. ``arm`` changes a cluster before. ``begins`` and
    ``finishes``: whether work has been begun, and whether it was waited for. ``reach``: what else
    leads to the state. ``close``: None if the clients are dropped. ``heal`` ends the fault.
    """

    name: str
    conf: Callable[[Places], dict[str, Any]] = lambda places: places.plain.client_conf
    suits: Callable[[type[Opened]], bool] = _always
    arm: Callable[[Places, int], None] = lambda places, count: None
    finishes: bool = False
    begins: bool = True
    reach: Callable[[Places, Sequence[Opened]], None] = _wait_a_moment
    drops: bool = False
    heal: Callable[[Places], None] = lambda places: None


def _plain(**more: Any) -> Callable[[Places], dict[str, Any]]:
    changes = {name.replace("_", "."): value for name, value in more.items()}
    return lambda places: {**places.plain.client_conf, **changes}


def _slow(*apis: ApiKey) -> dict[str, Callable[..., None]]:
    def delay(places: Places, seconds: float) -> None:
        for api in apis:
            for cluster in (places.plain, places.sasl):
                cluster.call("delay_responses", None, seconds, api)

    return {
        "arm": lambda places, count: delay(places, 3.0),
        "heal": lambda places: delay(places, 0.0),
    }


def _all_brokers(method: str) -> Callable[..., None]:
    def call(places: Places, *_: object) -> None:
        for broker in places.plain.call("broker_ids"):
            places.plain.call(method, broker)

    return call


def _fail_a_message(places: Places, opened: Sequence[Opened]) -> None:
    """Make a fatal error of each producer: gapless, and a message is refused."""
    for each in opened:
        places.plain.call("push_request_errors", ApiKey.PRODUCE, [87])
        with suppress(KafkaException, AssertionError):
            each.finish()


def _fork(places: Places, opened: Sequence[Opened]) -> None:
    """Fork. The child closes its copies, and frees them."""
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(CHILD_S, exit=True)
        code = 1
        try:
            for each in opened:
                if "aio" not in each.traits:
                    each.close(CLOSE_S)
                each.abandon()
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise RuntimeError(f"a forked child ended with {status}")


def _pause(places: Places, opened: Sequence[Opened]) -> None:
    for each in opened:
        each.pause()


def _has(trait: str) -> Callable[[type[Opened]], bool]:
    return lambda kind: trait in kind.traits


def _lacks(trait: str) -> Callable[[type[Opened]], bool]:
    return lambda kind: trait not in kind.traits


STATES = (
    State("new", begins=False, reach=lambda places, opened: None),
    State("refused", lambda places: {"bootstrap.servers": places.refusing}),
    State("connecting", lambda places: {"bootstrap.servers": places.full}),
    State("unanswered", lambda places: {"bootstrap.servers": places.plain.mute}),
    State(
        "tls handshake",
        lambda places: {**places.tls.client_conf, "bootstrap.servers": places.plain.mute},
    ),
    State("tls", lambda places: places.tls.client_conf, finishes=True),
    State("sasl", lambda places: places.sasl.client_conf, finishes=True),
    State("wrong password", lambda places: {**places.sasl.client_conf, "sasl.password": "wrong"}),
    State("logging in", lambda places: places.sasl.client_conf, **_slow(ApiKey.SASL_AUTHENTICATE)),  # type: ignore[arg-type]
    State("waiting for metadata", **_slow(ApiKey.METADATA)),  # type: ignore[arg-type]
    State("working", finishes=True, begins=False),
    State("messages queued", _plain(linger_ms=20_000), _has("produces")),
    State("in a transaction", suits=_has("transactional"), finishes=True, begins=False),
    State(
        "joining",
        suits=_has("consumes"),
        **_slow(  # type: ignore[arg-type]
            ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT
        ),
    ),
    State("rebalancing", _plain(group_id="{name}"), _has("consumes")),
    State("fetching", suits=_has("consumes"), finishes=True, begins=False),
    State("paused", suits=_has("pauses"), finishes=True, begins=False, reach=_pause),
    State(
        "fatal error",
        _plain(enable_idempotence=True, enable_gapless_guarantee=True),
        lambda kind: "produces" in kind.traits and not kind.traits & {"transactional", "aio"},
        begins=False,
        reach=_fail_a_message,
    ),
    State(
        "fenced",
        _plain(group_id="{name}", group_instance_id="one", transactional_id="{name}"),
        lambda kind: kind.name in ("consumer", "classic", "aio_consumer", "transactional"),
    ),
    State(
        "cluster down",
        finishes=True,
        reach=_all_brokers("broker_down"),
        heal=_all_brokers("broker_up"),
    ),
    State("forked", finishes=True, begins=False, reach=_fork),
    State("dropped", finishes=True, begins=False, drops=True),
    State("dropped at work", lambda places: places.plain.client_conf, drops=True),
)


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    clients: int = 1000
    at_once: int = 5
    """Clients of a kind that are in a state at the same time."""
    crowd: int = 100
    """So many are there at once for one kind of each round."""
    slack_s: float = 1.0
    """close() may take so much longer than its timeout."""
    states: str = ""
    """Only these states, separated by commas. Empty: all."""
    kinds: str = ""
    """Only these kinds of clients."""
    bug: str = ""


@dataclass
class Result:
    """What a run has found."""

    samples: list[Sample] = field(default_factory=list)
    """After each round."""
    left_behind: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    clients: Counter[str] = field(default_factory=Counter)
    """By state."""
    close_s: float = 0.0
    """The longest close() beyond its timeout."""


def nothing_is_left_behind(result: Result) -> Iterator[str]:
    yield from result.left_behind


def close_ends_in_time(result: Result) -> Iterator[str]:
    yield from result.slow


def work_succeeds(result: Result) -> Iterator[str]:
    yield from result.failures


def memory_stays_constant(result: Result) -> Iterator[str]:
    """The first round is the warm-up."""
    samples = result.samples[1:]
    if len(samples) < 3:
        return
    clients = samples[-1].amount - samples[0].amount
    grown = growth(samples, per_s=False)
    if grown.rss_bytes > RSS_CLIENT_BYTES * clients + RSS_NOISE_BYTES:
        yield f"{grown.rss_bytes / KIB:.0f} KiB more after {clients:.0f} clients"
    if grown.objects > OBJECTS_CLIENT * clients + OBJECTS_NOISE:
        yield f"{grown.objects:.0f} Python objects more after {clients:.0f} clients"


RULES = (nothing_is_left_behind, close_ends_in_time, work_succeeds, memory_stays_constant)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def _chosen(names: str, every: Sequence[N]) -> list[N]:
    """Return those with one of the names. Raises ValueError if a name is unknown."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := set(wanted) - {each.name for each in every}:
        raise ValueError(f"unknown: {unknown}")
    return [each for each in every if not wanted or each.name in wanted]


class Run:
    """Rounds: all states, all kinds in each."""

    def __init__(self, places: Places, options: Options) -> None:
        """The clusters are up."""
        self._places, self._options = places, options
        self._planted = Planted(options.bug)
        self.result = Result()
        self._states = _chosen(options.states, STATES)
        self._kinds = _chosen(options.kinds, KINDS)
        self._count = self._crowds = 0

    def run(self) -> Result:
        """Make rounds until there were enough clients."""
        while self._count < self._options.clients:
            for state in self._states:
                for kind in filter(state.suits, self._kinds):
                    if self._count < self._options.clients:
                        self._batch(state, kind, self._options.at_once)
            crowd = self._kinds[self._crowds % len(self._kinds)]
            self._crowds += 1
            working = next(state for state in STATES if state.name == "working")
            self._batch(working, crowd, self._options.crowd)
            self.result.samples.append(sample(self._count))
        return self.result

    def _batch(self, state: State, kind: type[Opened], count: int) -> None:
        """Open clients of a kind, bring them into a state, close them, and look what is left."""
        before = sample()
        try:
            self._use(state, kind, count)
        except Exception as error:
            self.result.failures.append(f"{kind.name}, {state.name}: {error!r}")
        finally:
            state.heal(self._places)
        self._count += count
        self.result.clients[state.name] += count
        # Once something has leaked, a long wait for the next leaks has no use.
        after = idle_sample(before, limit_s=SHORT_IDLE_S if self.result.left_behind else IDLE_S)
        self.result.left_behind += [
            f"{kind.name}, {state.name}: {text}" for text in left(before, after)
        ]

    def _use(self, state: State, kind: type[Opened], count: int) -> None:
        name = unique("shared")
        conf = {
            key: value.format(name=name) if value == "{name}" else value
            for key, value in state.conf(self._places).items()
        }
        loop = Loop() if "aio" in kind.traits else None
        opened: list[Opened] = []
        try:
            state.arm(self._places, count)
            opened += [kind(conf, TOPIC, loop) for _ in range(count)]
            if state.finishes:
                with ThreadPoolExecutor(min(count, 10)) as pool:
                    list(pool.map(lambda each: each.finish(), opened))
            if state.begins:
                for each in opened:
                    each.begin()
            state.reach(self._places, opened)
        finally:
            for _ in opened:
                self._planted.leak()
            if state.drops:
                for each in opened:
                    each.abandon()
            else:
                self._close_all(state, opened)
            if loop is not None:
                loop.close()

    def _close_all(self, state: State, opened: Sequence[Opened]) -> None:
        """Close clients at the same time, and measure how long each takes."""

        def close(each: Opened) -> float:
            began = time.monotonic()
            each.close(CLOSE_S)
            return time.monotonic() - began

        with ThreadPoolExecutor(len(opened) or 1) as pool:
            for each, took_s in zip(opened, pool.map(close, opened), strict=True):
                beyond_s = took_s - (ADMIN_CLOSE_S if each.name == "admin" else CLOSE_S)
                self.result.close_s = max(self.result.close_s, beyond_s)
                if beyond_s > self._options.slack_s:
                    self.result.slow.append(f"{each.name}, {state.name}: {took_s:.1f} s")

    def lines(self) -> list[str]:
        """Return the figures as text."""
        samples, result = self.result.samples, self.result
        grown = growth(samples[1:], per_s=False)
        return [
            f"{self._count} clients, by state: {counted(result.clients)}",
            f"close(): at most {max(result.close_s, 0.0):.2f} s longer than its timeout",
            f"growth after the first of {len(samples)} rounds: {grown.rss_bytes / KIB:.0f} KiB",
            f"growth: {grown.objects:.0f} Python objects",
            samples[-1].text(),
        ]


def _full_listener(stack: ExitStack) -> str:
    """Return the address of a listener whose queue of connections is full."""
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    address = listener.getsockname()
    for _ in range(8):
        caller = stack.enter_context(socket.socket())
        caller.setblocking(False)
        caller.connect_ex(address)
    return f"127.0.0.1:{address[1]}"


def _refusing_port(stack: ExitStack) -> str:
    """Return an address at which nothing listens, because a socket that doesn't listen owns it."""
    owner = stack.enter_context(socket.socket())
    owner.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{owner.getsockname()[1]}"


def start_places(stack: ExitStack) -> Places:
    """Start the clusters, each with a topic that has messages."""
    plain, tls, sasl = (
        stack.enter_context(MockProcess(protocol, rebalance_delay=0.0, brokers=2))
        for protocol in ("plaintext", "ssl", "sasl_plaintext")
    )
    for cluster in (plain, tls, sasl):
        cluster.call("create_topic", TOPIC, 2)
        with Producer(cluster.client_conf) as producer:
            for number in range(MESSAGES):
                producer.produce(TOPIC, b"%d" % number, partition=number % 2)
    return Places(plain, tls, sasl, _refusing_port(stack), _full_listener(stack))


@click.command()
@click.option("--clients", default=1000, show_default=True)
@click.option("--at-once", default=5, show_default=True, help="Clients in a state at a time.")
@click.option("--crowd", default=100, show_default=True, help="Clients at once, once a round.")
@click.option("--slack", "slack_s", default=1.0, show_default=True, help="For close(), in seconds.")
@click.option("--states", default="", help="Only these, separated by commas.")
@click.option("--kinds", default="", help="Only these kinds of clients.")
@click.option("--bug", default="", type=click.Choice(["", *Planted.BUGS]), help="A planted leak.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(recorded: bool, **given: Any) -> None:
    """Open and close clients of each kind in each state; check what they leave behind."""
    options, began = Options(**given), time.monotonic()
    click.echo(f"{options}")
    with ExitStack() as stack:
        run = Run(start_places(stack), options)
        found = broken(RULES, run.run(), 10)
        report(run.lines(), found)
    if recorded:
        clients = run.result.clients
        seconds = time.monotonic() - began
        record("open_close", asdict(options), seconds, clients, clients.total(), found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
