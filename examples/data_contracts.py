"""Rules of a schema refuse wrong messages and change fields.

Needs `pip install 'kafka-native[registry,avro,rules]'`.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaRegistryClient,
)
from kafka_native.schema_registry.avro import AvroDeserializer, AvroSerializer
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rules.cel.cel_executor import CelExecutor
from kafka_native.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "amount", "type": "int"},
        {"name": "mail", "type": "string", "confluent:tags": ["MAIL"]},
    ],
}


def rule(name: str, kind: RuleKind, type: str, expr: str, **settings: Any) -> Rule:
    """Return a rule that runs before a message is written."""
    return Rule(
        name=name,
        doc=settings.get("doc"),
        kind=kind,
        mode=RuleMode.WRITE,
        type=type,
        tags=settings.get("tags"),
        params=None,
        expr=expr,
        on_success=None,
        on_failure=None,
        disabled=False,
    )


RULES = [
    rule(
        "positive",
        RuleKind.CONDITION,
        "CEL",
        "message.amount > 0",
        doc="the amount has to be positive",
    ),
    # An address without a host gets one.
    rule(
        "host",
        RuleKind.TRANSFORM,
        "CEL_FIELD",
        "!value.isEmail() ; value + '@example.com'",
        tags=["MAIL"],
    ),
]

rules = RuleRegistry()
rules.register_executor(CelExecutor())
rules.register_executor(CelFieldExecutor())
context = SerializationContext("orders", MessageField.VALUE)

with contextlib.ExitStack() as stack:
    url = os.environ.get("SCHEMA_REGISTRY_URL")
    if url is None:  # without a registry of your own, the mock registry serves
        url = stack.enter_context(MockSchemaRegistry()).url
    registry = stack.enter_context(SchemaRegistryClient({"url": url}))
    schema = Schema(json.dumps(ORDER), "AVRO", [], None, RuleSet([], RULES))
    registry.register_schema("orders-value", schema)

    serialize = AvroSerializer(
        registry,
        conf={"auto.register.schemas": False, "use.latest.version": True},
        rule_registry=rules,
    )
    deserialize = AvroDeserializer(registry, rule_registry=rules)

    try:
        serialize({"id": 1, "amount": -20, "mail": "ada"}, context)
    except SerializationError as error:
        print("refused:", error)

    payload = serialize({"id": 1, "amount": 20, "mail": "ada"}, context)
    print("written and read:", deserialize(payload, context))
