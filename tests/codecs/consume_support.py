"""A topic of typed messages, and a schema registry that runs code of a test."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.arrow import ArrowRows
from kafka_native.mock import MockCluster
from kafka_native.schema_registry import RegisteredSchema, Schema, SchemaReference
from tests.codecs import avro_schemas as avro

ID = {"name": "id", "type": "long"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
CITY = {"name": "city", "type": {"type": "record", "name": "City", "fields": [
    {"name": "zip", "type": "string"}, {"name": "size", "type": "int"}]}}  # fmt: skip


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record with these fields."""
    return {"type": "record", "name": "Order", "fields": list(fields)}


ORDER = record(ID, NAME)
WIDE = record(ID, CITY, NAME)


class NoSuchSchema(Exception):
    """What a registry's client raises for an unknown id."""

    error_code = 40403


def guid_of(schema_id: int) -> str:
    """Return the GUID that FakeRegistry gives to a schema."""
    return str(uuid.UUID(int=schema_id << 100 | 0xABC))


@dataclass
class FakeRegistry:
    """A registry's client without a registry. It counts the calls, and runs ``hook`` in each."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    hook: Callable[[], object] = lambda: None

    def add(
        self, schema: Any, subject: str = "", *, kind: str = "AVRO", references: Any = ()
    ) -> int:
        """Register a schema, and return its id."""
        schema_id = len(self.schemas) + 1
        self.schemas[schema_id] = Schema(json.dumps(schema), kind, list(references))
        self.subjects.setdefault(subject, []).append(schema_id)
        return schema_id

    def get_schema(
        self, schema_id: int, subject_name: str | None = None, fmt: str | None = None
    ) -> Schema:
        self.asked.append(schema_id)
        self.hook()
        if schema_id not in self.schemas:
            raise NoSuchSchema(f"there is no schema {schema_id}")
        return self.schemas[schema_id]

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Schema:
        self.asked.append(guid)
        found = [number for number in self.schemas if guid_of(number) == guid]
        return self.schemas[found[0]]

    def get_latest_version(self, subject_name: str, fmt: str | None = None) -> RegisteredSchema:
        self.asked.append(subject_name)
        self.hook()
        return self.get_version(subject_name, len(self.subjects[subject_name]))

    def get_version(
        self, subject_name: str, version: int, deleted: bool = False, fmt: str | None = None
    ) -> RegisteredSchema:
        number = self.subjects[subject_name][version - 1]
        return RegisteredSchema(subject_name, version, number, None, self.schemas[number])


def reference(name: str, subject: str, version: int = 1) -> SchemaReference:
    return SchemaReference(name, subject, version)


def framed(schema_id: int, payload: bytes) -> bytes:
    """Return a record with the id of its schema."""
    return struct.pack(">bI", 0, schema_id) + payload


def encoded(schema: Any, schema_id: int, **values: Any) -> bytes:
    """Return a framed record in Avro."""
    return framed(schema_id, avro.encode(schema, values))


def orders(schema_id: int, *ids: int) -> list[bytes]:
    """Return framed records of the schema ORDER."""
    return [encoded(ORDER, schema_id, id=each, name=f"n{each}") for each in ids]


@dataclass
class Topic:
    """A topic of one partition."""

    cluster: MockCluster
    name: str

    def produce(self, *values: Any, **how: Any) -> None:
        """Produce values, in this order."""
        with Producer({"bootstrap.servers": self.cluster.bootstrap_servers}) as producer:
            for value in values:
                producer.produce(self.name, value, partition=0, **how)

    def consumer(self, **conf: Any) -> Consumer:
        """Return a consumer at the beginning."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, **conf})
        consumer.assign([TopicPartition(self.name, 0, OFFSET_BEGINNING)])
        return consumer


def table_of(batch: ArrowRows) -> pa.RecordBatch:
    """Return a batch in pyarrow, after pyarrow's full check."""
    found = pa.record_batch(batch)
    found.validate(full=True)
    assert found.schema.names == batch.column_names
    assert pa.schema(batch).equals(found.schema)
    return found


def values_of(batch: ArrowRows, column: str = "value") -> list[Any]:
    return table_of(batch).column(column).to_pylist()
