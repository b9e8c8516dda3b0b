"""A network of Linux network namespaces for tests, with the faults of real networks.

    clients --- router === broker 1
                       === broker 2 ...

The namespaces have no names, and nothing of the machine's own network changes. They end with this
process, however it ends. Each broker has two links to the router, so that faults hit either its
clients or the other brokers. The test itself reaches a broker over the link of the brokers, and no
fault but a narrow link hits it there.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from tests.harness.processes import output

T = TypeVar("T")

PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "nsenter": "util-linux"}
"""The programs, and the Debian packages that have them."""
CLONE_NEWNET = 0x4000_0000
CLIENTS, BROKERS = "clients", "brokers"
SIDES = (CLIENTS, BROKERS)
RUN_ADDRESSES = {CLIENTS: "10.3.0.2", BROKERS: "10.3.0.3"}
"""The addresses of this side of the router. Each reaches the brokers over another link."""
KINDS = ("packets_lost", "one_way", "blackhole", "reset", "unreachable", "narrow")
"""Some packets are lost; those of one direction are; all are; each is answered with a RST, or with
an ICMP error; a link is narrow.
"""
LOST_PERCENT = (1, 20)
NARROW_KBIT = (256, 512, 1024, 2048)
BURST_BYTES = 16_000
QUEUE_MS = 300
"""A packet that would wait for longer in front of a narrow link is lost."""


@dataclass(frozen=True)
class Fault:
    """A fault of the packets between a broker and its clients, or the other brokers.

    ``amount``: the percentage of lost packets, or the kilobits a second of a narrow link.
    """

    kind: str
    side: str
    broker: int
    to_broker: bool = True
    from_broker: bool = True
    amount: int = 0

    @property
    def link(self) -> str:
        """The router's end of the link."""
        return f"{self.side}{self.broker}"


def drawn_fault(draw: random.Random, kind: str, side: str, broker: int) -> Fault:
    """Return a random fault of a kind."""
    ways = [(True, False), (False, True)]
    if kind in ("packets_lost", "narrow"):
        ways.append((True, True))
    elif kind != "one_way":
        ways = [(True, True)]
    amount = 0
    if kind == "packets_lost":
        amount = draw.randint(*LOST_PERCENT)
    elif kind == "narrow":
        amount = draw.choice(NARROW_KBIT)
    return Fault(kind, side, broker, *draw.choice(ways), amount)


def verdict(fault: Fault) -> str:
    """Return what nftables does with the packets of a fault. It counts those that are hit."""
    if fault.kind == "packets_lost":
        return f"numgen random mod 100 < {fault.amount} counter drop"
    if fault.kind == "reset":
        return "meta l4proto tcp counter reject with tcp reset"
    if fault.kind == "unreachable":
        return "counter reject with icmp type host-unreachable"
    return "counter drop"


def ruleset(table: str, fault: Fault) -> str:
    """Return the table of nftables that makes a fault in the router."""
    others = "run" if fault.side == CLIENTS else f"{BROKERS}*"
    ways = [(others, fault.link)] * fault.to_broker + [(fault.link, others)] * fault.from_broker
    rules = [f'iifname "{source}" oifname "{target}" {verdict(fault)};' for source, target in ways]
    return "\n".join(
        [
            f"table ip {table} {{ chain forward {{",
            "type filter hook forward priority 0;",
            *rules,
            "}",
            "}",
            "",
        ]
    )


def packets_hit(table: str) -> int:
    """Return how many packets the counters of a printed table have counted."""
    return sum(map(int, re.findall(r"counter packets (\d+)", table)))


def missing() -> str | None:
    """Return why there can be no such network here, or None."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if absent := {name: of for name, of in PROGRAMS.items() if shutil.which(name) is None}:
        packages = " ".join(sorted(set(absent.values())))
        return f"{' and '.join(absent)} not installed (Debian packages: {packages})"
    try:
        Namespace().close()
    except OSError as error:
        return f"network namespaces: {error.strerror}"
    return None


def _in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread of its own, whose namespace may be another one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def _libc_call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _open_own() -> int:
    """Return a file that stands for this thread's namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Namespace:
    """A network namespace without a name."""

    def __init__(self) -> None:
        """It has no links yet."""
        self._file = _in_thread(self._make)

    @staticmethod
    def _make() -> int:
        _libc_call("unshare", CLONE_NEWNET)
        return _open_own()

    @property
    def path(self) -> str:
        """The path of the namespace for programs, as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self._file}"

    @property
    def command(self) -> tuple[str, ...]:
        """The beginning of a command line that runs in the namespace."""
        return "nsenter", f"--net={self.path}", "--"

    def output(self, *command: str, input: str = "") -> str:
        """Run a program to its end in the namespace, and return its output."""
        return output(*self.command, *command, input=input)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the namespace. Sockets that it makes stay there."""

        def enter_and_call() -> T:
            self.enter()
            return function()

        return _in_thread(enter_and_call)

    def enter(self) -> None:
        """Move this thread into the namespace."""
        _libc_call("setns", self._file, CLONE_NEWNET)

    def close(self) -> None:
        """Forget the namespace. It ends when no process and no socket is in it."""
        os.close(self._file)


