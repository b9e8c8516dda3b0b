"""The schema registry's client alone: register, find, compare and delete versions of a schema.

Needs `pip install 'kafka-native[registry]'`.
"""

from __future__ import annotations

import contextlib
import json
import os

from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)

SUBJECT = "payments-value"


def record(name: str, *fields: dict[str, object]) -> str:
    """Return an Avro schema."""
    return json.dumps({"type": "record", "name": name, "fields": fields})


with contextlib.ExitStack() as stack:
    url = os.environ.get("SCHEMA_REGISTRY_URL")
    if url is None:  # without a registry of your own, the mock registry serves
        url = stack.enter_context(MockSchemaRegistry()).url
    registry = stack.enter_context(SchemaRegistryClient({"url": url, "cache.latest.ttl.sec": 60}))

    # A schema may use the named types of others. It refers to them by subject and version.
    money = Schema(record("Money", {"name": "cents", "type": "long"}), "AVRO")
    registry.register_schema("money", money)
    uses_money = [SchemaReference("Money", "money", 1)]
    amount: dict[str, object] = {"name": "amount", "type": "Money"}
    first = Schema(record("Payment", amount), "AVRO", uses_money)
    schema_id = registry.register_schema(SUBJECT, first)
    same_id = registry.register_schema(SUBJECT, first)
    print("registered twice, one id:", schema_id == same_id)

    # The compatibility of a subject says which new versions the registry accepts.
    registry.set_compatibility(SUBJECT, "BACKWARD")
    no_default: dict[str, object] = {"name": "note", "type": "string"}
    refused = Schema(record("Payment", amount, no_default), "AVRO", uses_money)
    accepted = Schema(record("Payment", amount, {**no_default, "default": ""}), "AVRO", uses_money)
    print("compatible:", registry.test_compatibility(SUBJECT, refused))
    try:
        registry.register_schema(SUBJECT, refused)
    except SchemaRegistryError as error:
        print("refused:", error.http_status_code, error.error_code)
    registry.register_schema(SUBJECT, accepted)
    latest = registry.get_latest_version(SUBJECT)
    print(
        "latest version:", latest.version, "used by money:", registry.get_referenced_by("money", 1)
    )

    # A deleted version is hidden, and its id still reads old messages, until it's deleted for good.
    registry.delete_version(SUBJECT, 1)
    print("versions:", registry.get_versions(SUBJECT))
    print("deleted:", registry.get_versions(SUBJECT, deleted_only=True))
    print("the id still reads:", registry.get_schema(schema_id).schema_str)
