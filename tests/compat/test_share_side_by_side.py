"""The same calls of share consumers have the same outcomes in confluent_kafka and in kafka_native.

`tests/broker/test_share_side_by_side.py` makes the calls that need a cluster on Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from kafka_native.mock import MockCluster
from kafka_native.share_consumer import NOT_APPLICABLE
from tests.broker.support import dotted
from tests.client.share_support import take
from tests.compat.sides import BOTH, Side, on_both
from tests.waiting import WAIT_S

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
Begin = Callable[[str], None]


def outcome(call: Callable[[], Any]) -> str:
    """Return the result of a call as text, or the class of its exception."""
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
    "subscribe numbers": lambda it, module: it.subscribe([1, b"t", None]),
    "subscription of numbers": lambda it, module: it.subscription(),
    "subscribe pattern": lambda it, module: it.subscribe(["^t"]),
    "subscription of a pattern": lambda it, module: it.subscription(),
    "subscribe": lambda it, module: it.subscribe(["u", "t"]),
    "subscription": lambda it, module: it.subscription(),
    "poll": lambda it, module: it.poll(0),
    "poll by name": lambda it, module: it.poll(timeout=0.01),
    "commit_sync": lambda it, module: it.commit_sync(0.01),
    "commit_sync None": lambda it, module: it.commit_sync(None),
    "commit_async": lambda it, module: it.commit_async(),
    "acknowledge": lambda it, module: it.acknowledge(
        message(module, topic="t", partition=0, offset=0)
    ),
    "acknowledge str": lambda it, module: it.acknowledge("x"),
    "acknowledge kind": lambda it, module: it.acknowledge(
        message(module, topic="t", partition=0, offset=0), 9
    ),
    "acknowledge kind str": lambda it, module: it.acknowledge(
        message(module, topic="t", partition=0, offset=0), "x"
    ),
    "acknowledge no topic": lambda it, module: it.acknowledge(
        message(module, partition=0, offset=0)
    ),
    "acknowledge no partition": lambda it, module: it.acknowledge(
        message(module, topic="t", offset=0)
    ),
    "acknowledge no offset": lambda it, module: it.acknowledge(
        message(module, topic="t", partition=0)
    ),
    "acknowledge_offset": lambda it, module: it.acknowledge_offset("t", 0, 0),
    "acknowledge_offset partition": lambda it, module: it.acknowledge_offset("t", -1, 0),
    "acknowledge_offset offset": lambda it, module: it.acknowledge_offset("t", 0, -1),
    "acknowledge_offset topic": lambda it, module: it.acknowledge_offset(1, 0, 0),
    "acknowledge_offset partition str": lambda it, module: it.acknowledge_offset("t", "0", 0),
    "acknowledge_offset large partition": lambda it, module: it.acknowledge_offset("t", 2**40, 0),
    "acknowledge_offset large offset": lambda it, module: it.acknowledge_offset("t", 0, 2**70),
    "acknowledge_offset null": lambda it, module: it.acknowledge_offset("t\0", 0, 0),
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
    "poll str closed": lambda it, module: it.poll("x"),
    "acknowledge str closed": lambda it, module: it.acknowledge("x"),
    "subscribe closed": lambda it, module: it.subscribe(["t"]),
    "unsubscribe closed": lambda it, module: it.unsubscribe(),
    "subscription closed": lambda it, module: it.subscription(),
    "commit_sync closed": lambda it, module: it.commit_sync(),
    "commit_async closed": lambda it, module: it.commit_async(),
    "callback closed": lambda it, module: it.set_acknowledgement_commit_callback(None),
    "credentials closed": lambda it, module: it.set_sasl_credentials("a", "b"),
}


@pytest.mark.parametrize("kind", ["ShareConsumer", "DeserializingShareConsumer"])
@pytest.mark.parametrize("mode", ["implicit", "explicit", ""])
def test_every_call_has_the_same_outcome(mode: str, kind: str) -> None:
    found = []
    for module in BOTH:
        consumer = getattr(module, kind)({**NOWHERE, "share.acknowledgement.mode": mode})
        found.append(
            {name: outcome(partial(call, consumer, module)) for name, call in CALLS.items()}
        )
    theirs, ours = found
    assert ours == theirs


def text_of(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class and text of its exception."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


STATES = ("poll", "subscription", "unsubscribe", "commit_sync", "commit_async", "close")


def test_a_consumer_without_init_is_closed() -> None:
    found = []
    for module in BOTH:

        class Uninitialized(module.ShareConsumer):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                pass

        consumer = Uninitialized()
        found.append([text_of(getattr(consumer, name)) for name in STATES])
        with consumer:
            pass
    assert found[1] == found[0]
    assert found[1][0] == ("IllegalStateException", "Share consumer closed")


def test_a_second_init_is_refused_while_it_is_open() -> None:
    found = []
    for module in BOTH:
        consumer = module.ShareConsumer(NOWHERE)
        again = [text_of(partial(consumer.__init__, NOWHERE))]
        consumer.close()
        again += [text_of(partial(consumer.__init__, NOWHERE)), consumer.subscription()]
        consumer.close()
        found.append(again)
    assert found[1] == found[0] == [("RuntimeError", "ShareConsumer already initialized"), None, []]


@pytest.mark.parametrize(
    "file", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"]
)
def test_a_missing_file_is_a_value_error(file: str) -> None:
    conf = {**NOWHERE, "security.protocol": "ssl", file: "/does-not-exist"}
    theirs, ours = (text_of(partial(module.ShareConsumer, conf)) for module in BOTH)
    assert (ours[0], ours[1][:40]) == (theirs[0], theirs[1][:40])
    assert ours[1].startswith(f"Failed to create share consumer: {file}")


@pytest.mark.parametrize("args", [(), (None,), (3,), ("x",), ({},), (NOWHERE, 3)])
def test_configurations_of_another_type(args: tuple[Any, ...]) -> None:
    theirs, ours = (text_of(partial(module.ShareConsumer, *args)) for module in BOTH)
    assert ours == theirs


@pytest.mark.parametrize("name", NOT_APPLICABLE)
def test_properties_without_effect_are_refused_by_both(name: str) -> None:
    if name in ("interceptors", "group.protocol.type", "topics"):
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
    flags = (
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "allow.auto.create.topics",
    )
    value = values.get(name, True if name in flags else 20000)
    refused = [
        outcome(lambda module=module: module.ShareConsumer({**NOWHERE, name: value}))
        for module in BOTH
    ]
    assert refused[1] == "ValueError"
    assert refused[0] in ("ValueError", "KafkaException"), "it means something there"


@pytest.mark.parametrize(
    "conf",
    [
        {"auto.offset.reset": "never"},
        {"auto.offset.reset": "earliest", "no.such.property": 1},
        {"auto.offset.reset": "earliest", "enable.auto.commit": "x"},
        {"on_commit": 1},
        {"on_commit": print, "no.such.property": 1},
    ],
    ids=str,
)
def test_the_first_reason_to_refuse_a_configuration(conf: dict[str, Any]) -> None:
    theirs, ours = (
        outcome(lambda module=module: module.ShareConsumer({**NOWHERE, **conf})) for module in BOTH
    )
    assert ours == theirs


@pytest.mark.parametrize("name", ["IllegalStateException", "ConcurrentModificationException"])
def test_exceptions_are_of_the_same_kinds(name: str) -> None:
    theirs, ours = (getattr(module, name) for module in BOTH)
    assert [each.__name__ for each in ours.__mro__] == [each.__name__ for each in theirs.__mro__]
    assert (ours("a text").args, str(ours("a text"))) == (
        theirs("a text").args,
        str(theirs("a text")),
    )


# --- on a cluster ---


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        running.share.settings.auto_offset_reset = "earliest"
        yield running


@pytest.fixture
def begin() -> Begin:
    """Return a function that makes a group begin with existing messages: nothing to do."""
    return lambda group: None


def sharing(side: Side, begin: Begin, kind: str = "ShareConsumer", **conf: Any) -> Any:
    """Return a consumer of the side's group that is subscribed to its topic."""
    begin(side.group)
    basics = {"bootstrap.servers": side.servers, "group.id": side.group, "log_level": 0}
    consumer = getattr(side.lib, kind)({**basics, **dotted(conf)})
    consumer.subscribe([side.topic])
    return consumer


