"""``topics``: properties of single topics, which win over the client's."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Producer, ShareConsumer
from kafka_native._native.enums import CODEC_GZIP, CODEC_LZ4, CODEC_NONE
from kafka_native._native.records import batch_headers
from kafka_native.config import parse
from kafka_native.mock import MockCluster
from kafka_native.mock.handlers import Incoming
from kafka_native.protocol.produce import ProduceRequest
from tests.waiting import WAIT_S, poll_until

from .support import NOWHERE, Client, errors_into, fill, partitions_of


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ProduceRequest]:
    """Return the Produce requests that the brokers read from now on."""
    found: list[ProduceRequest] = []
    handle = Incoming.handle

    def note(incoming: Incoming) -> Any:
        if isinstance(incoming.request, ProduceRequest):
            found.append(incoming.request)
        return handle(incoming)

    monkeypatch.setattr(Incoming, "handle", note)
    return found


def codec_of(cluster: MockCluster, topic: str) -> int:
    [batch] = cluster.batches(topic, 0)
    [header] = batch_headers(batch)
    return header.attributes & 7


# --- producers ---


def test_topics_have_their_own_acks_timeout_and_codec(
    cluster: MockCluster, client: Client, requests: list[ProduceRequest]
) -> None:
    logs, orders, others = client.topic(), client.topic(), client.topic()
    own = {
        logs: {"acks": 1, "compression.type": "lz4"},
        orders: {"request.timeout.ms": 12_345, "compression.codec": "none"},
    }
    conf = {"enable.idempotence": False, "compression.type": "gzip", "topics": own}
    with client.producer(**conf) as producer:
        for topic in (logs, orders, others):
            producer.produce(topic, b"x" * 10_000)
        assert producer.flush(WAIT_S) == 0
    by_topic = {topic.name: each for each in requests for topic in each.topic_data}
    names = {cluster.topic_id(topic): topic for topic in (logs, orders, others)}
    for each in requests:
        assert len({topic.name or names[topic.topic_id] for topic in each.topic_data}) == 1
        by_topic |= {topic.name or names[topic.topic_id]: each for topic in each.topic_data}
    assert (by_topic[logs].acks, by_topic[logs].timeout_ms) == (1, 30_000)
    assert (by_topic[orders].acks, by_topic[orders].timeout_ms) == (-1, 12_345)
    assert (by_topic[others].acks, by_topic[others].timeout_ms) == (-1, 30_000)
    assert codec_of(cluster, logs) == CODEC_LZ4
    assert codec_of(cluster, orders) == CODEC_NONE
    assert codec_of(cluster, others) == CODEC_GZIP


def test_only_one_topic_is_compressed(cluster: MockCluster, client: Client) -> None:
    plain, packed = client.topic(), client.topic()
    value = b"".join(b"%d," % (number * number) for number in range(5000))
    sizes = []
    for level in (1, 9):
        packed = client.topic()
        own = {packed: {"compression.type": "gzip", "compression.level": level}}
        with client.producer(topics=own) as producer:
            for topic in (plain, packed):
                producer.produce(topic, value)
            assert producer.flush(WAIT_S) == 0
        assert codec_of(cluster, packed) == CODEC_GZIP
        sizes.append(len(b"".join(cluster.batches(packed, 0))))
    assert sizes[0] > sizes[1]
    for batch in cluster.batches(plain, 0):
        assert [header.attributes & 7 for header in batch_headers(batch)] == [CODEC_NONE]


def test_topics_have_their_own_partitioner(cluster: MockCluster, client: Client) -> None:
    taking_turns, by_key = client.topic(4), client.topic(4)
    with client.producer(topics={taking_turns: {"partitioner": "round_robin"}}) as producer:
        for _ in range(40):
            for topic in (taking_turns, by_key):
                producer.produce(topic, b"x", key="the same")
    assert [len(cluster.messages(taking_turns, number)) for number in range(4)] == [10] * 4
    assert sorted(len(cluster.messages(by_key, number)) for number in range(4)) == [0, 0, 0, 40]


def test_messages_of_a_topic_time_out_earlier() -> None:
    reports: list[KafkaError | None] = []
    topics = {"hasty": {"message.timeout.ms": 50}, "patient": {"delivery.timeout.ms": 600_000}}
    producer = Producer({**NOWHERE, "linger.ms": 0, "topics": topics})
    for topic in ("hasty", "patient", "other"):
        producer.produce(topic, b"x", on_delivery=errors_into(reports))
    poll_until(lambda: reports, producer)
    assert [error and error.code() for error in reports] == [KafkaError._MSG_TIMED_OUT]
    assert len(producer) == 2
    producer.close(0)


def test_unacknowledged_topic_beside_an_acknowledged_one(client: Client) -> None:
    sure, quick = client.topic(), client.topic()
    offsets: dict[str, int | None] = {}
    conf = {"enable.idempotence": False, "topics": {quick: {"acks": 0}}}
    with client.producer(**conf) as producer:
        for topic in (sure, quick):
            producer.produce(
                topic, b"x", on_delivery=lambda error, m: offsets.update({m.topic(): m.offset()})
            )
        assert producer.flush(WAIT_S) == 0
    assert offsets[sure] == 0
    assert offsets[quick] != 0  # without an answer the offset isn't known


# --- consumers ---


def test_topics_have_their_own_reset(client: Client) -> None:
    first, last, strict = client.topic(), client.topic(), client.topic()
    for topic in (first, last, strict):
        fill(client, topic, 5)
    conf = {
        "group.id": f"of-{first}",
        "auto.offset.reset": "latest",
        "topics": {
            first: {"auto.offset.reset": "earliest"},
            strict: {"topic.auto.offset.reset": "error"},
        },
    }
    with client.consumer(**conf) as consumer:
        consumer.assign(
            [each for topic in (first, last, strict) for each in partitions_of(topic, 1)]
        )
        messages = consumer.consume(6, WAIT_S)
        codes = {
            message.topic(): error.code()
            for message in messages
            if (error := message.error()) is not None
        }
        assert codes == {strict: KafkaError._AUTO_OFFSET_RESET}
        assert [m.topic() for m in messages if m.error() is None] == [first] * 5
        fill(client, last, 1)
        [message] = consumer.consume(1, WAIT_S)
        assert message.topic() == last


# --- what is refused ---


@pytest.mark.parametrize(
    ("kind", "conf", "text"),
    [
        (Producer, {"topics": []}, '"topics" requires a dict of a dict for each topic'),
        (Producer, {"topics": {"t": 1}}, '"topics" requires a dict of a dict for each topic'),
        (Producer, {"topics": {3: {}}}, '"topics" requires a dict of a dict for each topic'),
        (
            Producer,
            {"topics": {"t": {"linger.ms": 5}}},
            'Topic "t": Configuration property "linger.ms" can\'t be set for a single topic',
        ),
        (
            Producer,
            {"topics": {"t": {"partitioner_cb": print}}},
            '"partitioner_cb" can\'t be set for a single topic.*gets the name of the topic',
        ),
        (
            Consumer,
            {"topics": {"t": {"fetch.min.bytes": 5}}, "group.id": "g"},
            "can't be set for a single topic.*a consumer's topic may have auto.offset.reset",
        ),
        (Producer, {"topics": {"t": {"ack": 1}}}, 'Topic "t": No such .* property: "ack"'),
        (Producer, {"topics": {"t": {"acks": 2000}}}, 'Topic "t": .*outside allowed range'),
        (
            Producer,
            {"topics": {"t": {"acks": 1}}, "enable.idempotence": True},
            '`acks` of topic "t" must be set to `all` when `enable.idempotence` is true',
        ),
        (
            Producer,
            {"topics": {"t": {"message.timeout.ms": 70_000}}, "transactional.id": "x"},
            '`message.timeout.ms` of topic "t" must be set <= `transaction.timeout.ms`',
        ),
        (
            Producer,
            {"topics": {"t": {"message.timeout.ms": 5}}, "linger.ms": 10},
            '`message.timeout.ms` of topic "t" must be greater than `linger.ms`',
        ),
        (
            Producer,
            {"topics": {"t": {"partitioner": "murmur2"}}, "partitioner_cb": print},
            '`partitioner` of topic "t" has no effect with `partitioner_cb`',
        ),
    ],
)
def test_wrong_properties_are_refused(kind: Any, conf: dict[str, Any], text: str) -> None:
    with pytest.raises(KafkaException, match=text) as caught:
        kind({**NOWHERE, **conf})
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG


def test_share_consumers_have_no_topics_of_their_own() -> None:
    topics = {"t": {"auto.offset.reset": "earliest"}}
    with pytest.raises(ValueError, match="`topics` is not applicable"):
        ShareConsumer({**NOWHERE, "group.id": "g", "topics": topics})


def test_weaker_acks_of_a_topic_turn_default_idempotence_off() -> None:
    config = parse({**NOWHERE, "topics": {"t": {"acks": 1}}}, "producer")
    assert not config.flag("enable.idempotence")
    assert parse({**NOWHERE, "topics": {"t": {"acks": "all"}}}, "producer").flag(
        "enable.idempotence"
    )


def test_property_of_the_other_kind_of_client_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = parse({"topics": {"t": {"auto.offset.reset": "earliest", "acks": 1}}}, "producer")
    assert "auto.offset.reset is a consumer property and will be ignored" in caplog.text
    assert config.of_topic("t", "acks") == config.of_topic("t", "request.required.acks") == 1
    assert config.of_topic("other", "acks") == -1
    assert config.own_topics == ["t"]
    assert pickle.loads(pickle.dumps(config)).of_topic("t", "acks") == 1
