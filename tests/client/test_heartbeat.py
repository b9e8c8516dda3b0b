"""Heartbeats by a broker thread, through the binding: they need no interpreter lock."""

from __future__ import annotations

import ctypes
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kafka_native._native.engine import Engine, Event
from kafka_native._native.enums import EVENT_CONNECTED, EVENT_REPLY

from .support import bare_engine

HEARTBEAT = 12
SECONDS_HELD = 2.0

# It answers with the number of the request divided by `every`: so many equal answers in a row.
SERVER = """
import socket, sys
every = int(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
stream = connection.makefile("rb")
count = 0
try:
    while size := stream.read(4):
        request = stream.read(int.from_bytes(size, "big"))
        body = request[4:8] + (count // every).to_bytes(4, "big")
        connection.sendall(len(body).to_bytes(4, "big") + body)
        count += 1
except ConnectionError:
    pass  # the client closed the connection before the answer
print(count, flush=True)
"""


_unread: list[Event] = []


def _awaited(engine: Engine) -> list[Event]:
    engine.handle.wait_for_events(1.0)
    return engine.next_events()


def _next(engine: Engine, kind: int) -> Event:
    """Return the next event of this kind, and skip others."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not _unread:
            _unread.extend(_awaited(engine))
        while _unread:
            event = _unread.pop(0)
            if event.kind == kind:
                return event
    raise AssertionError(f"no event of kind {kind}")


def _line(server: subprocess.Popen[str]) -> int:
    """Return the number that the server prints: its port, then its requests."""
    assert server.stdout is not None
    return int(server.stdout.readline())


def _open(engine: Engine, port: int) -> int:
    _unread.clear()
    assert engine.broker_add(1, "127.0.0.1", port) == 0
    engine.broker_connect(0)
    generation = _next(engine, EVENT_CONNECTED).generation
    engine.broker_open(0, generation, -1, -1)
    return generation


@contextmanager
def running_server(every: int) -> Iterator[subprocess.Popen[str]]:
    """Run the server. A failed test leaves its connection open, so the server is killed."""
    command = [sys.executable, "-c", SERVER, str(every)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server
        finally:
            server.kill()


def test_heartbeats_go_on_while_the_interpreter_lock_is_held() -> None:
    with running_server(1_000_000) as server:
        engine = bare_engine()
        generation = _open(engine, _line(server))
        engine.heartbeat(0, generation, HEARTBEAT, 0, False, False, b"body", 7, 20, 5000)
        held = ctypes.PyDLL(None)  # its functions keep the interpreter lock
        held.usleep(int(SECONDS_HELD * 1e6))
        replies = [event for event in engine.next_events() if event.kind == EVENT_REPLY]
        assert [(event.token, event.status, event.body) for event in replies] == [(7, 0, bytes(4))]
        engine.close()
        # Without heartbeats during the two seconds there would be none or one.
        assert _line(server) >= 5


def test_only_an_answered_heartbeat_that_goes_on_has_an_age() -> None:
    late_s = 0.4
    with running_server(1) as server:
        engine = bare_engine()
        generation = _open(engine, _line(server))
        assert engine.heartbeat_age_s(0) == math.inf
        server.send_signal(signal.SIGSTOP)
        engine.heartbeat(0, generation, HEARTBEAT, 0, False, False, b"body", 7, 1, 5000)
        time.sleep(late_s)
        assert engine.heartbeat_age_s(0) == math.inf
        engine.stop_heartbeat(0)  # before the answer, or there might be another heartbeat
        server.send_signal(signal.SIGCONT)
        engine.submit(0, HEARTBEAT, 0, False, False, b"body", 8, 5000)
        tokens = [_next(engine, EVENT_REPLY).token for _ in range(2)]
        assert tokens == [7, 8]
        assert engine.heartbeat_age_s(0) == math.inf, "one that was stopped confirms nothing"
        engine.heartbeat(0, generation, HEARTBEAT, 0, False, False, b"body", 9, 1, 5000)
        assert _next(engine, EVENT_REPLY).token == 9
        assert engine.heartbeat_age_s(0) < late_s + 5
        engine.close()


def test_changed_responses_are_reported_and_stop_ends_heartbeats() -> None:
    with running_server(3) as server:
        engine = bare_engine()
        generation = _open(engine, _line(server))
        engine.heartbeat(0, generation, HEARTBEAT, 0, False, False, b"body", 7, 5, 5000)
        bodies = [_next(engine, EVENT_REPLY).body for _ in range(4)]
        assert [int.from_bytes(body, "big") for body in bodies] == [0, 1, 2, 3]
        engine.stop_heartbeat(0)
        # Requests after the stop are answered after every heartbeat.
        for token in (8, 9, 10):
            engine.submit(0, HEARTBEAT, 0, False, False, b"body", token, 5000)
        tokens = [_next(engine, EVENT_REPLY).token]
        while tokens[-1] != 10:
            tokens.append(_next(engine, EVENT_REPLY).token)
        assert tokens[-3:] == [8, 9, 10]
        engine.close()


def test_the_end_of_the_connection_ends_heartbeats() -> None:
    with running_server(1) as server:
        engine = bare_engine()
        generation = _open(engine, _line(server))
        engine.heartbeat(0, generation, HEARTBEAT, 0, False, False, b"body", 7, 60000, 5000)
        server.kill()
        event = _next(engine, EVENT_REPLY)
        assert (event.token, event.generation) == (7, generation)
        assert event.status != 0
        engine.heartbeat(0, generation, HEARTBEAT, 0, False, False, b"body", 8, 5, 5000)
        event = _next(engine, EVENT_REPLY)
        assert event.token == 8
        assert event.status != 0
        engine.close()
