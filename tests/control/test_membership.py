"""max.poll.interval.ms in any group protocol, and the group's settings."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.config import parse
from kafka_native.control.group.membership import BACK_S, GroupSettings, PollWatch
from kafka_native.control.requests import NEVER
from kafka_native.errors import KafkaError


class Recorder:
    """Stands for the membership, and records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_poll_exceeded(self, now: float) -> None:
        self.calls.append("exceeded")

    def rejoin(self, reason: str, now: float) -> None:
        self.calls.append("rejoin")


class Application:
    """An application that polls or doesn't, with a limit of ten seconds."""

    def __init__(self) -> None:
        self.polls = 0
        self.inside = False
        self.subscribed = True
        self.errors: list[KafkaError] = []
        self.now = 100.0
        membership: Any = Recorder()
        self.calls = membership.calls
        self.watch = PollWatch(
            membership,
            lambda: self.subscribed,
            lambda: (self.polls, self.inside),
            interval_s=10.0,
            on_error=self.errors.append,
        )

    def wait(self, seconds: float) -> None:
        """Poll the watch when it is due, like the control thread."""
        until = self.now + seconds
        while True:
            _, at = self.watch.poll(self.now)
            if at > until:
                break
            assert at > self.now
            self.now = at
        self.now = until
        self.watch.poll(self.now)


def test_application_that_polls_in_time_stays():
    application = Application()
    for _ in range(10):
        application.wait(9.0)
        application.polls += 1
    assert application.calls == []


def test_application_that_polls_too_late_is_out_until_it_polls():
    application = Application()
    application.wait(9.9)
    assert application.calls == []
    application.wait(0.7)
    assert application.calls == ["exceeded"]
    [error] = application.errors
    assert error.code() == KafkaError._MAX_POLL_EXCEEDED
    assert "10000ms" in error.str()
    application.wait(60.0)
    assert application.calls == ["exceeded"]
    application.polls += 1
    application.wait(2 * BACK_S)
    assert application.calls == ["exceeded", "rejoin"]
    application.wait(11.0)
    assert application.calls == ["exceeded", "rejoin", "exceeded"]


def test_application_inside_a_poll_is_not_late():
    application = Application()
    application.polls, application.inside = 1, True
    application.wait(60.0)
    application.inside = False
    application.wait(9.0)
    assert application.calls == []
    application.wait(2.0)
    assert application.calls == ["exceeded"]


def test_nothing_is_watched_without_a_subscription():
    application = Application()
    application.subscribed = False
    assert application.watch.poll(0.0) == ([], NEVER)
    application.wait(60.0)
    application.subscribed = True  # the time counts from here
    application.wait(9.0)
    assert application.calls == []
    application.wait(2.0)
    assert application.calls == ["exceeded"]
    application.subscribed = False
    application.wait(1.0)
    application.subscribed = True
    application.wait(1.0)
    assert application.calls == ["exceeded"]
    assert not application.watch.exceeded


@pytest.mark.filterwarnings("ignore")
def test_settings_are_the_properties_in_seconds():
    given = {
        "group.id": "g",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "client.rack": "r1",
    }
    settings = GroupSettings.of(parse(given, "consumer"))
    assert (settings.session_timeout_s, settings.heartbeat_interval_s, settings.rack) == (
        6.0,
        0.5,
        "r1",
    )
    assert settings == GroupSettings(session_timeout_s=6.0, heartbeat_interval_s=0.5, rack="r1")
    assert GroupSettings.of(parse({"group.id": "g"}, "consumer")) == GroupSettings()
