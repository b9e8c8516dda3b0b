"""Encrypt the fields of a message that have a tag, and read them again.

Needs `pip install 'kafka-native[encryption,avro]'`.
"""

from __future__ import annotations

import contextlib
import json
import os

from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaRegistryClient,
)
from kafka_native.schema_registry.avro import AvroDeserializer, AvroSerializer
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rules.encryption.encrypt_executor import FieldEncryptionExecutor
from kafka_native.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "card", "type": "string", "confluent:tags": ["PII"]},
    ],
}
# The registry keeps the rule with the schema. Each field with the tag PII is encrypted.
RULE = Rule(
    name="encrypt PII",
    doc=None,
    kind=RuleKind.TRANSFORM,
    mode=RuleMode.WRITEREAD,
    type="ENCRYPT",
    tags=["PII"],
    params=RuleParams(
        {
            "encrypt.kek.name": "orders",
            "encrypt.kms.type": "local-kms",
            "encrypt.kms.key.id": "orders",
        }
    ),
    expr=None,
    on_success=None,
    on_failure=None,
    disabled=False,
)

LocalKmsDriver.register()
rules = RuleRegistry()
rules.register_executor(FieldEncryptionExecutor())
secrets = {"secret": "keep this in a vault"}
context = SerializationContext("orders", MessageField.VALUE)

with contextlib.ExitStack() as stack:
    url = os.environ.get("SCHEMA_REGISTRY_URL")
    if url is None:  # without a registry of your own, the mock registry serves
        url = stack.enter_context(MockSchemaRegistry()).url
    registry = stack.enter_context(SchemaRegistryClient({"url": url}))
    schema = Schema(json.dumps(ORDER), "AVRO", [], None, RuleSet([], [RULE]))
    registry.register_schema("orders-value", schema)

    serialize = AvroSerializer(
        registry,
        conf={"auto.register.schemas": False, "use.latest.version": True},
        rule_conf=secrets,
        rule_registry=rules,
    )
    payload = serialize({"id": 7, "card": "4111 1111"}, context)
    print("the card is in the message:", b"4111" in payload)

    with_key = AvroDeserializer(registry, rule_conf=secrets, rule_registry=rules)
    print("with the key:", with_key(payload, context))

    without = AvroDeserializer(registry, rule_registry=RuleRegistry())
    try:
        without(payload, context)
    except SerializationError as error:
        print("without an executor:", error)
