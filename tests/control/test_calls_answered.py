"""Every call is answered, even if a bug, or a lack of memory, stops its sending half-way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, ShareConsumer
from kafka_native.control.consumer.share_group import ShareSessions
from kafka_native.control.main_thread import MainThread
from kafka_native.control.requests import ANY_BROKER, NEVER, Call, Reply
from kafka_native.mock import MockCluster
from kafka_native.protocol.metadata import MetadataRequest
from tests.waiting import WAIT_S, wait_for

from .fakes import Cluster

SOON_S = 10.0
"""Far below the timeouts of these calls, and far above their usual time."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with MockCluster(1) as cluster:
        cluster.create_topic("t", 1)
        yield cluster.bootstrap_servers


@pytest.fixture
def main(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[MainThread]:
    """Yield a client's control thread, whose pool fails for marked calls."""
    with Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0}) as consumer:
        consumer.list_topics(timeout=WAIT_S)
        main = consumer._client.main
        send = main.pool.send

        def failing(call: Call) -> None:
            if call.newest == BROKEN:
                raise RuntimeError("a defect")
            send(call)

        monkeypatch.setattr(main.pool, "send", failing)
        yield main


BROKEN = 12345


def calls(count: int, broken: int, done: Callable[[int, Reply], None]) -> list[Call]:
    """Return calls, one of which can't be sent."""

    def call(number: int) -> Call:
        newest = BROKEN if number == broken else NEVER_OLDER
        deadline = time.monotonic() + WAIT_S
        return Call(
            MetadataRequest(topics=[]),
            ANY_BROKER,
            deadline,
            lambda reply: done(number, reply),
            newest,
        )

    return [call(number) for number in range(count)]


NEVER_OLDER = 0x7FFF


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_every_call_of_a_gather_is_answered(main: MainThread, broken: int) -> None:
    answers: dict[int, list[Reply]] = {number: [] for number in range(3)}
    future = main.begin_gather(
        lambda deadline, done: calls(
            3, broken, lambda number, reply: answers[number].append(reply)
        ),
        WAIT_S,
    )
    wait_for(lambda: all(answers.values()))
    assert [isinstance(answers[number][0], KafkaError) for number in range(3)] == [
        each == broken for each in range(3)
    ]
    with pytest.raises(RuntimeError, match="a defect"):
        future.result(SOON_S)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_every_call_of_a_manager_is_answered(main: MainThread, broken: int) -> None:
    answers: dict[int, list[Reply]] = {number: [] for number in range(3)}
    due = calls(3, broken, lambda number, reply: answers[number].append(reply))

    def poll(now: float) -> tuple[list[Call], float]:
        taken, due[:] = list(due), []
        return taken, NEVER

    main.run(lambda: main.add(SimpleNamespace(poll=poll)))
    wait_for(lambda: all(answers.values()))
    assert [isinstance(answers[number][0], KafkaError) for number in range(3)] == [
        each == broken for each in range(3)
    ]


def test_a_call_is_answered_once(main: MainThread) -> None:
    """This holds even if the answer callback raises."""
    answers: list[Reply] = []

    def on_reply(reply: Reply) -> None:
        answers.append(reply)
        raise RuntimeError("a defect of the caller")

    # no such broker: fails at once
    call = Call(MetadataRequest(topics=[]), 99, time.monotonic() + WAIT_S, on_reply)
    future = main.begin_gather(lambda deadline, done: [call], WAIT_S)
    with pytest.raises(RuntimeError):
        future.result(SOON_S)
    assert len(answers) == 1


def test_calls_that_the_engine_refuses_are_not_kept_as_sent() -> None:
    cluster = Cluster()
    cluster.bring_up(0)

    def broken(*args: Any, **how: Any) -> None:
        raise RuntimeError("a defect")

    cluster.engine.submit = broken  # type: ignore[method-assign]
    answers: list[Reply] = []
    call = Call(MetadataRequest(), ANY_BROKER, 1060.0, answers.append)
    with pytest.raises(RuntimeError):
        cluster.pool.send(call)
    cluster.pool.fail_all(KafkaError(KafkaError._DESTROY))
    assert answers == [], "its sender handles it"


@pytest.mark.parametrize("method", ["acknowledge", "end"])
def test_a_share_consumer_that_cannot_leave_reports_it(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def broken(self: ShareSessions, *args: Any) -> None:
        raise RuntimeError("a defect")

    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": f"s-{method}", "log_level": 0}
    )
    consumer.subscribe(["t"])
    consumer.poll(0.1)
    with monkeypatch.context() as patched:
        patched.setattr(ShareSessions, method, broken)
        started = time.monotonic()
        with pytest.raises(RuntimeError, match="a defect"):
            consumer.close(-1)
    assert time.monotonic() - started < SOON_S


def test_a_share_consumer_that_cannot_commit_reports_it(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ShareSessions, *args: Any) -> None:
        raise RuntimeError("a defect")

    with ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "commits", "log_level": 0}
    ) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(0.1)
        collected = [SimpleNamespace(topic="t", key=(b"", 0), on_done=None)]
        monkeypatch.setattr(consumer._held, "collect", lambda **_: collected)
        with monkeypatch.context() as patched:
            patched.setattr(ShareSessions, "acknowledge", broken)
            with pytest.raises(RuntimeError, match="a defect"):
                consumer.commit_sync(-1)
        monkeypatch.setattr(consumer._held, "collect", lambda **_: [])
