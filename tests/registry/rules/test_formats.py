"""Rules in Avro, JSON Schema and Protobuf, over HTTP to the mock registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("tink", reason="needs confluent_kafka[rules] as the witness")
pytest.importorskip("google.protobuf", reason="the tests need protobuf")

from confluent_kafka import schema_registry as their_registry
from confluent_kafka import serialization as their_serialization
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.schema_registry import rule_registry as their_rules
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafka_native import schema_registry as our_registry
from kafka_native import serialization as our_serialization
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import avro as our_avro
from kafka_native.schema_registry import json_schema as our_json
from kafka_native.schema_registry import protobuf as our_protobuf
from kafka_native.schema_registry import rule_registry as our_rules
from kafka_native.schema_registry.rules.cel.cel_executor import CelExecutor
from kafka_native.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from kafka_native.schema_registry.rules.encryption.encrypt_executor import (
    EncryptionExecutor,
    FieldEncryptionExecutor,
)
from kafka_native.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor
from tests.registry.rules.contracts import RuleKind, RuleMode, rule
from tests.registry.rules.test_encryption import PARAMS, theirs

pytestmark = pytest.mark.usefixtures("local_kms")

SECRET = {"secret": "mysecret"}
LATEST = {"auto.register.schemas": False, "use.latest.version": True}
JSON_SCHEMA = {
    "type": "object",
    "title": "Note",
    "properties": {
        "id": {"type": "integer"},
        "text": {"type": "string", "confluent:tags": ["PII"]},
    },
}


class Package:
    """The client, serializers and executors of one package."""

    def __init__(self, name: str, url: str) -> None:
        ours = name == "ours"
        registry = our_registry if ours else their_registry
        self.avro = our_avro if ours else their_avro
        self.json = our_json if ours else their_json
        self.protobuf = our_protobuf if ours else their_protobuf
        self.client = registry.SchemaRegistryClient({"url": url})
        serialization = our_serialization if ours else their_serialization
        self.context = serialization.SerializationContext("notes", serialization.MessageField.VALUE)
        self.rules = our_rules.RuleRegistry() if ours else their_rules.RuleRegistry()
        encrypts = [FieldEncryptionExecutor(), EncryptionExecutor()]
        for each in encrypts if ours else [theirs(False), theirs(True)]:
            self.rules.register_executor(each)
        for each in (CelExecutor(), CelFieldExecutor(), JsonataExecutor()):
            self.rules.register_executor(each)

    def settings(self) -> dict[str, Any]:
        return {"rule_conf": SECRET, "rule_registry": self.rules}

    def write(self, kind: str, schema: Any, value: Any, conf: Any = None) -> bytes:
        conf = LATEST if conf is None else conf
        if kind == "PROTOBUF":
            serializer = self.protobuf.ProtobufSerializer(
                schema,
                self.client,
                conf={"use.deprecated.format": False, **conf},
                **self.settings(),
            )
            return bytes(serializer(value, self.context))
        module = self.json if kind == "JSON" else self.avro
        make = module.JSONSerializer if kind == "JSON" else module.AvroSerializer
        arguments = (schema, self.client) if kind == "JSON" else (self.client, schema)
        return bytes(make(*arguments, conf=conf, **self.settings())(value, self.context))

    def read(self, kind: str, schema: Any, payload: bytes, **conf: Any) -> Any:
        if kind == "PROTOBUF":
            deserializer = self.protobuf.ProtobufDeserializer(
                schema,
                {"use.deprecated.format": False, **conf},
                self.client,
                **self.settings(),
            )
        elif kind == "JSON":
            deserializer = self.json.JSONDeserializer(
                schema, schema_registry_client=self.client, conf=conf, **self.settings()
            )
        else:
            deserializer = self.avro.AvroDeserializer(
                self.client, schema, conf=conf, **self.settings()
            )
        return deserializer(payload, self.context)


@pytest.fixture
def url() -> Iterator[str]:
    with MockSchemaRegistry() as registry:
        yield registry.url


EACH_PAIR = pytest.mark.parametrize(
    ("writer", "reader"), [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours")]
)


def register(url: str, text: str, kind: str, rule_set: Any, metadata: Any = None) -> None:
    client = their_registry.SchemaRegistryClient({"url": url})
    client.register_schema("notes-value", their_registry.Schema(text, kind, [], metadata, rule_set))


def rules(*domain: Any, encoding: Any = (), migration: Any = ()) -> Any:
    return their_registry.RuleSet(list(migration), list(domain), encoding_rules=list(encoding))


ENCRYPT = rule("ENCRYPT", tags=["PII"], params=PARAMS)
POSITIVE = rule("CEL", "message.id > 0", kind=RuleKind.CONDITION, name="positive")
SHOUT = rule("CEL_FIELD", "value + '!'", tags=["PII"], mode=RuleMode.WRITE, name="shout")
PAYLOAD = rule("ENCRYPT_PAYLOAD", params={**PARAMS, "encrypt.kek.name": "payloads"}, name="all")


@EACH_PAIR
def test_json(url: str, writer: str, reader: str) -> None:
    text = json.dumps(JSON_SCHEMA)
    register(url, text, "JSON", rules(POSITIVE, SHOUT, ENCRYPT))
    payload = Package(writer, url).write("JSON", text, {"id": 1, "text": "secret"})
    assert b'"id"' in payload
    assert b"secret" not in payload
    found = Package(reader, url).read("JSON", None, payload)
    assert found == {"id": 1, "text": "secret!"}


@EACH_PAIR
@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_payloads(url: str, writer: str, reader: str, kind: str) -> None:
    record = {
        "type": "record",
        "name": "Note",
        "fields": [{"name": "id", "type": "int"}, {"name": "text", "type": "string"}],
    }
    text = json.dumps(JSON_SCHEMA if kind == "JSON" else record)
    register(url, text, kind, rules(encoding=[PAYLOAD]))
    payload = Package(writer, url).write(kind, text, {"id": 1, "text": "secret"})
    assert b"secret" not in payload
    assert Package(reader, url).read(kind, None, payload) == {"id": 1, "text": "secret"}


def note_class() -> Any:
    proto = descriptor_pb2.FileDescriptorProto(name="note.proto", package="notes", syntax="proto3")
    message = proto.message_type.add(name="Note")
    for number, (name, kind) in enumerate([("id", 5), ("text", 9), ("data", 12)], 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(proto.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("notes.Note"))


@EACH_PAIR
def test_protobuf(url: str, writer: str, reader: str) -> None:
    note = note_class()
    first = Package("theirs", url)
    first.write("PROTOBUF", note, note(id=1), {"auto.register.schemas": True})
    text = first.client.get_latest_version("notes-value").schema.schema_str
    tags = their_registry.MetadataTags({"notes.Note.text": ["PII"], "notes.Note.data": ["BIN"]})
    metadata = their_registry.Metadata(tags, their_registry.MetadataProperties({}), [])
    binary = rule("ENCRYPT", tags=["BIN"], params=PARAMS, name="binary")
    register(url, text, "PROTOBUF", rules(POSITIVE, SHOUT, ENCRYPT, binary), metadata)
    sent = note(id=1, text="secret", data=b"hidden")
    payload = Package(writer, url).write("PROTOBUF", note, sent)
    assert b"secret" not in payload
    assert b"hidden" not in payload
    found = Package(reader, url).read("PROTOBUF", note, payload)
    assert found == note(id=1, text="secret!", data=b"hidden")


@pytest.mark.parametrize("package", ["ours", "theirs"])
def test_migrations(url: str, package: str) -> None:
    def record(field: str) -> str:
        fields = [{"name": field, "type": "string"}]
        return json.dumps({"type": "record", "name": "Note", "fields": fields})

    client = their_registry.SchemaRegistryClient({"url": url})
    client.set_config(
        "notes-value",
        their_registry.ServerConfig(compatibility=their_registry.ConfigCompatibilityLevel.NONE),
    )
    register(url, record("name"), "AVRO", None)
    side = Package(package, url)
    old = side.write("AVRO", None, {"name": "ada"})
    up = rule("JSONATA", "{'fullName': name}", mode=RuleMode.UPGRADE, name="up")
    down = rule("JSONATA", "{'name': fullName}", mode=RuleMode.DOWNGRADE, name="down")
    register(url, record("fullName"), "AVRO", rules(migration=[up, down]))
    newer = Package(package, url)
    assert newer.read("AVRO", None, old, **{"use.latest.version": True}) == {"fullName": "ada"}
