"""The arithmetic of the benchmarks."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import click
import confluent_kafka
import pytest
from confluent_kafka import KafkaError

import bench.broker
from bench.__main__ import check_landed
from bench.adapters import Figures
from bench.adapters.producer_api import net_call_ns
from bench.report import verdicts


def test_targets_compare_medians_of_ratios_within_a_round() -> None:
    rounds = {
        "kafka_native": [Figures(100, 1.0, 0.2), Figures(100, 2.0, 0.2), Figures(100, 4.0, 0.2)],
        "confluent_kafka": [
            Figures(100, 4.0, 1.0),
            Figures(100, 8.0, 1.0),
            Figures(100, 16.0, 0.5),
        ],
        "raw": [Figures(100, 0.8, 0.1), Figures(100, 1.0, 0.1), Figures(100, 2.0, 0.1)],
    }
    assert verdicts("produce", rounds) == [
        "rate / raw: 0.50, target at least 0.85: not reached",
        "CPU / confluent_kafka: 0.20, target at most 0.2: reached",
    ]
    assert verdicts("consume", rounds) == [
        "rate / confluent_kafka: 4.00, target at least 12: not reached",
        "CPU / confluent_kafka: 0.20, target at most 0.1: not reached",
        "CPU / raw: 2.00, target at most 2.2: reached",
    ]


def test_call_target_is_in_nanoseconds() -> None:
    figures = Figures(1, 1.0, 1.0, call_ns=201.0)
    assert verdicts("call", {"kafka_native": [figures]}) == [
        "ns a call: 201.00, target at most 200: not reached"
    ]


def test_messages_that_the_broker_lacks_fail_the_run() -> None:
    check_landed("raw", Figures(100, 1.0, 0.1), 100)
    with pytest.raises(click.ClickException, match="the broker has 99"):
        check_landed("raw", Figures(100, 1.0, 0.1), 99)


def test_a_slow_empty_loop_does_not_reduce_the_cost_of_a_call() -> None:
    assert net_call_ns([2.0, 1.5, 3.0], [0.5, 4.0, 0.5], 10_000_000) == pytest.approx(100.0)


def test_targets_beside_the_best_peer_and_by_difference() -> None:
    def figures(p50: float, p99: float) -> Figures:
        return Figures(1, 1.0, 1.0, {"p50": p50, "p99": p99})

    rounds = {
        "kafka_native": [figures(0.6, 2.0), figures(0.4, 2.0)],
        "confluent_kafka": [figures(0.4, 3.0), figures(0.4, 3.0)],
        "franz_go": [figures(0.5, 1.0), figures(0.2, 4.0)],
    }
    assert verdicts("end_to_end", rounds) == [
        "p50 / the best peer: 1.75, target at most 1: not reached",
        "p99 / the best peer: 1.33, target at most 1: not reached",
    ]
    rounds = {
        "kafka_native": [Figures(1, 1.0, 1.0, more={"first ms": 70.0})],
        "raw": [Figures(1, 1.0, 1.0, more={"first ms": 25.0})],
    }
    assert verdicts("cold", rounds) == ["first ms - raw: 45.00, target at most 50: reached"]


@pytest.mark.parametrize(
    "code",
    [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT],
)
def test_a_new_topic_without_leaders_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    replies: list[int | KafkaError] = [7, KafkaError(code), 7, 8]
    made = []

    class Witness:
        def __init__(self, settings: dict[str, str]) -> None:
            made.append(settings)

        def list_offsets(self, ends: dict[Any, Any]) -> dict[Any, Future[Any]]:
            return {partition: self.reply() for partition in ends}

        def reply(self) -> Future[Any]:
            future: Future[Any] = Future()
            reply = replies.pop(0)
            if isinstance(reply, KafkaError):
                future.set_exception(confluent_kafka.KafkaException(reply))
            else:
                future.set_result(SimpleNamespace(offset=reply))
            return future

    monkeypatch.setattr(bench.broker, "Witness", Witness)
    monkeypatch.setattr(bench.broker, "LEADER_PAUSE_S", 0.0)
    assert bench.broker.landed("servers", "topic", 2, 15) == 15
    assert len(made) == 2  # one witness keeps what it has heard
    replies[:] = [7, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(confluent_kafka.KafkaException):
        bench.broker.landed("servers", "topic", 2, 15)
    monkeypatch.setattr(bench.broker, "LEADER_S", -1.0)
    replies[:] = [7, KafkaError(code)]
    with pytest.raises(confluent_kafka.KafkaException):
        bench.broker.landed("servers", "topic", 2, 15)
