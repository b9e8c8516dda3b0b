"""Above a limit, kept Messages are copied, so that they pin little more than their own data."""

from __future__ import annotations

import gc
import os
import random
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.mock.versions import of_release
from tests.waiting import WAIT_S

from .share_support import new_group, sharing
from .support import Client, assigned, run_program

KIB, MIB = 1 << 10, 1 << 20
LIMIT = {"message.pinned.max.kbytes": 256}
PINNED_MAX_BYTES = 256 * KIB + MIB
"""The limit, the current segment, and the data since the last check."""
COUNT = 40_000
VALUE_BYTES = 100
ONE_IN = 1000
RECEIVED_BYTES = COUNT * VALUE_BYTES
"""One kept message in a thousand pins nearly all of it."""


def content(
    number: int,
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]:
    """Return key, value and headers of the message at this offset, in all forms."""
    drawn = random.Random(number)
    key = None if number % 3 == 0 else b"k%d" % number
    value = None if number % 7 == 0 else drawn.randbytes(drawn.randrange(2 * VALUE_BYTES))
    return (
        key,
        value,
        [("name", b"%d" % number), ("none", None), ("name", b"")] if number % 2 else None,
    )


def seen(message: Message) -> tuple[Any, ...]:
    return message.key(), message.value(), message.headers()


def fill_mixed(client: Client, topic: str, **conf: Any) -> None:
    with client.producer(**{"linger.ms": 20, "batch.num.messages": 500, **conf}) as producer:
        for number in range(COUNT):
            key, value, headers = content(number)
            producer.produce(
                topic, value, key, partition=0, timestamp=1000 + number, headers=headers
            )


@contextmanager
def reading(client: Client, topic: str, **conf: Any) -> Iterator[Consumer]:
    """Yield a consumer at the beginning, with responses that are small compared with the topic."""
    with assigned(client, topic, **{"fetch.message.max.bytes": 100_000, **conf}) as consumer:
        yield consumer


def pinned_bytes(consumer: Consumer | Producer) -> int:
    return consumer._client.engine.pins.size_bytes


def take(consumer: Consumer, count: int) -> Iterator[Message]:
    """Yield messages from consume() and poll() in turn."""
    done = 0
    while done < count:
        for message in consumer.consume(min(count - done, 700), WAIT_S):
            yield message
            done += 1
        if done < count:
            polled = consumer.poll(WAIT_S)
            assert polled is not None
            yield polled
            done += 1


@pytest.fixture
def mixed(client: Client) -> str:
    topic = client.topic()
    fill_mixed(client, topic)
    return topic


@pytest.fixture
def compressed(client: Client) -> str:
    topic = client.topic()
    fill_mixed(client, topic, **{"compression.type": "lz4"})
    return topic


@pytest.mark.parametrize("form", ["mixed", "compressed"])
def test_kept_messages_pin_no_more_than_the_limit(
    client: Client, form: str, request: pytest.FixtureRequest
) -> None:
    topic = request.getfixturevalue(form)
    kept: list[Message] = []
    with reading(client, topic, **LIMIT) as consumer:
        most = 0
        for message in take(consumer, COUNT):
            if message.offset() % ONE_IN == 5:  # type: ignore[operator]
                kept.append(message)
                identity = id(message)
            most = max(most, pinned_bytes(consumer))
        assert most < PINNED_MAX_BYTES
        assert id(kept[-1]) == identity
    for message in kept:
        number = message.offset()
        assert number is not None
        assert seen(message) == content(number)
        assert (message.topic(), message.partition(), message.error()) == (topic, 0, None)
        assert message.timestamp()[1] == 1000 + number
        assert len(message) == len(message.value() or b"")
    assert [message.offset() for message in kept] == list(range(5, COUNT, ONE_IN))


