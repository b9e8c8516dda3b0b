"""`kafka_native.compat.kafka` where things go wrong: threads, callbacks, errors, closed clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import kafka_native
from kafka_native import Message
from kafka_native.compat.aiokafka.errors import ProducerFenced
from kafka_native.compat.kafka import (
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka_native.compat.kafka.errors import (
    BrokerResponseError,
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as made:
        made.create_topic("orders", 1)
        yield made


@pytest.fixture
def producer(cluster: MockCluster) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as made:
        yield made


def test_get_returns_although_another_thread_has_made_the_report(
    cluster: MockCluster, producer: KafkaProducer
) -> None:
    offsets: list[int] = []

    def send() -> None:
        offsets.extend(producer.send("orders", b"tea").get().offset for _ in range(30))

    threads = [threading.Thread(target=send, daemon=True) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(WAIT_S)
    assert sorted(offsets) == list(range(120))


def test_get_returns_although_flush_in_another_thread_has_made_the_report(
    cluster: MockCluster, producer: KafkaProducer
) -> None:
    for _ in range(10):
        sent = producer.send("orders", b"tea")
        flushing = threading.Thread(target=producer.flush, daemon=True)
        flushing.start()
        assert sent.get(WAIT_S).topic == "orders"
        flushing.join(WAIT_S)


def test_get_has_an_outcome_if_another_thread_closes_the_producer(cluster: MockCluster) -> None:
    cluster.delay_responses(None, 60, ApiKey.PRODUCE)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    raised: list[BaseException] = []
    sent = producer.send("orders", b"tea")

    def get() -> None:
        try:
            sent.get()
        except BaseException as error:
            raised.append(error)

    waiting = threading.Thread(target=get, daemon=True)
    waiting.start()
    producer.close(0.2)
    waiting.join(WAIT_S)
    assert [isinstance(each, KafkaError) for each in raised] == [True], raised


def test_a_callback_may_wait_for_another_message(producer: KafkaProducer) -> None:
    found: list[int] = []
    first = producer.send("orders", b"tea")
    first.add_callback(lambda _: found.append(producer.send("orders", b"rice").get(WAIT_S).offset))
    first.get(WAIT_S)
    assert found == [1]


def test_the_exception_of_a_callback_is_logged_and_no_other_call_raises_it(
    producer: KafkaProducer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Any) -> None:
        raise ZeroDivisionError

    called: list[Any] = []
    sent = producer.send("orders", b"tea")
    sent.add_callback(fail)
    sent.add_callback(called.append)
    producer.flush()
    sent.add_callback(fail)
    assert called == [sent.get()]
    raised = [each.exc_info for each in caplog.records if each.name.endswith("compat.kafka")]
    assert [each and each[0] for each in raised] == [ZeroDivisionError] * 2


def test_callbacks_get_their_arguments_before_the_outcome(producer: KafkaProducer) -> None:
    called: list[Any] = []

    def note(*args: Any, **kwargs: Any) -> None:
        called.append((args, kwargs))

    sent = producer.send("orders", b"tea").add_callback(note, 1, name="a").add_errback(note)
    metadata = sent.get(WAIT_S)
    assert called == [((1, metadata), {"name": "a"})]


def fill(cluster: MockCluster, count: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as made:
        for number in range(count):
            made.send("orders", b"%d" % number, partition=0)


def fail_at_3(value: bytes) -> bytes:
    if value == b"3":
        raise ValueError(value)
    return value


def offsets_of(found: dict[Any, list[Any]]) -> list[int]:
    return [record.offset for records in found.values() for record in records]


ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def options(cluster: MockCluster) -> dict[str, Any]:
    fill(cluster, 6)
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": WAIT_S * 1000,
    }


@pytest.mark.parametrize("max_records", [None, 5])
def test_poll_loses_no_record_if_one_cannot_be_deserialized(
    options: dict[str, Any], max_records: int | None
) -> None:
    with KafkaConsumer("orders", value_deserializer=fail_at_3, **options) as consumer:
        found: list[int] = []
        while found != [0, 1, 2]:
            found += offsets_of(consumer.poll(WAIT_S * 1000, max_records=max_records))
        for _ in range(2):
            with pytest.raises(ValueError, match="3"):
                consumer.poll(WAIT_S * 1000, max_records=max_records)
        assert consumer.position(ORDERS) == 3
        consumer.seek(ORDERS, 4)
        assert next(consumer).offset == 4


def test_a_record_that_cannot_be_deserialized_is_not_committed(options: dict[str, Any]) -> None:
    with KafkaConsumer("orders", value_deserializer=fail_at_3, **options) as consumer:
        assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(ValueError, match="3"):
                next(consumer)
    with KafkaConsumer("orders", **options) as consumer:
        assert consumer.committed(ORDERS) == 3


def test_poll_returns_the_records_before_an_error(options: dict[str, Any]) -> None:
    with KafkaConsumer("orders", **options) as consumer:
        assert next(consumer).offset == 0
        [message] = consumer._client.consume(1, WAIT_S)
        refused = Message("orders", 0, error=kafka_native.KafkaError(29))
        assert [each.offset for each in consumer._records([message, refused])] == [1]
        with pytest.raises(TopicAuthorizationFailedError):
            consumer.poll(WAIT_S * 1000)
        assert next(consumer).offset == 2


def test_deserializers_get_a_missing_key_and_value_too(cluster: MockCluster) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as made:
        made.send("orders", None, key=None, partition=0)
    with KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=lambda key: key or b"no key",
        value_deserializer=lambda value: value or b"no value",
    ) as consumer:
        record = next(consumer)
    assert (record.key, record.value) == (b"no key", b"no value")
    assert (record.serialized_key_size, record.serialized_value_size) == (-1, -1)


def test_a_commit_without_anything_new_does_nothing(options: dict[str, Any]) -> None:
    with KafkaConsumer("orders", **options) as consumer:
        consumer.commit()
        next(consumer)
        consumer.commit()
        consumer.commit()
        consumer.commit({})
        assert consumer.committed(ORDERS) == 1


def test_a_commit_raises_the_error_of_one_partition(
    cluster: MockCluster, options: dict[str, Any]
) -> None:
    cluster.create_topic("bills", 2)
    offsets = {TopicPartition("bills", number): OffsetAndMetadata(1, "", -1) for number in (0, 1)}
    with KafkaConsumer(**options) as consumer:
        consumer.assign(offsets)
        code = kafka_native.KafkaError.INVALID_COMMIT_OFFSET_SIZE
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [code], topic="bills", partition=1)
        with pytest.raises(BrokerResponseError, match=r"bills \[1\]|not valid") as raised:
            consumer.commit(offsets)
        assert raised.value.errno == code
        assert consumer.committed(TopicPartition("bills", 0)) == 1


@pytest.mark.parametrize("code", [22, 25])
def test_a_commit_after_the_group_has_moved_on_raises_commit_failed_error(
    cluster: MockCluster, options: dict[str, Any], code: int
) -> None:
    with KafkaConsumer("orders", **options) as consumer:
        next(consumer)
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [code])
        with pytest.raises(CommitFailedError):
            consumer.commit()


def test_a_commit_without_a_group_raises_illegal_state_error(cluster: MockCluster) -> None:
    with (
        KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer,
        pytest.raises(IllegalStateError, match="group"),
    ):
        consumer.commit()


def test_closed_clients_raise_their_errors_and_end_loops(options: dict[str, Any]) -> None:
    consumer = KafkaConsumer("orders", **options)
    found = []
    for record in consumer:
        found.append(record.offset)
        if record.offset == 2:
            consumer.close()
    assert found == [0, 1, 2]
    with pytest.raises(IllegalStateError):
        consumer.poll()
    producer = KafkaProducer(bootstrap_servers=options["bootstrap_servers"])
    producer.close()
    producer.flush()
    with pytest.raises(IllegalStateError):
        producer.send("orders", b"tea")


def test_a_loop_ends_if_another_thread_closes_the_consumer(options: dict[str, Any]) -> None:
    del options["consumer_timeout_ms"]
    consumer = KafkaConsumer("orders", **options)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(each.offset for each in consumer))
    thread.start()
    wait_for(lambda: len(found) == 6)
    consumer.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("arguments", [{"timeout_ms": -1}, {"max_records": 0}, {"max_records": -1}])
def test_poll_refuses_what_is_no_limit(options: dict[str, Any], arguments: dict[str, int]) -> None:
    with KafkaConsumer("orders", **options) as consumer, pytest.raises(ValueError, match="must"):
        consumer.poll(**arguments)


def test_seek_refuses_negative_offsets(options: dict[str, Any]) -> None:
    with KafkaConsumer("orders", **options) as consumer:
        next(consumer)
        with pytest.raises(ValueError, match="offset"):
            consumer.seek(ORDERS, -1)


def test_a_seek_before_the_first_partitions_is_an_error(options: dict[str, Any]) -> None:
    with KafkaConsumer("orders", **options) as consumer:
        for seek in (consumer.seek_to_beginning, consumer.seek_to_end):
            with pytest.raises(ValueError, match="assigned"):
                seek()
        with pytest.raises(ValueError, match="assigned"):
            consumer.seek(ORDERS, 4)
        next(consumer)
        consumer.seek_to_end()
        consumer.seek_to_beginning()
        assert next(consumer).offset == 0


def test_a_consumer_of_a_topic_that_does_not_exist_says_so(cluster: MockCluster) -> None:
    options: dict[str, Any] = {"allow_auto_create_topics": False, "request_timeout_ms": 300}
    with pytest.raises(UnknownTopicOrPartitionError):
        KafkaConsumer("bills", bootstrap_servers=cluster.bootstrap_servers, **options)
    with KafkaConsumer("bills", bootstrap_servers=cluster.bootstrap_servers) as consumer:
        assert consumer.assignment() == {TopicPartition("bills", 0)}


def test_time_limits_are_accepted(options: dict[str, Any]) -> None:
    with KafkaConsumer("orders", enable_auto_commit=False, **options) as consumer:
        next(consumer)
        assert consumer.position(ORDERS, timeout_ms=1000) == 1
        consumer.commit({ORDERS: OffsetAndMetadata(1, "note", -1)})
        found = consumer.committed(ORDERS, metadata=True, timeout_ms=WAIT_S * 1000)
        assert isinstance(found, OffsetAndMetadata)
        assert found[:2] == (1, "note")
        assert consumer.beginning_offsets([ORDERS], timeout_ms=WAIT_S * 1000) == {ORDERS: 0}
        assert consumer.end_offsets([ORDERS], timeout_ms=WAIT_S * 1000) == {ORDERS: 6}
        with pytest.raises(KafkaTimeoutError):
            consumer.end_offsets([ORDERS], timeout_ms=0)
        consumer.close(autocommit=False, timeout_ms=WAIT_S * 1000)
    with KafkaConsumer("orders", **options) as consumer:
        assert consumer.committed(ORDERS) == 1
        with pytest.raises(TypeError, match="enable_auto_commit"):
            consumer.close(autocommit=False)


def test_unsubscribing_ends_reading_without_a_group(options: dict[str, Any]) -> None:
    with KafkaConsumer("orders", **options | {"group_id": None}) as consumer:
        assert next(consumer).offset == 0
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        assert consumer.poll(100) == {}


def test_a_slow_program_joins_again_and_gets_no_exception(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    slow = {
        "session_timeout_ms": 500,
        "heartbeat_interval_ms": 100,
        "max_poll_interval_ms": 500,
        "enable_auto_commit": False,
    }
    with KafkaConsumer("orders", **options, **slow) as consumer:
        assert next(consumer).offset == 0
        wait_for(lambda: not consumer._client._control.member.joined)
        assert next(consumer).offset == 0
    assert [each.name for each in caplog.records if "max.poll" in each.message] == [
        "kafka_native.compat"
    ]


def test_without_a_reset_the_reason_has_its_class(options: dict[str, Any]) -> None:
    with KafkaConsumer(**options | {"auto_offset_reset": "none"}) as consumer:
        consumer.assign([ORDERS])
        with pytest.raises(NoOffsetForPartitionError):
            next(consumer)
        consumer.seek(ORDERS, 100)
        with pytest.raises(OffsetOutOfRangeError):
            next(consumer)


def test_a_producer_with_a_newer_instance_is_fenced(cluster: MockCluster) -> None:
    options = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "transactional_id": "billing-1",
    }
    with KafkaProducer(**options) as first, KafkaProducer(**options) as second:
        first.init_transactions()
        first.begin_transaction()
        first.send("orders", b"tea").get(WAIT_S)
        second.init_transactions()
        with pytest.raises(ProducerFencedError):
            first.commit_transaction()
        with pytest.raises(ProducerFencedError):
            first.begin_transaction()
    assert issubclass(ProducerFenced, KafkaError)
