"""confluent_kafka's serializers and registry client, with rule executors of our choice."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("confluent_kafka.schema_registry", reason="confluent_kafka is the witness")

from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
)
from confluent_kafka.schema_registry._sync.mock_schema_registry_client import (
    MockSchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.serde import RuleContext
from confluent_kafka.serialization import MessageField, SerializationContext

__all__ = ["RuleKind", "RuleMode", "Schemas", "context", "rule"]

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "card", "type": ["null", "string"], "confluent:tags": ["PII"], "default": None},
        {"name": "scan", "type": "bytes", "confluent:tags": ["PII"], "default": ""},
    ],
}
SECRET = {"secret": "mysecret"}


def rule(type: str, expr: str | None = None, **settings: Any) -> Rule:
    """Return a rule. `tags`, `kind`, `mode`, `on_failure` and `params` are settings."""
    return Rule(
        settings.get("name", "r1"),
        settings.get("doc"),
        settings.get("kind", RuleKind.TRANSFORM),
        settings.get("mode", RuleMode.WRITEREAD),
        type,
        settings.get("tags"),
        RuleParams(settings.get("params", {})),
        expr,
        settings.get("on_success"),
        settings.get("on_failure"),
        False,
    )


class Schemas:
    """A registry in memory with rules, whose configuration has the address of a DEK registry."""

    def __init__(self, url: str = "mock://") -> None:
        self.client = MockSchemaRegistryClient({"url": "mock://"})
        self.conf = {"url": url}
        self.client.config = lambda: self.conf

    def register(
        self,
        *rules: Rule,
        schema: Any = ORDER,
        kind: str = "AVRO",
        phase: str = "domain",
        topic: str = "orders",
        metadata: Metadata | None = None,
    ) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        sets = {"domain": ([], list(rules), []), "migration": (list(rules), [], [])}
        sets["encoding"] = ([], [], list(rules))
        migration, domain, encoding = sets[phase]
        rule_set = RuleSet(migration, domain, encoding_rules=encoding)
        whole = Schema(text, kind, [], metadata, rule_set)
        self.client.register_schema(f"{topic}-value", whole)

    def write(self, executors: Any, value: Any, topic: str = "orders") -> bytes:
        serializer = AvroSerializer(
            self.client,
            conf={"auto.register.schemas": False, "use.latest.version": True},
            rule_conf=SECRET,
            rule_registry=registry(executors),
        )
        return serializer(value, SerializationContext(topic, MessageField.VALUE))

    def read(self, executors: Any, payload: bytes, topic: str = "orders", **conf: Any) -> Any:
        deserializer = AvroDeserializer(
            self.client, conf=conf, rule_conf=SECRET, rule_registry=registry(executors)
        )
        return deserializer(payload, SerializationContext(topic, MessageField.VALUE))


def registry(objects: Any) -> RuleRegistry:
    """Return a rule registry with executors and actions."""
    found = RuleRegistry()
    for each in objects:
        if hasattr(each, "run"):
            found.register_action(each)
        else:
            found.register_executor(each)
    return found


def context(
    a_rule: Rule,
    mode: str = "WRITE",
    subject: str = "orders-value",
    schema_type: str = "AVRO",
    properties: dict[str, str] | None = None,
    **more: Any,
) -> RuleContext:
    """Return the context of one rule."""
    tags, props = MetadataTags({}), MetadataProperties(properties or {})
    schema = Schema(json.dumps(ORDER), schema_type, [], Metadata(tags, props, []), None)
    ser_ctx = SerializationContext("orders", MessageField.VALUE, more.pop("headers", None))
    return RuleContext(
        None,
        ser_ctx,
        None,
        schema,
        subject,
        RuleMode(mode),
        a_rule,
        0,
        more.pop("rules", [a_rule]),
        more.pop("inline_tags", {}),
        more.pop("field_transformer", None),
        more.pop("original_key", None),
        more.pop("original_value", None),
    )