def test_below_the_limit_nothing_is_copied(client: Client, mixed: str) -> None:
    with reading(client, mixed) as consumer:
        kept = [message for message in take(consumer, COUNT) if message.offset() % ONE_IN == 0]  # type: ignore[operator]
        assert pinned_bytes(consumer) > RECEIVED_BYTES // 2
        del kept
    gc.collect()


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="a free-threaded Python copies each new Message above the limit",
)
def test_messages_that_are_all_kept_are_not_copied(client: Client, mixed: str) -> None:
    with reading(client, mixed, **LIMIT) as consumer:
        messages = list(take(consumer, COUNT))
        assert pinned_bytes(consumer) > RECEIVED_BYTES // 2  # a copy would take more than it saves
        assert [seen(message) for message in messages] == [
            content(number) for number in range(COUNT)
        ]
        del messages[1:]
        consumer.seek(TopicPartition(mixed, 0, 0))
        for message in take(consumer, COUNT):
            assert seen(message) == content(message.offset())  # type: ignore[arg-type]
        assert pinned_bytes(consumer) < PINNED_MAX_BYTES
        assert seen(messages[0]) == content(0)
        del messages, message
    assert pinned_bytes(consumer) == 0


def test_attributes_that_were_set_stay_set(client: Client, mixed: str) -> None:
    kept = []
    with reading(client, mixed, **LIMIT) as consumer:
        for message in take(consumer, COUNT):
            number = message.offset()
            assert number is not None
            if number % ONE_IN:
                continue
            kept.append(message)
            if number % 3 == 0:
                message.set_value(("a value of", number))
            if number % 4 == 0:
                message.set_key(number)
                message.set_headers([("set", b"")])
            if number % 5 == 0:
                message.set_topic("another")
                message.set_error(KafkaError(KafkaError._APPLICATION))
    assert len(kept) == COUNT // ONE_IN
    for number, message in zip(range(0, COUNT, ONE_IN), kept, strict=True):
        key, value, headers = content(number)
        assert message.value() == (("a value of", number) if number % 3 == 0 else value)
        assert message.key() == (number if number % 4 == 0 else key)
        assert message.headers() == ([("set", b"")] if number % 4 == 0 else headers)
        assert message.topic() == ("another" if number % 5 == 0 else mixed)
        assert (message.error() is not None) == (number % 5 == 0)
        message.set_value(b"later")
        assert message.value() == b"later"


def test_headers_are_read_while_the_garbage_collector_consumes_more_messages(
    client: Client,
) -> None:
    topic = client.topic()
    headers = [(f"header {number}", b"%d" % number * 20) for number in range(600)]
    with client.producer(**{"batch.num.messages": 1}) as producer:
        producer.produce(topic, b"the first", partition=0, headers=headers)
        for _ in range(100):
            producer.produce(topic, os.urandom(60_000), partition=0)
    with reading(client, topic, **{"message.pinned.max.kbytes": 1}) as consumer:
        kept = consumer.poll(WAIT_S)
        assert kept is not None
        taken = 0
        # reusing kept tuples triggers no garbage collection
        drained = [(number, number) for number in range(5000)]

        def take_more(phase: str, info: dict[str, int]) -> None:
            nonlocal taken
            if (
                phase == "start"
                and threading.current_thread() is threading.main_thread()
                and taken < 100
            ):
                # now another message uses the chunk of the first
                taken += len(consumer.consume(5, WAIT_S))

        thresholds = gc.get_threshold()
        gc.callbacks.append(take_more)
        gc.set_threshold(50)
        try:
            found = kept.headers()
        finally:
            gc.set_threshold(*thresholds)
            gc.callbacks.remove(take_more)
        # Python 3.14 and later collect less often
        assert taken > (20 if sys.version_info < (3, 14) else 0)
        assert drained
        assert found == headers
        assert kept.headers() == headers


def test_kept_delivery_reports_pin_no_more_than_the_limit(client: Client, topic: str) -> None:
    kept: list[Message] = []
    count = 0

    def keep(error: KafkaError | None, message: Message) -> None:
        nonlocal count
        assert error is None
        count += 1
        if count % ONE_IN == 0:
            kept.append(message)

    with client.producer(**LIMIT, **{"linger.ms": 5, "batch.num.messages": 500}) as producer:
        most = 0
        for number in range(COUNT):
            key, value, headers = content(number)
            producer.produce(topic, value, key, partition=0, callback=keep, headers=headers)
            if number % 2000 == 0:
                producer.flush(WAIT_S)
                most = max(most, pinned_bytes(producer))
        producer.flush(WAIT_S)
        most = max(most, pinned_bytes(producer))
        assert count == COUNT
        assert most < PINNED_MAX_BYTES
    assert len(kept) == COUNT // ONE_IN
    for message in kept:
        assert seen(message) == content(message.offset())  # type: ignore[arg-type]
        assert message.latency() is not None


