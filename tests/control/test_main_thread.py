"""Which manager gets which event of the engine, and in which order managers are polled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native._native import enums
from kafka_native.control.context import ManagerContext, WorkQueue
from kafka_native.control.main_thread import MainThread, Managers
from kafka_native.errors import KafkaError

from .fakes import Cluster, event

KINDS = {
    name.removeprefix("EVENT_"): value
    for name, value in vars(enums).items()
    if name.startswith("EVENT_")
}


class Recorder:
    """A manager that records its calls. ``poll`` has nothing to do."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self._name = name
        self._calls = calls

    def __getattr__(self, method: str) -> Any:
        return lambda *args, **how: self._note(method)

    def _note(self, method: str) -> Any:
        self._calls.append(f"{self._name}.{method}")
        return ([], float("inf")) if method == "poll" else KafkaError(KafkaError._FATAL)


class Rig:
    """A control thread that isn't running, whose managers are recorders."""

    def __init__(self, *names: str) -> None:
        cluster = Cluster()
        engine: Any = cluster.engine
        engine.handle = None
        engine.topics = [SimpleNamespace(name="t")]
        engine.error_of = lambda status, code, text: KafkaError(code)
        engine.next_events = lambda: self.events
        engine.kick_control = lambda: None
        engine.take_dropped_lines = lambda: 0
        self.events: list[Any] = []
        self.calls: list[str] = []
        for each in ("on_reply", "on_connected", "on_disconnected", "on_working", "poll"):
            setattr(cluster.pool, each, getattr(Recorder("pool", self.calls), each))
        cluster.metadata.poll = Recorder("metadata", self.calls).poll  # type: ignore[method-assign]
        found: dict[str, Any] = {name: Recorder(name, self.calls) for name in names}
        if "fetches" in found:
            found["consumer"] = SimpleNamespace(fetches=found.pop("fetches"))
        self.main = MainThread(
            ManagerContext(engine, cluster.pool, cluster.metadata, WorkQueue(engine)),
            Managers(**found, others=[Recorder("other", self.calls)]),
            [Recorder("common", self.calls)],
            on_fatal=lambda error: self.calls.append("on_fatal"),
            on_orphaned=lambda: self.calls.append("on_orphaned"),
        )

    def on(self, kind: str, **fields: Any) -> list[str]:
        """Return the calls that an event of this kind causes."""
        self.calls.clear()
        self.events = [event(kind=KINDS[kind], token=1, **fields)]
        self.main.handle_events()
        return list(self.calls)


def test_each_kind_of_event_has_its_number() -> None:
    assert sorted(KINDS.values()) == list(range(1, 15))


@pytest.mark.parametrize(
    ("kind", "managers", "expected"),
    [
        ("CONNECTED", [], ["pool.on_connected"]),
        ("DISCONNECTED", ["fetches"], ["pool.on_disconnected"]),
        ("REPLY", [], ["pool.on_reply"]),
        ("WORKING", [], ["pool.on_working"]),
        ("TOPIC_WANTED", ["router"], ["router.on_topic_wanted"]),
        ("PARTITION", ["router"], ["router.on_partition_error"]),
        ("FATAL", ["router"], ["router.fatal_error", "on_fatal"]),
        ("OUT_OF_SEQUENCE", ["identity"], ["identity.on_out_of_sequence"]),
        ("OUT_OF_SEQUENCE", ["transactions"], ["transactions.on_out_of_sequence"]),
        ("OUT_OF_SEQUENCE", ["identity", "transactions"], ["transactions.on_out_of_sequence"]),
        ("TXN_PARTITION", ["transactions"], ["transactions.on_partition"]),
        ("TXN_FAILED", ["transactions"], ["transactions.on_failed"]),
        ("CURSOR", ["fetches"], ["fetches.on_cursor_error"]),
        ("REPLICA", ["fetches"], ["fetches.on_replica"]),
    ],
)
def test_an_event_goes_to_one_manager(kind: str, managers: list[str], expected: list[str]) -> None:
    assert Rig(*managers).on(kind) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_of_a_role_that_has_left_is_dropped(kind: str) -> None:
    assert Rig("router", "identity", "fetches").on(kind, engine=1) == []


def test_a_failed_attempt_to_connect_is_for_the_fetches_too() -> None:
    assert Rig("fetches").on("DISCONNECTED", attempts=1) == [
        "pool.on_disconnected",
        "fetches.on_broker_down",
    ]
    assert Rig().on("DISCONNECTED", attempts=1) == ["pool.on_disconnected"]


@pytest.mark.parametrize(
    "kind",
    [
        "TOPIC_WANTED",
        "PARTITION",
        "FATAL",
        "OUT_OF_SEQUENCE",
        "TXN_PARTITION",
        "TXN_FAILED",
        "CURSOR",
        "REPLICA",
    ],
)
def test_an_event_without_a_manager_is_ignored(kind: str) -> None:
    assert Rig().on(kind) == []


def test_managers_are_polled_in_order() -> None:
    rig = Rig("router", "identity", "fetches")
    rig.main.add(SimpleNamespace(poll=Recorder("late", rig.calls).poll))
    rig.main.turn()
    polled = [each.removesuffix(".poll") for each in rig.calls if each.endswith(".poll")]
    assert polled == [
        "common",
        "other",
        "late",
        "fetches",
        "router",
        "identity",
        "metadata",
        "pool",
    ]


def test_no_identity_is_requested_before_the_first_message() -> None:
    rig = Rig("identity")
    rig.main.turn()
    assert "identity.poll" not in rig.calls
