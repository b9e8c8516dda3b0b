"""``produce -s`` and ``consume -s`` run the data-contract rules of a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_native.cli.rules import EXECUTORS, CommandRules
from kafka_native.schema_registry import RuleSet, Schema, SchemaRegistryClient
from tests.cli.running import invoke, properties
from tests.cli.typed_support import Shell

CARD = json.dumps(
    {
        "type": "record",
        "name": "Card",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "number", "type": ["null", "string"], "confluent:tags": ["PII"]},
        ],
    }
)
SECRET = properties("schema.registry.rules.secret=in-a-vault")


def contract(**rule: Any) -> Schema:
    """Return the schema with one rule."""
    rules = RuleSet.from_dict({"domainRules": [{"name": "r", "mode": "WRITEREAD", **rule}]})
    return Schema(CARD, "AVRO", [], None, rules)


def test_a_condition_refuses_a_line(shell: Shell, client: SchemaRegistryClient) -> None:
    rule = {"kind": "CONDITION", "type": "CEL", "expr": "message.id > 0"}
    client.register_schema("copy-value", contract(**rule))
    words = ("-s", "value=avro")
    done = shell.produce("copy", *words, stdin='{"id":1,"number":null}\n{"id":0,"number":null}\n')
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: message 2 of the input: value: ")
    assert "rule r" in done.stderr
    assert shell.consume("copy", *words).stdout == '{"id":1,"number":null}\n'


def test_encrypted_fields(
    shell: Shell, client: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCAL_SECRET", raising=False)
    keys = {"encrypt.kek.name": "k", "encrypt.kms.type": "local-kms", "encrypt.kms.key.id": "k"}
    rule = {"kind": "TRANSFORM", "type": "ENCRYPT", "tags": ["PII"], "params": keys}
    client.register_schema("copy-value", contract(**rule))
    words = ("-s", "value=avro", *SECRET)
    line = '{"id":1,"number":"4242"}\n'
    assert shell.produce("copy", *words, stdin=line).exit_code == 0
    [payload] = shell.payloads("copy")
    assert payload is not None
    assert b"4242" not in payload
    assert shell.consume("copy", *words).stdout == line
    other = properties("schema.registry.rules.secret=another")
    refused = shell.consume("copy", "-s", "value=avro", *other)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "copy [0] at offset 0: value: " in refused.stderr
    missing = shell.consume("copy", "-s", "value=avro")
    assert (missing.exit_code, "LOCAL_SECRET" in missing.stderr) == (1, True)
    for done in (refused, missing):
        assert "in-a-vault" not in done.output
    examined = invoke("doctor", "-t", "copy", *shell.servers)
    assert "avro with rules, not decoded" in examined.stdout


def test_each_executor_has_the_type_of_its_name() -> None:
    rules = CommandRules({"url": "http://127.0.0.1:1"}, {})
    for name in EXECUTORS:
        executor = rules.get_executor(name)
        assert executor is not None
        assert executor.type() == name
        assert rules.get_executor(name) is executor
        executor.close()
    assert rules.get_executor("NOSUCH") is None


def test_a_missing_package_is_named(
    shell: Shell, client: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"kind": "CONDITION", "type": "CEL", "expr": "true"}
    client.register_schema("copy-value", contract(**rule))

    def missing(_name: str) -> Any:
        raise ImportError("rules need cel-python: pip install 'kafka-native[rules]'")

    monkeypatch.setattr("kafka_native.cli.rules.import_module", missing)
    done = shell.produce("copy", "-s", "value=avro", stdin='{"id":1,"number":null}')
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "pip install 'kafka-native[rules]'" in done.stderr


def test_an_unknown_type_of_rule_is_refused(shell: Shell, client: SchemaRegistryClient) -> None:
    client.register_schema("copy-value", contract(kind="CONDITION", type="OTHER", expr="true"))
    done = shell.produce("copy", "-s", "value=avro", stdin='{"id":1,"number":null}')
    assert done.exit_code == 1
    assert "no executor of type OTHER" in done.stderr
    assert shell.payloads("copy") == []
