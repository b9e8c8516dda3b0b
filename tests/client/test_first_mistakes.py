"""The mistakes of a first day: the error names what the user wrote, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_native import (
    Client,
    Consumer,
    DeserializingConsumer,
    DeserializingShareConsumer,
    KafkaError,
    KafkaException,
    Producer,
    SerializingProducer,
    ShareConsumer,
    TopicPartition,
)
from kafka_native.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer, AIOShareConsumer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey

CLIENTS = [
    AIOAdminClient,
    AIOConsumer,
    AIOProducer,
    AIOShareConsumer,
    AdminClient,
    Client,
    Consumer,
    DeserializingConsumer,
    DeserializingShareConsumer,
    Producer,
    SerializingProducer,
    ShareConsumer,
]
NO_BROKER = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
"""The address of a broker that doesn't run."""
REFUSED = "127.0.0.1:1: Connection refused"


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    with Consumer({**NO_BROKER, "group.id": "readers"}) as consumer:
        yield consumer


@pytest.mark.parametrize("make", CLIENTS)
@pytest.mark.parametrize("conf", ["localhost:9092", ["localhost:9092"], ""], ids=repr)
def test_configuration_that_is_no_dict(make: Callable[[Any], object], conf: object) -> None:
    text = f"expected configuration dict, not {type(conf).__name__}: for instance "
    with pytest.raises(TypeError, match=text + '{"bootstrap.servers": "localhost:9092"}'):
        make(conf)


@pytest.mark.parametrize("make", [Client, Consumer, Producer])
def test_configuration_may_be_keywords_alone(make: Callable[..., Any]) -> None:
    with make(log_level=0) as client:
        assert client is not None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("buffer.memory", "use queue.buffering.max.kbytes, in KiB"),
        ("max.request.size", "use message.max.bytes"),
        ("sasl.jaas.config", "use sasl.username and sasl.password, or oauth_cb for tokens"),
        ("sasl.login.callback.handler.class", "use oauth_cb, or sasl.oauthbearer.method=oidc"),
        ("schema.registry.url", "use SchemaRegistryClient({'url': ...})"),
        ("ssl.truststore.certificates", "use ssl.ca.pem"),
        ("ssl.truststore.location", "use ssl.ca.location, a file of PEM certificates"),
        (
            "ssl.truststore.password",
            "use ssl.ca.location, a file of PEM certificates without a password",
        ),
        ("ssl.truststore.type", "use ssl.ca.location, a file of PEM certificates"),
        (
            "value_serializer",
            "SerializingProducer has this property; asyncio's is AsyncSerializingProducer",
        ),
    ],
)
def test_property_of_another_client_names_the_one_to_use(name: str, hint: str) -> None:
    with pytest.raises(KafkaException) as refused:
        Producer({**NO_BROKER, name: "x"})
    assert refused.value.args[0].str() == f'No such configuration property: "{name}"'
    assert refused.value.hint == hint


def test_callback_of_a_wrong_type() -> None:
    text = "expected error_cb property as a callable function, not str"
    with pytest.raises(TypeError, match=text):
        Producer({**NO_BROKER, "error_cb": "print"})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda consumer: consumer.subscribe("orders"),
            "expected list of topic unicode strings, not a single str: write ['orders']",
        ),
        (
            lambda consumer: consumer.subscribe(["orders", 5]),
            "expected list of topic unicode strings, but one item is of type int",
        ),
        (
            lambda consumer: consumer.subscribe(None),
            "expected list of topic unicode strings, not NoneType",
        ),
        (
            lambda consumer: consumer.assign(TopicPartition("orders", 0)),
            "a list of TopicPartition is expected, not TopicPartition",
        ),
        (
            lambda consumer: consumer.assign(["orders"]),
            "a list of TopicPartition is expected, but one item is of type str",
        ),
        (
            lambda consumer: consumer.commit(TopicPartition("orders", 0, 5)),
            "expected a Message, not TopicPartition; pass a TopicPartition in offsets=[]",
        ),
        (
            lambda consumer: consumer.commit([TopicPartition("orders", 0, 5)]),
            "expected a Message, not list; pass a TopicPartition in offsets=[]",
        ),
        (
            lambda consumer: consumer.store_offsets("orders"),
            "expected a Message, not str; pass a TopicPartition in offsets=[]",
        ),
    ],
)
def test_call_of_a_consumer(consumer: Consumer, call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(TypeError) as refused:
        call(consumer)
    assert str(refused.value) == text


def test_topics_of_a_generator_are_subscribed(consumer: Consumer) -> None:
    consumer.subscribe(name for name in ("orders", "answers"))  # type: ignore[arg-type]
    with pytest.raises(KafkaException, match="topic names are expected"):
        consumer.subscribe(iter(()))  # type: ignore[arg-type]


def test_share_consumer_names_the_type_of_its_topics() -> None:
    with ShareConsumer({**NO_BROKER, "group.id": "workers"}) as consumer:
        for topics, text in (("orders", r"write \['orders'\]"), (("orders",), "not tuple")):
            with pytest.raises(TypeError, match=f"list of topic unicode strings, .*{text}"):
                consumer.subscribe(topics)  # type: ignore[arg-type]


def test_admin_calls_with_wrong_types() -> None:
    changed = ConfigEntry("retention.ms", 5, incremental_operation=AlterConfigOpType.SET)  # type: ignore[arg-type]
    resource = ConfigResource("topic", "orders", incremental_configs=[changed])
    with AdminClient(NO_BROKER) as admin:
        for call, text in (
            (
                lambda: admin.create_topics(["orders"]),  # type: ignore[list-item]
                "expected a list of NewTopic, but one item is of type str",
            ),
            (
                lambda: admin.incremental_alter_configs([resource]),
                "retention.ms: Expected .value to be str type, not int",
            ),
        ):
            with pytest.raises(TypeError) as refused:
                call()
            assert str(refused.value) == text


def test_setting_of_a_new_topic_that_is_no_str() -> None:
    topic = NewTopic("orders", config={"retention.ms": 5})  # type: ignore[dict-item]
    with AdminClient(NO_BROKER) as admin, pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])["orders"].result()
    assert refused.value.args[0].code() == KafkaError._INVALID_ARG
    assert (
        refused.value.args[0].str()
        == "config of topic orders: the value of 'retention.ms' must be a str, not int"
    )


