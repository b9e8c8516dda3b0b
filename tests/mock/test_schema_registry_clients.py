"""confluent_kafka's registry clients and serializers use the mock registry unchanged."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    Metadata,
    MetadataProperties,
    RegisteredSchema,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import ConfigCompatibilityLevel
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.rules.encryption.dek_registry.dek_registry_client import (
    DekAlgorithm,
    DekRegistryClient,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from kafka_native.mock import MockSchemaRegistry
from kafka_native.mock.schema_registry import protobuf
from tests.mock.registry_calls import optional, record

FORWARD = ConfigCompatibilityLevel.FORWARD
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: MockSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as made:
        yield made


def test_every_call_about_schemas(client: SchemaRegistryClient) -> None:
    one, two = Schema(record("id"), "AVRO"), Schema(record("id", optional("note")), "AVRO")
    first = client.register_schema_full_response("orders-value", one)
    assert (first.schema_id, first.version) == (1, 1)
    assert client.register_schema("orders-value", two) == 2
    assert json.loads(client.get_schema(1).schema_str) == json.loads(one.schema_str)
    assert client.get_schema_by_guid(first.guid).schema_str == client.get_schema(1).schema_str
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert client.get_subjects_by_schema_id(1) == ["orders-value"]
    assert [each.version for each in client.get_schema_versions(2)] == [2]
    assert client.lookup_schema("orders-value", one).version == 1
    assert client.get_subjects() == ["orders-value"]
    assert client.get_latest_version("orders-value").schema_id == 2
    assert client.get_version("orders-value", 1).schema_id == 1
    assert client.get_versions("orders-value") == [1, 2]
    assert client.get_referenced_by("orders-value", 1) == []
    assert client.test_compatibility("orders-value", two)
    assert not client.test_compatibility_all_versions("orders-value", Schema('"int"', "AVRO"))
    assert client.get_contexts() == ["."]
    assert client.delete_version("orders-value", 1) == 1
    assert client.delete_subject("orders-value") == [2]
    assert client.delete_subject("orders-value", permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_version("orders-value", 1)
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)


def test_every_call_about_settings(client: SchemaRegistryClient) -> None:
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility(level="FULL")
    client.set_compatibility("a", "none")
    assert (client.get_compatibility(), client.get_compatibility("a")) == ("FULL", "NONE")
    metadata = Metadata(None, MetadataProperties({"owner": "ada"}), None)
    client.set_config("a", ServerConfig(FORWARD, default_metadata=metadata))
    config = client.get_config("a")
    assert config.default_metadata.properties.properties == {"owner": "ada"}
    client.delete_config("a")
    client.update_global_mode("READONLY")
    assert client.get_global_mode() == "READONLY"
    client.update_mode("a", "READWRITE")
    assert client.get_mode("a") == "READWRITE"
    assert client.delete_mode("a") == "READWRITE"


def test_rules_and_metadata_come_back(client: SchemaRegistryClient) -> None:
    rule = Rule("r", "", RuleKind.CONDITION, RuleMode.WRITE, "CEL", ["PII"],
                RuleParams({"a": "b"}), "true", None, None, False)  # fmt: skip
    metadata = Metadata(None, MetadataProperties({"major": "1", "a b": "c/d"}), None)
    schema = Schema(record("id"), "AVRO", [], metadata, RuleSet(None, [rule]))
    client.register_schema("a", schema)
    latest = client.get_latest_version("a").schema
    assert latest.rule_set.domain_rules[0].expr == "true"
    found = client.get_latest_with_metadata("a", {"major": "1", "a b": "c/d"})
    assert isinstance(found, RegisteredSchema)
    assert found.version == 1


def test_avro_serializers_and_evolution(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, record("id"))({"id": "7"}, VALUE)
    client.register_schema("orders-value", Schema(record("id", optional("note")), "AVRO"))
    reader = AvroDeserializer(client, record("id", optional("note")))
    assert reader(data, VALUE) == {"id": "7", "note": None}
    latest = AvroSerializer(
        client, conf={"auto.register.schemas": False, "use.latest.version": True}
    )
    assert reader(latest({"id": "8", "note": "x"}, VALUE), VALUE)["note"] == "x"


def test_avro_references(client: SchemaRegistryClient) -> None:
    client.register_schema("address", Schema(record("street", name="Address"), "AVRO"))
    order = Schema(
        record({"name": "to", "type": "Address"}),
        "AVRO",
        [SchemaReference("Address", "address", 1)],
    )
    value = {"to": {"street": "Ring 1"}}
    data = AvroSerializer(client, order)(value, VALUE)
    assert AvroDeserializer(client)(data, VALUE) == value
    assert client.get_referenced_by("address", 1) == [2]


def test_json_serializers_and_references(client: SchemaRegistryClient) -> None:
    part = {"$id": "street.json", "type": "string"}
    client.register_schema("street", Schema(json.dumps(part), "JSON"))
    whole = {
        "title": "Order",
        "type": "object",
        "properties": {"street": {"$ref": "street.json"}},
        "additionalProperties": False,
    }
    schema = Schema(json.dumps(whole), "JSON", [SchemaReference("street.json", "street", 1)])
    data = JSONSerializer(schema, client)({"street": "Ring"}, VALUE)
    reader = JSONDeserializer(schema, schema_registry_client=client)
    assert reader(data, VALUE) == {"street": "Ring"}


PART = 'syntax = "proto3"; package shop; message Part { string name = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "part.proto";
import "google/protobuf/timestamp.proto";
message Order {
  message Line { Part part = 1; int32 count = 2; }
  int64 id = 1;
  repeated Line lines = 2;
  google.protobuf.Timestamp at = 3;
  map<string, double> prices = 4;
  oneof payment { string card = 5; bool cash = 6; }
  optional string note = 7;
}
"""


