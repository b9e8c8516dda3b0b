"""partition.assignment.strategy: librdkafka's names, and assignors of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_native import Assignor, KafkaError, KafkaException, MemberSubscription, PartitionInfo
from kafka_native.config import parse
from kafka_native.control.assignors import BUILT_IN, make

NAME = "partition.assignment.strategy"


class Mine(Assignor):
    name = "mine"

    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[tuple[str, int]]]:
        return {}


def made(value: Any) -> list[str]:
    config = parse({"bootstrap.servers": "h", NAME: value}, "consumer")
    return [assignor.name for assignor in make(config[NAME])]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("range", ["range"]),
        ("roundrobin, range", ["roundrobin", "range"]),
        ("sticky", ["sticky"]),
        (["cooperative-sticky"], ["cooperative-sticky"]),
        (["sticky", Mine()], ["sticky", "mine"]),
        ((Mine(), "range,roundrobin"), ["mine", "range", "roundrobin"]),
        (Mine(), ["mine"]),
        (None, ["range", "roundrobin"]),
    ],
)
def test_strategies_may_be_names_assignors_and_lists(value: Any, names: list[str]) -> None:
    assert made(value) == names


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["foo"], "Unsupported partition.assignment.strategy: foo"),
        (
            [Mine(), "cooperative-sticky"],
            r"All partition.assignment.strategy \(mine,cooperative-sticky\) assignors",
        ),
        ([1], 'Invalid value for configuration property "partition.assignment.strategy"'),
        ({"range": 1}, "Invalid value for configuration property"),
        (Mine, "Invalid value for configuration property"),
    ],
)
def test_invalid_strategies_are_refused_at_once(value: Any, text: str) -> None:
    with pytest.raises(KafkaException, match=text) as caught:
        made(value)
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG


def test_accepted_names_are_those_of_the_assignors() -> None:
    for name, assignor in BUILT_IN.items():
        assert made(name) == [name]
        assert assignor.name == name
