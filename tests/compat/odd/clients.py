"""Objects in the states that calls are made in, and the effects that calls have on them."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from tests.compat.odd.calls import Call, Case, Subject
from tests.compat.odd.values import Env

_numbers = itertools.count()
NOWHERE = "127.0.0.1:1"
SETUP_S = 20.0
COMMIT_S = 1.0


def configuration(env: Env, name: str, state: str) -> dict[str, Any]:
    """Return the configuration of a client that is to be in this state."""
    conf = {
        "bootstrap.servers": NOWHERE if state == "offline" else env.servers,
        "log_level": 0,
        "client.id": "odd",
    }
    if "Consumer" in name:
        conf["group.id"] = env.group
        if "Share" not in name:
            conf |= {"auto.offset.reset": "earliest", "fetch.wait.max.ms": 20}
    if name == "DeserializingConsumer":
        conf["value.deserializer"] = lambda data, context: data and data.decode()
    if name == "SerializingProducer":
        conf["key.serializer"] = conf["value.serializer"] = lambda text, context: (
            None if text is None else text.encode()
        )
    if state == "transaction":
        conf["transactional.id"] = f"transaction-{env.group}-{next(_numbers)}"
    return conf


def class_of(env: Env, name: str) -> Any:
    """Return a public class by its name."""
    for module in (env.lib, env.lib.admin, env.lib.aio, env.lib.cimpl, env.lib.serialization):
        if hasattr(module, name):
            return getattr(module, name)
    raise LookupError(name)


def never(env: Env, name: str) -> Any:
    """Return an object whose class doesn't call ``super().__init__()``."""
    return type("Never", (class_of(env, name),), {"__init__": lambda self: None})()


def client(env: Env, subject: Subject, state: str) -> Any:
    """Return a client in a state. Asyncio's clients are made inside their event loop."""
    if state == "never":
        return never(env, subject.name)
    made = class_of(env, subject.name)(configuration(env, subject.name, state))
    if state == "transaction":
        made.init_transactions(SETUP_S)
        made.begin_transaction()
    elif state == "subscribed":
        made.subscribe([env.topic])
    elif state == "assigned":
        made.assign([env.lib.TopicPartition(env.topic, 0, 2)])
        deadline = time.monotonic() + SETUP_S
        while made.poll(0.1) is None and time.monotonic() < deadline:
            pass
    elif state == "closed":
        made.close()
    return made


NORMAL: dict[str, Callable[[Env], Any]] = {
    "KafkaError": lambda env: env.lib.KafkaError(3, "reason", True, True, True),
    "KafkaException": lambda env: env.lib.KafkaException(env.lib.KafkaError(3)),
    "Message": lambda env: env.lib.Message(
        "t", 1, 2, b"key", b"value", [("a", b"b")], None, (1, 5), 0.25, 4, 5
    ),
    "TopicPartition": lambda env: env.lib.TopicPartition("t", 1, 2, "note", 3),
    "Uuid": lambda env: env.lib.Uuid(1, 2),
    "NewTopic": lambda env: env.lib.admin.NewTopic("t", 1, 1, config={"a": "b"}),
    "NewPartitions": lambda env: env.lib.admin.NewPartitions("t", 2),
    "Node": lambda env: env.lib.Node(1, "host", 2),
    "Messages": lambda env: env.lib.Messages([env.lib.Message("t")]),
    "TopicCollection": lambda env: env.lib.TopicCollection(["t"]),
    "ThrottleEvent": lambda env: env.lib.ThrottleEvent("b", 1, 0.5),
    "ConsumerGroupTopicPartitions": lambda env: env.lib.ConsumerGroupTopicPartitions("g", []),
    "ConfigResource": lambda env: env.lib.admin.ConfigResource(2, "t"),
    "ConfigEntry": lambda env: env.lib.admin.ConfigEntry("a", "b"),
    "AclBinding": lambda env: env.lib.admin.AclBinding(2, "t", 3, "p", "h", 2, 2),
    "functions": lambda env: env.lib,
}


def is_client(subject: Subject) -> bool:
    """Return whether the subject is a client, which takes time to make."""
    return subject.name.endswith(("Producer", "Consumer"))


def made(env: Env, subject: Subject, state: str) -> Any:
    """Return the object of a case."""
    if is_client(subject):
        return client(env, subject, state)
    if state == "never":
        return never(env, subject.name)
    if subject.name in NORMAL:
        return NORMAL[subject.name](env)
    return class_of(env, subject.name)()


READING = frozenset(
    [
        "poll",
        "flush",
        "list_topics",
        "cluster_id",
        "committed",
        "position",
        "get_watermark_offsets",
        "assignment",
        "offsets_for_times",
        "memberid",
        "consumer_group_metadata",
        "subscription",
        "len",
        "bool",
        "iter",
        "hash",
        "produce",
        "produce_batch",
        "set_sasl_credentials",
    ]
)
"""The calls that leave a client as it was."""


def is_as_before(call: Call, outcome: dict[str, Any]) -> bool:
    """Return whether a client can be used for another case."""
    if call.name in ("produce", "produce_batch") and "returns" in outcome:
        after = outcome.get("after")
        delivered = isinstance(after, list) and after[1:2] == [0]
        if not delivered or "KafkaError" in json.dumps(after):
            return False  # reports are left, or a message of a transaction has failed
    if call.name in ("poll", "consume") and outcome.get("returns") not in (None, [""], 0):
        return False
    refused = outcome.get("raises", [""])[0] in ("TypeError", "ValueError", "AttributeError")
    return refused or call.name in READING


def configured(env: Env, case: Case) -> tuple[dict[str, Any], Any]:
    """Return a client's configuration with the odd values of a case."""
    conf = configuration(env, case.subject.name, case.state)
    conf |= {name: make(env) for name, make in case.named}
    return conf, class_of(env, case.subject.name)


def _reports(client: Any, reports: list[Any]) -> Any:
    return [client.flush(5), reports]


def _committed(client: Any, here: list[Any]) -> Any:
    """Return the committed offsets, once an asynchronous commit is done."""
    deadline = time.monotonic() + COMMIT_S
    found = client.committed(here, 5)
    while all(each.offset < 0 for each in found) and time.monotonic() < deadline:
        found = client.committed(here, 5)
    return found


def effects(client: Any, env: Env, case: Case, reports: list[Any]) -> Any:
    """Return what an accepted call has done."""
    name = case.call.name
    here = [env.lib.TopicPartition(env.topic, number) for number in range(2)]
    if case.state in ("closed", "never", "offline") or not name.isidentifier():
        return None
    if case.subject.name in ("Producer", "SerializingProducer"):
        if name in ("produce", "produce_batch"):
            return _reports(client, reports)
    elif case.subject.name == "Consumer":
        if name in ("assign", "unassign", "incremental_assign", "incremental_unassign"):
            return client.assignment()
        if name in ("commit", "commit of", "commit all"):
            return _committed(client, here)
        if name in ("seek", "store_offsets", "store_offsets of"):
            return client.position(here)
    elif case.subject.name == "ShareConsumer":
        if name == "subscribe":
            return client.subscription()
    elif case.subject.name in NORMAL and "set_" in name:
        return client
    return None
