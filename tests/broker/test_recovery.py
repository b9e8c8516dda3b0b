"""The measuring of recovery times: the logs, the black hole, and one outage of our client."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.recovery import (
    ACK,
    COMMIT,
    FAILURE,
    MESSAGE,
    Event,
    first_after,
    longest,
    longest_behind,
    read_log,
)
from bench.recovery.main import main
from tests.broker import java

S = 1_000_000_000
EVENTS = [
    Event(ACK, 0, 9 * S, 10 * S),
    Event(ACK, 0, 9 * S, 12 * S),  # begun before the fault at 10 s
    Event(ACK, 1, 11 * S, 13 * S),
    Event(FAILURE, 0, 11 * S, 11 * S),
    Event(ACK, 0, 11 * S, 15 * S),
    Event(ACK, 0, 16 * S, 17 * S),
    Event(COMMIT, -1, 11 * S, 14 * S),
]


def test_a_log_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert read_log(path) == []
    path.write_text("a 0 5 7\nf 2 5 9 Local: Message timed out\nc -1 5 8\nm 1 5")
    assert read_log(path) == [
        Event(ACK, 0, 5, 7),
        Event(FAILURE, 2, 5, 9),
        Event(COMMIT, -1, 5, 8),
    ]


def test_the_first_success_after_a_fault_was_begun_after_it() -> None:
    assert first_after(EVENTS, ACK, 10 * S, [0]) == 5.0
    assert first_after(EVENTS, ACK, 10 * S, [0, 1]) == 3.0
    assert first_after(EVENTS, ACK, 11 * S, [0], begun=False) == 1.0
    assert first_after(EVENTS, COMMIT, 10 * S, [-1]) == 4.0
    assert first_after(EVENTS, ACK, 17 * S, [0]) is None
    assert first_after(EVENTS, MESSAGE, 10 * S, [0]) is None


def test_the_longest_wait_is_that_of_what_was_begun_in_time() -> None:
    assert longest(EVENTS, ACK, 10 * S, 12 * S) == 4.0
    assert longest(EVENTS, ACK, 8 * S, 10 * S) == 3.0
    assert longest(EVENTS, ACK, 16 * S, 18 * S) == 1.0
    assert longest(EVENTS, MESSAGE, 0, 18 * S) is None


def test_a_consumer_is_behind_the_acknowledgement_of_any_producer() -> None:
    messages = [
        Event(MESSAGE, 0, 9 * S, 18 * S),
        Event(MESSAGE, 1, 11 * S, 15 * S),
        Event(MESSAGE, 0, 16 * S, 16 * S),  # it came before the acknowledgement
        Event(MESSAGE, 2, 11 * S, 99 * S),  # not acknowledged
    ]
    assert longest_behind(EVENTS, messages, 9 * S, 18 * S) == 6.0
    assert longest_behind(EVENTS, messages, 10 * S, 18 * S) == 2.0
    assert longest_behind(EVENTS, messages, 16 * S, 18 * S) == 0.0
    assert longest_behind(EVENTS, messages, 17 * S, 18 * S) is None


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_our_client_recovers_after_a_killed_leader() -> None:
    """Only that it has times: how short they are depends on the machine."""
    if reason := java.missing():
        pytest.skip(f"no Apache Kafka: {reason}")
    began = time.monotonic()
    arguments = ["leader", "coordinator", "--times", "1", "--clients", "kafka_native"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    print(done.output)
    assert done.exit_code == 0
    assert "none" not in done.output
    times = re.findall(r"(\w+_s) ([\d.]+)", done.output)
    assert [name for name, _ in times] == ["known_s", "ack_s", "message_s", "known_s", "commit_s"]
    assert all(0 < float(value) < time.monotonic() - began for _, value in times)
