"""mock:// addresses: a registry in the process, shared by name."""

from __future__ import annotations

import asyncio
import gc
import json
import sys

import pytest

from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    AsyncSchemaRegistryClient,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from kafka_native.schema_registry.config import parse
from tests.harness.processes import output

FIRST = Schema('{"type": "record", "name": "R", "fields": []}', "AVRO")
OTHER = Schema('"int"', "AVRO")


def test_clients_with_the_same_name_share_a_registry() -> None:
    conf = {"url": "mock://shared-by-name"}
    with SchemaRegistryClient.new_client(conf) as one, SchemaRegistryClient(conf) as two:
        number = one.register_schema("a", FIRST)
        assert json.loads(two.get_schema(number).schema_str) == json.loads(FIRST.schema_str)

    async def subjects() -> list[str]:
        async with AsyncSchemaRegistryClient.new_client(conf) as client:
            return await client.get_subjects()

    assert asyncio.run(subjects()) == ["a"]


def test_each_client_without_a_name_has_its_own_registry() -> None:
    with (
        SchemaRegistryClient({"url": "mock://"}) as one,
        SchemaRegistryClient({"url": "mock://"}) as two,
        SchemaRegistryClient({"url": "mock://another-name"}) as three,
    ):
        one.register_schema("a", FIRST)
        assert [client.get_subjects() for client in (one, two, three)] == [["a"], [], []]


def test_incompatible_schemas_are_refused() -> None:
    with SchemaRegistryClient({"url": "mock://"}) as client:
        client.register_schema("a", FIRST)
        with pytest.raises(SchemaRegistryError) as caught:
            client.register_schema("a", OTHER)
    assert caught.value.http_status_code == 409


def test_a_registry_without_a_name_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    close = MockSchemaRegistry.close

    def recorded(registry: MockSchemaRegistry, *, wait: bool = True) -> None:
        closed.append(registry.url)
        close(registry, wait=wait)

    monkeypatch.setattr(MockSchemaRegistry, "close", recorded)
    config = parse({"url": "mock://"})
    url = config.base_urls[0].url
    assert url not in closed
    del config
    gc.collect()
    assert url in closed  # others may be those of earlier tests


def test_a_forked_child_leaves_the_registry_alone() -> None:
    code = """
import os, sys
from kafka_native.schema_registry import Schema, SchemaRegistryClient
named, own = (SchemaRegistryClient({"url": f"mock://{name}"}) for name in ("n", ""))
child = os.fork()
if child == 0:
    del named, own
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
print(named.register_schema("a", Schema('"int"')), own.register_schema("a", Schema('"int"')))
"""
    assert output(sys.executable, "-W", "ignore", "-c", code) == "1 1\n"
