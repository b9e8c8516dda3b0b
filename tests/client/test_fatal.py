"""Fatal errors: a producer that can't keep its guarantees stops, says why, and writes no more."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Message, Producer
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import wait_for

from .support import Client

CONFIG: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 1,
    "retry.backoff.ms": 20,
    "batch.num.messages": 10,
}
GAPLESS = {**CONFIG, "enable.gapless.guarantee": True}


class Reports:
    """Sends numbered messages to partition 0, and records reports and errors."""

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.told: list[KafkaError] = []

    def send(self, producer: Producer, topic: str, count: int) -> None:
        """Send ``count`` more. Stop quietly if the producer has had its fatal error."""
        first = len(self.codes) + len(producer)
        for number in range(first, first + count):

            def note(error: KafkaError | None, _: Message, number: int = number) -> None:
                self.codes[number] = 0 if error is None else error.code()

            try:
                producer.produce(topic, str(number), partition=0, on_delivery=note)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._FATAL:
                    raise
                return

    def numbers(self, code: int) -> list[int]:
        return sorted(number for number, found in self.codes.items() if found == code)


def stored(cluster: MockCluster, topic: str) -> list[int]:
    return [int(message.value) for message in cluster.messages(topic, 0)]


def check_over(producer: Producer, reports: Reports, topic: str, code: int) -> None:
    """Check that the fatal error is reported everywhere."""
    wait_for(producer.fatal_error, "the reason: the last report may be here a moment before it")
    producer.poll(0)
    [told] = [error for error in reports.told if error.fatal()]
    assert told.code() == code
    assert producer.fatal_error() is told
    for call in (
        lambda: producer.produce(topic, b"more"),
        lambda: producer.produce_many(topic, [b"more"] * 3),
    ):
        with pytest.raises(KafkaException, match=r"_FATAL|Fatal error") as caught:
            call()
        error = caught.value.args[0]
        assert error.code() == KafkaError._FATAL
        assert error.fatal()
        assert told.str() in error.str()
    rows = [{"value": b"more"}]
    assert producer.produce_batch(topic, rows) == 0
    assert rows[0]["_error"].code() == KafkaError._FATAL  # type: ignore[attr-defined]


def test_gapless_writes_nothing_after_a_failed_message(cluster: MockCluster, client: Client):
    topic = client.topic()
    reports = Reports()
    with client.producer(**GAPLESS, error_cb=reports.told.append) as producer:
        reports.send(producer, topic, 50)
        assert producer.flush(15) == 0
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.INVALID_RECORD])
        reports.send(producer, topic, 500)
        assert producer.flush(15) == 0
        check_over(producer, reports, topic, KafkaError._GAPLESS_GUARANTEE)
        assert "INVALID_RECORD" in reports.told[0].str() or "record" in reports.told[0].str()
    failed = reports.numbers(KafkaError.INVALID_RECORD)
    assert failed
    assert failed[0] == 50
    assert stored(cluster, topic) == list(range(50)) == reports.numbers(0)
    # Every message has its report: purged, or refused as out of order behind the failed one.
    assert len(reports.codes) == max(reports.codes) + 1
    assert set(reports.codes.values()) <= {0, KafkaError.INVALID_RECORD, KafkaError._PURGE_QUEUE}


def test_without_gapless_the_rest_is_written(cluster: MockCluster, client: Client):
    topic = client.topic()
    reports = Reports()
    with client.producer(**CONFIG, error_cb=reports.told.append) as producer:
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.INVALID_RECORD])
        reports.send(producer, topic, 500)
        assert producer.flush(15) == 0
        assert producer.fatal_error() is None
    assert reports.told == []
    failed = reports.numbers(KafkaError.INVALID_RECORD)
    assert 0 < len(failed) < 500
    assert stored(cluster, topic) == [number for number in range(500) if number not in failed]


def test_timed_out_messages_are_no_gap(cluster: MockCluster, client: Client):
    topic = client.topic()
    reports = Reports()
    conf = {**GAPLESS, "message.timeout.ms": 600}
    with client.producer(**conf, error_cb=reports.told.append) as producer:
        reports.send(producer, topic, 20)
        assert producer.flush(15) == 0
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
        reports.send(producer, topic, 20)
        assert producer.flush(15) == 0
        cluster.faults.clear()
        assert producer.fatal_error() is None
        reports.send(producer, topic, 20)
        assert producer.flush(15) == 0
    assert reports.numbers(KafkaError._MSG_TIMED_OUT) == list(range(20, 40))
    assert stored(cluster, topic) == [*range(20), *range(40, 60)]


def test_out_of_order_after_acknowledged_messages_is_fatal(cluster: MockCluster, client: Client):
    topic = client.topic()
    reports = Reports()
    with client.producer(**CONFIG, error_cb=reports.told.append) as producer:
        reports.send(producer, topic, 50)
        assert producer.flush(15) == 0
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
        reports.send(producer, topic, 10)
        assert producer.flush(15) == 0
        check_over(producer, reports, topic, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert stored(cluster, topic) == list(range(50))
    assert len(reports.numbers(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)) > 0
    assert f"{topic} [0]" in reports.told[0].str()


def test_unknown_producer_of_messages_that_may_have_been_written_is_fatal(
    cluster: MockCluster, client: Client
):
    topic = client.topic()
    reports = Reports()
    with client.producer(**CONFIG, error_cb=reports.told.append) as producer:
        reports.send(producer, topic, 50)
        assert producer.flush(15) == 0
        codes = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_PRODUCER_ID]
        cluster.push_request_errors(ApiKey.PRODUCE, codes)
        reports.send(producer, topic, 1)
        assert producer.flush(15) == 0
        check_over(producer, reports, topic, KafkaError.UNKNOWN_PRODUCER_ID)
    assert stored(cluster, topic) == list(range(50))


def test_a_producer_without_permission_for_an_id_has_a_fatal_error(
    cluster: MockCluster, client: Client
):
    topic = client.topic()
    reports = Reports()
    cluster.push_request_errors(ApiKey.INIT_PRODUCER_ID, [ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
    with client.producer(**CONFIG, error_cb=reports.told.append) as producer:
        deadline = time.monotonic() + 10
        while producer.fatal_error() is None and time.monotonic() < deadline:
            reports.send(producer, topic, 1)
            time.sleep(0.01)
        assert producer.flush(15) == 0
        check_over(producer, reports, topic, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    assert set(reports.codes.values()) <= {KafkaError._PURGE_QUEUE}
    assert "enable.idempotence" in reports.told[0].str()


def test_gapless_needs_idempotence():
    with pytest.raises(KafkaException, match=r"enable\.idempotence") as caught:
        Producer({"enable.gapless.guarantee": True, "enable.idempotence": False})
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG
