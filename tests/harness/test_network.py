"""Each fault of a network of namespaces hits what it should, and ends. No Kafka is needed."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tests.broker.acked import __main__ as acked
from tests.broker.acked.run import MORE, Options
from tests.harness import network as networks
from tests.harness.cluster_run import (
    NAMESPACE_FAULTS,
    NAMESPACES,
    PROXY_FAULTS,
    ClusterRun,
    FaultOptions,
    Rig,
)
from tests.harness.network import (
    BROKERS,
    CLIENTS,
    KINDS,
    LOST_PERCENT,
    NARROW_KBIT,
    SIDES,
    Fault,
    Network,
    drawn_fault,
    packets_hit,
    ruleset,
)
from tests.harness.processes import ROOT, name_of
from tests.waiting import WAIT_S, wait_for

PORT = 9000
QUIET_S = 1.0
"""What doesn't arrive within this time is held back. It would need a millisecond."""
BULK_BYTES = 400_000

# --- without namespaces ---


def test_a_fault_of_clients_is_between_the_run_and_one_broker() -> None:
    text = ruleset("f", Fault("blackhole", CLIENTS, 2))
    assert 'iifname "run" oifname "clients2" counter drop;' in text
    assert 'iifname "clients2" oifname "run" counter drop;' in text


def test_a_fault_of_brokers_is_between_one_and_the_others() -> None:
    text = ruleset("f", Fault("one_way", BROKERS, 1, to_broker=False))
    assert 'iifname "brokers1" oifname "brokers*" counter drop;' in text
    assert text.count("iifname") == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", SIDES)
def test_a_drawn_fault_depends_on_the_seed_alone(kind: str, side: str) -> None:
    for seed in range(50):
        fault, again = (drawn_fault(random.Random(seed), kind, side, 3) for _ in range(2))
        assert fault == again
        assert (fault.kind, fault.side, fault.broker) == (kind, side, 3)
        ways = fault.to_broker + fault.from_broker
        assert ways == 1 if kind == "one_way" else ways
        assert ways == 2 or kind in ("one_way", "packets_lost", "narrow")
        if kind == "packets_lost":
            assert LOST_PERCENT[0] <= fault.amount <= LOST_PERCENT[1]
        assert (fault.amount in NARROW_KBIT) == (kind == "narrow") or kind == "packets_lost"


def test_the_counters_of_both_directions_are_added() -> None:
    assert packets_hit("a counter packets 3 bytes 99 drop\nb counter packets 40 bytes 1 drop") == 43


def test_namespaces_have_their_faults_in_place_of_those_of_proxies() -> None:
    assert Options().faults == MORE
    faults = Options(network=NAMESPACES).faults
    assert not set(PROXY_FAULTS) & set(faults)
    assert set(NAMESPACE_FAULTS) | {"kill", "stall", "roll", "files"} <= set(faults)
    only = Options(network=NAMESPACES, faults=("kill", "narrow"))
    assert only.faults == ("kill", "narrow")


