"""Each call sends the request that confluent_kafka's client sends, and returns the same result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import kafka_native.schema_registry as ours
from kafka_native.mock import MockSchemaRegistry
from tests.registry.client.conftest import Caller
from tests.registry.client.server import Answer, Server

theirs = pytest.importorskip("confluent_kafka.schema_registry")

GUID = "0b3a4e24-8c1c-4b26-9a94-1cbb9f2d8a11"
RULE = {
    "name": "check",
    "doc": "a rule",
    "kind": "CONDITION",
    "mode": "WRITE",
    "type": "CEL",
    "tags": ["PII"],
    "params": {"a": "b"},
    "expr": "true",
    "onSuccess": "NONE",
    "onFailure": "DLQ",
    "disabled": False,
}
METADATA = {"tags": {"**.name": ["PII"]}, "properties": {"owner": "me"}, "sensitive": ["owner"]}
RULE_SET = {"migrationRules": [RULE], "domainRules": [RULE], "encodingRules": [], "enableAt": "now"}
SCHEMA = {
    "schema": '"string"',
    "schemaType": "AVRO",
    "references": [{"name": "a", "subject": "b", "version": 3}],
    "metadata": METADATA,
    "ruleSet": RULE_SET,
}
REGISTERED = {**SCHEMA, "id": 7, "guid": GUID, "subject": "s/1", "version": 2}
CONFIG = {
    "compatibility": "FULL",
    "compatibilityLevel": "BACKWARD",
    "compatibilityGroup": "major",
    "defaultMetadata": METADATA,
    "overrideMetadata": METADATA,
    "defaultRuleSet": RULE_SET,
    "overrideRuleSet": RULE_SET,
}
ASSOCIATION = {
    "subject": "s",
    "guid": GUID,
    "resourceName": "t",
    "resourceNamespace": "-",
    "resourceId": "i",
    "resourceType": "topic",
    "associationType": "value",
    "frozen": True,
}
ANSWERED = {
    "resourceName": "t",
    "associations": [{"subject": "s", "lifecycle": "WEAK", "frozen": False, "schema": SCHEMA}],
}
ASKED = {
    "resourceName": "t",
    "resourceNamespace": "-",
    "resourceId": "i",
    "resourceType": "topic",
    "associations": [
        {"subject": "s", "associationType": "key", "lifecycle": "STRONG", "schema": SCHEMA}
    ],
}
SUBJECT = "s/1 ä?&%:"

S = "Schema"
C = "ServerConfig"
CALLS: list[tuple[str, list[Any], dict[str, Any], Any]] = [
    ("register_schema", [SUBJECT, S], {}, {"id": 7}),
    ("register_schema", [SUBJECT, S], {"normalize_schemas": True}, REGISTERED),
    ("register_schema_full_response", [SUBJECT, S], {}, REGISTERED),
    ("register_schema_full_response", [SUBJECT, S, True], {}, {**REGISTERED, "subject": None}),
    ("get_schema", [7], {}, SCHEMA),
    ("get_schema", [7, SUBJECT, "resolved", "x"], {}, REGISTERED),
    ("get_schema_by_guid", [GUID], {}, REGISTERED),
    ("get_schema_by_guid", [GUID], {"fmt": "serialized"}, REGISTERED),
    ("get_schema_types", [], {}, ["AVRO", "JSON"]),
    ("get_subjects_by_schema_id", [7], {}, ["a", "b"]),
    ("get_subjects_by_schema_id", [7, "a", True, 1, 2], {}, []),
    ("get_schema_versions", [7], {}, [{"subject": "a", "version": 1}]),
    ("get_schema_versions", [7, "a", True, 1, 2], {}, []),
    ("lookup_schema", [SUBJECT, S], {}, REGISTERED),
    ("lookup_schema", [SUBJECT, S, True, "serialized", True], {}, REGISTERED),
    ("get_subjects", [], {}, ["a"]),
    ("get_subjects", ["a/", True, True, 3, 4], {}, ["a"]),
    ("delete_subject", [SUBJECT], {}, [1, 2]),
    ("delete_subject", [SUBJECT, True], {}, [1, 2]),
    ("get_latest_version", [SUBJECT], {}, REGISTERED),
    ("get_latest_version", [SUBJECT, "serialized"], {}, REGISTERED),
    ("get_latest_with_metadata", [SUBJECT, {"major": "1", "owner": "me"}], {}, REGISTERED),
    ("get_latest_with_metadata", [SUBJECT, {}, True, "serialized"], {}, REGISTERED),
    ("get_version", [SUBJECT], {}, REGISTERED),
    ("get_version", [SUBJECT, 2, True, "serialized"], {}, REGISTERED),
    ("get_referenced_by", [SUBJECT], {}, [4, 5]),
    ("get_referenced_by", [SUBJECT, 1, 2, 3], {}, [4, 5]),
    ("get_versions", [SUBJECT], {}, [1]),
    ("get_versions", [SUBJECT, True, True, 2, 3], {}, [1]),
    ("delete_version", [SUBJECT, 2], {}, 2),
    ("delete_version", [SUBJECT, 2, True], {}, 2),
    ("set_compatibility", [], {"level": "full"}, {"compatibility": "FULL"}),
    ("set_compatibility", [SUBJECT, "NONE"], {}, {"compatibility": "NONE"}),
    ("get_compatibility", [], {}, {"compatibilityLevel": "FULL"}),
    ("get_compatibility", [SUBJECT], {}, {"compatibilityLevel": "FULL"}),
    ("test_compatibility", [SUBJECT, S], {}, {"is_compatible": True}),
    ("test_compatibility", [SUBJECT, S, 3, True, True], {}, {"is_compatible": False}),
    ("test_compatibility_all_versions", [SUBJECT, S], {}, {"is_compatible": True}),
    ("test_compatibility_all_versions", [SUBJECT, S, True, True], {}, {"is_compatible": False}),
    ("set_config", [], {"config": C}, CONFIG),
    ("set_config", [SUBJECT, C], {}, CONFIG),
    ("delete_config", [], {}, CONFIG),
    ("delete_config", [SUBJECT], {}, {}),
    ("get_config", [], {}, CONFIG),
    ("get_config", [SUBJECT], {}, CONFIG),
    ("get_mode", [SUBJECT], {}, {"mode": "IMPORT"}),
    ("update_mode", [SUBJECT, "IMPORT"], {}, {"mode": "IMPORT"}),
    ("update_mode", [SUBJECT, "IMPORT", True], {}, {"mode": "IMPORT"}),
    ("delete_mode", [SUBJECT], {}, {"mode": "READWRITE"}),
    ("get_global_mode", [], {}, {"mode": "READWRITE"}),
    ("update_global_mode", ["READONLY", True], {}, {"mode": "READONLY"}),
    ("get_contexts", [], {}, ["."]),
    ("get_contexts", [1, 2], {}, [".", ".a"]),
    ("get_associations_by_resource_name", ["t", "-"], {}, [ASSOCIATION]),
    ("get_associations_by_resource_name", ["t", "c", "topic", ["key", "value"], 1, 2], {}, []),
    ("create_association", ["Request"], {}, ANSWERED),
    ("delete_associations", ["i"], {}, None),
    ("delete_associations", ["i", "topic", ["key"], True], {}, None),
]


OWN_CALLS = {"explain_compatibility"}
"""Calls that confluent_kafka's client doesn't have."""


def with_values(arguments: Any, module: Any) -> Any:
    """Return the arguments with a package's own value types."""
    values = {
        "Schema": lambda: module.Schema.from_dict(SCHEMA),
        "ServerConfig": lambda: module.ServerConfig.from_dict(CONFIG),
        "Request": lambda: module.AssociationCreateOrUpdateRequest.from_dict(ASKED),
    }

    def value(argument: Any) -> Any:
        is_type = isinstance(argument, str) and argument in values
        return values[argument]() if is_type else argument

    if isinstance(arguments, dict):
        return {name: value(each) for name, each in arguments.items()}
    return [value(each) for each in arguments]


