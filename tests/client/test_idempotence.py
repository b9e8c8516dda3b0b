"""enable.idempotence: each message once and in order, despite lost requests and moved leaders."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import KafkaError, Message, Producer
from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import wait_for

from .support import Client, raises_code

MANY = 2000
CONFIG: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 1,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 60,
}


class Numbered:
    """Numbered messages to one partition, and their reports."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.producer, self.topic = producer, topic
        self.sent = 0
        self.errors: dict[int, KafkaError | None] = {}

    def send(self, count: int) -> None:
        for _ in range(count):
            number = self.sent
            self.sent += 1

            def note(error: KafkaError | None, _: Message, number: int = number) -> None:
                assert number not in self.errors
                self.errors[number] = error

            self.producer.produce(self.topic, str(number), partition=0, on_delivery=note)

    def acked(self) -> list[int]:
        return sorted(number for number, error in self.errors.items() if error is None)


@contextmanager
def numbered(client: Client, topic: str, **conf: Any) -> Iterator[Numbered]:
    """Yield the messages of a producer. At the end all have their reports.

    A property that is None has its default.
    """
    given = {name: value for name, value in {**CONFIG, **conf}.items() if value is not None}
    with client.producer(**given) as producer:
        stream = Numbered(producer, topic)
        yield stream
        assert producer.flush(30) == 0


def headers_of(cluster: MockCluster, topic: str) -> list[records.BatchHeader]:
    return [
        header for batch in cluster.batches(topic, 0) for header in records.batch_headers(batch)
    ]


def stored(cluster: MockCluster, topic: str) -> list[int]:
    return [int(message.value) for message in cluster.messages(topic, 0)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_carry_producer_id_epoch_and_rising_sequences(
    cluster: MockCluster, client: Client, topic: str, codec: str
):
    with numbered(
        client, topic, **{"compression.codec": codec, "batch.num.messages": 100}
    ) as stream:
        stream.send(MANY)
    assert stored(cluster, topic) == stream.acked() == list(range(MANY))
    headers = headers_of(cluster, topic)
    assert len(headers) >= MANY / 100
    assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 1
    assert headers[0].producer_id >= 0
    expected = 0
    for header in headers:
        assert header.base_sequence == expected
        expected += header.record_count


@pytest.mark.parametrize("after_bytes", [2, 40])
def test_lost_responses_cause_no_duplicates(
    cluster: MockCluster, client: Client, topic: str, after_bytes: int
):
    leader = cluster.leader(topic, 0)
    with numbered(
        client, topic, **{"batch.num.messages": 50, "reconnect.backoff.max.ms": 100}
    ) as stream:
        for _ in range(10):
            cluster.close_mid_frame(leader, after_bytes, ApiKey.PRODUCE)
            stream.send(MANY // 10)
            time.sleep(0.02)
    assert stored(cluster, topic) == stream.acked() == list(range(MANY))


@pytest.mark.parametrize("demanded", [True, False])
def test_a_restarted_broker_knows_only_the_last_batch_of_a_producer(demanded: bool):
    """The others come again, out of order. That the last one is there proves them written."""
    conf: dict[str, Any] = {"batch.num.messages": 10, "reconnect.backoff.max.ms": 100}
    if not demanded:
        conf["enable.idempotence"] = None
    with MockCluster(brokers=1) as cluster:
        client = Client(cluster)
        topic = client.topic()
        with numbered(client, topic, **conf) as stream:
            stream.send(10)
            assert stream.producer.flush(15) == 0
            for _ in range(3):
                before = len(stored(cluster, topic))
                cluster.delay_responses(1, 60.0, ApiKey.PRODUCE)
                stream.send(40)
                wait_for(lambda before=before: len(stored(cluster, topic)) == before + 40)
                cluster.broker_down(1)
                cluster.delay_responses(1, 0.0, ApiKey.PRODUCE)
                cluster.broker_up(1)
                stream.send(30)
                assert stream.producer.flush(15) == 0
        assert stored(cluster, topic) == stream.acked() == list(range(220))


def test_retries_of_some_batches_keep_the_order_of_all(cluster: MockCluster, client: Client):
    topic = client.topic()
    with numbered(client, topic, **{"batch.num.messages": 20}) as stream:
        stream.send(100)
        assert stream.producer.flush(15) == 0
        for round_ in range(20):
            codes = (ErrorCode.NOT_ENOUGH_REPLICAS, 0, ErrorCode.REQUEST_TIMED_OUT, 0, 0)
            cluster.push_request_errors(ApiKey.PRODUCE, codes[: 1 + round_ % 5])
            stream.send(100)
    assert stored(cluster, topic) == stream.acked() == list(range(2100))


def test_leaders_that_move_all_the_time(cluster: MockCluster, client: Client, topic: str):
    stop = threading.Event()

    def move() -> None:
        leader = cluster.leader(topic, 0)
        others = [broker for broker in cluster.broker_ids if broker != leader]
        while not stop.wait(0.03):
            cluster.move_leader(topic, 0, others[0])
            others.append(others.pop(0))

    mover = threading.Thread(target=move)
    with numbered(client, topic, **{"batch.num.messages": 20}) as stream:
        mover.start()
        try:
            for _ in range(20):
                stream.send(100)
                time.sleep(0.02)
        finally:
            stop.set()
            mover.join()
    assert stored(cluster, topic) == stream.acked() == list(range(2000))


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_sequence_starts_again_when_the_oldest_batch_is_refused(
    cluster: MockCluster, client: Client, topic: str, code: ErrorCode
):
    with numbered(client, topic, **{"batch.num.messages": 10}) as stream:
        stream.send(50)
        assert stream.producer.flush(15) == 0
        first = {header.producer_epoch for header in headers_of(cluster, topic)}
        cluster.push_request_errors(ApiKey.PRODUCE, [code])
        stream.send(500)
    assert stored(cluster, topic) == stream.acked() == list(range(550))
    last = headers_of(cluster, topic)[-1]
    assert last.producer_epoch > max(first)


def test_lost_batch_leaves_a_gap_and_nothing_else(cluster: MockCluster, client: Client, topic: str):
    with numbered(client, topic, **{"batch.num.messages": 10}) as stream:
        stream.send(10)
        assert stream.producer.flush(15) == 0
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.INVALID_RECORD])
        stream.send(100)
    lost = [number for number, error in stream.errors.items() if error is not None]
    assert len(lost) > 0
    assert stored(cluster, topic) == stream.acked() == [n for n in range(110) if n not in lost]


