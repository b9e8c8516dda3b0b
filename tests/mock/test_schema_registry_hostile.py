"""Requests without sense get an answer: the mock registry never fails itself."""

from __future__ import annotations

import json
import random
from typing import Any

from kafka_native.mock.schema_registry.routes import _ROUTES, Routes
from tests.mock.registry_calls import optional, record

VALUES: list[Any] = [
    None, True, 5, -1, "x", "", [], {}, [5], {"a": 5}, {"properties": 5},
    {"properties": {"a": "b"}}, {"domainRules": 5}, {"domainRules": [5]},
    {"domainRules": [{"name": "r"}]},
]  # fmt: skip
SCHEMAS = [
    record("id"),
    record("id", optional("note")),
    record("id", "price"),
    '{"type":"object"}',
    'syntax = "proto3"; message M {}',
    "{",
]
KEYS = [
    "metadata", "ruleSet", "id", "version", "compatibility", "alias", "normalize", "shared",
    "compatibilityGroup", "defaultMetadata", "overrideMetadata", "defaultRuleSet", "references",
    "overrideRuleSet", "kmsProps", "doc", "algorithm", "lifecycle", "frozen", "associations",
]  # fmt: skip
PARTS = ["a", "b", "k", "1", "2", "latest", "-1", "0", ":.x:a", ":.x:", "%2F"]
FLAGS = ["deleted", "permanent", "normalize", "force", "defaultToGlobal", "deletedOnly", "verbose"]
TEXTS = ["subject", "format", "offset", "limit", "subjectPrefix", "algorithm", "key", "value"]


def body(chance: random.Random) -> bytes:
    """Return a body that is right in some places."""
    if chance.random() < 0.05:
        return chance.choice([b"", b"{", b"[]", b"5", b"null", b'"x"', b"\xff"])
    fields: dict[str, Any] = {
        "schema": chance.choice(SCHEMAS),
        "schemaType": chance.choice(["AVRO", "JSON", "PROTOBUF"]),
        "mode": chance.choice(["READWRITE", "IMPORT"]),
        **dict.fromkeys(("name", "kmsType", "kmsKeyId", "subject"), "k"),
        **dict.fromkeys(("resourceName", "resourceNamespace", "resourceId"), "k"),
        "encryptedKeyMaterial": "YQ==",
        "associations": [{"subject": chance.choice(["a", 5]), "associationType": "value"}],
    }
    for key in chance.sample([*KEYS, *fields], chance.randint(0, 4)):
        fields[key] = chance.choice(VALUES)
    return json.dumps(fields).encode()


def test_every_request_gets_an_answer() -> None:
    chance = random.Random("registry")
    routes = Routes()
    counts: dict[int, int] = {}
    for _ in range(10_000):
        method, pattern, _ = chance.choice(_ROUTES)
        path = pattern.pattern.replace("\\", "")
        while "([^/]+)" in path:
            path = path.replace("([^/]+)", chance.choice(PARTS), 1)
        query = [f"{key}={chance.choice(['true', 'false'])}" for key in chance.sample(FLAGS, 2)]
        query.append(f"{chance.choice(TEXTS)}={chance.choice([*PARTS, '', 'serialized'])}")
        data = body(chance) if method in ("POST", "PUT") else b""
        answer = routes.answer(method, f"{path}?{'&'.join(query)}", data)
        counts[answer.status] = counts.get(answer.status, 0) + 1
        if answer.status >= 400:
            assert set(json.loads(answer.body)) == {"error_code", "message"}
    assert counts.keys() == {200, 204, 404, 409, 422}
    assert counts[200] > 1000