def plain(value: Any) -> Any:
    """Return a result without the types of its package."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if hasattr(value, "to_dict"):
        return type(value).__name__, value.to_dict()
    if dataclasses.is_dataclass(value) or hasattr(value, "__attrs_attrs__"):
        return type(value).__name__, repr(value)
    return value


@pytest.mark.parametrize(
    ("name", "args", "options", "answer"),
    CALLS,
    ids=[f"{call[0]}-{index}" for index, call in enumerate(CALLS)],
)
def test_a_call_is_that_of_confluent_kafka(
    server: Server,
    connect: Callable[..., Caller],
    name: str,
    args: list[Any],
    options: dict[str, Any],
    answer: Any,
) -> None:
    server.answer(Answer(body=answer) if answer is not None else Answer(status=204, body=b""))
    with theirs.SchemaRegistryClient({"url": server.url}) as client:
        expected = getattr(client, name)(*with_values(args, theirs), **with_values(options, theirs))
    (sent,) = server.requests
    server.requests.clear()
    found = connect()(name, *with_values(args, ours), **with_values(options, ours))
    # Registries read deletedOnly: confluent_kafka's name has no effect.
    query = [("deletedOnly" if key == "deleted_only" else key, value) for key, value in sent.query]
    sent = dataclasses.replace(sent, query=query)
    assert [each.meaning() for each in server.requests] == [sent.meaning()]
    assert plain(found) == plain(expected)


def test_only_deleted_subjects_and_versions(connect: Callable[..., Caller]) -> None:
    with MockSchemaRegistry() as registry:
        caller = connect({"url": registry.url})
        for subject in ("a", "b"):
            caller("register_schema", subject, ours.Schema('"int"'))
        caller("register_schema", "b", ours.Schema('"long"'))
        caller("delete_subject", "a")
        caller("delete_version", "b", 1)
        assert caller("get_subjects", deleted=True) == ["a", "b"]
        assert caller("get_subjects", deleted_only=True) == ["a"]
        assert caller("get_versions", "b", deleted=True) == [1, 2]
        assert caller("get_versions", "b", deleted_only=True) == [1]


def test_every_call_is_in_the_table() -> None:
    others = {"new_client", "config", "close", "clear_caches", "clear_latest_caches"}
    public = {name for name in vars(ours.SchemaRegistryClient) if not name.startswith("_")}
    assert public - others - OWN_CALLS == {call[0] for call in CALLS}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"is_compatible": True, "messages": ["an old remark"]}, []),
        ({"is_compatible": False, "messages": ["field a is\nmissing", "b"]}, ["field a is missing", "b"]),
        ({"is_compatible": False}, ["the registry gave no reason"]),
    ],
)  # fmt: skip
def test_reasons_of_an_incompatible_schema(
    server: Server, connect: Callable[..., Caller], answer: Any, expected: list[str]
) -> None:
    server.answer(Answer(body=answer))
    caller = connect()
    assert caller("explain_compatibility", SUBJECT, ours.Schema('"int"')) == expected
    assert caller("explain_compatibility", SUBJECT, ours.Schema('"int"'), 3, True) == expected
    found = [each.meaning() for each in server.requests]
    server.requests.clear()
    caller("test_compatibility_all_versions", SUBJECT, ours.Schema('"int"'), verbose=True)
    caller("test_compatibility", SUBJECT, ours.Schema('"int"'), 3, True, True)
    assert [each.meaning() for each in server.requests] == found


def test_headers_of_a_request(server: Server, connect: Callable[..., Caller]) -> None:
    server.answer(Answer(body=REGISTERED))
    caller = connect()
    caller("register_schema", "s", ours.Schema('"int"'))
    caller("get_schema", 8)
    write, read = (each.headers for each in server.requests)
    assert write["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert write["Confluent-Accept-Unknown-Properties"] == "true"
    for headers in (write, read):
        assert headers["User-Agent"].startswith("kafka-native/")
        assert headers["Accept"].startswith("application/vnd.schemaregistry.v1+json")
        assert headers["Accept-Encoding"] == "identity"
        assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("name", "what"), [("set_config", "config"), ("set_compatibility", "level")]
)
def test_a_missing_argument_sends_nothing(
    server: Server, connect: Callable[..., Caller], name: str, what: str
) -> None:
    with pytest.raises(ValueError, match=f"{what} is missing"):
        connect()(name)
    assert server.requests == []
