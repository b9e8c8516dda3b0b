"""Encrypt the fields of a message that have a tag, and read them again."""

from __future__ import annotations

import json

from confluent_kafka.schema_registry import (
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_native.schema_registry.rules.encryption.encrypt_executor import FieldEncryptionExecutor
from kafka_native.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver

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

# A registry in memory. Yours has the address of a schema registry.
registry = SchemaRegistryClient.new_client({"url": "mock://"})
registry.register_schema(
    "orders-value", Schema(json.dumps(ORDER), "AVRO", [], None, RuleSet([], [RULE]))
)

LocalKmsDriver.register()
rules = RuleRegistry()
rules.register_executor(FieldEncryptionExecutor())
secrets = {"secret": "keep this in a vault"}

context = SerializationContext("orders", MessageField.VALUE)
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

disabled = AvroDeserializer(registry, conf={"use.latest.version": False}, rule_conf=secrets)
try:
    disabled(payload, context)
except Exception as error:
    print("without an executor:", type(error).__name__)
