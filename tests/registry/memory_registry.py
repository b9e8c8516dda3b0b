"""A schema registry in memory: its clients have the methods that serializers call."""

from __future__ import annotations

import uuid
from typing import Any

from confluent_kafka.schema_registry.common import schema_registry_client as confluent_schemas
from confluent_kafka.schema_registry.error import SchemaRegistryError as ConfluentError

from kafka_native.schema_registry import schemas
from kafka_native.schema_registry.error import SchemaRegistryError


class MemoryRegistry:
    """Subjects with versions. The same schema has the same id in all subjects."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.by_id: dict[int, dict[str, Any]] = {}
        self.calls: list[str] = []

    def register(self, subject: str, schema: Any) -> dict[str, Any]:
        """Register a schema object or its JSON, and return the registered form."""
        content = schema if isinstance(schema, dict) else schema.to_dict()
        content = {"schemaType": "AVRO", "references": [], **content}
        for known in self.subjects.setdefault(subject, []):
            if same(known, content):
                return known
        found = [number for number, known in self.by_id.items() if same(known, content)]
        number = found[0] if found else len(self.by_id) + 1
        self.by_id[number] = content
        entry = {
            **content,
            "subject": subject,
            "version": len(self.subjects[subject]) + 1,
            "id": number,
            "guid": str(uuid.UUID(int=number)),
        }
        self.subjects[subject].append(entry)
        return entry

    def client(self) -> Client:
        """Return a client of kafka_native's types."""
        return Client(self, schemas, SchemaRegistryError)

    def confluent_client(self) -> Client:
        """Return a client of confluent_kafka's types."""
        return Client(self, confluent_schemas, ConfluentError)

    def async_client(self) -> AsyncClient:
        """Return an asyncio client of kafka_native's types."""
        return AsyncClient(self.client())


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two schemas are equal, wherever they are registered."""
    names = ("schema", "schemaType", "references", "ruleSet", "metadata")
    return all(without_empty(one.get(name)) == without_empty(other.get(name)) for name in names)


def without_empty(value: Any) -> Any:
    """Return JSON without null, false, empty lists and empty objects: they mean the same."""
    if isinstance(value, dict):
        kept = {name: without_empty(part) for name, part in value.items()}
        return {name: part for name, part in kept.items() if part} or None
    if isinstance(value, list):
        return [without_empty(part) for part in value] or None
    return value or None


class Client:
    """A client with one set of types: kafka_native's or confluent_kafka's."""

    def __init__(self, registry: MemoryRegistry, types: Any, error: Any) -> None:
        self.registry, self.types, self.error = registry, types, error
        self._cache = self
        self.closed = 0

    def get_registered_by_subject_id(self, subject: str, number: int) -> None:
        """Confluent's serializers ask the cache of their client: it is empty."""

    def config(self) -> dict[str, Any]:
        return {"url": "memory://"}

    def close(self) -> None:
        self.closed += 1

    def _not_found(self, what: str) -> Any:
        return self.error(404, 40403, f"{what} not found")

    def _registered(self, entry: dict[str, Any]) -> Any:
        return self.types.RegisteredSchema.from_dict(entry)

    def register_schema_full_response(
        self, subject: str, schema: Any, normalize_schemas: bool = False
    ) -> Any:
        self.registry.calls.append(f"register {subject}")
        return self._registered(self.registry.register(subject, schema))

    def register_schema(self, subject: str, schema: Any, normalize_schemas: bool = False) -> Any:
        return self.register_schema_full_response(subject, schema).schema_id

    def lookup_schema(
        self, subject: str, schema: Any, normalize_schemas: bool = False, deleted: bool = False
    ) -> Any:
        self.registry.calls.append(f"lookup {subject}")
        content = {"schemaType": "AVRO", "references": [], **schema.to_dict()}
        for known in self.registry.subjects.get(subject, []):
            if same(known, content):
                return self._registered(known)
        raise self._not_found("Schema")

    def get_schema(self, number: int, subject: str | None = None, fmt: str | None = None) -> Any:
        if number not in self.registry.by_id:
            raise self._not_found("Schema")
        return self.types.Schema.from_dict(self.registry.by_id[number])

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Any:
        return self.get_schema(uuid.UUID(guid).int, None, fmt)

    def get_version(
        self, subject: str, version: int, deleted: bool = False, fmt: str | None = None
    ) -> Any:
        return self._registered(self.registry.subjects[subject][version - 1])

    def get_latest_version(self, subject: str, fmt: str | None = None) -> Any:
        if not self.registry.subjects.get(subject):
            raise self._not_found("Subject")
        return self._registered(self.registry.subjects[subject][-1])

    def get_latest_with_metadata(
        self, subject: str, metadata: dict[str, str], deleted: bool = False, fmt: str | None = None
    ) -> Any:
        for entry in reversed(self.registry.subjects.get(subject, [])):
            properties = (entry.get("metadata") or {}).get("properties") or {}
            if metadata.items() <= properties.items():
                return self._registered(entry)
        raise self._not_found("Version")

    def get_associations_by_resource_name(self, **named: Any) -> Any:
        return []


class AsyncClient:
    """The same methods as coroutine functions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def config(self) -> dict[str, Any]:
        return self._client.config()

    async def aclose(self) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*arguments: Any, **named: Any) -> Any:
            return method(*arguments, **named)

        return call


__all__ = ["AsyncClient", "Client", "MemoryRegistry"]
