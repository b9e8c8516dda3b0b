"""The same calls of a share consumer, made with confluent_kafka and with kafka_native: the same comes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from kafka_native.mock import MockCluster
from kafka_native.share_consumer import NOT_APPLICABLE

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
BOTH = (confluent_kafka, kafka_native)


def outcome(call: Callable[[], Any]) -> str:
    """What is returned, or the kind of the exception."""
    try:
        return repr(call())
    except Exception as error:
        return type(error).__name__


def message(module: Any, **fields: Any) -> Any:
    return module.Message(**fields)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "poll unsubscribed": lambda it, module: it.poll(0),
    "poll str": lambda it, module: it.poll("x"),
    "poll None": lambda it, module: it.poll(None),
    "subscribe str": lambda it, module: it.subscribe("t"),
    "subscribe tuple": lambda it, module: it.subscribe(("t",)),
    "subscribe None": lambda it, module: it.subscribe(None),
    "subscribe nameless": lambda it, module: it.subscribe([""]),
    "subscribe twice": lambda it, module: it.subscribe(["t", "t"]),
    "subscribe": lambda it, module: it.subscribe(["t", "u"]),
    "subscription": lambda it, module: it.subscription(),
    "poll": lambda it, module: it.poll(0),
    "poll by name": lambda it, module: it.poll(timeout=0.01),
    "commit_sync": lambda it, module: it.commit_sync(0.01),
    "commit_sync None": lambda it, module: it.commit_sync(None),
    "commit_async": lambda it, module: it.commit_async(),
    "acknowledge": lambda it, module: it.acknowledge(message(module, topic="t", partition=0, offset=0)),
    "acknowledge str": lambda it, module: it.acknowledge("x"),
    "acknowledge kind": lambda it, module: it.acknowledge(message(module, topic="t", partition=0, offset=0), 9),
    "acknowledge kind str": lambda it, module: it.acknowledge(message(module, topic="t", partition=0, offset=0), "x"),
    "acknowledge no topic": lambda it, module: it.acknowledge(message(module, partition=0, offset=0)),
    "acknowledge no partition": lambda it, module: it.acknowledge(message(module, topic="t", offset=0)),
    "acknowledge no offset": lambda it, module: it.acknowledge(message(module, topic="t", partition=0)),
    "acknowledge_offset": lambda it, module: it.acknowledge_offset("t", 0, 0),
    "acknowledge_offset partition": lambda it, module: it.acknowledge_offset("t", -1, 0),
    "acknowledge_offset offset": lambda it, module: it.acknowledge_offset("t", 0, -1),
    "acknowledge_offset topic": lambda it, module: it.acknowledge_offset(1, 0, 0),
    "acknowledge_offset partition str": lambda it, module: it.acknowledge_offset("t", "0", 0),
    "acknowledge_offset gap": lambda it, module: it.acknowledge_offset("t", 0, 0, 0),
    "callback": lambda it, module: it.set_acknowledgement_commit_callback(3),
    "callback None": lambda it, module: it.set_acknowledgement_commit_callback(None),
    "credentials": lambda it, module: it.set_sasl_credentials("a", None),
    "unsubscribe": lambda it, module: it.unsubscribe(),
    "subscribe nothing": lambda it, module: it.subscribe([]),
    "subscription, then": lambda it, module: it.subscription(),
    "poll, then": lambda it, module: it.poll(0),
    "close": lambda it, module: it.close(),
    "close again": lambda it, module: it.close(),
    "poll closed": lambda it, module: it.poll(0),
    "subscribe closed": lambda it, module: it.subscribe(["t"]),
    "unsubscribe closed": lambda it, module: it.unsubscribe(),
    "subscription closed": lambda it, module: it.subscription(),
    "commit_sync closed": lambda it, module: it.commit_sync(),
    "commit_async closed": lambda it, module: it.commit_async(),
    "callback closed": lambda it, module: it.set_acknowledgement_commit_callback(None),
    "credentials closed": lambda it, module: it.set_sasl_credentials("a", "b"),
}


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_every_call_comes_to_the_same(mode: str) -> None:
    found = []
    for module in BOTH:
        consumer = module.ShareConsumer({**NOWHERE, "share.acknowledgement.mode": mode})
        found.append({name: outcome(partial(call, consumer, module)) for name, call in CALLS.items()})
    theirs, ours = found
    assert ours == theirs


@pytest.mark.parametrize("name", NOT_APPLICABLE)
def test_properties_that_mean_nothing_are_refused_by_both(name: str) -> None:
    if name in ("interceptors", "group.protocol.type"):
        pytest.skip(f"{name}: only here, or hidden there")
    values: dict[str, Any] = {
        "partition.assignment.strategy": "range",
        "group.protocol": "classic",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "on_commit": print,
        "topic.blacklist": "a",
        "offset.store.method": "broker",
        "offset.store.path": ".",
    }
    values |= dict.fromkeys(("group.instance.id", "group.remote.assignor"), "x")
    flags = ("enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof", "allow.auto.create.topics")
    value = values.get(name, True if name in flags else 20000)
    refused = [outcome(lambda module=module: module.ShareConsumer({**NOWHERE, name: value})) for module in BOTH]
    assert refused[1] == "ValueError"
    assert refused[0] in ("ValueError", "KafkaException"), "it means something there"


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        running.share.settings.auto_offset_reset = "earliest"
        running.create_topic("t")
        with kafka_native.Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
            for number in range(5):
                producer.produce("t", str(number), key="k", headers={"h": b"v"})
        yield running


def test_messages_commits_and_callbacks_are_the_same(cluster: MockCluster) -> None:
    found = []
    for module in BOTH:
        heard: list[Any] = []
        consumer = module.ShareConsumer(
            {**NOWHERE, "bootstrap.servers": cluster.bootstrap_servers, "group.id": repr(module)}
        )
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error, heard=heard: heard.append((outcome_of(offsets), error))
        )
        consumer.subscribe(["t"])
        messages: list[Any] = []
        deadline = time.monotonic() + 20
        while len(messages) < 5 and time.monotonic() < deadline:
            messages += consumer.poll(1)
        fields = [
            (each.topic(), each.partition(), each.offset(), each.key(), each.value(), each.headers(), each.timestamp())
            for each in messages
        ]
        counts = [(each.delivery_count(), each.error()) for each in messages]
        results = [(where.topic, where.partition, error) for where, error in consumer.commit_sync(10).items()]
        consumer.close()
        found.append((fields, counts, results, heard))
    theirs, ours = found
    assert len(ours[0]) == 5
    assert ours == theirs


def outcome_of(offsets: dict[Any, set[int]]) -> dict[tuple[str, int], set[int]]:
    return {(where.topic, where.partition): each for where, each in offsets.items()}
