"""No object of a public type crashes the process, however it is made and treated."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import kafka_native
from kafka_native.compat.drop_in import confluent_kafka as drop_in
from tests.native import odd_objects
from tests.waiting import PROGRAM_S


def steps_of(*arguments: str) -> list[str]:
    """Run the program to its end, and return its lines."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.native.odd_objects", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    steps = done.stdout.splitlines()
    assert (done.returncode, steps[-1:]) == (0, ["THE END"]), (steps[-3:], done.stderr[-5000:])
    return steps


def test_compiled_types_and_closed_clients() -> None:
    assert len(steps_of()) > 30_000


def test_the_types_of_both_names_are_treated() -> None:
    treated = set(odd_objects.types(only_compiled=False).values())
    for module in odd_objects.modules():
        for name in getattr(module, "__all__", ()):
            found = getattr(module, name, None)  # a submodule may not be loaded
            if isinstance(found, type) and found.__module__.startswith("kafka_native"):
                assert found in treated, name


@pytest.mark.parametrize("kind", [kafka_native.Message, drop_in.Message])
def test_a_message_may_hold_itself(kind: type[Any]) -> None:
    message = kind()
    message.set_value(message)
    with pytest.raises(RecursionError):
        len(message)
    assert message == message  # that is the question
    message.set_value(None)


@pytest.mark.parametrize("name", ["topic", "key", "value", "headers", "error"])
def test_values_whose_end_uses_the_message(name: str) -> None:
    message = kafka_native.Message()
    for again in (getattr(message, f"set_{name}"), lambda _: message.__init__()):  # type: ignore[misc]
        message.__init__(**{name: odd_objects.Sabotage(message)})  # type: ignore[misc]
        again(None)
        assert getattr(message, name)() is None


@pytest.mark.slow
def test_every_type() -> None:
    assert len(steps_of("all")) > 200_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_messages_in_random_order(seed: int) -> None:
    assert len(steps_of("30", str(seed))) > 5_000
