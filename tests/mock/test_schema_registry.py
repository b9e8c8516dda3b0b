"""The REST API of the mock registry, request by request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native.mock import MockSchemaRegistry
from tests.mock.registry_calls import Reply, call, optional, record

JSON = "application/vnd.schemaregistry.v1+json"


class Rest:
    """Short calls to a registry."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, method: str, path: str, body: Any = None) -> Reply:
        return call(self.url, method, path, body)

    def get(self, path: str) -> Any:
        answer = self("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def register(self, subject: str, schema: str, **more: Any) -> int:
        answer = self("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})
        assert answer.status == 200, answer
        return int(answer.body["id"])

    def error(self, method: str, path: str, body: Any = None) -> int:
        answer = self(method, path, body)
        assert set(answer.body) == {"error_code", "message"}, answer
        assert str(answer.body["error_code"]).startswith(str(answer.status))
        assert answer.headers["Content-Type"] == JSON
        return int(answer.body["error_code"])


@pytest.fixture
def rest() -> Iterator[Rest]:
    with MockSchemaRegistry() as registry:
        yield Rest(registry.url)


ONE, TWO = record("id"), record("id", optional("note"))
BROKEN = record("id", "price")


def test_same_schema_has_one_id_in_all_subjects(rest: Rest) -> None:
    assert rest.register("a", ONE) == rest.register("a", ONE) == rest.register("b", ONE) == 1
    assert rest.register("a", json.dumps(json.loads(ONE), indent=4)) == 1
    assert rest.register("a", TWO) == 2
    assert rest.get("/subjects") == ["a", "b"]
    assert rest.get("/subjects/a/versions") == [1, 2]
    assert rest.get("/schemas/ids/1/subjects") == ["a", "b"]
    assert rest.get("/schemas/ids/1/versions") == [
        {"subject": "a", "version": 1},
        {"subject": "b", "version": 1},
    ]
    assert rest.get("/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]


def test_registration_returns_everything_about_the_version(rest: Rest) -> None:
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "expr": "true"}]}
    body = {"schema": ONE, "metadata": {"properties": {"owner": "ada"}}, "ruleSet": rules}
    answer = rest("POST", "/subjects/a/versions", body)
    assert answer.headers["Content-Type"] == JSON
    assert {key: value for key, value in answer.body.items() if key != "guid"} == {
        "id": 1,
        "version": 1,
        "schema": ONE,
        "metadata": body["metadata"],
        "ruleSet": rules,
    }
    stored = json.dumps(json.loads(ONE), separators=(",", ":"))
    expected = {"subject": "a", **answer.body, "schema": stored}
    assert rest.get("/subjects/a/versions/latest") == expected
    by_guid = rest.get(f"/schemas/guids/{answer.body['guid']}")
    assert by_guid["schema"] == stored
    assert rest.get(f"/schemas/guids/{answer.body['guid']}/ids") == [
        {"context": ".", "schemaId": 1}
    ]
    assert rest.get("/schemas/ids/1?fetchMaxId=true")["maxId"] == 1
    assert rest.get("/schemas/ids/1/schema") == json.loads(ONE)
    assert rest.get("/subjects/a/versions/1/schema") == json.loads(ONE)


def test_metadata_of_the_latest_version_is_inherited_and_found(rest: Rest) -> None:
    rest.register("a", ONE, metadata={"properties": {"owner": "ada"}})
    rest.register("a", TWO)
    assert rest.get("/subjects/a/versions/2")["metadata"] == {"properties": {"owner": "ada"}}
    assert rest.get("/subjects/a/metadata?key=owner&value=ada")["version"] == 2
    assert rest.error("GET", "/subjects/a/metadata?key=owner&value=bob") == 40403
    # A lookup without metadata finds the schema all the same.
    assert rest("POST", "/subjects/a", {"schema": ONE}).body["version"] == 1