def test_kept_messages_of_a_share_group_pin_no_more_than_the_limit(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill_mixed(client, topic)
    kept: list[Message] = []
    count = most = 0
    with sharing(
        client, group, topic, max_poll_records=1000, message_pinned_max_kbytes=256
    ) as consumer:
        while count < COUNT:
            messages = consumer.poll(WAIT_S)
            count += len(messages)
            kept += [message for message in messages if message.offset() % ONE_IN == 0]
            del messages
            most = max(most, consumer._client.engine.pins.size_bytes)
    # A response has up to the rest of the topic, in a buffer of up to twice its size. Two responses
    # are alive at a time, of 40.
    assert most < 4 * RECEIVED_BYTES
    for message in kept:
        assert seen(message) == content(message.offset())  # type: ignore[arg-type]
        assert message.delivery_count() == 1


@pytest.mark.parametrize("release", ["0.9.0", "0.10.0"])
def test_kept_messages_of_message_sets_pin_no_more_than_the_limit(release: str) -> None:
    with MockCluster(max_versions=of_release(release)) as cluster:
        client = Client(cluster)
        conf = (
            {}
            if release == "0.10.0"
            else {"api.version.request": False, "broker.version.fallback": release}
        )
        topic = client.topic()
        with client.producer(**conf) as producer:
            for number in range(COUNT):
                key, value, _ = content(number)
                producer.produce(topic, value, key, partition=0)
        with reading(client, topic, **LIMIT, **conf) as consumer:
            kept = [message for message in take(consumer, COUNT) if message.offset() % ONE_IN == 0]  # type: ignore[operator]
            assert pinned_bytes(consumer) < PINNED_MAX_BYTES
        for message in kept:
            assert (message.key(), message.value()) == content(message.offset())[:2]  # type: ignore[arg-type]


def test_kept_messages_outlive_the_client_and_are_freed_in_any_order(
    client: Client, mixed: str
) -> None:
    with reading(client, mixed, **LIMIT) as consumer:
        kept = [message for message in take(consumer, COUNT) if message.offset() % 100 == 0]  # type: ignore[operator]
    del consumer
    gc.collect()
    assert all(seen(message) == content(message.offset()) for message in kept)  # type: ignore[arg-type]
    random.Random(1).shuffle(kept)
    while len(kept) > 1:
        kept.pop()
    assert seen(kept[0]) == content(kept[0].offset())  # type: ignore[arg-type]


# The program keeps one message of 10,000, or one report of 1,000. It prints how memory grew.
KEEPER = """
import gc, os, sys
from kafka_native import Consumer, Producer, TopicPartition

def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

bootstrap, topic, what, total = *sys.argv[1:4], int(sys.argv[4])
conf = {"bootstrap.servers": bootstrap}
before, kept, count = resident_bytes(), [], 0
if what == "messages":
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while count < total:
            messages = consumer.consume(10_000, 30)
            kept.append(messages[0])
            count += len(messages)
            del messages
else:
    def keep(error, message):
        global count
        count += 1
        if count % 1000 == 0:
            kept.append(message)
    with Producer(conf) as producer:
        while count < total:
            for _ in range(10_000):
                producer.produce(topic, b"x" * 100, partition=1, callback=keep)
            producer.flush(30)
print(resident_bytes() - before, len(kept))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
@pytest.mark.skipif("KN_SANITIZE" in os.environ, reason="a sanitizer's own memory would be counted")
@pytest.mark.parametrize("what", ["messages", "reports"])
def test_resident_memory_of_kept_objects_stays_near_the_limit(
    cluster: MockCluster, client: Client, what: str
) -> None:
    topic, total = client.topic(2), 2_000_000
    if what == "messages":
        with client.producer(**{"linger.ms": 20}) as producer:
            for _ in range(0, total, 10_000):
                producer.produce_many(topic, [os.urandom(50) * 2] * 10_000, partition=0)
                assert producer.flush(30) == 0
    done = run_program(KEEPER, cluster.bootstrap_servers, topic, what, str(total))
    assert done.returncode == 0, done.stderr
    grown, kept = map(int, done.stdout.split())
    assert kept >= total // 10_000
    assert grown < 110 * MIB  # the limit is 64 MiB, all the data 240