polled: Callable[[Any, int], list[Any]] = partial(take, timeout_s=WAIT_S)


def committed(consumer: Any) -> list[Any]:
    return [
        (where.topic, where.partition, error)
        for where, error in consumer.commit_sync(WAIT_S).items()
    ]


class CommitLog:
    """A callback that collects offsets and errors. The number of calls depends on the brokers."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, int], set[int]] = {}
        self.errors: list[Any] = []

    def __call__(self, offsets: Any, error: Any) -> None:
        for where, each in offsets.items():
            self.offsets.setdefault((where.topic, where.partition), set()).update(each)
        if error is not None:
            self.errors.append(error.args[0].name())

    def all(self) -> Any:
        return [[*where, sorted(each)] for where, each in self.offsets.items()], self.errors


@on_both
def test_messages_commits_and_callbacks_are_the_same(side: Side, begin: Begin) -> Any:
    side.fill()
    commits = CommitLog()
    consumer = sharing(side, begin)
    consumer.set_acknowledgement_commit_callback(commits)
    messages = polled(consumer, 10)
    counts = [(each.delivery_count(), each.leader_epoch()) for each in messages]
    results = committed(consumer)
    consumer.close()
    return messages, counts, results, commits.all()


@on_both
def test_each_kind_of_acknowledgement(side: Side, begin: Begin) -> Any:
    side.fill()
    commits, kinds = CommitLog(), side.lib.AcknowledgeType
    decided = {2: kinds.ACCEPT, 3: kinds.RELEASE, 4: kinds.REJECT}
    with sharing(side, begin, share_acknowledgement_mode="explicit") as consumer:
        consumer.set_acknowledgement_commit_callback(commits)
        messages = polled(consumer, 10)
        returned = [outcome(lambda: consumer.poll(0))]  # no message is acknowledged
        for each in messages:
            if each.offset() in decided:
                returned.append(consumer.acknowledge(each, decided[each.offset()]))
            elif each.offset() == 5:
                returned.append(consumer.acknowledge_offset(side.topic, 0, 5, kinds.RELEASE))
            elif each.offset() == 6:
                returned.append(consumer.acknowledge_offset(side.topic, 0, 6))
            else:
                returned.append(consumer.acknowledge(each))
        returned.append(committed(consumer))
        again = polled(consumer, 2)
        for each in again:
            consumer.acknowledge(each, ack_type=kinds.ACCEPT)
        returned.append(consumer.commit_async())
    return returned, [(each.offset(), each.delivery_count()) for each in again], commits.all()


@on_both
def test_impossible_acknowledgements(side: Side, begin: Begin) -> Any:
    side.fill()
    consumer = sharing(side, begin, share_acknowledgement_mode="explicit")
    messages = polled(consumer, 10)
    stranger = side.lib.Message(topic="elsewhere", partition=0, offset=0)
    found = [
        outcome(lambda: consumer.acknowledge(stranger)),
        outcome(lambda: consumer.acknowledge(messages[0], 9)),
        outcome(lambda: consumer.acknowledge_offset(side.topic, 0, 99)),
        outcome(lambda: consumer.acknowledge_offset(side.topic, 1, 0)),
        outcome(lambda: consumer.acknowledge(messages[0])),
        outcome(lambda: consumer.acknowledge(messages[0], 2)),  # another acknowledgement
    ]
    for each in messages[1:]:
        consumer.acknowledge(each)
    found += [committed(consumer), outcome(lambda: consumer.acknowledge(messages[0]))]
    consumer.close()
    implicit = sharing(side, begin)
    side.fill()
    message = polled(implicit, 10)[0]
    found.append(outcome(lambda: implicit.acknowledge(message)))
    implicit.close()
    return found


@on_both
def test_poll_returns_a_collection(side: Side, begin: Begin) -> Any:
    consumer = sharing(side, begin)
    nothing = consumer.poll(0)
    found = [(nothing.count(), nothing.is_empty(), nothing.records(), len(nothing), bool(nothing))]
    side.fill()
    deadline = time.monotonic() + WAIT_S
    messages = nothing
    while messages.is_empty() and time.monotonic() < deadline:
        messages = consumer.poll(1)
    consumer.close()
    first = messages[0]
    same = (
        first is messages.records()[0],
        [*messages] == [*messages.records()],
        len(messages) == messages.count(),
    )
    found.append(
        (first.offset(), same, messages.is_empty(), type(messages[:1]).__name__, len(messages[:1]))
    )
    return found, type(messages).__name__, outcome(lambda: messages[10_000])


@on_both
def test_subscriptions_change(side: Side, begin: Begin) -> Any:
    side.fill()
    consumer = sharing(side, begin)
    found = [consumer.subscription(), len(polled(consumer, 10)), committed(consumer)]
    found += [consumer.unsubscribe(), consumer.subscription(), outcome(lambda: consumer.poll(0))]
    side.fill()
    consumer.subscribe([side.topic])
    found += [consumer.subscription(), sorted(each.offset() for each in polled(consumer, 10))]
    consumer.close()
    return found


@on_both
def test_callbacks_that_raise_or_call_the_consumer(side: Side, begin: Begin) -> Any:
    calls: list[Any] = []

    def call_consumer(offsets: Any, error: Any) -> None:
        calls.append(outcome(lambda: consumer.poll(0)))
        calls.append(outcome(lambda: consumer.commit_sync(0)))
        calls.append(outcome(lambda: consumer.set_acknowledgement_commit_callback(None)))

    def raise_error(offsets: Any, error: Any) -> None:
        raise ValueError("raised by the callback")

    side.fill()
    consumer = sharing(side, begin)
    consumer.set_acknowledgement_commit_callback(call_consumer)
    polled(consumer, 10)
    found = [committed(consumer), calls[:3]]
    consumer.set_acknowledgement_commit_callback(raise_error)
    side.fill()
    polled(consumer, 10)
    found.append(outcome(lambda: consumer.commit_sync(WAIT_S)))
    consumer.set_acknowledgement_commit_callback(None)
    consumer.close()
    return found


@on_both
def test_a_callback_is_called_once_for_each_partition(side: Side, begin: Begin) -> Any:
    calls: list[Any] = []
    producer = side.producer()
    for number in range(20):
        producer.produce(side.topic, b"x", partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    consumer = sharing(side, begin)
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: calls.append(offsets))
    polled(consumer, 20)
    committed(consumer)
    consumer.close()
    return sorted([each.partition for each in offsets] for offsets in calls)


@on_both
def test_poll_raises_after_the_maximum_poll_interval(side: Side, begin: Begin) -> Any:
    side.fill()
    consumer = sharing(side, begin, max_poll_interval_ms=500)
    polled(consumer, 10)
    time.sleep(1.5)
    try:
        consumer.poll(WAIT_S)
    except side.lib.KafkaException as error:
        text = error.args[0].str().partition(" exceeded")[0]
        return side.plain(error.args[0]), text, outcome(lambda: consumer.poll(0))
    finally:
        consumer.close()


@on_both
def test_another_thread_is_refused(side: Side, begin: Begin) -> Any:
    consumer = sharing(side, begin)
    busy = side.lib.ConcurrentModificationException

    def poll_until_free() -> int:
        while True:
            try:
                return len(consumer.poll(WAIT_S))
            except busy:
                pass  # the other thread was quicker

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(poll_until_free)
        deadline = time.monotonic() + WAIT_S
        refused = None
        while refused != busy.__name__ and time.monotonic() < deadline:
            refused = outcome(lambda: consumer.poll(0))
        side.fill()
        got = waiting.result(WAIT_S) > 0
    consumer.close()
    return refused, got


# --- objects instead of bytes ---


@on_both
def test_messages_are_deserialized(side: Side, begin: Begin) -> Any:
    contexts: list[Any] = []

    def value_of(data: Any, context: Any) -> Any:
        contexts.append((context.topic, str(context.field), context.headers))
        return int(data.decode().split()[1])

    side.fill()
    text = side.lib.serialization.StringDeserializer()
    conf = {"key.deserializer": text, "value.deserializer": value_of}
    consumer = sharing(side, begin, "DeserializingShareConsumer", **conf)
    messages = polled(consumer, 10)
    results = committed(consumer)
    consumer.close()
    return messages, [each.delivery_count() for each in messages], results, contexts


@pytest.mark.parametrize("field", ["key", "value"])
@on_both
def test_messages_that_cannot_be_deserialized_are_returned_with_an_error(
    side: Side, begin: Begin, field: str
) -> Any:
    def refuse_four(data: Any, context: Any) -> Any:
        if data.endswith(b"4"):
            raise ValueError("not this one")
        return data.decode()

    side.fill()
    conf = {f"{field}.deserializer": refuse_four, "share.acknowledgement.mode": "explicit"}
    consumer = sharing(side, begin, "DeserializingShareConsumer", **conf)
    messages = polled(consumer, 10)
    kinds = side.lib.AcknowledgeType
    for each in messages:
        consumer.acknowledge(each, kinds.REJECT if each.error() else kinds.ACCEPT)
    results = committed(consumer)
    consumer.close()
    return messages, [each.error() and each.error().str() for each in messages], results


@on_both
def test_without_deserializers_bytes_stay_bytes(side: Side, begin: Begin) -> Any:
    side.fill()
    with sharing(side, begin, "DeserializingShareConsumer") as consumer:
        return polled(consumer, 10)