def test_empty_lists_and_nulls_of_rules_mean_nothing(rest: Rest) -> None:
    rule = {"name": "r", "kind": "CONDITION", "type": "CEL", "expr": "true"}
    body = {"schema": ONE, "ruleSet": {"domainRules": [rule]}}
    registered = rest("POST", "/subjects/a/versions", body).body
    rules = {"migrationRules": [], "domainRules": [{**rule, "doc": None}], "encodingRules": None}
    found = rest("POST", "/subjects/a", {**body, "ruleSet": rules}).body
    assert (found["version"], found["guid"]) == (1, registered["guid"])
    other = {"domainRules": [{**rule, "expr": "false"}]}
    assert rest.error("POST", "/subjects/a", {**body, "ruleSet": other}) == 40403


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/subjects/none/versions", 40401),
        ("GET", "/subjects/a/versions/9", 40402),
        ("GET", "/schemas/ids/9", 40403),
        ("GET", "/schemas/ids/9/versions", 40403),
        ("GET", "/schemas/guids/00000000-0000-0000-0000-000000000000", 40403),
        ("GET", "/subjects/a/versions/0", 42202),
        ("GET", "/subjects/a/versions/x", 42202),
        ("GET", "/config/a", 40408),
        ("GET", "/mode/a", 40409),
        ("DELETE", "/subjects/none", 40401),
        ("DELETE", "/subjects/a?permanent=true", 40405),
        ("DELETE", "/subjects/a/versions/1?permanent=true", 40407),
        ("GET", "/nowhere", 404),
        ("PUT", "/subjects", 405),
        ("GET", "/exporters", 501),
    ],
)
def test_errors_have_the_codes_of_the_real_registry(
    rest: Rest, method: str, path: str, code: int
) -> None:
    rest.register("a", ONE)
    assert rest.error(method, path) == code


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/subjects/a/versions", {"schema": BROKEN}, 409),
        ("/subjects/a/versions", {"schema": "{"}, 42201),
        ("/subjects/a/versions", {"schema": ""}, 42201),
        ("/subjects/a/versions", {"schema": ONE, "schemaType": "XML"}, 42201),
        ("/subjects/a/versions", {"schema": '{"type": 5}', "schemaType": "JSON"}, 42201),
        ("/subjects/a/versions", {"schema": "message {", "schemaType": "PROTOBUF"}, 42201),
        ("/subjects/a/versions", {"schema": ONE, "id": 7}, 42205),
        ("/subjects/a/versions", {"schema": '"x.Y"'}, 42201),
        ("/subjects/a/versions", {"schema": TWO, "references": 5}, 42201),
        ("/subjects/a/versions", {"schema": TWO, "references": [{"name": "x"}]}, 42201),
        ("/subjects/a/versions", {"schema": TWO, "metadata": {"properties": {"a": 5}}}, 422),
        ("/subjects/a/versions", {"schema": TWO, "ruleSet": {"domainRules": [{}]}}, 422),
        ("/subjects/a/versions", {"schema": TWO, "id": "x"}, 422),
        ("/subjects/a/versions", b"{", 422),
        ("/subjects/a/versions", [], 422),
        ("/subjects/none", {"schema": ONE}, 40401),
        ("/subjects/a", {"schema": TWO}, 40403),
        ("/subjects/__GLOBAL/versions", {"schema": ONE}, 42208),
    ],
)
def test_bodies_that_are_refused(rest: Rest, path: str, body: Any, code: int) -> None:
    rest.register("a", ONE)
    assert rest.error("POST", path, body) == code
    assert rest.get("/subjects/a/versions") == [1]


