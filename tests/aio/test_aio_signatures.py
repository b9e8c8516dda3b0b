"""The names and parameters of the installed confluent_kafka.aio."""

from __future__ import annotations

import inspect

import pytest

from kafka_native import aio as ours

theirs = pytest.importorskip("confluent_kafka.aio", reason="this confluent_kafka has no aio")

INTERNAL_ATTRIBUTES = {"executor"}


def parameters(function: object) -> list[str]:
    """Return the parameters' names, without *args and **kwargs."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [each.name for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def public(cls: type) -> set[str]:
    """Return the public methods of a class."""
    return {
        name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))
    } - INTERNAL_ATTRIBUTES


@pytest.mark.parametrize("name", ["AIOProducer", "AIOConsumer"])
def test_every_call_of_confluent_kafka_exists_with_its_parameters(name: str) -> None:
    their_class, our_class = getattr(theirs, name), getattr(ours, name)
    assert public(their_class) - public(our_class) == set()
    assert parameters(our_class.__init__) == parameters(their_class.__init__)
    for method in public(their_class):
        mine, wanted = (
            parameters(getattr(our_class, method)),
            parameters(getattr(their_class, method)),
        )
        assert mine[: len(wanted)] == wanted, method


def test_produce_is_documented() -> None:
    assert inspect.signature(ours.AIOProducer.produce).parameters["headers"].default is None
    assert "full queue is waited for" in (ours.AIOProducer.produce.__doc__ or "")
