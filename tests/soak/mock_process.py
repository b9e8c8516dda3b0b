"""A mock cluster in a process of its own, whose methods the measured process calls.

So its threads, connections and memory aren't those of the measured process.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from typing import Any

import click

from kafka_native.mock import ListenerSecurity, MockCluster
from tests.harness.processes import ROOT, guarded
from tests.harness.proxy import Proxy

USER, PASSWORD = "alice", "secret"
PIECE_BYTES = 65536


class MockProcess:
    """Starts the process. `call()` calls a method of the cluster there."""

    def __init__(self, protocol: str = "plaintext", proxied: bool = False, **settings: Any) -> None:
        """``settings`` are arguments of MockCluster. ``proxied``: a proxy before each broker."""
        given = json.dumps({"protocol": protocol, "proxied": proxied, "settings": settings})
        self._process = subprocess.Popen(
            guarded(sys.executable, "-m", __name__, given),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self._lock = threading.Lock()
        started = self._answer()
        self.protocol = protocol
        self.bootstrap: str = started["bootstrap"]
        self.mute: str = started["mute"]
        """The address of a server that accepts connections and never answers."""
        self.ca_pem: str = started["ca"]

    def __enter__(self) -> MockProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the mock cluster ended with {self._process.wait(10)}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the mock cluster: {answer['error']}")
        return answer["value"]

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the cluster, such as ``logs.truncate``, and return its result."""
        with self._lock:
            assert self._process.stdin is not None
            line = json.dumps({"name": name, "arguments": arguments, "named": named})
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            return self._answer()

    def cut(self, broker: int) -> None:
        """Cut all connections of a broker's proxy. Data on its way is lost."""
        self.call("cut", broker)

    @property
    def client_conf(self) -> dict[str, Any]:
        """The properties of a client that this cluster accepts."""
        conf: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
        }
        if self.protocol.endswith("ssl"):
            conf["ssl.ca.pem"] = self.ca_pem
        if self.protocol.startswith("sasl"):
            conf |= {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
        return conf


def _be_mute(listener: socket.socket) -> None:
    """Accept connections, read all they send, and answer nothing."""

    def read(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while connection.recv(PIECE_BYTES):
                pass

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=read, args=(connection,), daemon=True).start()


def _perform(cluster: MockCluster, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    found: Any = cluster
    for part in name.split("."):
        found = getattr(found, part)
    value = found(*arguments, **named) if callable(found) else found
    return value if isinstance(value, str | int | float | list | tuple | None) else None


def _say(**answer: Any) -> None:
    click.echo(json.dumps(answer))


@click.command()
@click.argument("given")
def main(given: str) -> None:
    """Run a cluster until the end of the standard input, whose lines are calls."""
    how = json.loads(given)
    security = ListenerSecurity(
        how["protocol"], mechanisms=["SCRAM-SHA-256"], users={USER: PASSWORD}
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    threading.Thread(target=_be_mute, args=(listener,), daemon=True).start()
    with ExitStack() as stack:
        cluster = stack.enter_context(MockCluster(security=security, **how["settings"]))
        proxies = {}
        for broker in cluster.broker_ids if how["proxied"] else ():
            proxies[broker] = stack.enter_context(Proxy(cluster.address(broker)))
            cluster.advertise(broker, proxies[broker].address)
        cluster.share.settings.auto_offset_reset = "earliest"
        mute = f"127.0.0.1:{listener.getsockname()[1]}"
        ca = cluster.ca_pem if security.has_tls else ""
        _say(value={"bootstrap": cluster.bootstrap_servers, "mute": mute, "ca": ca})
        for line in sys.stdin:
            call = json.loads(line)
            try:
                if call["name"] == "cut":
                    proxies[call["arguments"][0]].cut_all()
                    _say(value=None)
                else:
                    _say(value=_perform(cluster, call["name"], call["arguments"], call["named"]))
            except Exception as error:
                _say(error=repr(error))


if __name__ == "__main__":
    main()
