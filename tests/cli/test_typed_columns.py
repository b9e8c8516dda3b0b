"""``consume -s`` with ``--arrow`` and ``--parquet``: typed columns in files."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from kafka_native import codecs
from kafka_native._native.codec_core import HAS_JSON
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from tests.cli.running import invoke
from tests.cli.typed_support import LINES, Shell, committed, framed, text

NO_RETRIES = ("-X", "schema.registry.max.retries=0")
AT = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def written(path: Path) -> pyarrow.Table:
    """Return the table in a file."""
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    with pyarrow.ipc.open_stream(path) as stream:
        return stream.read_all()


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """Fill orders with two values."""
    assert shell.produce("orders", "-s", "value=avro", "-k", "k", stdin=text(LINES)).exit_code == 0
    return shell


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_values_become_a_struct(filled: Shell, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"orders.{kind}"
    done = filled.consume("orders", "-s", "value=avro", f"--{kind}", str(path))
    assert (done.exit_code, done.output) == (0, "")
    table = written(path)
    assert table["key"].to_pylist() == [b"k", b"k"]
    assert table.schema.field("value").type.field("at").type == pyarrow.timestamp("ms", "UTC")
    [first, second] = table["value"].to_pylist()
    assert first == {"id": 1, "at": AT, "lines": []}
    assert second["lines"] == [{"price": Decimal("12.30")}, {"price": Decimal("0.01")}]


def test_fields_become_columns(filled: Shell, tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    words = ("--columns", "offset,value", "--flatten", "--fields", "id,at")
    assert (
        filled.consume("orders", "-s", "value=avro", "--parquet", str(path), *words).exit_code == 0
    )
    assert written(path).to_pydict() == {
        "offset": [0, 1],
        "id": [1, 2],
        "at": [AT, AT.replace(microsecond=250_000)],
    }


def test_an_end_needs_no_column_of_its_own(filled: Shell, tmp_path: Path) -> None:
    path = tmp_path / "orders.arrow"
    words = ("--columns", "value", "--fields", "id", "--to", "1")
    assert filled.consume("orders", "-s", "value=avro", "--arrow", str(path), *words).exit_code == 0
    assert written(path).to_pydict() == {"value": [{"id": 1}]}


def test_keys_and_subjects(shell: Shell, client: SchemaRegistryClient, tmp_path: Path) -> None:
    client.register_schema("copy-key", Schema('"long"', "AVRO"))
    shell.send("copy", [framed(1, b"\2\0\0")], key=framed(4, b"\x0e"))
    path = tmp_path / "copy.parquet"
    words = ["consume", "copy", "-e", "-q", "-s", "avro", "--parquet", str(path), *shell.servers]
    done = invoke(*words, "--value-subject", "orders-value", "--columns", "key,value")
    assert done.exit_code == 0, done.output
    assert written(path).to_pylist() == [
        {"key": 7, "value": {"id": 1, "at": AT.fromtimestamp(0, timezone.utc), "lines": []}}
    ]
    missing = invoke(*words)
    assert (missing.exit_code, "subject copy-value" in missing.stderr) == (1, True)


def test_a_group_with_several_topics(filled: Shell, tmp_path: Path) -> None:
    path = tmp_path / "orders.arrow"
    words = ["consume", "-G", "g", "^ord.*", "-e", "-q", "-s", "value=avro", "--arrow", str(path)]
    words += ["-o", "beginning", *filled.servers]
    assert "write --value-subject" in invoke(*words).stderr
    done = invoke(*words, "--value-subject", "orders-value")
    assert done.exit_code == 0, done.output
    assert len(written(path)) == 2
    assert committed(filled, "g") == 2


def test_the_first_bad_message_ends_the_command(damaged: Shell, tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    done = damaged.consume("orders", "-s", "value=avro", "--parquet", str(path))
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: orders [0] at offset 1: value: ")
    assert done.stderr.count("\n") == 1
    assert "-E writes a null and the reason" in done.stderr
    assert written(path)["offset"].to_pylist() == [0], "the file has the messages before it"
    next_one = damaged.consume("orders", "-o", "3", "-s", "value=avro", "--parquet", str(path))
    assert next_one.stderr.startswith("Error: orders [0] at offset 3: value, schema id 1: field ")


def test_bad_messages_are_null_and_have_a_reason(damaged: Shell, tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    done = damaged.consume("orders", "-s", "value=avro", "--parquet", str(path), "-E")
    assert done.exit_code == 1
    assert done.stderr == (
        "Error: 4 keys or values couldn't be decoded: the columns key_error and value_error have "
        "the reasons\n"
    )
    table = written(path)
    assert [each is None for each in table["value"].to_pylist()] == [False, *[True] * 4, False]
    reasons: list[Any] = table["value_error"].to_pylist()
    assert [each is None for each in reasons] == [True, *[False] * 4, True]
    assert "schema id 77" in reasons[2]


def test_a_registry_that_ends(filled: Shell, registry: MockSchemaRegistry, tmp_path: Path) -> None:
    registry.listener_down(0)
    path = tmp_path / "orders.parquet"
    done = filled.consume("orders", "-s", "value=avro", "--parquet", str(path), "-E", *NO_RETRIES)
    assert done.exit_code == 1
    assert "schema registry: " in done.stderr
    assert "no registry answered" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_field_that_is_not_there(filled: Shell, tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    words = ("-s", "value=avro", "--parquet", str(path), "--fields", "nosuch")
    done = filled.consume("orders", *words)
    assert (done.exit_code, done.stderr) == (1, "Error: nosuch: there is no such field\n")


@pytest.mark.skipif(not HAS_JSON, reason="this build has no simdjson: JSON columns raise")
def test_json(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    words = ("--parquet", str(path), "--columns", "value", "--flatten")
    assert shell.produce("people", "-s", "value=json", stdin='{"name":"Ada"}').exit_code == 0
    assert shell.consume("people", "-s", "value=json", *words).exit_code == 0
    assert written(path).to_pylist() == [{"name": "Ada"}]


def test_a_build_without_a_parser_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_args: Any, **_more: Any) -> Any:
        raise NotImplementedError("JSON columns need simdjson")

    monkeypatch.setattr(codecs, "Json", missing)
    done = shell.consume("people", "-s", "value=json", "--arrow", "x")
    assert (done.exit_code, done.stderr) == (1, "Error: JSON columns need simdjson\n")


def test_protobuf(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    words = ("--parquet", str(path), "--columns", "value", "--flatten")
    other = ("-s", "value=protobuf", "--message", "k.Other")
    assert shell.produce("points", *other, stdin='{"name":"n"}').exit_code == 0
    assert shell.consume("points", *other, *words).exit_code == 0
    assert written(path).to_pylist() == [{"name": "n"}]
    first = shell.consume("points", *other[:2], *words)
    assert first.exit_code == 1
    assert "points [0] at offset 0: value, schema id 2: " in first.stderr


@pytest.mark.parametrize(
    "words",
    [
        "--arrow x --columns key -s value=avro",
        "--arrow x --columns value:string -s value=avro",
        "--arrow x --flatten",
        "--flatten -s value=avro",
        "--fields a -s value=avro",
        "--arrow x --fields a -s key=avro",
        "--arrow x --key-subject a -s value=avro",
        "--value-subject a -s value=avro",
        "--message M -s value=protobuf",
        "--arrow x --message M -s value=avro",
    ],
)
def test_wrong_options_are_status_2(words: str) -> None:
    done = invoke("consume", "t", *words.split(), "-r", "http://r", "-b", "127.0.0.1:1")
    assert done.exit_code == 2, done.output