@pytest.mark.parametrize(
    ("user", "found", "why"),
    [
        (1000, "/bin/it", "network namespaces need root"),
        (0, None, "nft and nsenter not installed (Debian packages: iproute2 nftables util-linux)"),
    ],
)
def test_a_run_says_what_is_missing(
    user: int, found: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_NATIVE_BOOTSTRAP", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda name: found)
    done = CliRunner().invoke(acked.main, ["--network", NAMESPACES, "--seconds", "1"])
    assert done.exit_code == 1
    assert why in done.output


class Recorder:
    """Stands for a network whose faults hit ``hits`` packets, and for a broker."""

    def __init__(self) -> None:
        self.hits, self.node = 1, 1
        self.ended_how: list[str] = []
        self._faults: list[Fault] = []

    def is_hit(self, side: str, broker: int) -> bool:
        return any((fault.side, fault.broker) == (side, broker) for fault in self._faults)

    def begin(self, fault: Fault) -> None:
        self._faults.append(fault)

    def end(self, fault: Fault) -> int:
        self._faults.remove(fault)
        return self.hits

    def stop(self) -> None:
        self.ended_how.append("stop")

    def kill(self) -> None:
        self.ended_how.append("kill")


class Faults(ClusterRun):
    """A run without processes, on one broker that is always well."""

    def __init__(self, recorder: Recorder, folder: Path) -> None:
        brokers = SimpleNamespace(brokers={1: recorder})
        super().__init__("faults", Rig(brokers, [], None, recorder), FaultOptions(), ())  # type: ignore[arg-type]
        self.directory.rmdir()
        self.directory = folder

    def _start(self, slot: int) -> None:
        raise AssertionError("no process is started")


def test_only_faults_that_hit_packets_are_counted(tmp_path: Path) -> None:
    recorder = Recorder()
    run = Faults(recorder, tmp_path)
    for hits, count in [(0, 0), (7, 1)]:
        recorder.hits = hits
        assert run._begin(Fault("reset", CLIENTS, 1), 60.0)
        assert not run._begin(Fault("narrow", CLIENTS, 1), 60.0)  # the link has a fault
        run._end_network_faults(time.monotonic())  # it isn't due
        assert recorder.is_hit(CLIENTS, 1)
        run._end_network_faults()
        assert not recorder.is_hit(CLIENTS, 1)
        assert run.faults["clients_reset"] == count
    assert "clients1 is well again, 7 packets were hit" in (tmp_path / "faults.log").read_text()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_no_broker_ends_while_a_link_has_a_fault(side: str, end: str, tmp_path: Path) -> None:
    recorder = Recorder()
    run = Faults(recorder, tmp_path)
    assert run._begin(Fault("blackhole", side, 1), 1.0)
    assert not run._send_away([end])
    run._end_network_faults()
    assert run._send_away([end])
    assert recorder.ended_how == [end]
    assert not run._begin(Fault("reset", side, 1), 1.0)  # until the broker is back


# --- with namespaces ---


class Echo:
    """A server in a broker's namespace. It sends back what it receives."""

    def __init__(self, network: Network, broker: int) -> None:
        self.received = 0
        self._listener = network.broker(broker).call(lambda: socket.create_server(("", PORT)))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(near,), daemon=True).start()

    def _answer(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            while piece := near.recv(1 << 16):
                self.received += len(piece)
                near.sendall(piece)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Place:
    """Two brokers and their clients."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.servers = {broker: Echo(network, broker) for broker in (1, 2)}

    def client(self, broker: int = 1, timeout: float = WAIT_S) -> socket.socket:
        """Return a client's connection."""
        return self._connected(self.network.clients.call, CLIENTS, broker, timeout)

    def direct(self, broker: int = 1) -> socket.socket:
        """Return a connection of the test itself, over the link of the brokers."""
        return self._connected(self.network.clients.call, BROKERS, broker, WAIT_S)

    def peer(self, broker: int, of: int, timeout: float = WAIT_S) -> socket.socket:
        """Return a connection of a broker to another one."""
        return self._connected(self.network.broker(of).call, BROKERS, broker, timeout)

    def _connected(
        self,
        call: Callable[[Callable[[], socket.socket]], socket.socket],
        side: str,
        broker: int,
        timeout: float,
    ) -> socket.socket:
        address = self.network.address(side, broker), PORT
        return call(lambda: socket.create_connection(address, timeout))


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Yield two brokers and their clients, and check that the machine's network is as before."""
    if why := networks.missing():
        pytest.skip(why)
    before = machine()
    with Network(2) as network:
        place = Place(network)
        yield place
        for server in place.servers.values():
            server.close()
        assert machine() == before
    assert machine() == before


def machine() -> list[str]:
    """Return the links, named namespaces and packet filter of this machine."""
    commands = ["ip -o link", "ip -o addr", "ip route", "ip netns list", "nft list ruleset"]
    return [
        subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout
        for command in commands
    ]


def echo(connection: socket.socket, data: bytes = b"hello") -> None:
    """Send data and receive it again."""
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    received = b""
    while len(received) < len(data):
        piece = connection.recv(1 << 16)
        assert piece, "the connection ended"
        received += piece
    sender.join()
    assert received == data


def is_silent(connection: socket.socket) -> bool:
    """Return whether nothing arrives."""
    connection.settimeout(QUIET_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(WAIT_S)
    return False


@pytest.mark.slow
def test_all_reach_all_without_a_fault(place: Place) -> None:
    for made in (place.client(1), place.client(2), place.direct(1), place.peer(1, of=2)):
        with made:
            echo(made)


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_packets_are_lost_and_sent_again(place: Place, side: str) -> None:
    fault = Fault("packets_lost", side, 1, amount=10)
    with place.client() if side == CLIENTS else place.peer(1, of=2) as connection:
        place.network.begin(fault)
        echo(connection, random.Random(0).randbytes(BULK_BYTES))
        assert place.network.end(fault) > 10
        echo(connection)


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_packets_to_a_broker_are_dropped(place: Place, side: str) -> None:
    fault = Fault("one_way", side, 1, from_broker=False)
    with place.client() if side == CLIENTS else place.peer(1, of=2) as connection:
        echo(connection)
        before = place.servers[1].received
        place.network.begin(fault)
        connection.sendall(b"lost")
        assert is_silent(connection)
        assert place.servers[1].received == before
        assert place.network.end(fault) > 0
        assert connection.recv(4, socket.MSG_WAITALL) == b"lost"  # the kernel has sent it again


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_packets_from_a_broker_are_dropped(place: Place, side: str) -> None:
    fault = Fault("one_way", side, 1, to_broker=False)
    with place.client() if side == CLIENTS else place.peer(1, of=2) as connection:
        echo(connection)
        before = place.servers[1].received
        place.network.begin(fault)
        connection.sendall(b"lost")
        wait_for(lambda: place.servers[1].received == before + 4, "the request")
        assert is_silent(connection)
        assert place.network.end(fault) > 0
        assert connection.recv(4, socket.MSG_WAITALL) == b"lost"


@pytest.mark.slow
def test_a_blackhole_answers_no_new_connection(place: Place) -> None:
    fault = Fault("blackhole", CLIENTS, 1)
    place.network.begin(fault)
    with pytest.raises(TimeoutError):
        place.client(timeout=QUIET_S)
    with place.client(2) as other, place.direct() as direct:
        echo(other)
        echo(direct)
    assert place.network.end(fault) > 0
    with place.client() as connection:
        echo(connection)


@pytest.mark.slow
def test_a_broker_is_cut_off_from_the_others_and_clients_reach_it(place: Place) -> None:
    fault = Fault("blackhole", BROKERS, 1)
    with place.peer(1, of=2) as peer, place.peer(2, of=1) as other_way:
        place.network.begin(fault)
        for connection in (peer, other_way):
            connection.sendall(b"lost")
            assert is_silent(connection)
        with place.client() as connection, place.direct() as direct:
            echo(connection)
            echo(direct)
        assert place.network.end(fault) > 0
        for connection in (peer, other_way):
            assert connection.recv(4, socket.MSG_WAITALL) == b"lost"


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_connections_are_reset_and_refused(place: Place, side: str) -> None:
    fault = Fault("reset", side, 1)
    made = place.client() if side == CLIENTS else place.peer(1, of=2)
    with made as connection:
        echo(connection)
        place.network.begin(fault)
        connection.sendall(b"lost")
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        place.client() if side == CLIENTS else place.peer(1, of=2)
    assert place.network.end(fault) > 1
    with place.client() if side == CLIENTS else place.peer(1, of=2) as connection:
        echo(connection)


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_an_unreachable_broker_has_no_new_connections(place: Place, side: str) -> None:
    fault = Fault("unreachable", side, 1)
    with place.client() if side == CLIENTS else place.peer(1, of=2) as connection:
        echo(connection)
        place.network.begin(fault)
        with pytest.raises(OSError, match="No route to host") as failed:
            place.client() if side == CLIENTS else place.peer(1, of=2)
        assert failed.value.errno == errno.EHOSTUNREACH
        connection.sendall(b"kept")
        assert is_silent(connection)
        assert place.network.end(fault) > 1
        assert connection.recv(4, socket.MSG_WAITALL) == b"kept"


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("ways", [(True, False), (False, True), (True, True)])
def test_a_narrow_link_takes_its_time(place: Place, side: str, ways: tuple[bool, bool]) -> None:
    fault = Fault("narrow", side, 1, *ways, amount=2048)
    with place.client() if side == CLIENTS else place.peer(1, of=2) as connection:
        place.network.begin(fault)
        began = time.monotonic()
        echo(connection, bytes(BULK_BYTES))
        seconds = time.monotonic() - began
        assert seconds > (BULK_BYTES - networks.BURST_BYTES) * 8 / (fault.amount * 1000)
        assert place.network.end(fault) > 0
        echo(connection, bytes(BULK_BYTES))


@pytest.mark.slow
def test_a_link_has_one_fault_at_a_time(place: Place) -> None:
    fault = Fault("reset", CLIENTS, 1)
    place.network.begin(fault)
    assert place.network.is_hit(CLIENTS, 1)
    assert not place.network.is_hit(BROKERS, 1)
    with pytest.raises(AssertionError, match="clients1 has a fault already"):
        place.network.begin(Fault("narrow", CLIENTS, 1, amount=256))
    assert place.network.end(fault) == 0  # nobody has sent anything
    assert not place.network.is_hit(CLIENTS, 1)


@pytest.mark.slow
def test_a_thread_joins_the_clients_for_a_while(place: Place) -> None:
    address = place.network.address(CLIENTS, 1), PORT
    with place.network.joined():
        with socket.create_connection(address, WAIT_S) as connection:
            echo(connection)
        # A program that is started meanwhile is there, too.
        shown = subprocess.run(["ip", "-o", "link"], check=True, capture_output=True, text=True)
        assert "router@" in shown.stdout
    shown = subprocess.run(["ip", "-o", "link"], check=True, capture_output=True, text=True)
    assert "router@" not in shown.stdout


@pytest.mark.slow
def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    if why := networks.missing():
        pytest.skip(why)
    before = machine()
    text = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.harness.network import Network\n"
        "from tests.harness.processes import started\n"
        "network = Network(1)\n"
        f"output = Path({str(tmp_path / 'output')!r})\n"
        "child = started(*network.broker(1).command, 'sleep', '600', output=output)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, cwd=ROOT)
    assert run.stdout is not None
    child = int(run.stdout.readline())
    try:
        wait_for(lambda: name_of(child) == "sleep", "the broker's process")
        assert os.readlink(f"/proc/{child}/ns/net") != os.readlink("/proc/self/ns/net")
    finally:
        run.kill()
        run.wait(WAIT_S)
        run.stdout.close()
    wait_for(lambda: name_of(child) != "sleep", "the end of the broker's process")
    assert machine() == before
