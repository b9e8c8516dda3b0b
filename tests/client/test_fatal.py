"""Fatal errors: a producer that can't keep its guarantees reports the reason, and writes no more."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import Self

from kafka_native import KafkaError, KafkaException, Message, Producer
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for

from .support import Client

CONFIG: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 1,
    "retry.backoff.ms": 20,
    "batch.num.messages": 10,
}
GAPLESS = {**CONFIG, "enable.gapless.guarantee": True}


class Numbered:
    """A producer of numbered messages for partition 0, with their reports and its errors."""

    def __init__(self, client: Client, **conf: Any) -> None:
        self.topic = client.topic()
        self.codes: dict[int, int] = {}
        self.errors: list[KafkaError] = []
        self.producer = client.producer(**conf, error_cb=self.errors.append)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.close()

    def deliver(self, count: int) -> None:
        """Send ``count`` more messages, and wait until all are reported."""
        self.send(count)
        assert self.producer.flush(WAIT_S) == 0

    def send(self, count: int) -> None:
        """Send ``count`` more messages, or fewer if the producer has a fatal error."""
        first = len(self.codes) + len(self.producer)
        for number in range(first, first + count):

            def note(error: KafkaError | None, _: Message, number: int = number) -> None:
                self.codes[number] = 0 if error is None else error.code()

            try:
                self.producer.produce(self.topic, str(number), partition=0, on_delivery=note)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._FATAL:
                    raise
                return

    def numbers(self, code: int) -> list[int]:
        return sorted(number for number, found in self.codes.items() if found == code)


def stored(cluster: MockCluster, topic: str) -> list[int]:
    return [int(message.value) for message in cluster.messages(topic, 0)]


def check_fatal(numbered: Numbered, code: int) -> None:
    """Check that every call reports the fatal error."""
    producer, topic = numbered.producer, numbered.topic
    wait_for(producer.fatal_error, "the fatal error, which may follow the last report")
    producer.poll(0)
    [fatal] = [error for error in numbered.errors if error.fatal()]
    assert fatal.code() == code
    assert producer.fatal_error() is fatal
    for call in (
        lambda: producer.produce(topic, b"more"),
        lambda: producer.produce_many(topic, [b"more"] * 3),
    ):
        with pytest.raises(KafkaException, match=r"_FATAL|Fatal error") as caught:
            call()
        error = caught.value.args[0]
        assert error.code() == KafkaError._FATAL
        assert error.fatal()
        assert fatal.str() in error.str()
    rows = [{"value": b"more"}]
    assert producer.produce_batch(topic, rows) == 0
    assert rows[0]["_error"].code() == KafkaError._FATAL  # type: ignore[attr-defined]


def test_gapless_writes_nothing_after_a_failed_message(cluster: MockCluster, client: Client):
    with Numbered(client, **GAPLESS) as numbered:
        numbered.deliver(50)
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.INVALID_RECORD])
        numbered.deliver(500)
        check_fatal(numbered, KafkaError._GAPLESS_GUARANTEE)
        assert "INVALID_RECORD" in numbered.errors[0].str() or "record" in numbered.errors[0].str()
    failed = numbered.numbers(KafkaError.INVALID_RECORD)
    assert failed
    assert failed[0] == 50
    assert stored(cluster, numbered.topic) == list(range(50)) == numbered.numbers(0)
    # Every message has a report: it was purged, or refused as out of order.
    assert len(numbered.codes) == max(numbered.codes) + 1
    assert set(numbered.codes.values()) <= {0, KafkaError.INVALID_RECORD, KafkaError._PURGE_QUEUE}


def test_without_gapless_the_rest_is_written(cluster: MockCluster, client: Client):
    with Numbered(client, **CONFIG) as numbered:
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.INVALID_RECORD])
        numbered.deliver(500)
        assert numbered.producer.fatal_error() is None
    assert numbered.errors == []
    failed = numbered.numbers(KafkaError.INVALID_RECORD)
    assert 0 < len(failed) < 500
    written = [number for number in range(500) if number not in failed]
    assert stored(cluster, numbered.topic) == written


def test_timed_out_messages_are_no_gap(cluster: MockCluster, client: Client):
    conf = {**GAPLESS, "message.timeout.ms": 600}
    with Numbered(client, **conf) as numbered:
        numbered.deliver(20)
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
        numbered.deliver(20)
        cluster.faults.clear()
        assert numbered.producer.fatal_error() is None
        numbered.deliver(20)
    assert numbered.numbers(KafkaError._MSG_TIMED_OUT) == list(range(20, 40))
    assert stored(cluster, numbered.topic) == [*range(20), *range(40, 60)]


def test_out_of_order_after_acknowledged_messages_is_fatal(cluster: MockCluster, client: Client):
    with Numbered(client, **CONFIG) as numbered:
        numbered.deliver(50)
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
        numbered.deliver(10)
        check_fatal(numbered, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert stored(cluster, numbered.topic) == list(range(50))
    assert len(numbered.numbers(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)) > 0
    assert f"{numbered.topic} [0]" in numbered.errors[0].str()


def test_unknown_producer_of_messages_that_may_have_been_written_is_fatal(client: Client):
    with Numbered(client, **CONFIG) as numbered:
        numbered.deliver(50)
        codes = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_PRODUCER_ID]
        client.cluster.push_request_errors(ApiKey.PRODUCE, codes)
        numbered.deliver(1)
        check_fatal(numbered, KafkaError.UNKNOWN_PRODUCER_ID)
    assert stored(client.cluster, numbered.topic) == list(range(50))


def test_a_producer_without_permission_has_a_fatal_error(cluster: MockCluster, client: Client):
    cluster.push_request_errors(ApiKey.INIT_PRODUCER_ID, [ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
    with Numbered(client, **CONFIG) as numbered:
        wait_for(lambda: numbered.send(1) or numbered.producer.fatal_error())
        assert numbered.producer.flush(WAIT_S) == 0
        check_fatal(numbered, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    assert set(numbered.codes.values()) <= {KafkaError._PURGE_QUEUE}
    assert "enable.idempotence" in numbered.errors[0].str()


def test_gapless_needs_idempotence():
    with pytest.raises(KafkaException, match=r"enable\.idempotence") as caught:
        Producer({"enable.gapless.guarantee": True, "enable.idempotence": False})
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG
