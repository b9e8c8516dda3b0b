"""The action DLQ."""

from __future__ import annotations

import json
import logging
import struct
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import OFFSET_BEGINNING, Consumer, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.schema_registry.rule_types import (
    RuleContext,
    RuleError,
    clear_original_key,
    set_original_key,
)
from kafka_native.schema_registry.rules.dlq.dlq_action import DlqAction, FieldRedactionExecutor
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.rules.contracts import RuleKind, RuleMode, Schemas, rule
from tests.waiting import poll_until

ORDER = {"id": 7, "card": "4111", "scan": b"\x00\xff"}


class Recorder:
    """A producer that keeps what it gets."""

    def __init__(self, error: Exception | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.flushed = 0
        self.error = error

    def produce(self, topic: str, on_delivery: Callable[[Any, Any], None], **message: Any) -> None:
        if self.error is not None:
            raise self.error
        self.messages.append({"topic": topic, **message})
        self.report = on_delivery

    def poll(self, timeout: float) -> None:
        return

    def flush(self) -> None:
        self.flushed += 1


class Fails:
    """An executor whose rules always fail."""

    def type(self) -> str:
        return "FAILS"

    def configure(self, client_conf: Any, rule_conf: Any) -> None:
        return

    def transform(self, ctx: Any, message: Any) -> Any:
        raise RuleError("this rule always fails")

    def close(self) -> None:
        return


def theirs(conf: dict[str, Any]) -> Any:
    from confluent_kafka.schema_registry.rules.dlq import dlq_action

    return dlq_action.DlqAction(conf)


def failing(mode: Any = RuleMode.WRITE, **settings: Any) -> Any:
    return rule(
        "FAILS",
        "x",
        name="always",
        kind=RuleKind.CONDITION,
        mode=mode,
        on_failure="DLQ",
        **settings,
    )


ENCRYPT = rule("ENCRYPT", name="later", tags=["PII"], mode=RuleMode.READ)
HEADERS = [("a", b"1"), ("b", "text"), ("c", None)]


def written(make: Any, package: str, schemas: Schemas, **conf: Any) -> dict[str, Any]:
    producer = Recorder()
    action = make({"producer": producer, "dlq.topic": "dead", **conf})
    with pytest.raises(Exception, match="always"):
        schemas.write([Fails(), action], dict(ORDER), package, HEADERS)
    assert len(producer.messages) == 1
    return producer.messages[0]


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    content = message["value"]
    return {**message, "value": json.loads(content)}


@pytest.mark.parametrize("rules", [[], [ENCRYPT]], ids=["plain", "redacted"])
def test_failed_writes_are_those_of_confluent_kafka(rules: list[Any]) -> None:
    schemas = Schemas()
    schemas.register(failing(), *rules)
    found = written(DlqAction, "ours", schemas)
    assert comparable(found) == comparable(written(theirs, "theirs", schemas))
    value = json.loads(found["value"])
    assert value["card"] == ("<REDACTED>" if rules else "4111")
    assert value["id"] == 7
    assert found["headers"][:3] == [("a", b"1"), ("b", b"text"), ("c", None)]
    assert dict(found["headers"][3:]) == {
        "__rule.name": b"always",
        "__rule.mode": b"WRITE",
        "__rule.subject": b"orders-value",
        "__rule.topic": b"orders",
        "__rule.exception": b"this rule always fails",
    }


def test_failed_reads_are_written_as_they_were() -> None:
    schemas = Schemas()
    schemas.register(ENCRYPT, failing(RuleMode.READ))
    payload = schemas.write([], dict(ORDER), "ours")
    producer = Recorder()
    action = DlqAction({"producer": producer})
    action.configure({}, {"dlq.topic": "dead", "secret": "x"})
    with pytest.raises(SerializationError, match="always"):
        schemas.read([Fails(), action], payload, "ours")
    assert (producer.messages[0]["topic"], producer.messages[0]["value"]) == ("dead", payload)
    # Read again from the dead letter queue, the message skips the failed rule, and only that one.
    headers = producer.messages[0]["headers"]
    with pytest.raises(SerializationError, match="ENCRYPT"):
        schemas.read([Fails(), action], payload, "ours", headers)
    assert len(producer.messages) == 1


def test_a_payload_that_would_be_encrypted_is_redacted() -> None:
    schemas = Schemas()
    ctx_rules = rule("ENCRYPT_PAYLOAD", name="all", mode=RuleMode.READ)
    schemas.register(failing(), ctx_rules)
    value = json.loads(written(DlqAction, "ours", schemas)["value"])
    assert value == {"id": 7, "card": "<REDACTED>", "scan": "<REDACTED>"}


class EncryptionFails(Fails):
    """The encryption of payloads, without its key management service."""

    def type(self) -> str:
        return "ENCRYPT_PAYLOAD"


@pytest.mark.parametrize("types", [None, "HASH"])
def test_a_payload_whose_encryption_failed_is_redacted(types: str | None) -> None:
    schemas = Schemas()
    failed = rule(
        "ENCRYPT_PAYLOAD",
        name="all",
        mode=RuleMode.WRITE,
        kind=RuleKind.TRANSFORM,
        on_failure="DLQ",
    )
    schemas.register(failed, phase="encoding")
    producer = Recorder()
    conf = {"producer": producer, "dlq.topic": "dead"}
    if types is not None:
        conf["dlq.redact.rule.types"] = types
    set_original_key(b"order 7")
    try:
        with pytest.raises(SerializationError, match="all"):
            schemas.write([EncryptionFails(), DlqAction(conf)], dict(ORDER), "ours")
    finally:
        clear_original_key()
    message = producer.messages[0]
    assert message["key"] == b"order 7"
    if types is None:
        assert message["value"] == b"<REDACTED>"
    else:
        assert b"4111" in message["value"]


def test_other_rule_types_can_be_redacted() -> None:
    schemas = Schemas()
    schemas.register(failing(), rule("MASK", name="m", tags=["PII"], mode=RuleMode.READ))
    found = written(DlqAction, "ours", schemas, **{"dlq.redact.rule.types": "HASH, MASK"})
    assert b"4111" not in found["value"]


def test_a_message_that_cannot_be_redacted_has_no_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    producer = Recorder()
    ctx = dlq_context(original_value={"card": "4111"}, rules=[failing(), ENCRYPT])
    with pytest.raises(SerializationError, match="always failed: reason"):
        DlqAction({"producer": producer, "dlq.topic": "dead"}).run(ctx, None, RuleError("reason"))
    assert (producer.messages[0]["key"], producer.messages[0]["value"]) == (None, None)
    assert "has no content" in caplog.text
    assert "4111" not in caplog.text


def dlq_context(**settings: Any) -> Any:
    one = settings.pop("rule", failing())
    names = ["enabled_env", "source", "target", "inline_tags", "field_transformer"]
    fixed: dict[str, Any] = dict.fromkeys(names)
    fixed["ser_ctx"] = SerializationContext(
        "orders", MessageField.VALUE, settings.pop("headers", None)
    )
    fixed.update(subject="s", rule_mode=RuleMode.WRITE, rule=one, index=0, rules=[one])
    return RuleContext(**{**fixed, **settings})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"x", b"x"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        ("ü", "ü".encode()),
        (uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        (5, struct.pack(">q", 5)),
        (2**63, b"9223372036854775808"),
        (True, b"true"),
        (1.5, struct.pack(">d", 1.5)),
        ({"a": b"\xff", "u": uuid.UUID(int=1)}, None),
    ],
)
def test_keys_and_values_become_bytes_as_in_confluent_kafka(value: Any, expected: Any) -> None:
    messages = []
    for make in (DlqAction, theirs):
        producer = Recorder()
        ctx = dlq_context(original_key=value, original_value=value, headers={"h": bytearray(b"1")})
        with pytest.raises(Exception, match="always"):
            make({"producer": producer, "dlq.topic": "dead"}).run(ctx, None, None)
        messages.append(producer.messages[0])
    assert messages[0] == messages[1]
    assert "__rule.exception" not in dict(messages[0]["headers"])
    if not isinstance(value, dict):
        assert messages[0]["key"] == messages[0]["value"] == expected


def test_protobuf_messages_are_json() -> None:
    wrappers = pytest.importorskip("google.protobuf.struct_pb2", reason="needs protobuf")
    message = wrappers.Struct()
    message["a"] = "b"
    producer = Recorder()
    with pytest.raises(SerializationError):
        DlqAction({"producer": producer, "dlq.topic": "dead"}).run(
            dlq_context(original_value=message), None, None
        )
    assert json.loads(producer.messages[0]["value"]) == {"a": "b"}


def test_the_key_of_the_same_message_is_written_too() -> None:
    schemas = Schemas()
    schemas.register(failing())
    set_original_key("the key")
    try:
        assert written(DlqAction, "ours", schemas)["key"] == b"the key"
    finally:
        clear_original_key()


def test_the_topic_can_be_a_parameter_of_the_rule() -> None:
    producer = Recorder()
    ctx = dlq_context(rule=failing(params={"dlq.topic": "of the rule"}))
    with pytest.raises(SerializationError):
        DlqAction({"producer": producer}).run(ctx, None, None)
    assert producer.messages[0]["topic"] == "of the rule"
    with pytest.raises(SerializationError, match=r"no dlq\.topic"):
        DlqAction({"producer": producer}).run(dlq_context(), None, None)


def test_a_queue_that_refuses_does_not_hide_the_failed_rule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    producer = Recorder(BufferError("full"))
    with pytest.raises(SerializationError, match="reason") as caught:
        DlqAction({"producer": producer, "dlq.topic": "dead"}).run(
            dlq_context(), None, RuleError("reason")
        )
    assert isinstance(caught.value.__cause__, RuleError)
    assert "full" in caplog.text


def test_failed_deliveries_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    producer = Recorder()
    with pytest.raises(SerializationError):
        DlqAction({"producer": producer, "dlq.topic": "dead"}).run(dlq_context(), None, None)
    with caplog.at_level(logging.ERROR):
        producer.report(None, None)
        assert not caplog.records
        producer.report("timed out", None)
    assert "timed out" in caplog.text


def test_messages_are_delivered_at_once_or_by_close() -> None:
    for conf, flushed in (({}, 0), ({"dlq.auto.flush": "TRUE"}, 1), ({"dlq.auto.flush": True}, 1)):
        producer = Recorder()
        action = DlqAction({"producer": producer, "dlq.topic": "dead", **conf})
        with pytest.raises(SerializationError):
            action.run(dlq_context(), None, None)
        assert producer.flushed == flushed
        action.close()
        action.close()
        assert producer.flushed == flushed + 1


def test_the_first_failure_makes_a_producer() -> None:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("dead", 1)
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        action = DlqAction({**servers, "dlq.topic": "dead", "dlq.auto.flush": True})
        with pytest.raises(SerializationError):
            action.run(dlq_context(original_value="content"), None, RuleError("reason"))
        action.close()
        with Consumer({**servers, "group.id": "g"}) as consumer:
            consumer.assign([TopicPartition("dead", 0, OFFSET_BEGINNING)])
            message = poll_until(lambda: consumer.poll(0.1))
    assert message.value() == b"content"
    assert dict(message.headers())["__rule.exception"] == b"reason"


def test_actions_and_executors_register_themselves(shared_registry: Any) -> None:
    assert shared_registry.get_action("DLQ") is None
    assert DlqAction.register({"dlq.topic": "dead"}) is shared_registry.get_action("DLQ")
    assert FieldRedactionExecutor.register() is shared_registry.get_executor("REDACT")