class Network:
    """The clients' namespace, the router, and a namespace for each broker."""

    def __init__(self, size: int) -> None:
        """``size``: the number of brokers. They count from 1."""
        self._size = size
        self._tables: dict[Fault, str] = {}
        self._count = 0
        with ExitStack() as stack:
            self.clients, self._router, *brokers = (self._namespace(stack) for _ in range(2 + size))
            self._brokers = dict(enumerate(brokers, 1))
            self._link()
            self._stack = stack.pop_all()

    @staticmethod
    def _namespace(stack: ExitStack) -> Namespace:
        namespace = Namespace()
        stack.callback(namespace.close)
        return namespace

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _link(self) -> None:
        """Make the links and routes."""
        router = self._router
        lines = [_pair("run", "10.3.0.1/24", "router", self.clients)]
        for broker, namespace in self._brokers.items():
            for number, side in enumerate(SIDES, 1):
                lines.append(
                    _pair(f"{side}{broker}", f"10.{number}.{broker}.1/24", side, namespace)
                )
        _ip(router, lines)
        _ip(
            self.clients,
            [
                _end("router", *(f"{address}/24" for address in RUN_ADDRESSES.values())),
                *(
                    f"route add 10.{number}.0.0/16 via 10.3.0.1 src {RUN_ADDRESSES[side]}"
                    for number, side in enumerate(SIDES, 1)
                ),
            ],
        )
        for broker, namespace in self._brokers.items():
            lines = []
            for number, side in enumerate(SIDES, 1):
                lines.append(_end(side, f"{self.address(side, broker)}/24"))
                lines.append(f"route add {RUN_ADDRESSES[side]} via 10.{number}.{broker}.1")
            _ip(namespace, [*lines, f"route add 10.2.0.0/16 via 10.2.{broker}.1"])
        router.call(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))

    @staticmethod
    def address(side: str, broker: int) -> str:
        """Return the address of a broker for its clients, or for the other brokers."""
        return f"10.{1 + SIDES.index(side)}.{broker}.2"

    def broker(self, broker: int) -> Namespace:
        """Return a broker's namespace."""
        return self._brokers[broker]

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Let this thread be among the clients.

        So are the threads and processes that it starts meanwhile.
        """
        home = _open_own()
        try:
            self.clients.enter()
            yield
        finally:
            _libc_call("setns", home, CLONE_NEWNET)
            os.close(home)

    # --- faults ---

    def is_hit(self, side: str, broker: int) -> bool:
        """Return whether a link has a fault now."""
        return any((fault.side, fault.broker) == (side, broker) for fault in self._tables)

    def begin(self, fault: Fault) -> None:
        """Make a fault. A link has one at a time."""
        assert not self.is_hit(fault.side, fault.broker), f"{fault.link} has a fault already"
        self._count += 1
        table = f"fault{self._count}"
        if fault.kind == "narrow":
            shape = f"root tbf rate {fault.amount}kbit burst {BURST_BYTES} latency {QUEUE_MS}ms"
            for namespace, device in self._narrow_ends(fault):
                namespace.output("tc", "qdisc", "add", "dev", device, *shape.split())
        else:
            self._router.output("nft", "-f", "-", input=ruleset(table, fault))
        self._tables[fault] = table

    def end(self, fault: Fault) -> int:
        """End a fault. Return how many packets it has hit. Those of a narrow link have waited."""
        table, hits = self._tables.pop(fault), 0
        if fault.kind == "narrow":
            for namespace, device in self._narrow_ends(fault):
                shown = namespace.output("tc", "-s", "-j", "qdisc", "show", "dev", device)
                hits += sum(each["overlimits"] for each in json.loads(shown))
                namespace.output("tc", "qdisc", "del", "dev", device, "root")
        else:
            hits = packets_hit(self._router.output("nft", "list", "table", "ip", table))
            self._router.output("nft", "delete", "table", "ip", table)
        return hits

    def _narrow_ends(self, fault: Fault) -> list[tuple[Namespace, str]]:
        """Return where a narrow link takes packets in: a namespace and its device."""
        ends = [(self._router, fault.link), (self._brokers[fault.broker], fault.side)]
        used = (fault.to_broker, fault.from_broker)
        return [end for end, is_used in zip(ends, used, strict=True) if is_used]


def _ip(namespace: Namespace, lines: Sequence[str]) -> None:
    """Run commands of ``ip``."""
    namespace.output("ip", "-batch", "-", input="\n".join(["link set lo up", *lines, ""]))


def _pair(device: str, address: str, other: str, into: Namespace) -> str:
    """Return the commands that make a link with its other end in another namespace."""
    made = f"link add {device} type veth peer name {other} netns {into.path}"
    return f"{made}\n{_end(device, address)}"


def _end(device: str, *addresses: str) -> str:
    """Return the commands that configure an end of a link.

    A packet is at most as long as on a real network, so that faults don't hit 64 KB at once.
    """
    given = [f"addr add {address} dev {device}" for address in addresses]
    return "\n".join([*given, f"link set {device} up gso_max_segs 1"])
