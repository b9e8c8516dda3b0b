"""The times of statistics documents, with a fake clock, and the names of all states in them."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

from kafka_native.control.group import classic_membership, heartbeats
from kafka_native.control.main_thread import Managers
from kafka_native.control.metrics_reader import api_name
from kafka_native.control.producer.transactions import State
from kafka_native.control.states import JOIN_STATES, NO_TRANSACTION, States
from kafka_native.control.statistics import Statistics
from kafka_native.protocol import ApiKey
from kafka_native.statistics import ClientMetrics

COUNTS = "ts time age replyq msg_cnt msg_size msg_max msg_size_max simple_cnt metadata_cache_cnt"
TRAFFIC = "tx tx_bytes rx rx_bytes txmsgs txmsg_bytes rxmsgs rxmsg_bytes"


class Rig(Statistics):
    """Statistics without data. ``collected`` has one entry a collection: whether windows end."""

    def __init__(self, interval_s: float, *, with_callback: bool = True) -> None:
        self.now = 100.0
        self.collected: list[bool] = []
        self.documents: list[dict[str, Any]] = []
        self.waiting: list[Any] = []
        context: Any = None
        super().__init__(
            context,
            Managers(),
            name="rig",
            client_id="rig",
            kind="producer",
            interval_s=interval_s,
            stats_cb=(lambda text: self.documents.append(json.loads(text)))
            if with_callback
            else None,
            call_back=self.waiting.append,
            fatal=lambda: None,
            clock=lambda: self.now,
        )

    def collect(self, *, end: bool) -> ClientMetrics:
        self.collected.append(end)
        numbers: dict[str, Any] = dict.fromkeys(f"{COUNTS} {TRAFFIC}".split(), int(self.now * 1000))
        texts: dict[str, Any] = dict.fromkeys(("name", "client_id", "type"), "rig")
        return ClientMetrics(**texts, **numbers, brokers={}, topics={}, cgrp=None, eos=None)

    def at(self, now: float) -> float:
        """Run a turn of the control thread, and return the time of the next one."""
        self.now = now
        calls, wake_up = self.poll(now)
        assert calls == []
        return wake_up

    def serve(self) -> None:
        """Poll like the application."""
        while self.waiting:
            self.waiting.pop(0)()


def test_a_document_is_due_each_interval_and_not_before() -> None:
    rig = Rig(2.0)
    assert rig.at(100.0) == 102.0
    assert rig.at(101.999) == 102.0
    assert rig.documents == rig.waiting == []
    assert rig.at(102.0) == 104.0
    rig.serve()
    assert rig.at(103.5) == 104.0
    assert rig.at(104.25) == 106.0  # late: the next one isn't
    rig.serve()
    assert [document["ts"] for document in rig.documents] == [102_000, 104_250]


def test_missed_intervals_are_skipped() -> None:
    rig = Rig(1.0)
    assert rig.at(150.0) == 151.0
    rig.serve()
    assert rig.at(150.5) == 151.0
    rig.serve()
    assert len(rig.documents) == 1


def test_no_document_is_made_while_another_waits_and_windows_continue() -> None:
    rig = Rig(1.0)
    for second in range(101, 111):
        rig.at(float(second))
    assert rig.collected == [True]
    assert len(rig.waiting) == 1
    rig.serve()
    assert rig.at(111.0) == 112.0
    rig.serve()
    assert rig.collected == [True, True]
    assert [document["ts"] for document in rig.documents] == [101_000, 111_000]


def test_metrics_end_windows_only_without_documents() -> None:
    with_documents, without = Rig(1.0), Rig(1.0, with_callback=False)
    with_documents.metrics()
    without.metrics()
    assert with_documents.collected == [False]
    assert without.collected == [True]
    assert without.at(1e6) == float("inf")
    assert without.waiting == []


def test_an_interval_of_zero_makes_no_documents() -> None:
    rig = Rig(0.0)
    assert rig.at(1e9) == float("inf")
    assert rig.collected == []


def test_every_state_of_a_membership_has_a_join_state() -> None:
    states = {state.name for module in (classic_membership, heartbeats) for state in module.State}
    assert states == set(JOIN_STATES)


def test_a_client_without_transactions_has_their_first_state() -> None:
    assert State.INIT.value == NO_TRANSACTION


def test_requests_have_librdkafkas_names() -> None:
    assert [api_name(key) for key in (0, 1, 3, 10, 18, 22, 25)] == [
        *(
            "Produce",
            "Fetch",
            "Metadata",
            "FindCoordinator",
            "ApiVersion",
            "InitProducerId",
            "AddOffsetsToTxn",
        )
    ]
    assert len({api_name(key) for key in ApiKey}) == len(ApiKey)
    assert api_name(99) == "Unknown-99?"


def test_the_last_poll_is_known_although_polls_of_an_open_batch_read_no_clock() -> None:
    polls, inside = 0, False
    control: Any = SimpleNamespace(
        polls=lambda: (polls, inside), member=SimpleNamespace(group_id="")
    )
    context: Any = None
    states = States(context, Managers(consumer=control), lambda: None, 100.0)
    states.note_polls(101.0)
    assert states.last_poll_s(0, 102.0) == -1
    inside = True
    assert states.last_poll_s(0, 102.0) == 0
    inside, polls = False, 1
    long_ago = 1
    assert states.last_poll_s(long_ago, 103.0) == 1  # after 102
    states.note_polls(110.0)
    assert states.last_poll_s(long_ago, 110.0) == 8
    polls = 5
    states.note_polls(111.0)
    assert states.last_poll_s(long_ago, 112.5) == 2  # after 110
    # a poll that has read the clock is exact
    just_now = time.monotonic_ns() // 1000
    assert states.last_poll_s(just_now, 120.0) == 0