@functools.cache
def order_class() -> Any:
    """Return the class of messages that protobuf makes of the two files."""
    pool = descriptor_pool.Default()
    assert pool.FindFileByName(timestamp_pb2.DESCRIPTOR.name)
    for name, text in (("part.proto", PART), ("order.proto", ORDER)):
        file = protobuf.parse(text, {"part.proto": PART}).file
        file.name = name
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_serializers_and_references(client: SchemaRegistryClient) -> None:
    kind = order_class()
    message = kind(id=1, cash=True, prices={"a": 0.5}, lines=[{"part": {"name": "x"}, "count": 2}])
    message.at.seconds = 5
    data = ProtobufSerializer(kind, client)(message, VALUE)
    assert "part.proto" in client.get_subjects()
    reader = ProtobufDeserializer(kind, schema_registry_client=client)
    assert reader(data, VALUE) == message
    latest = {"use.latest.version": True, "auto.register.schemas": False}
    assert reader(ProtobufSerializer(kind, client, latest)(message, VALUE), VALUE) == message
    client.clear_caches()
    text = client.get_latest_version("orders-value").schema.schema_str
    assert "map<string, double> prices = 4;" in text
    assert "optional string note = 7;" in text


def test_protobuf_written_as_text_is_read_as_a_descriptor(client: SchemaRegistryClient) -> None:
    kind = order_class()
    references = [SchemaReference("part.proto", "part", 1)]
    client.register_schema("part", Schema(PART, "PROTOBUF"))
    own = client.register_schema("orders-value", Schema(ORDER, "PROTOBUF", references))
    conf = {"auto.register.schemas": False, "use.schema.id": own}
    with pytest.raises(SchemaRegistryError):
        client.register_schema("other", Schema(ORDER, "PROTOBUF"))
    client.clear_caches()
    data = ProtobufSerializer(kind, client, conf)(kind(id=3, note="n"), VALUE)
    reader = ProtobufDeserializer(kind, schema_registry_client=client)
    assert reader(data, VALUE) == kind(id=3, note="n")


def test_asynchronous_client(registry: MockSchemaRegistry) -> None:
    async def use() -> int:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            await client.register_schema("a", Schema(record("id"), "AVRO"))
            found = await client.get_latest_version("a")
            return int(found.schema_id)

    assert asyncio.run(use()) == 1


def test_key_registry_client(registry: MockSchemaRegistry) -> None:
    with DekRegistryClient({"url": registry.url}) as client:
        client.register_kek("k", "local-kms", "id")
        assert client.get_kek("k").kms_type == "local-kms"
        client.register_dek("k", "orders/value", "YQ==", DekAlgorithm.AES256_GCM)
        found = client.get_dek("k", "orders/value", version=-1)
        assert found.get_encrypted_key_material_bytes() == b"a"


def test_login_is_needed_where_users_and_tokens_are_set() -> None:
    with MockSchemaRegistry(users={"ada": "secret"}, tokens=["t0ken"]) as registry:
        url = registry.url
        bearer = {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": "t0ken",
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
        for login in ({"basic.auth.user.info": "ada:secret"}, bearer):
            with SchemaRegistryClient({"url": url, **login}) as client:
                assert client.get_subjects() == []
        for login in (
            {},
            {"basic.auth.user.info": "ada:wrong"},
            bearer | {"bearer.auth.token": "x"},
        ):
            with SchemaRegistryClient({"url": url, **login}) as client:
                with pytest.raises(SchemaRegistryError) as caught:
                    client.get_subjects()
                assert caught.value.http_status_code == 401


def test_client_fails_over_and_retries(registry: MockSchemaRegistry) -> None:
    with MockSchemaRegistry(listeners=2) as pair:
        pair.listener_down(0)
        with SchemaRegistryClient({"url": ",".join(pair.urls)}) as client:
            assert client.get_subjects() == []
    registry.faults.fail(503)
    with SchemaRegistryClient({"url": registry.url, "retries.wait.ms": 1}) as client:
        assert client.get_subjects() == []
    assert [each.method for each in registry.requests] == ["GET", "GET"]
