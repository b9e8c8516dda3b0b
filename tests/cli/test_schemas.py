"""``kafka-native schemas``: subjects, versions, differences, compatibility, registration."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from kafka_native.cli import completion
from kafka_native.cli.app import cli
from kafka_native.mock import MockSchemaRegistry
from tests.cli.running import environment, invoke
from tests.hostile import ESCAPED_MARKS, MARKS, check
from tests.waiting import PROGRAM_S, WAIT_S

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
WITH_NOTE = ORDER.replace("]}", ',{"name":"note","type":"string","default":""}]}')
INCOMPATIBLE = ORDER.replace("long", "string")
POINT = 'syntax = "proto3";\n\nmessage Point {\n  int32 x = 1;\n}\n'
COMMANDS = {
    "schemas check": ("orders-value", "-", "--type", "avro"),
    "schemas diff": ("orders-value", "1", "2"),
    "schemas list": (),
    "schemas register": ("orders-value", "-", "--type", "avro"),
    "schemas show": ("orders-value",),
}


@pytest.fixture
def registry() -> Iterator[MockSchemaRegistry]:
    """Yield a registry with two versions of orders-value, and with points-value."""
    with MockSchemaRegistry() as running:
        for text in (ORDER, WITH_NOTE):
            assert schemas(running, "register orders-value - --type avro", text).exit_code == 0
        assert schemas(running, "register points-value - --type protobuf", POINT).exit_code == 0
        yield running


def schemas(registry: MockSchemaRegistry, words: str, stdin: str = "") -> Any:
    return invoke("schemas", *words.split(" "), "-r", registry.url, stdin=stdin.encode())


def document(registry: MockSchemaRegistry, words: str, stdin: str = "", status: int = 0) -> Any:
    done = schemas(registry, f"{words} --json", stdin)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_list(registry: MockSchemaRegistry) -> None:
    assert document(registry, "list") == [{"subject": "orders-value"}, {"subject": "points-value"}]
    assert schemas(registry, "list ord*").stdout.split() == ["subject", "orders-value"]
    [found] = document(registry, "list p* -l")
    assert (found["version"], found["id"], found["type"]) == (1, 3, "protobuf")
    assert len(found["guid"]) == 36


def test_list_shows_deleted_subjects_with_all(registry: MockSchemaRegistry) -> None:
    from kafka_native.schema_registry import SchemaRegistryClient

    with SchemaRegistryClient({"url": registry.url}) as client:
        client.delete_subject("points-value")
    assert document(registry, "list") == [{"subject": "orders-value"}]
    found = {each["subject"]: each for each in document(registry, "list -a -l")}
    assert found["points-value"] == {"subject": "points-value", "deleted": True}
    assert found["orders-value"]["deleted"] is False
    assert found["orders-value"]["version"] == 2


def test_show_prints_a_schema_that_register_reads(registry: MockSchemaRegistry) -> None:
    done = schemas(registry, "show orders-value --version 1")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == json.loads(ORDER)
    assert done.stderr == "orders-value: version 1 of 1-2, id 1, avro\n"
    assert schemas(registry, "show points-value").stdout == POINT
    again = schemas(registry, "register orders-value - --type avro", done.stdout)
    assert again.stdout == "orders-value: version 1, id 1\n"


def test_show_does_not_change_escapes_of_a_schema(registry: MockSchemaRegistry) -> None:
    text = {"type": "string", "doc": "one\u00a0two\nthree", "pattern": "[\\x20-\\x7e]"}
    schemas(registry, "register escapes-value - --type avro", json.dumps(text))
    shown = schemas(registry, "show escapes-value").stdout
    assert json.loads(shown) == text
    assert "\\u00a0" in shown


def test_show_as_json_has_the_exact_text(registry: MockSchemaRegistry) -> None:
    found = document(registry, "show orders-value")
    assert json.loads(found["schema"]) == json.loads(WITH_NOTE)
    assert (found["version"], found["versions"], found["id"]) == (2, [1, 2], 2)
    assert found["references"] == []


def test_show_the_schema_of_an_id(registry: MockSchemaRegistry) -> None:
    done = schemas(registry, "show --id 3")
    assert (done.stdout, done.stderr) == (POINT, "id 3, protobuf: points-value version 1\n")
    assert document(registry, "show --id 3")["used"] == [{"subject": "points-value", "version": 1}]
    assert schemas(registry, "show --id 3 --version 1").exit_code == 2
    guid = document(registry, "show points-value")["guid"]
    by_guid = schemas(registry, f"show --id {guid}")
    assert (by_guid.stdout, by_guid.stderr) == (POINT, f"{guid}, protobuf\n")
    assert document(registry, f"show --id {guid}")["guid"] == guid
    assert schemas(registry, "show --id x").exit_code == 2
    missing = schemas(registry, "show --id 77")
    assert missing.exit_code == 1
    assert "HTTP 404" in missing.stderr


def test_diff(registry: MockSchemaRegistry) -> None:
    done = schemas(registry, "diff orders-value 1 latest")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- orders-value version 1", "+++ orders-value version 2"]
    assert '+      "name": "note",' in lines
    same = schemas(registry, "diff orders-value 2 latest")
    assert same.stdout == "orders-value version 2 and version 2 have the same schema\n"
    assert document(registry, "diff orders-value 2 2")["equal"] is True
    assert document(registry, "diff orders-value 2 1")["versions"] == [2, 1]


def test_check(registry: MockSchemaRegistry) -> None:
    good = schemas(registry, "check orders-value - --type avro", WITH_NOTE)
    assert (good.exit_code, good.stdout) == (0, "orders-value: compatible (BACKWARD)\n")
    bad = schemas(registry, "check orders-value - --type avro", INCOMPATIBLE)
    assert bad.exit_code == 1
    assert "TYPE_MISMATCH" in bad.stdout
    assert bad.stdout.endswith("orders-value: not compatible (BACKWARD)\n")
    found = document(registry, "check orders-value - --type avro -V 1", INCOMPATIBLE, status=1)
    assert found["compatible"] is False
    assert any("TYPE_MISMATCH" in each for each in found["messages"])
    assert len(document(registry, "show orders-value")["versions"]) == 2, "nothing is registered"


def test_check_against_a_missing_subject_is_an_error(registry: MockSchemaRegistry) -> None:
    done = schemas(registry, "check order-value - --type avro", ORDER)
    assert done.exit_code == 1
    assert "HTTP 404" in done.stderr


def test_register_refuses_an_incompatible_schema(registry: MockSchemaRegistry) -> None:
    done = schemas(registry, "register orders-value - --type avro", INCOMPATIBLE)
    assert done.exit_code == 1
    assert "HTTP 409" in done.stderr
    assert "TYPE_MISMATCH" in done.stderr


def test_the_suffix_of_a_file_has_the_type(registry: MockSchemaRegistry, tmp_path: Path) -> None:
    for suffix, text, kind in (
        ("avsc", ORDER, "avro"),
        ("json", '{"type": "object"}', "json"),
        ("proto", POINT, "protobuf"),
    ):
        file = tmp_path / f"schema.{suffix}"
        file.write_text(text)
        assert schemas(registry, f"register by-{suffix} {file}").exit_code == 0
        assert document(registry, f"show by-{suffix}")["type"] == kind
    unknown = tmp_path / "schema.txt"
    unknown.write_text(ORDER)
    done = schemas(registry, f"register x {unknown}")
    assert (done.exit_code, "write --type" in done.stderr) == (2, True)


def test_references(registry: MockSchemaRegistry) -> None:
    line = '{"type":"record","name":"Line","fields":[{"name":"order","type":"Order"}]}'
    words = "register lines-value - --type avro --reference Order=orders-value:1"
    assert schemas(registry, words, line).exit_code == 0
    done = schemas(registry, "show lines-value")
    assert "refers to Order: orders-value version 1" in done.stderr
    assert document(registry, "show lines-value")["references"] == [
        {"name": "Order", "subject": "orders-value", "version": 1}
    ]
    wrong = schemas(registry, "register lines-value - --type avro --reference Order=orders", line)
    assert wrong.exit_code == 2


@pytest.mark.parametrize(
    ("stdin", "text"), [(b"{", "isn't JSON"), (b"\xff", "isn't UTF-8"), (b"[" * 100_000, "isn't JSON")]
)  # fmt: skip
def test_a_bad_file_is_named(registry: MockSchemaRegistry, stdin: bytes, text: str) -> None:
    done = invoke(
        "schemas", "register", "x", "-", "--type", "avro", "-r", registry.url, stdin=stdin
    )
    assert done.exit_code == 1
    assert text in done.stderr
    assert document(registry, "list x") == []


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_the_only_output(registry: MockSchemaRegistry, name: str) -> None:
    words = [*name.split(), *COMMANDS[name], "--json", "-r", registry.url]
    done = invoke(*words, stdin=ORDER.encode())
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)
    assert done.stderr == ""


def test_every_command_is_listed() -> None:
    group = cli.get_command(click.Context(cli), "schemas")
    assert isinstance(group, click.Group)
    assert {each.removeprefix("schemas ") for each in COMMANDS} == set(group.commands)


def test_hostile_names_and_texts_are_escaped(
    registry: MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_native.schema_registry import Schema, SchemaRegistryClient

    # The mock registry refuses control characters, as the real one does. Another one may not.
    names = "kafka_native.mock.schema_registry.names"
    monkeypatch.setattr(f"{names}.ord", lambda _letter: ord("a"), raising=False)
    name = f"x{MARKS}"
    with SchemaRegistryClient({"url": registry.url}) as client:
        for doc in (MARKS, "other"):
            text = {"type": "record", "name": "A", "doc": doc, "fields": []}
            client.register_schema(name, Schema(json.dumps(text), "AVRO"))
    texts = {
        "list": [],
        "show": [name],
        "diff": [name, "1", "2"],
        "check": [name, "-", "--type", "avro"],
        "register": [name, "-", "--type", "avro"],
    }
    for command, words in texts.items():
        for more in ([], ["--json"]):
            done = invoke(
                "schemas", command, *words, *more, "-r", registry.url, stdin=ORDER.encode()
            )
            check(done.stdout)
            check(done.stderr)
            if command == "register":
                assert "x?[35m" in done.stderr, "the client cleans the registry's error"
            elif not more:
                assert ESCAPED_MARKS in done.stdout + done.stderr


def test_a_registry_is_required_and_never_kafka() -> None:
    done = invoke("schemas", "list")
    assert done.exit_code == 2
    assert "no schema registry is named: write -r URL" in done.stderr
    assert invoke("schemas", "list", "-b", "a:1").exit_code == 2


def test_sources_of_the_url(registry: MockSchemaRegistry, tmp_path: Path) -> None:
    by_environment = invoke("schemas", "list", env={"SCHEMA_REGISTRY_URL": registry.url})
    assert "orders-value" in by_environment.stdout
    by_property = invoke("schemas", "list", "-X", f"schema.registry.url={registry.url}")
    assert "orders-value" in by_property.stdout
    file = tmp_path / "conf"
    file.write_text("schema.registry.url=http://127.0.0.1:1\nbootstrap.servers=a:1\n")
    by_option = invoke("schemas", "list", "-F", str(file), "-r", registry.url)
    assert "orders-value" in by_option.stdout


def test_properties_of_the_registrys_client() -> None:
    with MockSchemaRegistry(users={"ann": "secret"}) as guarded:
        refused = invoke("schemas", "list", "-r", guarded.url)
        assert refused.exit_code == 1
        assert (
            "(HTTP 401) (hint: log in with -X schema.registry.basic.auth.user.info="
            in refused.stderr
        )
        login = ("-X", "schema.registry.basic.auth.user.info=ann:secret")
        assert invoke("schemas", "list", "-r", guarded.url, *login, "--json").stdout == "[]\n"


@pytest.mark.parametrize(
    ("pair", "status", "text"),
    [
        ("schema.registry.max.retries=x", 2, "schema.registry.max.retries must be a number"),
        ("schema.registry.nosuch=x", 1, "unrecognized properties: nosuch"),
        ("schema.registry.url=ftp://x:secret@y", 2, "http:// or https:// addresses"),
    ],
)
def test_wrong_properties_are_explained(pair: str, status: int, text: str) -> None:
    done = invoke("schemas", "list", "-X", "schema.registry.url=http://127.0.0.1:1", "-X", pair)
    assert done.exit_code == status
    assert text in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("show nothing", "(HTTP 404) (hint: kafka-native schemas list shows the subjects)"),
        ("show orders-value -V 99", "(hint: kafka-native schemas show SUBJECT lists the versions)"),
        ("show --id 99", "Schema 99 not found (HTTP 404)"),
    ],
)
def test_errors_say_what_to_do_next(registry: MockSchemaRegistry, words: str, hint: str) -> None:
    done = invoke("schemas", *words.split(), "-r", registry.url)
    assert done.exit_code == 1
    assert done.stderr.endswith(f"{hint}\n")


def test_a_registry_that_does_not_answer_is_one_line() -> None:
    words = ("-r", "http://127.0.0.1:1", "-X", "schema.registry.max.retries=0")
    done = invoke("schemas", "list", *words)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "http://127.0.0.1:1" in done.stderr
    assert "kafka-native doctor" in done.stderr


def suggested(**params: str) -> list[str]:
    """Return what the shell gets for ``schemas show ord``."""
    command = cli.get_command(click.Context(cli), "schemas")
    assert isinstance(command, click.Group)
    show = command.commands["show"]
    context = click.Context(show)
    context.params = {**params, "config_file": "none"}
    return [each.value for each in completion.subjects(context, show.params[0], "ord")]


def test_completion_offers_plain_subjects(
    registry: MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_native.schema_registry import Schema, SchemaRegistryClient

    monkeypatch.setattr(completion, "TIMEOUT_S", WAIT_S)
    with SchemaRegistryClient({"url": registry.url}) as client:
        client.register_schema("orders-$(touch x)", Schema('"int"', "AVRO"))
    assert suggested(registry=registry.url) == ["orders-value"]


@pytest.mark.parametrize("params", [{}, {"registry": "http://127.0.0.1:1"}, {"registry": "none"}])
def test_completion_without_a_registry_offers_nothing(params: dict[str, str]) -> None:
    assert suggested(**params) == []


def test_other_commands_do_not_import_the_registry() -> None:
    """Without -s and -r the commands start as fast as before, and need no further package."""
    names = ("consume", "doctor", "produce", "topics")
    program = f"""
import sys
from importlib import import_module
for name in {names}:
    import_module("kafka_native.cli.commands." + name)
print([each for each in sys.modules if each.startswith("kafka_native.schema_registry")])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=environment(), capture_output=True, timeout=PROGRAM_S, check=True
    )
    assert done.stdout == b"[]\n"