def test_nesting_without_end_is_an_error_and_no_crash(rest: Rest) -> None:
    for kind, text in (
        ("AVRO", '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000),
        ("JSON", '{"items":' * 5000 + "{}" + "}" * 5000),
        ("PROTOBUF", "message M {" * 5000),
    ):
        body = {"schema": text, "schemaType": kind}
        assert rest.error("POST", "/subjects/deep/versions", body) == 42201
    assert rest.get("/subjects") == []


def test_deletion_is_soft_first(rest: Rest) -> None:
    rest.register("a", ONE)
    rest.register("a", TWO)
    assert rest("DELETE", "/subjects/a/versions/1").body == 1
    assert rest.error("DELETE", "/subjects/a/versions/1") == 40406
    assert rest.get("/subjects/a/versions") == [2]
    assert rest.get("/subjects/a/versions?deleted=true") == [1, 2]
    assert rest.get("/subjects/a/versions?deletedOnly=true") == [1]
    assert rest.get("/subjects/a/versions/1?deleted=true")["deleted"] is True
    assert rest.get("/schemas/ids/1")["schema"]  # messages with this id stay readable
    assert rest.error("POST", "/subjects/a", {"schema": ONE}) == 40403
    assert rest("POST", "/subjects/a?deleted=true", {"schema": ONE}).body["version"] == 1
    assert rest("DELETE", "/subjects/a").body == [2]
    assert rest.error("DELETE", "/subjects/a") == 40404
    assert rest.get("/subjects") == []
    assert rest.get("/subjects?deleted=true") == rest.get("/subjects?deletedOnly=true") == ["a"]
    assert rest.register("a", ONE) == 1  # the same id, in a new version
    assert rest.get("/subjects/a/versions") == [3]
    rest("DELETE", "/subjects/a")
    assert rest("DELETE", "/subjects/a?permanent=true").body == [1, 2, 3]
    assert rest.error("GET", "/schemas/ids/1") == 40403
    assert rest.register("a", TWO) > 2
    assert rest.get("/subjects/a/versions") == [1]


def test_version_can_be_deleted_for_good(rest: Rest) -> None:
    rest.register("a", ONE)
    rest.register("a", TWO)
    rest("DELETE", "/subjects/a/versions/latest")
    assert rest("DELETE", "/subjects/a/versions/2?permanent=true").body == 2
    assert rest.get("/subjects/a/versions?deleted=true") == [1]


def test_lists_have_prefixes_pages_and_latest_versions(rest: Rest) -> None:
    for name in ("apple", "apricot", "pear"):
        rest.register(name, ONE)
        rest.register(name, TWO)
    assert rest.get("/subjects?subjectPrefix=ap") == ["apple", "apricot"]
    assert rest.get("/subjects?offset=1&limit=1") == ["apricot"]
    found = rest.get("/schemas?subjectPrefix=ap&latestOnly=true")
    assert [(each["subject"], each["version"]) for each in found] == [("apple", 2), ("apricot", 2)]
    assert len(rest.get("/schemas")) == 6
    assert len(rest.get("/schemas?limit=4")) == 4


def test_references_are_resolved_counted_and_protected(rest: Rest) -> None:
    rest.register("address", record("street", name="Address"))
    order = record({"name": "to", "type": "Address"})
    reference = {"name": "Address", "subject": "address", "version": 1}
    own = rest.register("order", order, references=[reference])
    assert rest.register("other", order, references=[reference | {"version": -1}]) == own
    assert rest.get("/subjects/order/versions/1")["references"] == [reference]
    assert rest.get("/subjects/address/versions/1/referencedby") == [own]
    assert rest.error("DELETE", "/subjects/address") == 42206
    assert rest.error("DELETE", "/subjects/address/versions/1") == 42206
    missing = {"schema": order, "references": [reference | {"version": 5}]}
    assert rest.error("POST", "/subjects/order/versions", missing) == 42201
    rest("DELETE", "/subjects/order")
    rest("DELETE", "/subjects/other")
    assert rest("DELETE", "/subjects/address").body == [1]


@pytest.mark.parametrize(
    ("level", "accepted"),
    [
        ("NONE", [True, True, True]),
        ("BACKWARD", [True, False, True]),
        ("FORWARD", [True, True, False]),
        ("FULL", [True, False, False]),
    ],
)
def test_levels_decide_the_direction(rest: Rest, level: str, accepted: list[bool]) -> None:
    assert rest("PUT", "/config/a", {"compatibility": level.lower()}).body == {
        "compatibility": level
    }
    assert rest.get("/config/a") == {"compatibilityLevel": level}
    rest.register("a", ONE)
    for schema, is_fine in zip((TWO, BROKEN, record(optional("note"))), accepted, strict=True):
        path = "/compatibility/subjects/a/versions"
        answer = rest("POST", f"{path}/latest?verbose=true", {"schema": schema}).body
        assert answer["is_compatible"] is is_fine
        assert bool(answer["messages"]) is not is_fine
        assert rest("POST", path, {"schema": schema}).body == {"is_compatible": is_fine}
        status = rest("POST", "/subjects/b/versions", {"schema": schema}).status
        assert status == 200
        rest("DELETE", "/subjects/b")


@pytest.mark.parametrize("level", ["BACKWARD", "BACKWARD_TRANSITIVE"])
def test_transitive_levels_check_all_versions(rest: Rest, level: str) -> None:
    rest("PUT", "/config", {"compatibility": level})
    rest.register("a", ONE)
    rest.register("a", record("id", {"name": "n", "type": "string", "default": ""}))
    # It reads the second version, which has the field, and not the first one.
    third = {"schema": record("id", "n")}
    is_fine = level == "BACKWARD"
    path = "/compatibility/subjects/a/versions"
    assert rest("POST", path, third).body["is_compatible"] is is_fine
    assert rest("POST", f"{path}/1", third).body["is_compatible"] is False
    assert rest("POST", f"{path}/2", third).body["is_compatible"] is True
    assert rest("POST", "/subjects/a/versions", third).status == (200 if is_fine else 409)
    assert rest("POST", "/compatibility/subjects/none/versions/latest", third).body == {
        "is_compatible": True
    }


def test_compatibility_group_separates_versions(rest: Rest) -> None:
    rest("PUT", "/config/a", {"compatibilityGroup": "major"})
    rest.register("a", ONE, metadata={"properties": {"major": "1"}})
    rest.register("a", BROKEN, metadata={"properties": {"major": "2"}})
    body = {"schema": record("id", "more"), "metadata": {"properties": {"major": "1"}}}
    assert rest.error("POST", "/subjects/a/versions", body) == 409


def test_settings_add_metadata_and_rules(rest: Rest) -> None:
    rule = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    config = {
        "compatibility": "FULL",
        "defaultMetadata": {"properties": {"owner": "none", "team": "a"}},
        "overrideMetadata": {"properties": {"region": "eu"}},
        "overrideRuleSet": {"domainRules": [rule]},
    }
    assert rest("PUT", "/config/a", config).body == config
    rest.register("a", ONE, metadata={"properties": {"owner": "ada", "region": "us"}})
    found = rest.get("/subjects/a/versions/1")
    assert found["metadata"]["properties"] == {"owner": "ada", "team": "a", "region": "eu"}
    assert found["ruleSet"] == {"domainRules": [rule]}
    assert rest("DELETE", "/config/a").body["compatibilityLevel"] == "FULL"
    assert rest.error("GET", "/config/a") == 40408
    assert rest.get("/config/a?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert rest.error("PUT", "/config/a", {"compatibility": "SIDEWAYS"}) == 42203
    for wrong in ({"alias": 5}, {"normalize": "x"}, {"defaultMetadata": 5}, []):
        assert rest.error("PUT", "/config/a", wrong) == 422


def test_alias_leads_to_another_subject(rest: Rest) -> None:
    rest.register("orders", ONE)
    rest("PUT", "/config/old-name", {"alias": "orders"})
    assert rest.get("/subjects/old-name/versions/latest")["subject"] == "orders"


def test_modes_forbid_writing_and_allow_importing(rest: Rest) -> None:
    rest.register("a", ONE)
    assert rest("PUT", "/mode", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    assert rest.error("POST", "/subjects/a/versions", {"schema": TWO}) == 42205
    assert rest.error("DELETE", "/subjects/a") == 42205
    assert rest("PUT", "/mode/a", {"mode": "readwrite"}).body == {"mode": "READWRITE"}
    assert rest.register("a", TWO) == 2
    assert rest("DELETE", "/mode/a").body == {"mode": "READWRITE"}
    assert rest.get("/mode/a?defaultToGlobal=true") == {"mode": "READONLY"}
    assert rest.error("PUT", "/mode", {"mode": "SIDEWAYS"}) == 42204
    rest("PUT", "/mode", {"mode": "READWRITE"})
    assert rest.error("PUT", "/mode/a", {"mode": "IMPORT"}) == 42205
    assert rest("PUT", "/mode/a?force=true", {"mode": "IMPORT"}).status == 200
    assert rest("PUT", "/mode/new", {"mode": "IMPORT"}).status == 200
    assert rest.register("new", BROKEN, id=77, version=5) == 77
    assert rest.get("/subjects/new/versions") == [5]
    taken = {"schema": record("other"), "id": 77, "version": 6}
    assert rest.error("POST", "/subjects/new/versions", taken) == 42205
    assert rest.register("b", record("more")) == 78


def test_contexts_have_ids_of_their_own(rest: Rest) -> None:
    assert rest.register("a", ONE) == rest.register(":.dev:a", TWO) == 1
    assert rest.get("/contexts") == [".", ".dev"]
    assert rest.get("/subjects") == ["a", ":.dev:a"]
    assert rest.get("/subjects?subjectPrefix=:.dev:") == [":.dev:a"]
    assert rest.get("/subjects?subjectPrefix=a") == ["a"]
    assert rest.get("/contexts/.dev/subjects") == [":.dev:a"]
    assert rest.get("/contexts/:.dev:/subjects/a/versions/1")["subject"] == ":.dev:a"
    assert (
        rest.get("/schemas/ids/1")["schema"] != rest.get("/schemas/ids/1?subject=:.dev:a")["schema"]
    )
    assert rest.register(":.dev:a", record("id", optional("note"), optional("more"))) == 2
    assert rest.get("/schemas/ids/2?subject=a")["schema"]  # found in the other context
    rest("PUT", "/config/:.dev:", {"compatibility": "NONE"})
    assert rest("POST", "/subjects/:.dev:a/versions", {"schema": BROKEN}).status == 200
    assert rest.error("POST", "/subjects/a/versions", {"schema": BROKEN}) == 409


def test_normalization_finds_the_same_schema_in_another_form(rest: Rest) -> None:
    one = '{"type":"object","properties":{"a":{"type":"string"}}}'
    other = '{"properties":{"a":{"type":"string"}},"type":"object"}'
    body = {"schemaType": "JSON"}
    normal = "/subjects/a/versions?normalize=true"
    first = rest("POST", normal, body | {"schema": one}).body["id"]
    assert rest("POST", normal, body | {"schema": other}).body["id"] == first
    assert rest.error("POST", "/subjects/a", body | {"schema": one}) == 40403
    rest("PUT", "/config/a", {"normalize": True})
    assert rest("POST", "/subjects/a", body | {"schema": one}).body["id"] == first


def test_subjects_with_slashes_and_percent_signs(rest: Rest) -> None:
    rest.register("a%2Fb%25c", ONE)
    assert rest.get("/subjects") == ["a/b%c"]
    assert rest.get("/subjects/a%2Fb%25c/versions") == [1]


def test_the_default_of_bytes_keeps_its_escapes(rest: Rest) -> None:
    field = "optional bytes a = 1 [default = {}];"
    text = 'syntax = "proto2";\n\nmessage M {{\n  {}\n}}\n'
    quoted = '"\\001" \'\\xff"\''
    plain = '"\\001\\xff\\""'
    own = rest.register("p", text.format(field.format(quoted)), schemaType="PROTOBUF")
    assert rest.get(f"/schemas/ids/{own}")["schema"] == text.format(field.format(plain))
    assert rest.register("p", text.format(field.format(plain)), schemaType="PROTOBUF") == own


def test_protobuf_comes_as_text_and_as_a_descriptor(rest: Rest) -> None:
    text = 'syntax = "proto3";\npackage shop;\n\nmessage Order {\n  int64 id = 1;\n}\n'
    own = rest.register("p", text, schemaType="PROTOBUF")
    found = rest.get(f"/schemas/ids/{own}")
    assert (found["schemaType"], found["schema"]) == ("PROTOBUF", text)
    descriptor = rest.get(f"/schemas/ids/{own}?format=serialized")["schema"]
    assert rest.register("p", descriptor, schemaType="PROTOBUF") == own
    assert rest.get("/subjects/p/versions/1?format=serialized")["schema"] == descriptor


def test_keys_of_the_dek_registry(rest: Rest) -> None:
    keks = "/dek-registry/v1/keks"
    kek = {"name": "k", "kmsType": "local", "kmsKeyId": "id", "shared": False}
    assert rest("POST", keks, kek).body["kmsKeyId"] == "id"
    assert rest("POST", keks, kek).status == 200
    assert rest.error("POST", keks, kek | {"kmsKeyId": "other"}) == 40971
    assert rest.get(keks) == ["k"]
    dek = {"subject": "a", "version": 1, "algorithm": "AES256_GCM", "encryptedKeyMaterial": "YQ=="}
    made = rest("POST", f"{keks}/k/deks/a", dek).body
    assert made.items() >= (dek | {"kekName": "k"}).items()
    assert rest("POST", f"{keks}/k/deks", dek).body == made
    assert rest.error("POST", f"{keks}/k/deks", dek | {"encryptedKeyMaterial": "Yg=="}) == 40971
    assert rest.error("POST", f"{keks}/k/deks", dek | {"encryptedKeyMaterial": ""}) == 42271
    rest("POST", f"{keks}/k/deks/a", dek | {"version": 2})
    assert rest.get(f"{keks}/k/deks") == ["a"]
    assert rest.get(f"{keks}/k/deks/a/versions") == [1, 2]
    assert rest.get(f"{keks}/k/deks/a/versions/-1?algorithm=AES256_GCM")["version"] == 2
    assert rest.error("GET", f"{keks}/k/deks/a/versions/1?algorithm=AES256_SIV") == 40470
    assert rest.error("DELETE", f"{keks}/k") == 42272
    assert rest("DELETE", f"{keks}/k/deks/a").status == 204
    assert rest.error("GET", f"{keks}/k/deks/a/versions/1") == 40470
    assert rest.get(f"{keks}/k/deks/a/versions/1?deleted=true")["deleted"] is True
    assert rest("POST", f"{keks}/k/deks/a/versions/1/undelete").status == 204
    assert rest("DELETE", f"{keks}/k/deks/a").status == 204
    assert rest("DELETE", f"{keks}/k/deks/a?permanent=true").status == 204
    assert rest("DELETE", f"{keks}/k").status == 204
    assert rest.error("GET", f"{keks}/k") == 40470
    assert rest("POST", f"{keks}/k/undelete").status == 204
    assert rest("PUT", f"{keks}/k", {"doc": "text"}).body["doc"] == "text"


def test_associations_name_the_subjects_of_a_topic(rest: Rest) -> None:
    rest.register("shared", ONE)
    value = {"associationType": "value", "subject": "shared"}
    key = {"associationType": "key", "schema": {"schema": '"string"'}}
    body = {"resourceName": "t", "resourceNamespace": "c1", "resourceId": "id-1"}
    made = rest("POST", "/associations", body | {"associations": [value, key]}).body
    assert [each["subject"] for each in made["associations"]] == ["shared", ":.c1:t-key"]
    assert [each["lifecycle"] for each in made["associations"]] == ["WEAK", "STRONG"]
    found = rest.get("/associations/resources/c1/t?associationType=value&resourceType=topic")
    assert [each["subject"] for each in found] == ["shared"]
    assert len(rest.get("/associations/resources/-/t")) == 2
    assert len(rest.get("/associations/resources/id-1")) == 2
    assert rest.get("/associations/resources/other/t") == []
    other = body | {"associations": [value | {"subject": ":.c1:t-key"}]}
    assert rest.error("POST", "/associations", other) == 409
    assert rest("PUT", "/associations", other).status == 200
    missing = body | {"associations": [value | {"subject": "none"}]}
    assert rest.error("PUT", "/associations", missing) == 40401
    assert rest.error("POST", "/associations", body) == 422
    assert rest("DELETE", "/associations/resources/id-1?cascadeLifecycle=true").status == 204
    assert rest.get("/associations/resources/id-1") == []
    assert rest.get("/subjects") == ["shared"]
