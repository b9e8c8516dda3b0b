"""The status in a delivery report: whether the message is in the log."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kafka_native import KafkaError, Message, MessageStatus, Producer
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey

from .support import Client, deliver, read_all

ONCE: dict[str, Any] = {"retries": 0, "linger.ms": 0}


def report_of(producer: Producer, topic: str) -> tuple[int, Message]:
    """Return the error code (0 for none) and the report of one message."""
    found: list[tuple[KafkaError | None, Message]] = []
    deliver(
        producer, topic, b"value", on_delivery=lambda error, message: found.append((error, message))
    )
    [(error, message)] = found
    return (0 if error is None else error.code()), message


@pytest.mark.parametrize(
    ("acks", "status"), [("1", MessageStatus.PERSISTED), ("all", MessageStatus.PERSISTED), ("0", 1)]
)
def test_delivered(client: Client, topic: str, acks: str, status: MessageStatus):
    with client.producer(acks=acks) as producer:
        code, message = report_of(producer, topic)
    assert (code, message.status()) == (0, status)  # without an acknowledgement it is unknown
    assert pickle.loads(pickle.dumps(message)).status() is MessageStatus(status)


@pytest.mark.parametrize(
    ("answer", "done", "status"),
    [
        (ErrorCode.INVALID_RECORD, False, MessageStatus.NOT_PERSISTED),
        (ErrorCode.NOT_ENOUGH_REPLICAS, False, MessageStatus.NOT_PERSISTED),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True, MessageStatus.POSSIBLY_PERSISTED),
        (ErrorCode.REQUEST_TIMED_OUT, True, MessageStatus.POSSIBLY_PERSISTED),
        # The leader appends, and then loses its leadership, its disk, or the topic.
        (ErrorCode.NOT_LEADER_FOR_PARTITION, True, MessageStatus.POSSIBLY_PERSISTED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PART, True, MessageStatus.POSSIBLY_PERSISTED),
        (ErrorCode.KAFKA_STORAGE_ERROR, True, MessageStatus.POSSIBLY_PERSISTED),
        (ErrorCode.UNKNOWN_TOPIC_ID, True, MessageStatus.POSSIBLY_PERSISTED),
        (ErrorCode.INCONSISTENT_TOPIC_ID, True, MessageStatus.POSSIBLY_PERSISTED),
        (CLOSE_CONNECTION, False, MessageStatus.POSSIBLY_PERSISTED),
        (CLOSE_CONNECTION, True, MessageStatus.POSSIBLY_PERSISTED),
    ],
)
def test_failed(
    cluster: MockCluster, client: Client, topic: str, answer: int, done: bool, status: MessageStatus
):
    with client.producer(**ONCE) as producer:
        assert report_of(producer, topic)[0] == 0
        cluster.push_request_errors(ApiKey.PRODUCE, [answer], done=done)
        code, message = report_of(producer, topic)
    assert code != 0
    assert message.status() is status
    # No message in the log has the status NOT_PERSISTED.
    assert status is not MessageStatus.NOT_PERSISTED or len(cluster.messages(topic, 0)) == 1


def test_never_sent():
    with Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 300}) as producer:
        code, message = report_of(producer, "topic")
    assert (code, message.status()) == (KafkaError._MSG_TIMED_OUT, MessageStatus.NOT_PERSISTED)


def test_consumed_messages_have_none(client: Client, topic: str):
    with client.producer() as producer:
        producer.produce(topic, b"value")
    [message] = read_all(client, topic, 1)
    assert message.status() is None
    assert Message(topic="t", status=2).status() is MessageStatus.PERSISTED
    assert Message(topic="t").status() is None
