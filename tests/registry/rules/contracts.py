"""Serializers of kafka_native and of confluent_kafka, with rule executors of our choice."""

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
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.serde import RuleContext
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_native.schema_registry import avro
from kafka_native.schema_registry.rule_registry import RuleRegistry as OurRuleRegistry
from tests.registry.memory_registry import MemoryRegistry

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
    """Schemas with rules, and the serializers of both packages.

    `url` is the address of the DEK registry, which the executors get.
    """

    def __init__(self, url: str = "mock://") -> None:
        self.registry = MemoryRegistry()
        self.conf = {"url": url}

    def client(self, package: str) -> Any:
        memory = self.registry
        client = memory.client() if package == "ours" else memory.confluent_client()
        client.config = lambda: self.conf
        return client

    def register(
        self,
        *rules: Rule,
        schema: Any = ORDER,
        kind: str = "AVRO",
        phase: str = "domain",
        metadata: Metadata | None = None,
    ) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        sets = {"domain": ([], list(rules), []), "migration": (list(rules), [], [])}
        sets["encoding"] = ([], [], list(rules))
        migration, domain, encoding = sets[phase]
        rule_set = RuleSet(migration, domain, encoding_rules=encoding)
        self.registry.register("orders-value", Schema(text, kind, [], metadata, rule_set))

    def write(
        self, executors: Any, value: Any, package: str = "theirs", headers: Any = None
    ) -> bytes:
        serializer = (avro if package == "ours" else confluent_avro).AvroSerializer(
            self.client(package),
            conf={"auto.register.schemas": False, "use.latest.version": True},
            rule_conf=SECRET,
            rule_registry=registry(executors, package),
        )
        return bytes(serializer(value, serialization_context(package, headers)))

    def read(
        self,
        executors: Any,
        payload: bytes,
        package: str = "theirs",
        headers: Any = None,
        **conf: Any,
    ) -> Any:
        deserializer = (avro if package == "ours" else confluent_avro).AvroDeserializer(
            self.client(package),
            conf=conf,
            rule_conf=SECRET,
            rule_registry=registry(executors, package),
        )
        return deserializer(payload, serialization_context(package, headers))


def serialization_context(package: str, headers: Any = None) -> Any:
    """Return the context of a value in the topic orders."""
    if package == "ours":
        from kafka_native.serialization import MessageField as OurField
        from kafka_native.serialization import SerializationContext as OurContext

        return OurContext("orders", OurField.VALUE, headers)
    return SerializationContext("orders", MessageField.VALUE, headers)


def registry(objects: Any, package: str) -> Any:
    """Return a rule registry with executors and actions."""
    found = OurRuleRegistry() if package == "ours" else RuleRegistry()
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
