"""``consume -s`` with kcat's letters for packed keys and values."""

from __future__ import annotations

import json
import re
import struct

import pytest

from kafka_native.cli import packed_values
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from tests.cli.running import invoke
from tests.cli.typed_support import Shell, framed

PAIR = struct.pack(">hB", -2, 200) + b"tail"


@pytest.mark.parametrize(
    ("letters", "data", "text"),
    [
        ("b B", b"\xff\xff", "-1 255"),
        ("h H", b"\xff\xfe\xff\xfe", "-2 65534"),
        ("i I", b"\xff\xff\xff\xfd" * 2, "-3 4294967293"),
        ("q Q", b"\xff" * 7 + b"\xfc" + b"\xff" * 8, "-4 18446744073709551615"),
        ("<h>h", b"\x01\0\0\x01", "11"),
        ("<q$", struct.pack("<q", -5), "-5"),
        ("hB s", PAIR, "-2200 tail"),
        ("cc$", b"ab", "ab"),
        ("s$", b"", ""),
        ("h", b"\0\x07ignored", "7"),
        ("s", b"\0\xff", "\0\xff"),
    ],
)
def test_letters(letters: str, data: bytes, text: str) -> None:
    assert packed_values.is_packed(letters)
    assert packed_values.unpacker(letters)(data).decode("latin-1") == text


@pytest.mark.parametrize(
    ("letters", "data", "reason"),
    [
        ("hi", b"\0\x01\0\0", "the letter i at byte 2 needs 4 bytes; left: 2"),
        ("q", b"", "the letter q at byte 0 needs 8 bytes; left: 0"),
        ("bc", b"a", "the letter c at byte 1 needs 1 byte; left: 0"),
        ("b$", b"abc", "the letter $ expects the end at byte 1, but finds 2 bytes more"),
    ],
)
def test_bytes_that_do_not_fit(letters: str, data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        packed_values.unpacker(letters)(data)


def test_packed_columns_need_no_registry(shell: Shell) -> None:
    shell.send("copy", [PAIR, None], key=struct.pack(">i", 7))
    servers = shell.servers[:2]
    words = ("consume", "copy", "-e", "-q", "-s", "key=i$", "-s", "value=hB s", *servers)
    assert invoke(*words, "-K", ": ").stdout == "7: -2200 tail\n7: \n"
    assert invoke(*words, "-Z", "-f", "%k/%s\n").stdout == "7/-2200 tail\n7/NULL\n"
    found = [json.loads(each) for each in invoke(*words, "--json").stdout.splitlines()]
    assert [(each["key"], each["value"]) for each in found] == [("7", "-2200 tail"), ("7", None)]
    assert "key_schema_id" not in found[0]


def test_one_format_for_key_and_value(shell: Shell) -> None:
    shell.send("copy", [b"\0\x01"], key=b"\0\x02")
    found = invoke("-C", *shell.servers[:2], "-tcopy", "-e", "-q", "-s>h$", "-K,")
    assert found.stdout == "2,1\n"


def test_a_packed_key_and_a_value_with_a_schema(shell: Shell, client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("copy-value", Schema('"long"', "AVRO"))
    shell.send("copy", [framed(schema_id, b"\x0a")], key=struct.pack("<i", 7))
    found = shell.consume("copy", "-s", "key=<i$", "-s", "value=avro", "-K", "=")
    assert found.stdout == "7=5\n"


def test_bytes_that_do_not_fit_are_named(shell: Shell) -> None:
    shell.send("copy", [b"\0\x01", b"\0", b"\0\x02"])
    reason = "copy [0] at offset 1: value: the letter h at byte 0 needs 2 bytes; left: 1"
    done = shell.consume("copy", "-s", "value=h")
    assert (done.exit_code, done.stdout) == (1, "1\n")
    assert done.stderr == f"Error: {reason} (-E goes on with the next message)\n"
    going = invoke("consume", "copy", "-e", "-E", "-s", "value=h", *shell.servers)
    assert (going.exit_code, going.stdout) == (1, "1\n2\n")
    assert going.stderr == f"{reason}\nError: 1 of 3 messages couldn't be decoded\n"
    envelopes = shell.consume("copy", "-s", "value=h", "-E", "--json").stdout.splitlines()
    assert [json.loads(each)["value"] for each in envelopes] == ["1", None, "2"]
    assert json.loads(envelopes[1])["value_error"] == reason.partition(": ")[2]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("consume t -s value=", "'value=': write key=FORMAT"),
        ("consume t -s value=<", "'value=<': write key=FORMAT"),
        ("consume t -s value=hx", "and <> bBhHiIqQcs$ for packed numbers"),
        ("consume t -s key=h --key-as hex", "-s key=... prints text: it excludes --key-as"),
        ("consume t -s key=h --parquet x", "-s key=h is for text: --arrow and --parquet have"),
        ("produce -t t -s key=h", "the formats are avro, json, protobuf"),
    ],
)
def test_wrong_options_are_status_2(words: str, reason: str) -> None:
    done = invoke(*words.split(), "-b", "127.0.0.1:1")
    assert done.exit_code == 2
    assert reason in " ".join(done.stderr.split())