def test_duplicate_sequence_is_a_delivery_without_an_offset(cluster: MockCluster, client: Client):
    topic = client.topic()
    reports = []
    with client.producer(**CONFIG) as producer:
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.DUPLICATE_SEQUENCE_NUMBER])
        producer.produce(
            topic,
            b"x",
            on_delivery=lambda error, message: reports.append((error, message.offset())),
        )
        assert producer.flush(15) == 0
    assert reports == [(None, None)]


def test_messages_wait_for_a_producer_id(cluster: MockCluster, client: Client, topic: str):
    cluster.push_request_errors(
        ApiKey.INIT_PRODUCER_ID, [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    )
    with numbered(client, topic) as stream:
        stream.send(10)
    assert stored(cluster, topic) == list(range(10))


@pytest.mark.parametrize(
    ("name", "value"),
    [("acks", 1), ("max.in.flight", 6), ("retries", 0), ("queuing.strategy", "lifo")],
)
def test_settings_that_conflict_with_idempotence(name: str, value: object):
    with raises_code(KafkaError._INVALID_ARG, match=r"enable\.idempotence"):
        Producer({"enable.idempotence": True, name: value})


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("idempotence", [True, False])
def test_batch_too_large_for_the_broker_is_split_until_it_fits(
    cluster: MockCluster, client: Client, topic: str, codec: str, idempotence: bool
):
    conf = {"enable.idempotence": idempotence, "compression.codec": codec, "linger.ms": 50}
    with numbered(client, topic, **conf, **{"batch.num.messages": 64}) as stream:
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.MESSAGE_TOO_LARGE] * 3)
        stream.send(200)
    assert stream.acked() == list(range(200))
    found = stored(cluster, topic)
    assert (found if idempotence else sorted(found)) == list(range(200))
    headers = headers_of(cluster, topic)
    assert len(headers) > 4
    if idempotence:
        assert [header.base_sequence for header in headers] == [
            header.base_offset for header in headers
        ]


def test_single_message_too_large_for_the_broker_fails_alone(cluster: MockCluster, client: Client):
    topic = f"{client.topic()}-small"
    cluster.create_topic(topic, 1, configs={"max.message.bytes": "2000"})
    failed: list[tuple[int, int]] = []
    with client.producer(**{**CONFIG, "linger.ms": 50}) as producer:
        for number in range(100):
            value = str(number) + ("x" * 3000 if number == 50 else "")

            def note(error: KafkaError | None, _: Message, number: int = number) -> None:
                if error is not None:
                    failed.append((number, error.code()))

            producer.produce(topic, value, on_delivery=note)
        assert producer.flush(15) == 0
    assert failed == [(50, KafkaError.MSG_SIZE_TOO_LARGE)]
    assert stored(cluster, topic) == [number for number in range(100) if number != 50]


@pytest.mark.parametrize("idempotence", [True, False])
@pytest.mark.parametrize(
    "bad", [{0}, {3, 4, 5, 9}, {99}, set(range(100))], ids=["first", "some", "last", "all"]
)
def test_records_that_the_broker_refuses_fail_alone(
    cluster: MockCluster, client: Client, idempotence: bool, bad: set[int]
):
    topic = f"{client.topic()}-compacted"
    cluster.create_topic(topic, 1, configs={"cleanup.policy": "compact"})
    failed: dict[int, KafkaError] = {}
    conf = {**CONFIG, "enable.idempotence": idempotence, "linger.ms": 50, "batch.num.messages": 100}
    with client.producer(**conf) as producer:
        for number in range(200):

            def note(error: KafkaError | None, _: Message, number: int = number) -> None:
                if error is not None:
                    failed[number] = error

            producer.produce(
                topic, str(number), None if number in bad else b"key", on_delivery=note
            )
        assert producer.flush(15) == 0
    assert failed.keys() == bad
    assert {error.code() for error in failed.values()} == {KafkaError.INVALID_RECORD}
    assert all("without a key" in error.str() for error in failed.values())
    found = stored(cluster, topic)
    assert (found if idempotence else sorted(found)) == [
        number for number in range(200) if number not in bad
    ]
