"""Every declaration against Kafka's own definition of the same message."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kafka_definitions import Definition, children, default, in_range, snake
from message_filling import as_dict

from kafka_native.protocol import ApiKey, registry
from kafka_native.protocol.api_keys import ApiKey as DeclaredKeys
from kafka_native.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka_native.protocol.headers import RequestHeader, ResponseHeader
from kafka_native.protocol.schema import (
    Field,
    Request,
    Struct,
    Versioned,
    array,
    int16,
    int32,
    string,
    struct,
)

DECLARED: list[type[Versioned]] = [
    *registry.messages(),
    RequestHeader,
    ResponseHeader,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]

# Fields of the oldest brokers that the definitions no longer have, by version.
OLDER = {
    ("ListOffsetsRequest", "topics.partitions.max_num_offsets"): "0",
    ("ListOffsetsResponse", "topics.partitions.old_style_offsets"): "0",
    ("OffsetCommitRequest", "topics.partitions.commit_timestamp"): "1",
    ("DescribeConfigsResponse", "results.configs.is_default"): "0",
}

REQUIRED = {
    ApiKey.API_VERSIONS: (0, 5),
    ApiKey.METADATA: (0, 13),
    ApiKey.PRODUCE: (3, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.INIT_PRODUCER_ID: (0, 6),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6),
    ApiKey.DELETE_GROUPS: (0, 3),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1),
    ApiKey.UNREGISTER_CONTROLLER: (0, 0),
}


def differences(cls: type[Versioned], definition: Definition) -> list[str]:
    """Return the differences of a declaration and a definition, version by version."""
    found = []
    first, _, last = definition["validVersions"].partition("-")
    if cls.__name__ != definition["name"]:
        found.append(f"the name is {definition['name']}")
    if cls.min_version > int(first) or cls.max_version > int(last or first):
        found.append(f"versions {cls.versions}, Kafka has {definition['validVersions']}")
    for version in range(int(first), cls.max_version + 1):
        if cls.flexible.has(version) != in_range(definition["flexibleVersions"], version):
            found.append(
                f"v{version}: flexible {cls.flexible}, Kafka has {definition['flexibleVersions']}"
            )
        found += _compare(definition, cls, definition["fields"], version, "")
    return found


def _compare(
    definition: Definition, cls: type[Struct], fields: list[Definition], version: int, path: str
) -> list[str]:
    found = []
    ours = {field.name: field for field in cls.fields if field.versions.has(version)}
    theirs = {
        snake(field["name"]): field for field in fields if in_range(field["versions"], version)
    }
    if list(ours) != list(theirs):
        found.append(f"v{version}: {path or 'fields'} {list(ours)}, Kafka has {list(theirs)}")
    for name in ours.keys() & theirs.keys():
        field, theirs_field = ours[name], theirs[name]
        mine, its = _facts(field, version), _definition_facts(definition, theirs_field, version)
        if mine != its:
            found.append(f"v{version}: {path}{name} is {mine}, Kafka has {its}")
        nested = children(definition, theirs_field)
        if nested is not None and field.struct is not None:
            found += _compare(definition, field.struct, nested, version, f"{path}{name}.")
    return found


def _facts(field: Field, version: int) -> dict[str, Any]:
    kind = field.kind if field.kind != "array" else f"[]{field.item}"
    value = [] if field.default is list else field.default
    if isinstance(value, type):
        value = as_dict(value())
    return {
        "type": kind,
        "nullable": field.nullable.has(version),
        "tag": field.tag,
        "default": value,
        "ignorable": field.ignorable,
        "flexible": field.flexible,
    }


def _definition_facts(definition: Definition, field: Definition, version: int) -> dict[str, Any]:
    prefix = "[]" if field["type"].startswith("[]") else ""
    kind = field["type"].removeprefix("[]")
    return {
        "type": prefix + ("struct" if kind[0].isupper() else kind),
        "nullable": in_range(field.get("nullableVersions", "none"), version),
        "tag": field["tag"]
        if "tag" in field and in_range(field["taggedVersions"], version)
        else None,
        "default": default(definition, field),
        "ignorable": field.get("ignorable", False),
        "flexible": field.get("flexibleVersions") != "none",
    }


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_declaration_matches_kafkas_definition(
    cls: type[Versioned], definitions: dict[str, Definition]
) -> None:
    definition = definitions[cls.__name__]
    assert differences(cls, definition) == []
    if definition["type"] in ("request", "response"):
        assert getattr(cls, "api_key", None) == definition["apiKey"]
        assert definition["type"] == ("request" if issubclass(cls, Request) else "response")


def _declared_ranges(cls: type[Struct], path: str = "") -> dict[str, Field]:
    found = {}
    for field in cls.fields:
        found[path + field.name] = field
        if field.struct is not None:
            found |= _declared_ranges(field.struct, f"{path}{field.name}.")
    return found


def _defined_names(definition: Definition, fields: list[Definition], path: str = "") -> set[str]:
    found = set()
    for field in fields:
        found.add(path + snake(field["name"]))
        found |= _defined_names(
            definition, children(definition, field) or [], f"{path}{snake(field['name'])}."
        )
    return found


def test_fields_that_kafka_dropped_are_only_in_versions_that_it_dropped(
    definitions: dict[str, Definition],
) -> None:
    extra = {}
    for cls in DECLARED:
        definition = definitions[cls.__name__]
        known = _defined_names(definition, definition["fields"])
        for path, field in _declared_ranges(cls).items():
            if path not in known:
                extra[cls.__name__, path] = str(field.versions)
                assert field.versions.last < int(definition["validVersions"].partition("-")[0])
    assert extra == OLDER


def test_every_module_of_messages_is_registered() -> None:
    package = Path(registry.__file__).parent
    holders = {
        path.stem
        for path in package.glob("*.py")
        if path.stem != "schema" and "api_key=ApiKey." in path.read_text()
    }
    assert holders == set(registry.FAMILIES)
    for name, keys in registry.FAMILIES.items():
        module = vars(import_module(f"kafka_native.protocol.{name}")).values()
        declared = [
            each.api_key for each in module if isinstance(each, type) and hasattr(each, "api_key")
        ]
        assert sorted(declared) == sorted(2 * keys), name  # a request and a response each


@pytest.mark.parametrize("key", sorted(set(registry.api_keys())), ids=lambda key: key.name)
def test_kafkas_newest_version_is_declared(key: ApiKey, definitions: dict[str, Definition]) -> None:
    definition = definitions[registry.request(key).__name__]
    assert str(registry.request(key).max_version) == definition["validVersions"].rpartition("-")[2]


@pytest.mark.parametrize("key", REQUIRED, ids=lambda key: key.name)
def test_promised_versions_are_declared(key: ApiKey) -> None:
    first, last = REQUIRED[key]
    for cls in (registry.request(key), registry.response(key)):
        assert cls.min_version <= first
        assert cls.max_version >= last
    assert registry.request(key).versions == registry.response(key).versions
    assert registry.request(key).flexible == registry.response(key).flexible


def test_api_keys_are_kafkas(definitions: dict[str, Definition]) -> None:
    numbers = {
        snake(d["name"][:-7]).upper(): d["apiKey"]
        for d in definitions.values()
        if d["type"] == "request"
    }
    assert {key.name: key.value for key in DeclaredKeys} == numbers


class _Wrong:
    class MetadataRequest(Versioned, versions="0-14", flexible="8+"):
        class Topic(Struct):
            topic_id: int = int32("10+")
            name: str = string("0+")

        class Other(Struct):
            value: int = int16("0+")

        topics: list[Topic] = array(Topic, "0+")
        allow_auto_topic_creation: bool = int16("4+", default=1)
        other: Other = struct(Other, "3+")


def test_a_wrong_declaration_is_noticed(definitions: dict[str, Definition]) -> None:
    found = "\n".join(differences(_Wrong.MetadataRequest, definitions["MetadataRequest"]))
    assert "versions 0-14, Kafka has 0-13" in found
    assert "v8: flexible 8+, Kafka has 9+" in found
    assert "v10: topics.topic_id is {'type': 'int32'" in found
    assert "v10: topics.name is {'type': 'string', 'nullable': False" in found
    assert "v3: fields ['topics', 'other']" in found
    assert "include_topic_authorized_operations" in found
    assert "'default': 1" in found
