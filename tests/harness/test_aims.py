"""Faults of single requests and answers, on a proxy in front of a server that answers frames."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.aims import ANSWER_HEAD, KINDS, REQUEST_HEAD, Aim, Aims, Frames, drawn_aim
from tests.harness.proxy import Proxy
from tests.waiting import wait_for

FETCH, END_TXN = 1, 26
BODY = bytes(range(100))


def request(api: int, number: int, body: bytes = BODY) -> bytes:
    return REQUEST_HEAD.pack(REQUEST_HEAD.size - 4 + len(body), api, 0, number) + body


def answer(number: int, body: bytes = BODY) -> bytes:
    return ANSWER_HEAD.pack(ANSWER_HEAD.size - 4 + len(body), number) + body


class Server:
    """Answers each request, and keeps what it has received."""

    def __init__(self) -> None:
        self.received = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with near, suppress(OSError, struct.error):
                    self._answer(near)

    def _answer(self, near: socket.socket) -> None:
        left = b""
        while piece := near.recv(1 << 16):
            self.received += piece
            left += piece
            while len(left) >= 4 and len(left) >= 4 + struct.unpack_from(">i", left)[0]:
                size, _, _, number = REQUEST_HEAD.unpack_from(left)
                left = left[4 + size :]
                near.sendall(answer(number))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@given(
    st.lists(st.tuples(st.integers(0, 80), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 30), max_size=40),
)
def test_frames_are_found_however_the_bytes_arrive(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    whole = [request(api, number, body) for number, (api, body) in enumerate(sent)]
    stream = b"".join(whole)
    frames = Frames({}, of_answers=False)
    forwarded, apis, begins, at = b"", [], [], 0
    for count in [*cuts, len(stream)]:
        piece = stream[at : at + count]
        at += len(piece)
        data, found = frames.take(piece)
        begins += [len(forwarded) + each for each, _ in found]
        apis += [api for _, api in found]
        forwarded += data
    assert forwarded == stream
    assert apis == [api for api, _ in sent]
    assert begins == [sum(map(len, whole[:number])) for number in range(len(whole))]


@given(
    st.lists(st.tuples(st.integers(0, 80), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 30), max_size=40),
)
def test_whole_frames_are_found_however_the_bytes_arrive(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    whole = [request(api, number, body) for number, (api, body) in enumerate(sent)]
    stream = b"".join(whole)
    frames = Frames({}, of_answers=False)
    found, at = [], 0
    for count in [*cuts, len(stream)]:
        found += frames.whole(stream[at : at + count])
        at += count
    assert found == [(api, each) for (api, _), each in zip(sent, whole, strict=True)]


def test_answers_have_the_api_of_their_request() -> None:
    asked: dict[int, int] = {}
    requests, answers = Frames(asked, of_answers=False), Frames(asked, of_answers=True)
    requests.take(request(FETCH, 7) + request(END_TXN, 8))
    _, begins = answers.take(answer(8) + answer(7) + answer(9))
    assert [api for _, api in begins] == [END_TXN, FETCH, -1]
    assert asked == {}


def test_the_nth_frame_of_its_kind_is_hit_once() -> None:
    aims = Aims()
    aims.add(Aim(END_TXN, True, 2, "cut", 0.0))
    frames = [(FETCH, True), (END_TXN, True), (END_TXN, False), (END_TXN, True), (END_TXN, True)]
    hits = [aims.hit(api, of_answers=of_answers) is not None for api, of_answers in frames]
    assert hits == [False, False, False, True, False]
    assert aims.end() == {"cut": 1}
    assert aims.end() == {}, "the next run counts its own"


def test_aims_are_those_of_the_seed() -> None:
    drawn = [
        [drawn_aim(random.Random(seed), (FETCH, END_TXN), 3.0) for _ in range(3)]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def exchange(server: Server, aim: Aim) -> tuple[bytes, float]:
    """Send three requests through a proxy with an aim.

    Return what comes back, and after how many seconds.
    """
    aims = Aims()
    aims.add(aim)
    with Proxy(server.address, aims=aims) as proxy:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", proxy.port)) as near:
            near.settimeout(5)
            found = b""
            with suppress(ConnectionError):
                for number in range(3):
                    near.sendall(request(END_TXN, number))
                    while len(found) < (number + 1) * len(answer(0)):
                        piece = near.recv(1 << 16)
                        if not piece:
                            raise ConnectionError
                        found += piece
        took = time.monotonic() - began
    assert aims.end() == {aim.kind: 1}
    return found, took


WHOLE = b"".join(answer(number) for number in range(3))


@pytest.mark.parametrize("of_answers", [False, True])
def test_a_cut_frame_ends_in_the_middle(server: Server, of_answers: bool) -> None:
    found, _ = exchange(server, Aim(END_TXN, of_answers, 2, "cut", 0.0))
    assert len(found) < 2 * len(answer(0))
    assert found == WHOLE[: len(found)]
    if not of_answers:
        first = len(request(0, 0))
        wait_for(lambda: len(server.received) > first, "a part of the second request")
        assert len(server.received) < 2 * first


@pytest.mark.parametrize("of_answers", [False, True])
@pytest.mark.parametrize("kind", ["stall", "split"])
def test_a_slow_frame_arrives_whole(server: Server, kind: str, of_answers: bool) -> None:
    found, took = exchange(server, Aim(END_TXN, of_answers, 2, kind, 0.2))
    assert found == WHOLE
    assert took >= 0.2 or kind == "split"


def test_a_corrupt_answer_has_a_false_length(server: Server) -> None:
    found, _ = exchange(server, Aim(END_TXN, True, 2, "corrupt", 0.0))
    second = len(answer(0))
    assert found[second] == WHOLE[second] ^ 0x40
    assert found[:second] + found[second + 1 :] == WHOLE[:second] + WHOLE[second + 1 :]


def test_answers_are_lost_although_the_requests_arrived(server: Server) -> None:
    found, took = exchange(server, Aim(END_TXN, True, 2, "lose", 0.2))
    assert found == answer(0)
    assert took >= 0.2
    assert server.received.startswith(request(END_TXN, 0) + request(END_TXN, 1))


@pytest.mark.parametrize("held", ["requests", "answers"])
def test_bytes_that_are_held_back_arrive_later(server: Server, held: str) -> None:
    with Proxy(server.address) as proxy:
        proxy.hold(0.3, requests=held == "requests", answers=held == "answers")
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", proxy.port)) as near:
            near.settimeout(5)
            near.sendall(request(FETCH, 1))
            if held == "requests":
                assert server.received == b""
            assert near.recv(len(answer(1)), socket.MSG_WAITALL) == answer(1)
        assert time.monotonic() - began >= 0.3


def test_what_is_held_goes_on_when_the_hold_is_ended_and_nothing_is_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, Proxy(None) as proxy:
        host, port = listener.getsockname()
        proxy.target = f"{host}:{port}"
        with socket.create_connection((host, proxy.port), 10) as client:
            inner, _ = listener.accept()
            with inner:
                inner.settimeout(10)
                client.sendall(b"before")
                assert inner.recv(10) == b"before"
                proxy.hold(3600)
                client.sendall(b"inside")
                with socket.create_connection((host, proxy.port), 10):
                    inner.settimeout(0.2)
                    with pytest.raises(TimeoutError):
                        inner.recv(10)
                    inner.settimeout(10)
                    proxy.hold(0)
                    assert inner.recv(10) == b"inside"


def test_a_held_proxy_can_be_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        began = time.monotonic()
        with Proxy(f"{host}:{port}") as proxy:
            proxy.hold(3600)
            with socket.create_connection((host, proxy.port), 10) as client:
                client.sendall(b"inside")
        assert time.monotonic() - began < 60
    assert not [thread for thread in threading.enumerate() if thread is proxy._thread]


def test_every_kind_is_drawn() -> None:
    draw = random.Random(0)
    kinds = {drawn_aim(draw, (FETCH,), 1.0).kind for _ in range(200)}
    assert kinds == set(KINDS)