def test_dead_broker_is_the_reason_that_offsets_are_not_received(
    consumer: Consumer,
) -> None:
    with pytest.raises(KafkaException) as failed:
        consumer.committed([TopicPartition("orders", 0)], timeout=0.5)
    error = failed.value.args[0]
    assert error.code() == KafkaError._TIMED_OUT
    assert error.str().startswith(
        "committed offsets not received in time: the coordinator of group readers isn't known: "
    )
    assert error.str().endswith(REFUSED)


def test_dead_broker_is_the_reason_that_transactions_are_not_initialized() -> None:
    producer = Producer({**NO_BROKER, "transactional.id": "payments"})
    with producer, pytest.raises(KafkaException) as failed:
        producer.init_transactions(0.5)
    error = failed.value.args[0]
    assert error.code() == KafkaError._TIMED_OUT
    assert error.retriable()
    for text in ("coordinator of transactional id payments isn't known", REFUSED, "call it again"):
        assert text in error.str()


def test_late_reply_of_a_known_coordinator_names_no_other_reason(cluster: MockCluster) -> None:
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"}
    cluster.create_topic("orders", 1)
    with Consumer(conf) as consumer:
        partitions = [TopicPartition("orders", 0)]
        assert consumer.committed(partitions, timeout=10)[0].error is None
        cluster.delay_responses(None, 2.0, ApiKey.OFFSET_FETCH)
        with pytest.raises(KafkaException) as failed:
            consumer.committed(partitions, timeout=0.5)
    assert failed.value.args[0].str() == "committed offsets not received in time"


def report_of(producer: Producer, topic: str, **where: int) -> str:
    """Return the error text of a message that isn't delivered in its time."""
    texts: list[str] = []
    producer.produce(
        topic, b"value", on_delivery=lambda error, _: texts.append(error.str()), **where
    )
    assert producer.flush(20) == 0
    [text] = texts
    return text


@pytest.mark.parametrize(
    ("make_fault", "where", "text"),
    [
        (lambda cluster: None, {"partition": 7}, "payments has 2 partition(s), and not the one of"),
        (
            lambda cluster: cluster.move_leader("payments", 1, -1),
            {"partition": 1},
            "payments [1] has no leader",
        ),
        (
            lambda cluster: cluster.delay_responses(None, 10.0, ApiKey.PRODUCE),
            {"partition": 1},
            "the leader of payments [1], ",  # it hasn't answered, or its connection has ended since
        ),
    ],
    ids=["missing partition", "no leader", "slow leader"],
)
def test_message_that_timed_out_says_why(
    make_fault: Callable[[MockCluster], None], where: Any, text: str
) -> None:
    with MockCluster() as cluster:
        cluster.create_topic("payments", 2)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        with Producer({**conf, "message.timeout.ms": 2000}) as producer:
            producer.produce("payments", b"value", partition=1)  # so that it knows the topic
            assert producer.flush(20) == 0
            make_fault(cluster)
            assert text in report_of(producer, "payments", **where)


def test_message_that_timed_out_names_a_dead_broker() -> None:
    with Producer({**NO_BROKER, "message.timeout.ms": 500}) as producer:
        text = report_of(producer, "payments")
    assert "timed out: the partitions of payments aren't known" in text
    assert text.endswith(REFUSED)
