"""The mock registry answers as Apicurio Registry does, which others wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kafka_native.mock import MockSchemaRegistry
from tests.broker import java
from tests.mock import apicurio
from tests.mock.registry_calls import Reply, call, optional, record
from tests.mock.test_schema_registry_compatibility import AVRO, INT, JSON, TEXT, closed, opened

pytestmark = pytest.mark.slow

TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
Both = Callable[..., tuple[Reply, Reply]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Yield a function that sends a request to Apicurio and to the mock registry."""
    if why := java.missing():
        pytest.skip(f"no Apicurio Registry: {why}")
    folder: Path = tmp_path_factory.mktemp("apicurio")
    with apicurio.running(folder) as url, MockSchemaRegistry() as registry:
        prefix = urlsplit(url).path

        def send(method: str, path: str, body: Any = None) -> tuple[Reply, Reply]:
            theirs = call(url, method, prefix + path, body, TYPE)
            return theirs, call(registry.url, method, path, body, TYPE)

        send("PUT", "/config", {"compatibility": "BACKWARD"})
        yield send


def outcome(answer: Reply) -> Any:
    """Return what both registries have to agree on. The ids and the sentences differ."""
    body = answer.body
    if isinstance(body, dict):
        if "error_code" in body:
            return body["error_code"]
        kept = ("subject", "version", "schemaType", "is_compatible", "compatibility")
        found = {key: body[key] for key in (*kept, "compatibilityLevel") if key in body}
        if "id" in body and "subject" not in body:
            return "registered"
        if "schema" in body and body.get("schemaType") != "PROTOBUF":
            found["schema"] = json.loads(body["schema"])
        return found
    return sorted(body) if isinstance(body, list) else body


ONE, TWO = {"schema": record("id")}, {"schema": record("id", optional("note"))}
BROKEN = {"schema": record("id", "price")}
LIFE: list[tuple[str, str, Any]] = [
    ("GET", "/subjects", None),
    ("GET", "/config", None),
    ("GET", "/schemas/types", None),
    ("POST", "/subjects/a/versions", ONE),
    ("POST", "/subjects/a/versions", ONE),
    ("POST", "/subjects/b/versions", ONE),
    ("POST", "/subjects/a/versions", TWO),
    ("POST", "/subjects/a/versions", BROKEN),
    ("POST", "/subjects/a/versions", {"schema": "{"}),
    ("GET", "/subjects", None),
    ("GET", "/subjects/a/versions", None),
    ("GET", "/subjects/a/versions/1", None),
    ("GET", "/subjects/a/versions/latest", None),
    ("GET", "/subjects/a/versions/9", None),
    ("GET", "/subjects/none/versions", None),
    ("GET", "/schemas/ids/1", None),
    ("GET", "/schemas/ids/99999", None),
    ("POST", "/subjects/a", ONE),
    ("POST", "/subjects/a", BROKEN),
    ("POST", "/subjects/none", ONE),
    ("POST", "/compatibility/subjects/a/versions/latest", TWO),
    ("POST", "/compatibility/subjects/a/versions/1", BROKEN),
    ("POST", "/compatibility/subjects/a/versions", BROKEN),
    ("PUT", "/config/a", {"compatibility": "FULL"}),
    ("GET", "/config/a", None),
    ("DELETE", "/config/a", None),
    ("DELETE", "/subjects/a/versions/1", None),
    ("GET", "/subjects/a/versions", None),
    ("GET", "/subjects/a/versions?deleted=true", None),
    ("DELETE", "/subjects/a/versions/1", None),
    ("DELETE", "/subjects/b?permanent=true", None),
    ("DELETE", "/subjects/b", None),
    ("GET", "/subjects", None),
    ("GET", "/subjects?deleted=true", None),
    ("DELETE", "/subjects/b", None),
    ("DELETE", "/subjects/b?permanent=true", None),
    ("GET", "/subjects?deleted=true", None),
]


def test_a_subject_from_its_first_version_to_its_deletion(both: Both) -> None:
    different = []
    for request in LIFE:
        theirs, ours = map(outcome, both(*request))
        if theirs != ours:
            different.append((request, theirs, ours))
    assert different == []


# Apicurio has other rules than Confluent's registry here:
# - It takes no wider type and no choice of types for a narrower type.
# - It doesn't count defaults of required properties, and properties of any value.
# - It doesn't count patterns of properties.
# - It reads draft 7, which has no prefixItems and no dependentRequired.
# Its rules for Protobuf, in which the names of fields count, are no measure for these.
DIFFERENT: list[tuple[Any, Any]] = [
    (TEXT, {"type": ["string", "null"]}),
    (TEXT, {"oneOf": [TEXT, INT]}),
    (opened(a=TEXT), opened(a=TEXT, b={})),
    (closed(a=TEXT), closed(a=TEXT, b=TEXT | {"default": "x"}) | {"required": ["b"]}),
    (
        closed(a=TEXT) | {"patternProperties": {"^x": TEXT}},
        closed(a=TEXT, x1=INT) | {"patternProperties": {"^x": TEXT}},
    ),
    (
        {"type": "array", "prefixItems": [TEXT]},
        {"type": "array", "prefixItems": [TEXT, INT]},
    ),
    (
        opened() | {"dependentRequired": {"a": ["b"]}},
        opened() | {"dependentRequired": {"a": ["b", "c"]}},
    ),
]
DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}


def are_compatible(both: Both, subject: str, kind: str, old: str, new: str) -> list[Any]:
    """Return both answers to the question whether a schema may follow another one."""
    body = {"schemaType": kind}
    for answer in both("POST", f"/subjects/{subject}/versions", body | {"schema": old}):
        assert answer.status == 200, answer
    path = f"/compatibility/subjects/{subject}/versions/latest"
    return [outcome(answer) for answer in both("POST", path, body | {"schema": new})]


def test_compatibility_of_avro(both: Both) -> None:
    for number, (old, new, problems) in enumerate(AVRO):
        answers = are_compatible(both, f"avro-{number}", "AVRO", old, new)
        assert answers == [{"is_compatible": not problems}] * 2, (old, new)


def test_compatibility_of_json_schemas(both: Both) -> None:
    compared = [(old, new) for old, new, _ in JSON if isinstance(new, dict)]
    assert len(compared) > 50
    different = []
    for number, (old, new) in enumerate(compared):
        texts = json.dumps(DRAFT | old), json.dumps(DRAFT | new)
        theirs, ours = are_compatible(both, f"json-{number}", "JSON", *texts)
        if theirs != ours:
            different.append((old, new))
    assert sorted(different, key=json.dumps) == sorted(DIFFERENT, key=json.dumps)
