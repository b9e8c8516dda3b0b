"""No object crashes the process: from T.__new__(T), as a copy, of a derived class."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import kafka_native.admin
import kafka_native.compat.drop_in.confluent_kafka.admin
from kafka_native import Consumer, Message, Producer
from kafka_native._native import engine
from kafka_native.compat.drop_in import confluent_kafka as drop_in
from tests.native import uninitialised
from tests.waiting import PROGRAM_S


def all_types() -> set[type]:
    """Return every type in the process."""
    found: set[type] = set()
    pending: list[type] = [object]
    while pending:
        more = set(type.__subclasses__(pending.pop())) - found
        found |= more
        pending += more
    return found


def test_every_extension_type_is_tried() -> None:
    tried = set(uninitialised.extension_types().values())
    ours = {
        each
        for each in all_types()
        if str(getattr(each, "__module__", "")).startswith("kafka_native")
        and not each.__flags__ & uninitialised.HEAP_TYPE
    }
    assert {
        each for each in ours - tried if not each.__name__.startswith("__pyx_scope_struct")
    } == set()
    assert len(tried) > 40
    assert {Producer, Consumer, Message} <= set(uninitialised.public_types().values())


def test_nothing_crashes() -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.native.uninitialised"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    steps = done.stdout.splitlines()
    assert (done.returncode, steps[-1:]) == (0, ["THE END"]), done.stderr
    assert len(steps) > 10_000


def test_an_uninitialized_message_equals_an_empty_one() -> None:
    message = Message.__new__(Message)
    assert repr(message) == "Message(topic=None, partition=None, offset=None, key=None, value=None)"
    assert message == Message()
    assert pickle.loads(pickle.dumps(message)) == message
    message.set_topic("t")
    assert (message.topic(), Message.__new__(Message).topic()) == ("t", None)


@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_calls_of_uninitialized_clients_raise(kind: type[Any]) -> None:
    client = kind.__new__(kind)
    for name in ("poll", "close", "list_topics"):
        with pytest.raises(RuntimeError, match=r"super\(\).__init__"):
            getattr(client, name)()


CLIENTS = (
    "AdminClient",
    "Consumer",
    "DeserializingConsumer",
    "DeserializingShareConsumer",
    "Producer",
    "SerializingProducer",
    "ShareConsumer",
)


@pytest.mark.parametrize("lib", [kafka_native, drop_in])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_can_be_made_without_its_constructor(lib: Any, name: str) -> None:
    kind = getattr(lib, name, None) or getattr(lib.admin, name)
    assert type(kind.__new__(kind)) is kind


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_clients_cannot_be_copied(duplicate: Callable[[Any], Any]) -> None:
    with Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": print}) as producer:
        for each in (producer, producer._client.engine, producer._client.engine.topic("t")):
            with pytest.raises(TypeError, match="cannot pickle"):
                duplicate(each)


def test_topics_and_cursors_are_made_only_by_an_engine() -> None:
    for kind in (engine.Topic, engine.Cursor):
        for arguments in ((), (object(),)):
            with pytest.raises(TypeError):
                kind.__new__(kind, *arguments)
