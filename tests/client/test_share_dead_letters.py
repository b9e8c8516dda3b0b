"""Dead-letter queues (KIP-1191) and groups' settings, on the mock cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native import OFFSET_BEGINNING, AcknowledgeType, KafkaError, TopicPartition
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka_native.mock.share_partitions import State
from tests.client.share_support import sharing, take
from tests.client.support import Client, fill
from tests.waiting import WAIT_S

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}


def change(admin: AdminClient, kind: ResourceType, name: str, **settings: str) -> None:
    """Change settings. They have underscores for dots."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


def queue_topic(client: Client, admin: AdminClient, name: str) -> str:
    """Make a topic whose setting allows it to be a queue."""
    client.cluster.create_topic(name, 1)
    change(admin, ResourceType.TOPIC, name, errors_deadletterqueue_group_enable="true")
    return name


def letters(client: Client, topic: str, count: int) -> list[tuple[Any, ...]]:
    """Return (key, value, offset, delivery count, reason) of the records of a queue."""
    with client.consumer(**{"group.id": "reader"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = consumer.consume(count, WAIT_S)
        assert len(messages) == count
        found = []
        for each in messages:
            headers = dict(each.headers() or ())
            assert headers["__dlq.errors.partition"] == b"0"
            place = int(headers["__dlq.errors.offset"] or b"")
            deliveries = int(headers["__dlq.errors.delivery.count"] or b"")
            reason = headers["__dlq.errors.message"]
            found.append((each.key(), each.value(), place, deliveries, reason))
        return found


@pytest.mark.parametrize("copies", ["true", "false"])
def test_dead_records_go_to_the_queue(
    client: Client, admin: AdminClient, topic: str, group: str, copies: str
) -> None:
    queue = queue_topic(client, admin, f"dlq.{topic}")
    change(
        admin,
        ResourceType.GROUP,
        group,
        errors_deadletterqueue_topic_name=queue,
        errors_deadletterqueue_copy_record_enable=copies,
        share_delivery_count_limit="2",
    )
    fill(client, topic, 3)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        rejected, released, accepted = take(consumer, 3)
        consumer.acknowledge(rejected, AcknowledgeType.REJECT)
        consumer.acknowledge(released, AcknowledgeType.RELEASE)
        consumer.acknowledge(accepted)
        (again,) = take(consumer, 1)
        consumer.acknowledge(again, AcknowledgeType.RELEASE)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
    values = [b"0", b"1"] if copies == "true" else [None, None]
    assert letters(client, queue, 2) == [
        (None, values[0], 0, 1, b"Offset rejected by client."),
        (None, values[1], 1, 2, b"Offset delivery count exceeded the threshold."),
    ]


@pytest.mark.parametrize("reason", ["name", "setting"])
def test_only_a_topic_that_may_be_a_queue_gets_records(
    client: Client, admin: AdminClient, topic: str, group: str, reason: str
) -> None:
    if reason == "name":
        queue = queue_topic(client, admin, f"dead.{topic}")
    else:
        queue = f"dlq.{topic}"
        client.cluster.create_topic(queue, 1)
    change(admin, ResourceType.GROUP, group, errors_deadletterqueue_topic_name=queue)
    fill(client, topic, 1)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        (message,) = take(consumer, 1)
        consumer.acknowledge(message, AcknowledgeType.REJECT)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
    assert client.cluster.watermarks(queue, 0) == (0, 0)


def test_group_may_refuse_renewals(
    client: Client, admin: AdminClient, topic: str, group: str
) -> None:
    change(admin, ResourceType.GROUP, group, share_renew_acknowledge_enable="false")
    fill(client, topic, 1)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        (message,) = take(consumer, 1)
        consumer.acknowledge(message, AcknowledgeType.RENEW)
        (error,) = consumer.commit_sync().values()
        assert error is not None
        assert error.args[0].code() == KafkaError.INVALID_RECORD_STATE
        assert client.cluster.share.record(group, topic, 0, 0) == (State.ACQUIRED, 1)
